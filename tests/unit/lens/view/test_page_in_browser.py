"""The page of a trace in a headless Chromium: its controls, its places, its colours, and what it is for those who do not see it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view import file_rows, join_lanes, logs_tapes, session_lanes, state_chain, watermark_tree
from minispark_stream.lens.view import page as page_module
from minispark_stream.lens.view.page import page
from tests.unit.browser import browser, opened, violations  # noqa: F401
from tests.unit.golden_trace import TRACE
from tests.unit.lens.view.test_pictures import JOIN, SESSIONS

ADD_BATCH, LATE_BATCH = 61, 74
NOTEBOOKS = Path(__file__).parents[4] / "notebooks"


@pytest.fixture(scope="module")
def html() -> str:
    return page({"model": TRACE}, "<p>A word in front.</p>")


@pytest.fixture(scope="module")
def both_html() -> str:
    """Two engines that do not agree about batch 3."""
    text = json.dumps(TRACE.to_json()).replace('"emitted": 2', '"emitted": 3')
    return page({"spark": replace(Trace.from_json(json.loads(text)), engine="spark"), "model": TRACE})


def count(tab: Page) -> int:
    return int(tab.inner_text("#count").split()[1])


def lit(tab: Page) -> str | None:
    return tab.locator(".flow button.lit").get_attribute("data-step")


def test_every_control_does_what_it_says(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    assert (count(tab), lit(tab)) == (1, "startQuery")
    tab.click("[data-go=forward]")
    assert (count(tab), lit(tab)) == (2, "populateStartOffsets")
    expect(tab.locator("[data-panel=said]")).to_contain_text("a new query, begin with batch 0")
    tab.click("[data-go=batch-forward]")
    assert tab.inner_text("nav .on") == "batch 1" and lit(tab) == "trigger"
    tab.click("[data-go=back]")
    assert lit(tab) == "finishTrigger"
    tab.click("[data-go=batch-back]")
    assert count(tab) == 1
    tab.click("nav button >> text=batch 3 again")
    tab.click("[data-step=addBatch]")
    assert count(tab) == ADD_BATCH
    assert tab.locator("[data-step=latestOffset]").is_disabled()  # the offsets of a batch that runs again are in the log
    expect(tab.locator("[data-panel=rows-out].lit")).to_be_visible()
    tab.locator("#slider").fill("91")
    assert count(tab) == 91
    tab.click("[data-go=code]")
    expect(tab.locator("#more")).to_contain_text("def finish_trigger(")
    tab.click("[data-go=recorded]")
    expect(tab.locator("#more")).to_contain_text('"batchId": 5')
    tab.goto(tab.url.replace("#91", "#2"))
    assert lit(tab) == "populateStartOffsets"


def test_play_goes_on_by_itself_until_the_end(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, at=89)
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    tab.select_option("#speed", "400")
    tab.click("[data-go=play]")
    expect(tab.locator("[data-go=play]")).to_have_attribute("aria-label", "pause")
    tab.clock.run_for(450)
    assert count(tab) == 90
    tab.clock.run_for(2000)
    assert count(tab) == 91
    expect(tab.locator("[data-go=play]")).to_have_attribute("aria-label", "play")
    tab.keyboard.press("Space")  # on the button: it begins again
    tab.clock.run_for(900)
    assert count(tab) == 3
    tab.click("[data-go=back]")
    tab.clock.run_for(900)
    assert count(tab) == 2  # a step by hand is a pause


def test_the_keyboard_alone_does_everything(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    press = tab.keyboard.press
    for key, step in (
        ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 91), ("Home", 1), ("Shift+ArrowRight", 16), ("Shift+ArrowLeft", 1),
    ):
        press(key)
        assert count(tab) == step, key
    press("c")
    assert tab.get_attribute("#tab-code", "aria-selected") == "true"
    press("w")
    press("?")
    assert tab.locator("#help").is_visible()
    press("Escape")
    assert not tab.locator("#help").is_visible()
    press("/")
    tab.keyboard.type("12:21")
    press("Enter")
    assert lit(tab) == "getBatch" and tab.inner_text("nav .on") == "batch 2"
    press("Escape")
    press("b")
    assert tab.evaluate("scrollY") > 500
    press("b")
    assert tab.evaluate("scrollY") == 0
    press("d")
    assert tab.evaluate("document.body.dataset.theme") == "dark"
    press("p")
    assert tab.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 18
    reached = set()
    for _ in range(80):
        press("Tab")
        reached.add(tab.evaluate("(e => e.dataset.go || e.dataset.step || e.dataset.panel || e.id)(document.activeElement)"))
    assert {"back", "forward", "play", "slider", "speed", "walCommit", "why", "more", "state"} <= reached


def test_the_search_goes_round_and_says_when_there_is_nothing(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    search = tab.locator("input[type=search]")
    search.fill("commitOffsets")
    steps = []
    for _ in range(7):
        search.press("Enter")
        steps.append(count(tab))
    assert len(set(steps[:6])) == 6 and steps[6] == steps[0]
    search.fill("nowhere")
    search.press("Enter")
    expect(search).to_have_class("nothing")
    search.fill("<tr")
    search.press("Enter")
    expect(search).to_have_class("nothing")  # elements are not text


def places(tab: Page, selector: str) -> list[list[int]]:
    """Left, top, right and bottom of elements, in whole pixels."""
    found: list[list[int]] = tab.evaluate(
        """selector => [...document.querySelectorAll(selector)].map(e => e.getBoundingClientRect()).map(
            r => [r.left, r.top, r.right, r.bottom].map(Math.round))""", selector
    )
    return found


CUT = """() => [...document.querySelectorAll(".name, h2, h3, th, button, .did, .legend li, output, nav button")].filter(e =>
    e.offsetParent && (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline"
    || e.matches(".name") && e.getBoundingClientRect().right > e.closest("button").getBoundingClientRect().right - 2)
    ).map(e => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (960, 800), (812, 800)], ids=["screen", "notebook", "narrow notebook"])
