"""Pictures of a trace: the flow diagram, the timeline, the HTML page and the stepper. All come from recorded events alone."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from minispark_stream.trace.trace import Trace
from minispark_stream.view import flow
from minispark_stream.view.board import panels
from minispark_stream.view.flow_layout import frames as layout_frames
from minispark_stream.view.flow_layout import places
from minispark_stream.view.merged_walk import stops
from minispark_stream.view.page import page
from minispark_stream.view.panels import PANELS
from minispark_stream.view.step_panel import step_panel
from minispark_stream.view.timeline import phases

TRACE = Trace.load(Path(__file__).parents[1] / "golden" / "trace_windows.json")
EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&@look-trigger@"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz's dot")


def data_of(html: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    value = json.loads(found[1])
    assert isinstance(value, dict)
    return value


class Elements(HTMLParser):
    """The elements and the attributes of a page."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def evil() -> Trace:
    """A trace in which every text that a user may choose is an attack."""
    events = []
    for e in TRACE.events:
        outs = dict(e.outputs)
        for name in ("rows", "before", "after"):
            if outs.get(name):
                outs[name] = [{EVIL: EVIL, "key": {EVIL: EVIL}, "value": EVIL, "store": EVIL, "partition": 0}]
        ins = {k: EVIL if isinstance(v, str) else v for k, v in e.inputs.items()}
        events.append(replace(e, inputs=ins, outputs=outs, error=EVIL if e.step == "addBatch" else None))
    return Trace(tuple(events), name=EVIL, plan=EVIL)


def test_the_page_has_every_step_of_every_batch(tmp_path: Path) -> None:
    html = TRACE.to_html(tmp_path / "trace.html").read_text(encoding="utf-8")
    data = data_of(html)
    assert len(data["steps"]) == len(TRACE.events)
    assert [s["step"] for s in data["steps"][:4]] == ["startQuery", "populateStartOffsets", "trigger", "latestOffset"]
    assert all(set(s["slots"]) == {"now", *PANELS} for s in data["steps"])
    assert re.findall(r"data-from='\d+' data-to='\d+'>([^<]*)<", html) == [
        "batch 0", "batch 1", "batch 2", "batch 3 ✗", "batch 3 again", "batch 4", "batch 5 no data",
    ]


