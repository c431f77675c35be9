"""The page to play with: what is dragged, slid or killed shows at once, a link carries the case, and nothing is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from minispark_stream.lens.view.play import play_page
from tests.unit.browser import browser, opened, violations  # noqa: F401

CASE = "windows;delay=10;size=5;slide=5;mode=append;n=1;rows=a12:02,a12:04|a12:21|a12:04|a12:04"
CLIPPED = """[...document.querySelectorAll('body, main, pre, table, svg text')].filter(one => one.tagName === 'text'
  ? one.getBoundingClientRect().right > innerWidth || one.getBoundingClientRect().left < 0 : one.scrollWidth > one.clientWidth + 1)
  .map(one => one.textContent.slice(0, 40))"""


def sink(tab: Page) -> list[str]:
    return tab.locator("tbody tr").all_inner_texts()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("operator", ["windows", "dedup", "join", "sessions"])
def test_nothing_is_cut_off_and_everybody_can_read_it(browser: Browser, tmp_path: Path, operator: str, width: int, dark: bool) -> None:  # noqa: F811
    tab = opened(browser, play_page(operator), tmp_path, width=width, dark=dark, at=0)
    tab.get_by_role("button", name={"dedup": "deduplication"}.get(operator, operator), exact=True).click()
    assert tab.evaluate(CLIPPED) == [] and violations(tab) == []


def test_a_row_is_dragged_to_another_file_and_the_result_follows(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, play_page(CASE), tmp_path)
    tab.evaluate(f"location.hash = {CASE!r}")
    expect(tab.get_by_role("status")).to_contain_text("Too late: a 12:04 in batch 3")
    assert sink(tab)[2] == "2\t12:11\t[12:00, 12:05) a: 3"
    late = tab.locator("[data-row=r4]").bounding_box()
    there = tab.locator("[data-row=r2]").bounding_box()
    assert late and there
    tab.mouse.move(late["x"] + late["width"] / 2, late["y"] + late["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(there["x"] + there["width"] / 2, late["y"] + late["height"] / 2, steps=4)
    tab.mouse.up()
    expect(tab.get_by_role("status")).to_contain_text("No row is too late.")
    assert sink(tab)[2] == "2\t12:11\t[12:00, 12:05) a: 4"
    assert "rows=a12:02,a12:04%7Ca12:21,a12:04%7Ca12:04%7C" in tab.url, "the address carries the case"
    link = tab.locator("[name=link]").input_value()
    assert link == tab.url and f'src="{link}"' in tab.locator("[name=frame]").input_value()


def test_keys_sliders_and_a_crash(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, play_page(CASE), tmp_path)
    tab.evaluate(f"location.hash = {CASE!r}")
    row = tab.locator("[data-row=r4]")
    row.focus()
    for key in ["ArrowLeft", "ArrowUp"]:
        tab.keyboard.press(key)
    expect(row).to_have_attribute("aria-label", "a 12:05, file 2, taken")
    expect(row).to_be_focused()
    tab.keyboard.press("Delete")
    expect(row).to_have_count(0)
    tab.locator("[name=delay]").fill("0")
    expect(tab.locator("[name=delay]")).to_have_attribute("aria-valuetext", "none")
    assert sink(tab)[1:3] == ["1\t12:04\t–", "2\t12:21\t[12:00, 12:05) a: 3"]
    tab.get_by_role("button", name="kill batch 2").click()
    assert sink(tab)[2:4] == ["2, killed\t12:21\t[12:00, 12:05) a: 3", "2, again\t12:21\t[12:00, 12:05) a: 3"]
    tab.locator("[name=mode]").select_option("update")
    assert sink(tab)[0] == "0\tnone\t[12:00, 12:05) a: 2"
    tab.locator(".plane").click(position={"x": 5, "y": 100})
    assert tab.locator("[data-row]").count() == 5


def test_an_address_that_makes_no_sense_gives_the_example(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, play_page("nonsense;delay=7;rows=%"), tmp_path)
    assert tab.locator("[data-row]").count() > 5 and tab.locator("[name=delay]").get_attribute("aria-valuetext") == "10 min"
