"""The lines of the user's own query on the page of a trace: the line of the step is lit, and a line leads to its steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.page import page
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.golden_trace import TRACE

CODE = """\
def windowed(session, folder):
    rows = session.readStream.schema("ts timestamp, word string").option("maxFilesPerTrigger", 1).csv(folder)
    return (
        rows.withWatermark("ts", "10 minutes")
        .where("word <> '</script>'")
        .groupBy(F.window("ts", "5 minutes"))
        .count()
    )


windowed(mini, folder).writeStream.option("checkpointLocation", checkpoint).start()"""
WRITTEN = replace(TRACE, query=CODE)
CUT = """[...document.querySelectorAll('.yours, .yours > *, [role=tab]')].filter(e => e.checkVisibility()
  && e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 90))"""


def lit(tab: Page) -> list[str]:
    return [text.strip() for text in tab.locator(".yours .lit").all_inner_texts()]


def at_step(tab: Page, step: str) -> None:
    tab.evaluate("name => show(steps.findIndex(step => step.step === name))", step)


def test_the_line_that_a_step_belongs_to_is_lit(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page({"model": WRITTEN}), tmp_path, height=800)
    expect(tab.locator("#tab-yours")).to_have_attribute("aria-selected", "true")
    found = {}
    for step in ("latestOffset", "walCommit", "addBatch", "stateOperator", "updateWatermark", "finishTrigger"):
        at_step(tab, step)
        found[step] = lit(tab)
    rows, starts = CODE.split("\n")[1].strip(), CODE.split("\n")[-1]
    assert found == {
        "latestOffset": [rows], "walCommit": [starts], "addBatch": [".where(\"word <> '</script>'\")", starts],
        "stateOperator": ['.groupBy(F.window("ts", "5 minutes"))', ".count()"],
        "updateWatermark": ['rows.withWatermark("ts", "10 minutes")'], "finishTrigger": [],
    }
    expect(tab.locator(".none-lit")).to_be_visible()


def test_a_line_marks_its_steps_and_leads_to_the_next_of_them(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page({"model": WRITTEN}), tmp_path, height=800)
    line = tab.locator(".yours button", has_text="withWatermark")
    line.hover()
    assert [one.get_attribute("data-step") for one in tab.locator(".flow .of-line").all()] == ["queryPlanning", "updateWatermark"]
    tab.locator("h1").hover()
    expect(tab.locator(".flow .of-line")).to_have_count(0)
    line.click()
    assert tab.evaluate("steps[at].step") == "queryPlanning"
    tab.keyboard.press("Enter")
    assert tab.evaluate("steps[at].step") == "updateWatermark" and lit(tab) == ['rows.withWatermark("ts", "10 minutes")']


@pytest.mark.parametrize(("width", "height"), [(828, 560), (960, 640), (1280, 720), (1920, 1080), (390, 800)])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_lines_fit_and_can_be_read_by_everybody(browser: Browser, tmp_path: Path, width: int, height: int, dark: bool) -> None:  # noqa: F811
    tab = opened(browser, page({"model": WRITTEN}), tmp_path, width=width, height=height, dark=dark)
    at_step(tab, "stateOperator")
    tab.keyboard.press("y")
    assert tab.evaluate(CUT) == [] and violations(tab) == []
    box, more = tab.locator(".yours .lit").first.bounding_box(), tab.locator(".now").bounding_box()
    assert box and more and (width < 700 or more["y"] <= box["y"] <= box["y"] + box["height"] <= more["y"] + more["height"])


def test_where_panels_and_tabs_take_turns_a_step_without_a_line_says_why_it_is_there(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page({"model": WRITTEN}), tmp_path, width=828, height=560)
    at_step(tab, "finishTrigger")
    expect(tab.locator("#tab-why")).to_have_attribute("aria-selected", "true")
    tab.keyboard.press("y")
    expect(tab.locator(".none-lit")).to_be_visible()


def test_without_lines_there_is_no_such_tab(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page({"model": TRACE}), tmp_path)
    expect(tab.locator("#tab-yours")).to_be_hidden()
    tab.keyboard.press("y")
    expect(tab.locator(".yours")).to_have_count(0)


def test_a_trace_keeps_the_lines_over_files_and_restarts(tmp_path: Path) -> None:
    assert Trace.load(WRITTEN.save(tmp_path / "t.json")) == WRITTEN
    assert (TRACE + WRITTEN).query == CODE == (WRITTEN + TRACE).query
    with pytest.raises(ValueError, match="code must be text"):
        Trace.from_json({**TRACE.to_json(), "code": ["x"]})
