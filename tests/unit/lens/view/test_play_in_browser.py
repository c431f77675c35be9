"""The page to play with: what is dragged, slid or killed shows at once, a link carries the case, and nothing is cut off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from minispark_stream.lens.view.play import Play, play
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.golden_trace import TRACE

CASE = "windows;delay=10;size=5;slide=5;mode=append;n=1;rows=a12:02,a12:04|a12:21|a12:04|a12:04"
CLIPPED = """[...document.querySelectorAll('body, main, pre, table, svg text')].filter(one => one.tagName === 'text'
  ? one.getBoundingClientRect().right > innerWidth || one.getBoundingClientRect().left < 0 : one.scrollWidth > one.clientWidth + 1)
  .map(one => one.textContent.slice(0, 40))"""


def sink(tab: Page) -> list[str]:
    return tab.locator("tbody tr").all_inner_texts()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("operator", ["windows", "dedup", "join", "sessions"])
def test_nothing_is_cut_off_and_everybody_can_read_it(browser: Browser, tmp_path: Path, operator: str, width: int, dark: bool) -> None:  # noqa: F811
    tab = opened(browser, play(operator).page(), tmp_path, width=width, dark=dark, at=0)
    tab.get_by_role("button", name={"dedup": "deduplication"}.get(operator, operator), exact=True).click()
    assert tab.evaluate(CLIPPED) == [] and violations(tab) == []


def test_a_row_is_dragged_to_another_file_and_the_result_follows(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, play(CASE).page(), tmp_path)
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
    assert tab.locator("[name=case]").input_value().startswith('play("windows;delay=10;') and not tab.locator("[name=link]").is_visible()


def test_keys_sliders_and_a_crash(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, play(CASE).page(), tmp_path)
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
    tab = opened(browser, Play("nonsense;delay=-7;unit=x;day=y;keys=%;rows=%").page(), tmp_path)
    assert tab.locator("[data-row]").count() > 5 and tab.locator("[name=delay]").get_attribute("aria-valuetext") == "10 min"


def test_a_page_with_an_address_gives_a_link_and_one_in_a_notebook_gives_the_call(browser: Browser) -> None:  # noqa: F811
    tab = browser.new_page()
    tab.route("**/*", lambda route: route.fulfill(body=play(CASE).page(), content_type="text/html"))
    tab.goto("http://course.example/play.html")
    tab.get_by_role("button", name="copy case").click()
    expect(tab.locator(".copied")).to_have_text("a link to this case is copied")
    tab.get_by_text("This case as a text").click()
    link = tab.locator("[name=link]").input_value()
    assert link == tab.url == f"http://course.example/play.html#{CASE.replace('|', '%7C')}"
    assert f'src="{link}"' in tab.locator("[name=frame]").input_value()
    tab.set_content(play(CASE)._repr_html_())
    inside = tab.frame_locator("iframe")
    expect(inside.locator("[name=case]")).to_have_value(f'play("{CASE}")')
    expect(inside.locator("[name=link]")).to_be_hidden()
    tab.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (828, 576)], ids=["a laptop", "a cell of JupyterLab"])
@pytest.mark.parametrize("operator", ["windows", "dedup", "join", "sessions"])
def test_rows_state_and_sink_are_in_view_while_a_row_is_dragged(
    browser: Browser, tmp_path: Path, operator: str, width: int, height: int  # noqa: F811
) -> None:
    tab = opened(browser, play(operator).page(), tmp_path, width=width, height=height, at=0)
    tab.get_by_role("button", name={"dedup": "deduplication"}.get(operator, operator), exact=True).click()
    for part in (".picture-of-rows svg", ".sink tbody", ".knobs", "[role=status]"):
        box = tab.locator(part).bounding_box()
        assert box and box["y"] + box["height"] <= height, part
    if width >= 1280:
        assert tab.evaluate("document.querySelector('.sink').scrollHeight <= document.querySelector('.sink').clientHeight")


def test_the_rows_of_a_recorded_query_are_played_with_their_keys_and_times(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, TRACE.play().page(), tmp_path, at=0)
    tab.evaluate("begin(given.case)")
    expect(tab.locator(".of-query")).to_contain_text("The 10 rows of the query")
    expect(tab.locator(".differs")).to_be_hidden()
    assert sink(tab)[3].startswith("3\t12:11\t[12:00, 12:05)")
    expect(tab.locator("[data-row=r8]")).to_have_class(re.compile("dropped"))


def test_a_query_that_did_something_else_than_the_page_is_said_to(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    given = TRACE.play()
    given._given["recorded"][3][2] = 7
    tab = opened(browser, given.page(), tmp_path, at=0)
    tab.evaluate("begin(given.case)")
    expect(tab.locator(".differs")).to_have_text("In batch 3 the query did something else than this page: rows out: 7, and here 2.")


def test_times_with_seconds_and_days_and_keys_with_any_names(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    case = "windows;unit=s;day=2024-02-29;keys=Ann%2C%20%3Cb%3E,;delay=90;size=3600;slide=3600;mode=append;n=1;rows=a23:59:30|b24:00:00|a49:10:01"
    tab = opened(browser, play(case).page(), tmp_path, at=0)
    tab.evaluate("begin(given.case)")
    assert tab.locator("[name=case]").input_value() == f'play("{case}")'
    assert sink(tab) == ["0\tnone\t–", "1\t02-29 23:58\t–", "2\t02-29 23:58:30\t–",
                         "3, no data\t03-02 01:08:31\t[02-29 23:00, 03-01 00:00) Ann, <b>: 1, [03-01 00:00, 03-01 01:00): 1"]
    assert tab.locator("svg b").count() == 0, "a name is text"
    assert tab.locator("[name=size]").get_attribute("aria-valuetext") == "1 h" and tab.evaluate(CLIPPED) == []