def test_cause_and_effect_are_on_one_screen_and_nothing_jumps(
    browser: Browser, html: str, both_html: str, tmp_path: Path, width: int, height: int  # noqa: F811
) -> None:
    for text in (html, both_html):
        tab = opened(browser, text, tmp_path, width=width, height=height)
        parts = "main > section, .walk > *, .tools > *, nav"
        boxes = places(tab, parts)
        for i, (left, top, right, bottom) in enumerate(boxes):
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
            assert all(right <= b[0] or b[2] <= left or bottom <= b[1] or b[3] <= top for b in boxes[:i])
        steps = places(tab, ".flow button")
        for step in (30, ADD_BATCH, ADD_BATCH + 1, LATE_BATCH, 91):
            tab.evaluate(f"show({step - 1})")
            assert (places(tab, parts), places(tab, ".flow button")) == (boxes, steps)
            assert tab.evaluate(CUT) == []
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.close()


SAVED = ("00_start_here", "04_offset_and_commit_log", "09_joins", "10_sessions", "18_operations", "20_use_cases")
SIZES = ((828, 560), (960, 720), (1280, 720), (390, 800))  # JupyterLab on a laptop, a page of the site, a screen, a phone
DOES_NOT_FIT = """() => {
    const cut = [...document.querySelectorAll("body *")].filter(e => e.offsetParent && !e.closest(".below, dialog, h1")
        && !e.matches(".point, .caption, .stays")  // the end of an axis is half a dot long; a caption is said in full beside it;
        // of a wide picture, the copy that stays in view shows the names alone
        && !["inline", "contents"].includes(getComputedStyle(e).display) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth
        && !/auto|scroll/.test(getComputedStyle(e).overflowX)).map(e => "cut: " + e.outerHTML.slice(0, 120));
    const hidden = [...document.querySelectorAll("[data-panel].lit")].filter(panel => {
        const box = panel.getBoundingClientRect();
        const rows = [...panel.querySelectorAll("mark, tr.add, tr.change, tr.remove, tr.dropped")].map(e => e.getBoundingClientRect());
        return rows.length && !rows.some(r => r.top >= box.top - 1 && r.bottom <= box.bottom + 1 && r.bottom <= Math.max(box.bottom, innerHeight));
    }).map(panel => "no changed row to be seen: " + panel.dataset.panel);
    return [...cut, ...hidden];
}"""
FULLEST = """() => ["state", "rows-out", "logs", "watermark"].flatMap(name => {  // of the steps that light a panel the one with most in it
    const size = step => html(step.panels[name]).length + html(step.panels["rows-in"]).length;
    const lighting = steps.map((step, at) => at).filter(at => data.about[steps[at].step].lights.includes(name));
    return lighting.sort((a, b) => size(steps[b]) - size(steps[a])).slice(0, 1);
})"""