def test_the_page_loads_nothing_from_anywhere() -> None:
    html = page({"model": TRACE})
    elements = Elements(html)
    assert not {"link", "iframe", "img", "object", "embed", "base"} & set(elements.tags)
    links = [value for name, value in elements.attributes if name in ("src", "href", "action", "xlink:href")]
    assert all(link and link.startswith("#") for link in links)  # shapes of the picture itself
    assert set(re.findall(r"https?://[^\s\"'<\\]+", html)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|\bimport\(", html)


def test_what_a_user_wrote_is_shown_and_not_run() -> None:
    html = page({"model": evil()})
    assert Elements(html).tags.count("script") == 2
    shown = " ".join(data_of(html)["texts"])
    assert "&lt;script&gt;" in shown
    for part in (html, shown):
        assert not {"img"} & set(Elements(part).tags)
        assert not [name for name, _ in Elements(part).attributes if name.startswith("on")]


def test_equal_panels_are_kept_once() -> None:
    data = data_of(page({"model": TRACE}))
    assert len(data["texts"]) < len(data["steps"]) * len(PANELS) / 2


def test_what_a_step_changed_is_marked() -> None:
    shown = {s.moment.key: s for s in stops({"model": TRACE})}
    written = panels(shown[2, 0, "walCommit", 0])["logs"]
    assert "<mark>logOffset 2</mark>" in written and "<mark>12:04:00</mark>" in written
    assert "<mark>" not in panels(shown[2, 0, "runBatch", 0])["logs"]
    state = panels(shown[3, 1, "stateOperator", 0])["state"]
    assert re.findall(r'<tr class="(\w+)">', state) == ["remove", "remove", "same", "add", "same"]


def test_a_step_tells_what_it_did_and_why() -> None:
    stop = next(s for s in stops({"model": TRACE}) if s.moment.key == (1, 0, "updateWatermark", 0))
    text = step_panel(stop)
    assert "the watermark goes from 2024-01-01 11:57:00 to 2024-01-01 12:04:00." in text
    assert "WatermarkTracker.updateWatermark" in text and "About watermark" in text
    assert "The watermark moves only between batches" in text


def test_a_panel_that_is_equal_on_both_engines_is_shown_once() -> None:
    changed = (
        replace(e, outputs={**e.outputs, "rows": [{"word": "more"}]}) if e.step == "addBatch" and e.batch_id == 2 else e
        for e in TRACE.events
    )
    both = {"spark": Trace(tuple(changed), "spark"), "model": TRACE}
    stop = next(s for s in stops(both) if s.moment.key == (2, 0, "addBatch", 0))
    assert "equal on spark and model" in panels(stop)["logs"]
    assert "card differs" in panels(stop)["rows-out"] and "<h4>spark</h4>" in panels(stop)["rows-out"]


def test_a_trace_without_batches_has_a_page_and_pictures() -> None:
    empty = Trace(())
    assert "step" in page({"model": empty})
    assert empty.timeline().svg.startswith("<svg")
    assert "trigger" in empty.draw().source
    assert empty._repr_html_()


def test_jupyter_shows_the_batches_of_a_trace() -> None:
    html = TRACE._repr_html_()
    assert "query windows on model" in html and "run again" in html and "<svg" in html


# -- the flow diagram --------------------------------------------------------------------------------------


def test_the_diagram_names_the_steps_as_the_documents_do() -> None:
    source = TRACE.draw(batch=0).source
    for title in ("(1) populateStartOffsets", "(2, 3) constructNextBatch", "(3) walCommit", "(5-8) queryPlanning", "(10) commitOffsets"):
        assert f"<B>{title}</B>" in source
    assert "offsets/0" in source and "commits/0" in source


def test_the_first_step_of_a_run_stands_before_the_trigger() -> None:
    at, (_, top, _, height) = places(53), layout_frames(places(53), 53)["trigger"]
    assert at["startQuery"][1] > at["populateStartOffsets"][1] > top > at["latestOffset"][1] > top - height


def test_the_lit_step_has_its_colour() -> None:
    lit = [line for line in TRACE.draw(batch=1, step="walCommit").source.splitlines() if "#ffd873" in line]
    assert len(lit) == 1 and "walCommit" in lit[0]


def test_a_step_that_did_not_happen_is_pale() -> None:
    nodes = {line.split()[0]: line for line in TRACE.draw().source.splitlines() if "->" not in line and line.strip()}
    assert "dashed" in nodes["getBatch"] and "dashed" not in nodes["addBatch"]


def test_an_unknown_step_or_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no step 'dance'; steps: startQuery, trigger"):
        TRACE.draw(step="dance")
    with pytest.raises(ValueError, match="the trace has no batch 99; batches: 0, 1"):
        TRACE.draw(batch=99)


@needs_dot
def test_the_picture_of_a_page_is_filled_in_for_a_step() -> None:
    stop = next(s for s in stops({"model": TRACE}) if s.moment.key == (2, 0, "walCommit", 0))
    svg = flow.fill(flow.template(1) or "", flow.places_to_fill(stop.captions, stop.looks))
    assert 'id="node-walCommit" class="node  lit"' in svg
    assert 'id="node-offset-log" class="node store lit"' in svg
    assert ">offsets/2</text>" in svg and "@" not in svg


def test_the_template_has_a_place_for_every_caption_and_look() -> None:
    source = flow.digraph({"0": {}}, None).source
    assert "@caption-addBatch-0@" in source and "@look-edge-addBatch-sink@" in source


# -- durations ---------------------------------------------------------------------------------------------


def test_the_phases_of_a_batch_add_up_to_its_duration() -> None:
    batch = TRACE.batches[0]
    assert sum(phases(batch).values()) == pytest.approx(batch.durations["triggerExecution"], abs=5)


def test_a_batch_that_failed_has_the_durations_of_its_steps() -> None:
    assert phases(TRACE.batches[3])["addBatch"] > 0


# -- the stepper -------------------------------------------------------------------------------------------


def test_the_stepper_goes_forward_and_back_and_from_batch_to_batch(tmp_path: Path) -> None:
    stepper = Trace.load(TRACE.save(tmp_path / "saved.json")).stepper()
    assert "startQuery" in stepper.shown
    _, back_batch, back, _, forward, next_batch, _ = stepper.controls
    forward.click()
    assert stepper.step == 1 and "(1) populateStartOffsets" in stepper.shown
    next_batch.click()
    assert "trigger</h2>" in stepper.shown and stepper.step > 2
    back_batch.click()
    back.click()
    assert stepper.step == 0


def test_the_stepper_follows_its_slider_and_its_menu() -> None:
    stepper = TRACE.stepper()
    menu, slider = stepper.controls[0], stepper.controls[3]
    assert [name for name, _ in menu.options][3:5] == ["batch 3 ✗", "batch 3 again"]
    menu.value = menu.options[4][1]
    assert "startQuery" in stepper.shown and slider.value == stepper.step
    slider.value = slider.max
    assert "finishTrigger" in stepper.shown or "trigger" in stepper.shown
    assert menu.value == menu.options[-1][1]


def test_the_stepper_of_an_empty_trace_is_empty() -> None:
    assert Trace(()).stepper().step == -1
