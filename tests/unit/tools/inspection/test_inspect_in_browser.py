"""The page of a checkpoint in a headless Chromium: the slider over the versions of a state, the search, phone, dark, names."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from minispark_stream.tools.inspection.checkpoint import inspect
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.hand_made import windowed_count


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("checkpoint")
    return inspect(str(windowed_count(folder / "cp"))).to_html(folder / "page.html").read_text(encoding="utf-8")


def test_the_slider_shows_what_each_version_changed(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    slider, says = tab.locator(".slide input"), tab.locator(".slide output")
    expect(says).to_have_text("version 3: 2 removed")
    slider.press("ArrowLeft")
    expect(says).to_have_text("version 2: 1 added, 1 changed")
    row = tab.locator("tr.change >> visible=true")
    assert row.locator("td").all_inner_texts()[2:] == ["window=[2024-01-01 12:00, 12:05) k=a", "count=1 sum=10.00", "count=2 sum=20.00"]
    slider.press("Home")
    expect(says).to_have_text("version 1: 2 added")
    assert tab.locator("tr.add >> visible=true").count() == 2


def test_the_search_leaves_the_rows_with_a_text(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    tab.keyboard.press("/")
    tab.keyboard.type("K=B")
    expect(tab.locator("search output")).to_have_text("1 row")
    assert tab.locator(".rows tbody tr >> visible=true").count() == 1
    tab.locator("input[type=search]").fill("stateStore.compression")
    expect(tab.locator("details")).to_have_attribute("open", "")
    expect(tab.locator("search output")).to_have_text("1 row")


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_light_or_dark(browser: Browser, html: str, tmp_path: Path, width: int) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(tab) == []
    tab.click("#theme")
    tab.click("summary")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert violations(tab) == []