def stepper_of(notebook: str) -> str:
    """The stepper that a notebook has saved, with the look and the controls of today, and without the sliders below the board."""
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = "".join("".join(out.get("data", {}).get("text/html", "")) for cell in cells for out in cell.get("outputs", ()))
    (saved,) = re.findall(r'srcdoc="([^"]* id=&quot;data&quot;[^"]*)"', shown)  # another frame has a page to play with
    text, today = unescape(saved), page({"model": TRACE})
    for begins, ends in (("<style>", "</style>"), ('<section class="now"', "</section>"), ("<script>", "</script>")):
        at, begin = today.index(begins), text.index(begins)
        text = text[:begin] + today[at : today.index(ends, at)] + text[text.index(ends, begin) :]
    before, data, after = re.split(r'(?<=id="data">)(.*?)(?=</script>)', text, maxsplit=1, flags=re.DOTALL)
    return before + json.dumps({**json.loads(data), "what_if": None}).replace("<", "\\u003c") + after


def test_what_is_folded_in_a_panel_stays_as_it_was_put(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, stepper_of("05_state_store"), tmp_path)
    tab.keyboard.press("End")
    where = tab.locator("[data-panel=state] details")
    tab.click("[data-step=stateOperator]")
    expect(where.first).not_to_have_attribute("open", "")
    tab.locator("[data-panel=state] summary").first.focus()
    tab.keyboard.press("Space")
    tab.click("[data-go=batch-back]")
    tab.click("[data-step=stateOperator]")
    expect(where.first).to_have_attribute("open", "")
    expect(where.first).to_contain_text("in memory of")


@pytest.mark.parametrize("notebook", SAVED)
def test_the_steppers_of_the_course_fit_where_they_stand(browser: Browser, tmp_path: Path, notebook: str) -> None:  # noqa: F811
    """Nothing is cut, and what the step has changed can be seen; also with larger letters."""
    tab = opened(browser, stepper_of(notebook), tmp_path)
    tab.evaluate("setAsking(false)")
    fullest = tab.evaluate(FULLEST)
    for larger in (False, True):
        if larger:
            tab.click("[data-go=projector]")
        for width, height in SIZES:
            tab.set_viewport_size({"width": width, "height": height})
            for at in fullest:
                tab.evaluate(f"show({at})")
                assert tab.evaluate(DOES_NOT_FIT) == [], (width, height, larger, at)
    tab.close()


@pytest.mark.parametrize(("width", "height"), SIZES[:3])
def test_the_places_of_the_panels_are_in_the_frame_and_no_caption_is_cut(
    browser: Browser, html: str, both_html: str, tmp_path: Path, width: int, height: int  # noqa: F811
) -> None:
    for text in (html, both_html):
        tab = opened(browser, text, tmp_path, width=width, height=height)
        for step in (2, 8, ADD_BATCH - 1, ADD_BATCH, ADD_BATCH + 1, ADD_BATCH + 2, LATE_BATCH):
            tab.evaluate(f"show({step - 1})")
            assert tab.evaluate(CUT) == [] and tab.evaluate(DOES_NOT_FIT) == []
            for left, top, right, bottom in places(tab, "main > section"):
                assert 0 <= left < right <= width and 0 <= top < bottom <= height
        tab.evaluate("show(90)")
        captions = "[...document.querySelectorAll('.caption')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
        assert not [caption for caption in tab.evaluate(captions) if "spark:" not in caption]
        tab.close()


