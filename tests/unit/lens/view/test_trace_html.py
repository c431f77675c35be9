"""Pictures of a trace: the flow diagram, the timeline, the HTML page and the stepper. All come from recorded events alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest

import minispark_stream
from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view import flow, timeline
from minispark_stream.lens.view.board import Board
from minispark_stream.lens.view.merged_walk import stops
from minispark_stream.lens.view.page import page
from minispark_stream.lens.view.panels import PANELS
from minispark_stream.lens.view.step_list import step_list
from minispark_stream.lens.view.step_panel import about, recorded, said
from minispark_stream.lens.view.step_source import step_sources
from minispark_stream.lens.view.timeline import phases
from tests.unit.golden_trace import TRACE

EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&@look-trigger@"


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
            if outs.get(name) and isinstance(outs[name], list):
                outs[name] = [{EVIL: EVIL, "key": {EVIL: EVIL}, "value": EVIL, "store": EVIL, "partition": 0}]
        ins = {k: EVIL if isinstance(v, str) else v for k, v in e.inputs.items()}
        events.append(replace(e, inputs=ins, outputs=outs, error=EVIL if e.step == "addBatch" else None))
    return Trace(tuple(events), name=EVIL, plan=EVIL)


def test_the_page_has_every_step_of_every_batch(tmp_path: Path) -> None:
    html = TRACE.to_html(tmp_path / "trace.html").read_text(encoding="utf-8")
    data = data_of(html)
    computed = 6  # of the 7 tries to run a batch one failed; addBatch is shown when it begins, and when it ends
    assert len(data["steps"]) == len(TRACE.events) + computed
    assert [s["step"] for s in data["steps"][:4]] == ["startQuery", "populateStartOffsets", "trigger", "latestOffset"]
    assert set(data["steps"][0]["panels"]) == {"said", "recorded", "code", *PANELS}
    assert ["".join(found) for found in re.findall(r"data-from='\d+' data-to='\d+'>([^<]*)<i>([^<]*)<", html)] == [
        "batch 0", "batch 1", "batch 2", "batch 3 ✗", "batch 3 again", "batch 4", "batch 5 no data",
    ]


def test_a_page_calls_a_query_by_its_name_or_as_it_is_told_to() -> None:
    assert TRACE.name == "windows" and "<h1>windows on model</h1>" in page({"model": TRACE}, query="Word count")
    assert "<h1>Word count on model</h1>" in page({"model": Trace(())}, query="Word count")
    assert "<h1>A query on model</h1>" in page({"model": Trace(())})


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
    shown = " ".join(data_of(html)["pieces"])
    assert "&lt;script&gt;" in shown
    for part in (html, shown):
        assert not {"img"} & set(Elements(part).tags)
        assert not [name for name, _ in Elements(part).attributes if name.startswith("on")]


def test_a_step_keeps_only_the_panels_that_it_changes() -> None:
    data = data_of(page({"model": TRACE}))
    assert sum(len(set(s["panels"]) & set(PANELS)) for s in data["steps"]) < len(data["steps"]) * len(PANELS) / 2
    assert len(set(data["pieces"])) == len(data["pieces"])


def test_what_a_step_changed_is_marked() -> None:
    shown = {s.moment.key: s for s in stops({"model": TRACE})}
    written = Board().panels(shown[2, 0, "walCommit", 0])["logs"]
    assert "<mark><span class='whole'>logOffset 2</span></mark>" in written and "<mark>12:04:00</mark>" in written
    assert "<mark>" not in Board().panels(shown[2, 0, "runBatch", 0])["logs"]
    state = Board().panels(shown[3, 1, "stateOperator", 0])["state"]
    assert re.findall(r'<tr class="(\w+)">', state) == ["remove", "remove", "add", "same", "same"]


def test_a_step_tells_what_it_did_and_why() -> None:
    stop = next(s for s in stops({"model": TRACE}) if s.moment.key == (1, 0, "updateWatermark", 0))
    assert "the watermark goes from 11:57:00 to 12:04:00." in said(stop)
    text = about(STEPS["updateWatermark"])
    assert "WatermarkTracker.<wbr>updateWatermark" in text["why"] and "About watermark" in text["why"]
    assert "The watermark moves only between batches" in text["why"]


def test_an_engine_that_only_tells_more_is_quoted_alone() -> None:
    decides = {"join_type": "Inner", "leaves_ms": [1704111000000, None]}  # a report of Spark's does not say it
    knowing = [replace(e, inputs={**e.inputs, "decides": decides}) if e.step == "stateOperator" else e for e in TRACE.events]
    both = {"spark": replace(TRACE, engine="spark"), "model": replace(TRACE, events=tuple(knowing))}
    words = [said(stop) for stop in stops(both) if stop.moment.event.step == "stateOperator"]
    assert all(text.count("class='did'") == 1 and "left rows up to 2024-01-01 12:10:00 are evicted." in text for text in words)


def test_what_went_in_and_out_has_times_and_no_milliseconds_since_1970() -> None:
    logs = "walCommit", "commitOffsets"  # what a file of a log says is shown as it is there
    shown = [unescape(recorded(stop)) for stop in stops({"model": TRACE}) if stop.moment.event.step not in logs]
    assert not [found for words in shown for found in re.findall(r".{0,40}\b\d{13}\b", words)]
    assert any("<dt>watermark</dt><dd>2024-01-01 12:11:00</dd>" in words for words in shown)
    assert any("<dt>watermark</dt><dd>none yet</dd>" in words for words in shown)


def test_no_watermark_is_before_1970() -> None:
    """A join whose rows wait for five minutes subtracts them from the watermark that there is not yet."""
    early = {"decides": {"leaves_ms": [-300_001, None], "late_ms": 0}, "output": -300_001}
    first = (replace(e, inputs={**e.inputs, **early}) if e.step == "stateOperator" else e for e in TRACE.events)
    shown = [unescape(recorded(stop)) for stop in stops({"model": replace(TRACE, events=tuple(first))})]
    assert any('"none yet"' in words for words in shown) and "1969" not in "".join(shown)


def test_every_step_has_the_code_of_a_function_of_the_engine() -> None:
    assert set(step_sources()) == set(STEPS)
    for step, source in step_sources().items():
        path, line = source.where.split(", line ")
        lines = (Path(minispark_stream.__file__).parent / path).read_text(encoding="utf-8").splitlines()
        assert lines[int(line) - 1].strip() == source.code.splitlines()[0]
        assert f'"{step}"' in source.code and "<script" not in source.html
    assert step_sources()["getBatch"].code.startswith('@step("getBatch")\ndef get_batch(')


def test_there_is_a_button_for_every_step() -> None:
    micro_batches, continuous = (step_list([Trace((replace(TRACE.events[0], step=step),))]) for step in ("trigger", "runContinuous"))
    listed = [set(re.findall(r"data-step='(\w+)'", html)) for html in (micro_batches, continuous)]
    assert listed[0] | listed[1] == set(STEPS) and listed[0] & listed[1] == {"startQuery", "maintenance"}


def test_a_panel_that_is_equal_on_both_engines_is_shown_once() -> None:
    changed = (
        replace(e, outputs={**e.outputs, "rows": [{"word": "more"}]}) if e.step == "addBatch" and e.batch_id == 2 else e
        for e in TRACE.events
    )
    both = {"spark": Trace(tuple(changed), "spark"), "model": TRACE}
    stop = next(s for s in stops(both) if s.moment.key == (2, 0, "addBatch", 0))
    assert "equal on spark and model" in Board().panels(stop)["logs"]
    assert "class='differs'" in Board().panels(stop)["rows-out"] and "<h4>spark</h4>" in Board().panels(stop)["rows-out"]


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
    source = TRACE.draw(batch=0, every_step=True).source
    for title in ("(1) populateStartOffsets", "(2, 3) constructNextBatch", "(3) walCommit", "(5-8) queryPlanning", "(10) commitOffsets"):
        assert f"<B>{title}</B>" in source
    assert "offsets/0" in source and "commits/0" in source


def test_the_brief_diagram_has_five_boxes_one_of_which_is_a_frame_around_three() -> None:
    drawn = TRACE.draw(batch=0).source
    assert re.findall(r"<B>(.*?)</B>", drawn) == ["start", "trigger", "what is new?", "run the batch", "read", "state", "write", "done", "wait"]
    assert "up to 0" in drawn and ">offsets/0<" in drawn and ">commits/0<" in drawn


@pytest.mark.skipif(not which("dot"), reason="graphviz is not installed")
@pytest.mark.parametrize("engines", [("model",), ("spark", "model")], ids=len)
@pytest.mark.parametrize("every_step", [False, True])
def test_no_line_of_the_diagram_runs_through_a_box_or_a_title(every_step: bool, engines: tuple[str, ...]) -> None:
    drawn = json.loads(flow.draw(dict.fromkeys(engines, TRACE), batch=0, every_step=every_step).pipe("json"))
    things = drawn["objects"]
    boxes = {thing["_gvid"]: _around(thing["pos"], 72 * float(thing["width"]), 72 * float(thing["height"])) for thing in things if "pos" in thing}
    titles = [_around(thing["lp"], 72 * float(thing["lwidth"]), 72 * float(thing["lheight"])) for thing in things if "lp" in thing]
    assert len(boxes) > 12 and titles
    lines = [edge for edge in drawn["edges"] if edge.get("style") != "invis"]
    assert len(lines) > 14 and not any("label" in edge for edge in lines)
    for line in lines:
        others = [box for number, box in boxes.items() if number not in (line["tail"], line["head"])]
        crossed = [box for x, y in _points(line["pos"]) for box in (*others, *titles) if box[0] < x < box[1] and box[2] < y < box[3]]
        assert not crossed, (things[line["tail"]]["name"], things[line["head"]]["name"])


def _around(centre: str, width: float, height: float) -> tuple[float, float, float, float]:
    x, y = map(float, centre.split(","))
    return x - width / 2, x + width / 2, y - height / 2, y + height / 2


def _points(pos: str) -> Iterator[tuple[float, float]]:
    """Points on the Bézier curves of a line, twenty on each."""
    given = [complex(*map(float, point.split(","))) for point in pos.split() if point[0] not in "se"]
    for first in range(0, len(given) - 3, 3):
        a, b, c, d = given[first : first + 4]
        for t in (step / 20 for step in range(21)):
            point = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
            yield point.real, point.imag


@pytest.mark.parametrize(("every_step", "box"), [(False, "what is new?"), (True, "walCommit")])
def test_the_lit_step_has_its_colour(every_step: bool, box: str) -> None:
    lit = [line for line in TRACE.draw(batch=1, step="walCommit", every_step=every_step).source.splitlines() if "#ffd873" in line]
    assert len(lit) == 1 and box in lit[0]


@pytest.mark.parametrize(("every_step", "pale", "happened"), [(False, "read", "write"), (True, "getBatch", "addBatch")])
def test_a_step_that_did_not_happen_is_pale(every_step: bool, pale: str, happened: str) -> None:
    source = TRACE.draw(every_step=every_step).source
    nodes = {line.split()[0]: line for line in source.splitlines() if "label=" in line}
    assert "dashed" in nodes[pale] and "dashed" not in nodes[happened]


def test_an_unknown_step_or_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no step 'walcommit': is it walCommit"):
        TRACE.draw(step="walcommit")
    with pytest.raises(ValueError, match="the trace has no batch 99; batches: 0, 1"):
        TRACE.stepper(batch=99)
    with pytest.raises(ValueError, match="batch 1 of the trace has no step 'walcommit': is it walCommit"):
        TRACE.stepper(batch=1, step="walcommit")
    with pytest.raises(ValueError, match="there is no step 'dance'; steps: startQuery, populateStartOffsets, trigger"):
        TRACE.draw(step="dance")
    with pytest.raises(ValueError, match="the trace has no batch 99; batches: 0, 1"):
        TRACE.draw(batch=99)


def test_a_picture_of_two_engines_names_them() -> None:
    source = flow.draw({"spark": TRACE, "model": TRACE}).source
    assert "spark and model: one line says what both did" in source
    assert "one line says" not in TRACE.draw().source


# -- durations ---------------------------------------------------------------------------------------------


def test_the_phases_of_a_batch_add_up_to_its_duration() -> None:
    batch = TRACE.batches[0]
    assert sum(phases(batch).values()) == pytest.approx(batch.durations["triggerExecution"], abs=5)


def test_a_batch_that_failed_has_the_durations_of_its_steps() -> None:
    assert phases(TRACE.batches[3])["addBatch"] > 0


def test_a_long_trace_shows_the_durations_of_its_newest_batches() -> None:
    assert "batch 119" in timeline.svg(TRACE.batches[:1] * 20 + tuple(replace(TRACE.batches[0], batch_id=i) for i in range(120)))
    assert "batch 19<" not in timeline.svg(tuple(replace(TRACE.batches[0], batch_id=i) for i in range(120)))


def test_two_traces_have_one_scale_and_the_names_of_their_engines() -> None:
    slow = (replace(e, duration_ms=10 * e.duration_ms, engine="spark") for e in TRACE.events if e.step != "finishTrigger")
    drawn = TRACE.timeline(Trace(tuple(slow), "spark")).svg
    assert re.findall(r'font-weight="bold">(\w+)<', drawn) == ["model", "spark"]
    assert drawn.count(">batch 0<") == 2 and 'font-weight="bold"' not in TRACE.timeline().svg
    own, beside = (float(re.findall(r'width="([\d.]+)" height="16"', svg)[0]) for svg in (TRACE.timeline().svg, drawn))
    assert beside < own / 5


# -- the stepper -------------------------------------------------------------------------------------------


def test_the_stepper_is_the_page_in_a_frame_of_its_own() -> None:
    html = TRACE.stepper(1, "walCommit")._repr_html_()
    (frame,) = re.findall(r'^<iframe title="Stepper of model" sandbox="allow-scripts" [^<>]*></iframe>$', html)
    assert unescape(re.findall(r'srcdoc="([^"]*)"', frame)[0]) == page({"model": TRACE}, batch=1, step="walCommit")
    assert repr(TRACE.stepper()) == "Stepper of model"
    assert Elements(evil_stepper := Trace(evil().events).stepper()._repr_html_()).tags == ["iframe"], evil_stepper[:200]


def test_a_stepper_begins_where_it_is_told_to() -> None:
    begins = [data_of(page({"model": TRACE}, batch=batch, step=step))["first"] for batch, step in ((None, None), (None, "trigger"), (1, "trigger"))]
    assert begins == sorted(set(begins)) and begins[0] == 0
    with pytest.raises(ValueError, match="the trace has no batch 77; batches: 0, 1"):
        TRACE.stepper(77, "walCommit")


def test_an_empty_trace_has_a_stepper() -> None:
    assert data_of(page({"model": Trace(())}))["steps"] == [] and Trace(()).stepper()._repr_html_()
