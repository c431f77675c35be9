"""The pictures of the page of a trace in a headless Chromium: they are played by themselves, and scroll under their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.page import page
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.golden_trace import TRACE
from tests.unit.lens.trace.test_fates import MINUTE, trace, windowed
from tests.unit.lens.view.test_pictures import JOIN, SESSIONS, of_left, of_right

WINDOWS = trace("stateStoreSave", *(([windowed(3 + 6 * n)], max(0, 6 * n - 15), max(0, 6 * n - 9)) for n in range(14)))
LONG_JOIN = trace(
    "symmetricHashJoin", *(([of_left(10 * n, "x"), of_right(10 * n + 1, "x")], max(0, 10 * n - 15), max(0, 10 * n - 5)) for n in range(12)),
    shifts=[-5, None], join_type="LeftOuter", meets=lambda left, right: abs(left["time"] - right["time"]) <= 5 * MINUTE,
)


@pytest.mark.parametrize(("one", "name"), [(TRACE, "Event time"), (JOIN, "Join"), (SESSIONS, "Sessions")], ids=["windows", "join", "sessions"])
def test_a_picture_of_a_few_batches_is_whole_in_a_cell_of_jupyterlab(browser: Browser, tmp_path: Path, one: Trace, name: str) -> None:  # noqa: F811
    tab = opened(browser, page({"model": one}), tmp_path, width=828, height=560)
    picture = tab.get_by_role("region", name=f"{name} on model")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("e => e.scrollWidth <= e.clientWidth") and "wide" not in (picture.get_attribute("class") or "")


@pytest.mark.parametrize(("one", "name", "width"), [
    (WINDOWS, "Event time", 828), (LONG_JOIN, "Join", 828), (WINDOWS, "Event time", 390), (LONG_JOIN, "Join", 390), (SESSIONS, "Sessions", 390),
])
def test_a_wide_picture_says_that_it_scrolls_and_its_names_stay_where_they_are(
    browser: Browser, tmp_path: Path, one: Trace, name: str, width: int  # noqa: F811
) -> None:
    tab = opened(browser, page({"model": one}), tmp_path, width=width, height=800)
    picture = tab.get_by_role("region", name=f"{name} on model")
    picture.scroll_into_view_if_needed()
    names, svg = picture.locator(".stays"), picture.locator(":scope > svg")
    before, drawn = names.bounding_box(), svg.bounding_box()
    says = "e => getComputedStyle(e, '::after').content"
    assert before and drawn and before["x"] == pytest.approx(drawn["x"], abs=1) and picture.evaluate(says) == '"scroll →"'
    texts = names.locator("text").evaluate_all(
        "(all, box) => all.filter(e => (r => r.right < box.x + box.width && r.top > box.y && r.bottom < box.y + box.height)"
        "(e.getBoundingClientRect())).map(e => e.textContent)", before,
    )
    assert len(texts) >= 2, "the names are among what stays"
    picture.evaluate("e => e.scrollLeft = 200")
    assert names.bounding_box() == before and (svg.bounding_box() or drawn)["x"] == pytest.approx(drawn["x"] - 200, abs=1)
    picture.evaluate("e => e.scrollLeft = 10000")
    expect(picture).to_have_class("picture wide at-end")
    assert picture.evaluate(says) == '"← scroll"'


@pytest.mark.parametrize("one", [TRACE, JOIN, SESSIONS], ids=["windows", "join", "sessions"])
def test_a_picture_is_played_batch_by_batch_with_a_button_and_a_slider(browser: Browser, tmp_path: Path, one: Trace) -> None:  # noqa: F811
    tab = opened(browser, page({"model": one}), tmp_path, width=828, height=560)
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    sweep = tab.locator(".sweep").first
    button, slider = sweep.get_by_role("button"), sweep.get_by_role("slider")
    picture = tab.locator(".sweep + .picture").first
    to_come = "e => [...new Set([...e.querySelectorAll('.cover.to-come')].map(one => +one.dataset.batch))]"
    every = sorted({int(batch) for batch in picture.evaluate("e => [...e.querySelectorAll('.cover')].map(one => one.dataset.batch)")})
    assert len(every) > 2 and picture.evaluate(to_come) == []
    button.click()
    assert sorted(picture.evaluate(to_come)) == every
    tab.clock.run_for(1250)
    assert sorted(picture.evaluate(to_come)) == every[1:]
    expect(sweep).to_contain_text("up to batch 0")
    button.click()  # a pause
    tab.clock.run_for(5000)
    assert sorted(picture.evaluate(to_come)) == every[1:]
    slider.press("ArrowRight")
    assert sorted(picture.evaluate(to_come)) == every[2:]
    button.click()
    tab.clock.run_for(1250 * len(every))
    assert picture.evaluate(to_come) == []
    expect(button).to_have_attribute("aria-label", "play the picture")
    tab.clock.resume()
    assert violations(tab) == []