OUT_OF_VIEW = """() => {  // sentences of which a part is hidden, and words that are broken in the middle
    const now = document.querySelector(".now").getBoundingClientRect();
    const sentences = [...document.querySelectorAll(".did, #asks, #verdict, #choices button")].filter(e => e.checkVisibility());
    const hidden = sentences.filter(e => (r => r.top < now.top || r.bottom > now.bottom || r.right > now.right)(e.getBoundingClientRect()));
    const broken = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), range = document.createRange();
    while (texts.nextNode()) {
        const text = texts.currentNode;
        if (!text.parentElement.checkVisibility()) continue;
        for (const word of text.data.matchAll(/[\\p{L}\\p{N}_]{3,20}/gu)) {
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].filter(r => r.width > 0.5).map(r => Math.round(r.top / 4))).size > 1) broken.push(word[0]);
        }
    }
    return [...hidden.map(e => e.textContent), ...broken];
}"""


@pytest.mark.parametrize(("width", "height"), SIZES[:3])
def test_no_sentence_is_out_of_view_and_no_word_is_broken(
    browser: Browser, both_html: str, tmp_path: Path, width: int, height: int  # noqa: F811
) -> None:
    tab = opened(browser, both_html, tmp_path, width=width, height=height)
    for _ in range(91):
        assert tab.evaluate(OUT_OF_VIEW) == [], tab.inner_text("#count")
        tab.keyboard.press("ArrowRight")
    tab.evaluate("setAsking(true)")
    tab.keyboard.press("Home")
    for _ in range(30):  # each question is answered wrongly, so that there is a reason to be read
        tab.keyboard.press("End")
        wrong = tab.evaluate("question && (question.asked[2] + 1) % question.asked[1].length")
        if wrong is None:
            break
        assert tab.evaluate(OUT_OF_VIEW) == []
        tab.keyboard.press(str(wrong + 1))
        assert tab.evaluate(OUT_OF_VIEW) == []
        tab.evaluate("go('next')")
    else:
        raise AssertionError("the questions have no end")


def test_where_there_is_little_room_panels_and_tabs_take_turns(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, width=828, height=560, at=ADD_BATCH)
    rows_out, more = tab.locator("[data-panel=rows-out]"), tab.locator("#more")
    expect(rows_out.locator("table")).to_be_visible()
    expect(more).not_to_be_visible()
    tab.keyboard.press("w")
    expect(more).to_contain_text("Why?")
    expect(rows_out).not_to_be_visible()
    tab.keyboard.press("e")
    expect(rows_out.locator("table")).to_be_visible()
    tab.click("[data-panel=logs]")  # a panel of which the step says nothing
    expect(tab.locator("[data-panel=logs] table")).to_be_visible()
    expect(rows_out.locator("table")).not_to_be_visible()
    tab.keyboard.press("Home")  # nothing has changed yet: the reason of the step has the room
    expect(more).to_contain_text("Why?")
    expect(tab.locator("#tab-changed")).to_be_disabled()


