"""For which traces the page itself can answer what would be if, and what it says. The engine is asked in tests/spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.page import page
from minispark_stream.lens.view.what_if_page import what_if_data
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.golden_trace import TRACE


def changed(step: str, **values: Any) -> Trace:
    """The trace with other inputs and outputs of a step."""
    def change(event: Event) -> Event:
        ins, outs = ({k: values.get(k, v) for k, v in old.items()} for old in (event.inputs, event.outputs))
        return replace(event, inputs=ins, outputs=outs) if event.step == step else event

    return Trace(tuple(map(change, TRACE.events)))


def test_of_a_windowed_count_the_page_has_the_rows_and_the_recorded_knobs() -> None:
    data = what_if_data(TRACE, fates(TRACE))
    assert data is not None
    assert [len(rows) for rows in data["files"]] == [2, 1, 3, 2, 2] and not data["waits"]
    assert (data["delays"][data["delay"]], data["sizes"][data["size"]]) == (600_000, 300_000)


@pytest.mark.parametrize(
    "other",
    [Trace(()), changed("addBatch", arrivals=None), changed("addBatch", arrivals=[]), changed("stateOperator", outputMode="update"),
     changed("stateOperator", operator="dedupe"), changed("updateWatermark", operators=[{"delayMs": 600_000, "count": 9}]), changed("updateWatermark", operators=[]), Trace(TRACE.events[20:])],
    ids=["nothing", "no rows", "too few rows", "another mode", "another operator", "rows that only the watermark sees", "no watermark", "not from its beginning"],
)
def test_of_any_other_trace_it_has_nothing(other: Trace) -> None:
    assert what_if_data(other, fates(other)) is None and "id='what-if'" not in page({"model": other})


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_sliders_say_what_would_be(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:  # noqa: F811
    tab = opened(browser, page({"model": TRACE}), tmp_path, width=width, dark=dark)
    said = tab.locator("#what-if [role=status]")
    expect(said).to_have_text(
        "Too late: 12:05 in batch 4, as its window ended 12:10, at or before the late watermark, 12:11. 4 windows are emitted, 2 are "
        "still held after batch 5, when the next watermark is 12:30."
    )
    assert tab.locator("#what-if tbody tr").all_inner_texts()[0] == "batch 3\t[12:00, 12:05)\t3 rows"
    delays = what_if_data(TRACE, fates(TRACE))["delays"]  # type: ignore[index]
    slider = tab.locator("#what-if [name=delay]")
    slider.fill(str(delays.index(1_800_000)))
    expect(said).to_contain_text("No row is too late. 2 windows are emitted, 4 are still held after batch 5, when the next watermark is 12:10.")
    assert slider.get_attribute("aria-valuetext") == "30 min"
    slider.focus()
    tab.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "none")
    expect(said).to_contain_text("12:04 in batch 3")
    assert violations(tab) == [] and tab.evaluate("document.documentElement.scrollWidth") <= width
