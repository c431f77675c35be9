"""The cards of the page to play with: the page comes to what they claim, nothing is cut off, and what they lead to is there."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from docs.cards import DOCS, anchor, cards, page
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.lens.view.test_play_in_browser import CLIPPED, sink

CLAIMED = """texts => texts.map(text => {
  const given = caseOf(text), batches = batchesOf(given);
  const say = out => out.key + ("ad" in out ? `${clock(out.ad)}-${out.click === null ? "null" : clock(out.click)}`
    : "count" in out ? `${clock(out.start)}-${clock(out.end)}=${out.count}` : clock(out.time));
  return [
    deliveries(batches, given.crash).flatMap(({ number, out }) => out.map(say).sort().map(row => `${number} ${row}`)),
    batches.reduce((sum, batch) => sum + batch.dropped.length, 0), batches.at(-1).held.size, textOf(given),
  ];
})"""


def test_there_are_twenty_each_with_two_sentences_and_what_they_lead_to_is_there() -> None:
    every = cards()
    assert len({card.name for card in every}) == len({card.question for card in every}) == 20
    for card in every:
        assert card.question.endswith("?") and len(re.findall(r"[.](?= [A-Z]|$)", card.answer)) == 2, card.name
        assert card.case != card.then and (card.out[0], card.late[0], card.held[0]) != (card.out[1], card.late[1], card.held[1])
        for link in card.links().values():
            file, _, place = link.partition("#")
            text = (DOCS / file).read_text(encoding="utf-8")
            if file.endswith(".ipynb"):
                text = "\n".join(cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "markdown")
            assert not place or place in map(anchor, re.findall("^#+ (.*)", text, re.M)), link


def test_the_page_comes_to_what_each_card_claims(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page().page(), tmp_path)
    for number, which in enumerate(("case", "then")):
        cases = [getattr(card, which) for card in cards()]
        right = [[card.out[number], card.late[number], card.held[number], case] for card, case in zip(cards(), cases)]
        assert tab.evaluate(CLAIMED, cases) == right


@pytest.mark.parametrize(("width", "height", "dark"), [(1280, 720, False), (828, 560, True), (390, 800, True)])
def test_no_card_is_cut_off_and_everybody_can_read_it(
    browser: Browser, tmp_path: Path, width: int, height: int, dark: bool  # noqa: F811
) -> None:
    tab = opened(browser, page().page(), tmp_path, width=width, height=height, dark=dark)
    for card in cards():
        tab.evaluate(f"begin({card.name!r})")
        expect(tab.locator(".answer")).to_contain_text(card.answer)
        assert tab.evaluate(CLIPPED) == [], card.name
        if width > 700:
            for part in (".picture-of-rows svg .plane", ".sink", ".knobs"):
                box = tab.locator(part).bounding_box()
                assert box and box["y"] + box["height"] <= height, (card.name, part)
    assert violations(tab) == []


def test_time_passes_batch_by_batch_and_a_change_shows_all_of_it(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page().page(), tmp_path)
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    tab.evaluate("begin('behind-but-counted')")
    to_come, button = tab.locator(".row.to-come"), tab.locator("[data-go=play]")
    expect(to_come).to_have_count(0)
    button.click()
    expect(button).to_have_attribute("aria-label", "pause")
    expect(to_come).to_have_count(4)
    assert sink(tab) == [] and tab.get_by_role("status").inner_text() == "No batch has run yet."
    for batch in range(3):
        tab.clock.run_for(1500)
        expect(to_come).to_have_count(3 - batch)
        assert len(sink(tab)) == batch + 1 and tab.locator(".row.falls").count() == 1
    button.click()  # a pause
    tab.clock.run_for(5000)
    expect(to_come).to_have_count(1)
    tab.locator("[name=until]").press("ArrowLeft")
    expect(to_come).to_have_count(2)
    tab.locator("[data-row=r2]").press("ArrowUp")
    expect(to_come).to_have_count(0)
    expect(button).to_have_attribute("aria-label", "play batch after batch")


def test_an_address_opens_a_card_and_a_change_makes_it_a_case(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page().page(), tmp_path)
    tab.evaluate("location.hash = 'last-window'")
    question = tab.locator("[name=card]")
    expect(question).to_have_value("last-window")
    tab.locator("[data-row=r3]").press("ArrowUp")
    assert tab.url.endswith("#windows;delay=5;size=5;slide=5;mode=append;n=1;rows=a12:02%7Ca12:08%7Ca12:12%7Ca12:18")
    tab.get_by_role("button", name="as it was at first").click()
    assert tab.url.endswith("#last-window")
    tab.get_by_role("button", name="the next question").click()
    expect(question).to_have_value("one-batch-late")
    question.select_option("A case of your own")
    expect(tab.get_by_role("button", name="sessions", exact=True)).to_be_visible()
    expect(tab.locator(".answer")).to_be_empty()