def test_two_panels_of_which_one_is_too_narrow_stand_one_above_the_other_and_share_the_room(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    wide = {f"column_{n}": "2024-01-01 12:00:00" for n in range(5)}
    events = tuple(replace(e, outputs={**e.outputs, "rows": [wide]}) if "rows" in e.outputs and e.step == "addBatch" else e for e in TRACE.events)
    tab = opened(browser, page({"model": replace(TRACE, events=events)}), tmp_path, width=828, height=560, at=ADD_BATCH)
    (_, first), (_, second) = sorted((box[1], box) for box in places(tab, "main > .lit"))
    waiting = min(box[1] for box in places(tab, "main > [data-panel]:not(.lit)"))
    assert first[0] == second[0] and first[3] < second[1] and waiting - 15 < second[3] < waiting


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_where_there_is_room_the_picture_of_the_query_stands_beside_the_steps_and_moves(
    browser: Browser, html: str, tmp_path: Path, width: int, height: int  # noqa: F811
) -> None:
    tab = opened(browser, html, tmp_path, width=width, height=height)
    covered = "[...document.querySelectorAll('main > .picture > svg .cover.to-come')].map(cover => +cover.dataset.batch)"
    for step, to_come in ((1, [0, 1, 2, 3, 4, 5]), (ADD_BATCH - 2, [3, 4, 5]), (ADD_BATCH, [4, 5]), (91, [])):
        tab.evaluate(f"show({step - 1})")
        assert tab.evaluate(covered) == to_come, step
        boxes = places(tab, "main > section, main > .picture")
        for i, (left, top, right, bottom) in enumerate(boxes):
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
            assert all(right <= b[0] or b[2] <= left or bottom <= b[1] or b[3] <= top for b in boxes[:i])
    tab.set_viewport_size({"width": 960, "height": 720})
    assert tab.locator(".below [data-beside]").count() == 1


def test_a_panel_shows_the_offsets_that_the_sentence_speaks_of(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, width=828, height=560)
    seen = """() => {
        const panel = document.querySelector("[data-panel=sources].lit"), said = document.querySelector("[data-panel=said]").innerText;
        if (!panel || !/logOffset/.test(said)) return null;
        const box = panel.getBoundingClientRect(), lines = [...panel.querySelectorAll("b, td")].filter(e => {
            const r = e.getBoundingClientRect(); return r.top >= box.top && r.bottom <= box.bottom; });
        return [said.match(/logOffset \\d+/g), lines.map(e => e.innerText).join(" ")];
    }"""
    spoken = 0
    for _ in range(91):
        if (found := tab.evaluate(seen)) is not None:
            spoken += 1
            assert all(offset in found[1] for offset in found[0]), found
        tab.keyboard.press("ArrowRight")
    assert spoken >= 6


def test_why_a_step_failed_is_read_without_scrolling(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    error = "STREAM_FAILED: [DIVIDE_BY_ZERO] Division by zero. " + "Use `try_divide` to tolerate a divisor of 0. " * 20
    failed = [replace(e, error=error) if e.error is not None else e for e in TRACE.events]
    for width, height in ((1280, 720), (960, 800), (812, 800)):
        tab = opened(browser, page({"model": replace(TRACE, events=tuple(failed))}), tmp_path, width=width, height=height)
        tab.evaluate("show(steps.findIndex(step => step.step === 'addBatch' && step.failed))")
        expect(tab.locator("[data-panel=said]")).to_contain_text("DIVIDE_BY_ZERO")
        (panel,) = places(tab, "main > section:has([data-panel=said])")
        seen = tab.evaluate("""() => {  // where the cause stands in the text of the panel
            const texts = document.createTreeWalker(document.querySelector("[data-panel=said]"), NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const at = texts.currentNode.data.indexOf("DIVIDE_BY_ZERO");
                if (at < 0) continue;
                const range = document.createRange();
                range.setStart(texts.currentNode, at); range.setEnd(texts.currentNode, at + 14);
                return Math.round(range.getBoundingClientRect().bottom);
            }
        }""")
        assert panel[1] < seen <= panel[3] <= height
        tab.close()


def test_what_is_to_be_read_is_large_enough(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, at=ADD_BATCH)
    for selector, least in ((".did", 16), (".name", 16), ("#more p", 16), ("h2", 18), ("td", 13), (".caption", 14), (".legend", 13)):
        size = tab.evaluate(f"Math.min(...[...document.querySelectorAll('main {selector}')].map(e => parseFloat(getComputedStyle(e).fontSize)))")
        assert size >= least, (selector, size)


def test_a_dropped_row_is_struck_through_and_tells_its_story(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    tab.click("nav button >> text=/^batch 4$/")
    tab.click("[data-step=getBatch]")
    assert tab.locator("[data-panel=rows-in] [data-fate]").count() == 0  # nobody knows it yet
    tab.click("[data-step=addBatch]")
    row = tab.locator("[data-panel=rows-in] tr.dropped")
    expect(row).to_contain_text("dropped as late")
    assert "its window ended 12:10:00" in (row.locator("button").get_attribute("title") or "")
    assert "line-through" in row.locator("td").first.evaluate("e => getComputedStyle(e).textDecoration")
    row.locator("td").first.click()
    expect(tab.locator("#story")).to_contain_text("at or before the late watermark, 12:11:00")
    tab.keyboard.press("Escape")
    row.locator("button").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#story")).to_contain_text("4.csv")


def test_a_script_in_a_row_is_text(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    attack = "</script><script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'>\"&amp;"
    text = json.dumps(TRACE.to_json()).replace('"word": "g"', f'"word": {json.dumps(attack)}')
    tab = opened(browser, page({"model": Trace.from_json(json.loads(text))}), tmp_path)
    for step in range(1, 92):
        tab.evaluate(f"show({step - 1}); showTab('recorded')")
        if lit(tab) == "getBatch" and tab.inner_text("nav .on") == "batch 3 again":
            assert attack in tab.locator("[data-panel=rows-in]").inner_text()
    assert tab.evaluate("window.attacked") is None
    assert tab.locator("img").count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_for_those_who_see_little(browser: Browser, both_html: str, tmp_path: Path, width: int) -> None:  # noqa: F811
    tab = opened(browser, both_html, tmp_path, width=width, at=ADD_BATCH)
    expect(tab.locator("[data-step=addBatch]")).to_have_class("lit ")
    assert violations(tab) == []
    tab.keyboard.press("d")
    tab.evaluate(f"show({LATE_BATCH - 1}); showTab('code')")
    assert violations(tab) == []
    tab.keyboard.press("?")
    assert violations(tab) == []


def test_on_a_phone_the_way_on_is_always_at_hand(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path, width=390, height=844, at=ADD_BATCH)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for y in (0, 600, 100_000):
        tab.evaluate(f"scrollTo(0, {y})")
        for button in ("back", "forward", "play"):
            box = tab.locator(f"[data-go={button}]").bounding_box()
            assert box and 0 <= box["x"] and box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= 844 and box["height"] >= 44
    tab.evaluate("scrollTo(0, 0)")
    order = tab.evaluate("[...document.querySelectorAll('main > section')].sort((a, b) => a.offsetTop - b.offsetTop).map(e => e.dataset.panel || e.className)")
    assert order[:3] == ["now", "rows-in", "rows-out"]  # what the step changes comes first
    assert tab.evaluate(CUT) == []


IN_VIEW = """() => Object.fromEntries([...document.querySelectorAll(".below .card:has(.picture)")].map(card => {
    const frame = card.querySelector(".picture").getBoundingClientRect(), right = Math.min(frame.right, innerWidth);
    const seen = e => { const box = e.getBoundingClientRect(); return Math.max(frame.left, 0) <= box.left && box.right <= right; };
    return [card.querySelector("h2").textContent, [...card.querySelectorAll(".said > *, text")].filter(seen).map(e => e.textContent.trim()).join(" ")];
}))"""
SIZES_OF_LETTERS = """() => [...document.querySelectorAll(".picture text")].map(
    e => [e.getScreenCTM(), parseFloat(getComputedStyle(e).fontSize)]).map(([{ b, d }, size]) => size * Math.hypot(b, d))"""
SENTENCES = (  # of each kind of picture: its title, its caption, what its legend says, and other sentences
    (TRACE, "Event time", "late watermark: what ends by then is dropped", "emitted; a thick edge: evicted", "operator 0: stateStoreSave"),
    (TRACE, "Watermarks", "The watermark on its way up the plan", watermark_tree.CAPTION.format(which="the smallest"),
     "drops rows up to (what it saw in the batch before)"),
    (TRACE, "State files", "The files of the state", state_chain.CAPTION, "delta, written by a batch", "To load version 6:"),
    (TRACE, "Logs", "The offset log and the commit log", logs_tapes.CAPTION, "not written: the batch did not end",
     "found by a restart: the batch runs again with these offsets", "the offset log ends with 3, the commit log ends with 2: batch 3 runs again"),
    (TRACE, "Files", "Files", file_rows.CAPTION, "taken again: the batch had not ended"),
    (TRACE, "Durations", "latestOffset", "queryPlanning", "addBatch", "commitOffsets", "other"),
    (JOIN, "Join", "Two buffers of a join", join_lanes.CAPTION, "evicted without a pair: emitted with nulls"),
    (SESSIONS, "Sessions", "Sessions of each key", session_lanes.CAPTION, "watermark of the batch"),
)


@pytest.mark.parametrize("width", [390, 360])
def test_on_a_phone_a_picture_keeps_its_size_and_its_sentences_are_read_without_scrolling(
    browser: Browser, tmp_path: Path, width: int  # noqa: F811
) -> None:
    for one in (TRACE, JOIN, SESSIONS):
        tab = opened(browser, page({"model": one}), tmp_path, width=width, height=844)
        seen = tab.evaluate(IN_VIEW)
        for of, heading, *sentences in SENTENCES:
            if of is one:
                assert [sentence for sentence in sentences if sentence not in seen[f"{heading} on model"]] == [], heading
        clipped = "[...document.querySelectorAll('.said ~ .picture > svg')].map(e => getComputedStyle(e).clipPath)"
        assert "none" not in tab.evaluate(clipped)  # what is said as text is not there a second time
        assert min(tab.evaluate(SIZES_OF_LETTERS)) >= 8
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.close()


def test_where_there_is_room_the_words_above_a_drawing_use_it_and_are_there_once(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, page({"model": TRACE}), tmp_path, width=1280)
    assert tab.locator(".said").count() > 3 and tab.locator(".said:visible").count() == 0
    seen = tab.evaluate(IN_VIEW)["Logs on model"]
    assert "The offset log and the commit log" in seen and logs_tapes.CAPTION in seen
    of_caption = [line for line in tab.locator("svg.logs text").all_text_contents() if len(line) > 20 and line in logs_tapes.CAPTION]
    assert 0 < len(of_caption) <= 4  # of 290 characters


def test_the_stepper_moves_in_its_frame_without_a_kernel(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    notebook = f"<!doctype html><title>notebook</title><div>{TRACE.stepper(3, 'addBatch')._repr_html_()}</div>"
    tab = opened(browser, notebook, tmp_path)
    frame = tab.frame_locator("iframe")
    expect(frame.locator("#count")).to_have_text("step 61 of 91")
    frame.locator("[data-go=forward]").click()
    expect(frame.locator("#count")).to_have_text("step 62 of 91")
    frame.locator("[data-go=projector]").click()
    expect(frame.locator("body")).to_have_class("ms page projector")
    assert tab.url.endswith("#1") and len(notebook) < 600_000


def test_a_trace_of_ten_thousand_steps_opens_in_two_seconds(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setattr(page_module, "pictures", lambda recording, found: ())  # 9 s, and at most 1 MB: they show the newest batches
    html = page({"model": long(10_000)})
    assert len(html.encode()) < 10_000_000
    tab = opened(browser, html, tmp_path, at=5000)
    assert count(tab) == 5000
    took_ms = []
    for _ in range(3):
        tab.reload()
        took_ms.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
    assert min(took_ms) < 2000
    tab.keyboard.press("End")
    assert count(tab) == tab.evaluate("steps.length") > 10_000  # the opening of addBatch is a step of the walk, too


def long(steps: int) -> Trace:
    """The first three batches again and again, each time with other times, offsets and files."""
    events: list[Any] = []
    batches = TRACE.batches[:3]
    for batch_id in range(steps // 12):
        for e in batches[batch_id % 3].events:
            text = json.dumps([dict(e.inputs), dict(e.outputs)])
            for old, new in (
                ("2024-01-01 12:", f"2024-01-{batch_id % 28 + 1:02d} {batch_id // 28 % 24:02d}:"), ('logOffset\\":', f'logOffset\\":{batch_id}'),
                ("offsets/", f"offsets/{batch_id}"), ("commits/", f"commits/{batch_id}"),
            ):
                text = text.replace(old, new)
            ins, outs = json.loads(text)
            events.append(replace(e, trigger=batch_id, batch_id=batch_id, inputs=ins, outputs=outs))
    return Trace(tuple(events[:steps]))


def test_the_page_asks_and_says_right_or_wrong_with_the_reason(browser: Browser, html: str, tmp_path: Path) -> None:  # noqa: F811
    tab = opened(browser, html, tmp_path)
    tab.click("nav button >> text=/^batch 4$/")
    press, question, verdict = tab.keyboard.press, tab.locator("#question"), tab.locator("#verdict")
    assert not question.is_visible() and tab.locator(".below .card").first.is_visible()
    press("q")
    expect(tab.locator("[data-go=ask]")).to_have_attribute("aria-pressed", "true")
    press("End")  # what comes later stays hidden: the first question is in between
    assert tab.inner_text("#asks") == "There is new data, so a batch runs. If there were none, would a batch run all the same?"
    assert lit(tab) == "latestOffset" and not tab.locator(".what").is_visible() and not tab.locator(".below .card").first.is_visible()
    assert not tab.locator("nav button >> text=batch 5").is_visible()
    press("s")
    assert lit(tab) == "constructNextBatch" and not question.is_visible()
    tab.click("[data-step=commitOffsets]")
    assert tab.inner_text("#asks") == "Will the row time=2024-01-01 12:05:00 word=i count?"
    assert lit(tab) == "queryPlanning" and tab.evaluate("document.activeElement.textContent") == "Yes, it counts"
    assert violations(tab) == []
    press("Enter")  # on the first choice, which is wrong
    expect(verdict).to_have_text(
        "No: it, or the end of its window, would have to be after the late watermark. The answer is “No, it is late”. Dropped: its "
        "window ended 12:10:00, at or before the late watermark, 12:11:00. 0 of 1 right so far."
    )
    expect(tab.locator("#choices .wrong")).to_have_text("Yes, it counts")
    press("Enter")  # on "continue": there is one more before this step
    assert tab.inner_text("#asks") == "Which batch will emit window=[2024-01-01 12:10, 12:15)?"
    press("1")
    expect(verdict).to_contain_text("Right. The watermark of this batch, 12:20:00, has reached its end, 12:15:00")
    expect(verdict).to_contain_text("1 of 2 right so far.")
    assert violations(tab) == []
    press("ArrowRight")
    assert lit(tab) == "addBatch" and not question.is_visible()
    press("End")
    assert question.is_visible()
    press("q")
    assert not question.is_visible() and tab.locator(".below .card").first.is_visible()
    press("End")
    assert count(tab) == 91


@pytest.mark.parametrize("width", [1280, 390])
def test_a_stepper_can_ask_from_its_first_step(browser: Browser, tmp_path: Path, width: int) -> None:  # noqa: F811
    where_it_opens = opened(browser, page({"model": TRACE}, ask=True), tmp_path, width=width, at=54)
    assert where_it_opens.inner_text("#asks") == "The offset log ends at batch 3, the commit log ends at 2. Which batch runs first?"
    assert not where_it_opens.locator(".what").is_visible()
    tab = opened(browser, page({"model": TRACE}, ask=True), tmp_path, width=width)
    places_before = places(tab, "main > section")
    tab.locator("#slider").fill("91")
    assert tab.inner_text("#asks").startswith("In this batch, the newest event time is 12:07:00, the delay 10 min.")
    assert lit(tab) == "addBatch" and tab.input_value("#slider") == str(count(tab))
    tab.locator("#choices button >> nth=2").click()
    expect(tab.locator("#verdict")).to_contain_text("No: that is the newest event time, from which the delay is still to be taken. The answer is “11:57:00”. 12:07:00")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1280:
        # The question and its reason stand where the step and the panels were; the steps do not move.
        left, top, right, _ = places_before[1]
        shown = [place for place in places(tab, "main > section") if any(place)]
        assert shown == [places_before[0], [left, top, right, places_before[0][3]]]
        assert tab.evaluate(CUT) == [] and not tab.evaluate("(e => e.scrollHeight > e.clientHeight)(one('#question'))")
