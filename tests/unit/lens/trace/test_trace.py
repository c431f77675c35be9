"""A trace as data and as text: files, batches, restarts. The trace was recorded by tests/spark/test_trace_windows.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.lens.trace import recorder as recorder_module
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recorder import Recorder
from minispark_stream.lens.trace.trace import Trace
from tests.unit.golden_trace import GOLDEN, TRACE


@pytest.fixture(scope="module")
def windows() -> Trace:
    return TRACE


def test_the_text_of_a_trace_is_the_golden_text(windows: Trace) -> None:
    assert windows.to_text() == (GOLDEN / "trace_windows.txt").read_text(encoding="utf-8")


def test_the_text_holds_no_ids_no_wall_clock_and_no_durations(windows: Trace) -> None:
    moved = (
        replace(
            e, start_ms=e.start_ms + 1e9, duration_ms=7.5,
            outputs={**e.outputs, **({"id": "other", "runId": "other"} if e.step == "startQuery" else {})},
        )
        for e in windows.events
    )
    assert Trace(tuple(moved), name=windows.name, plan=windows.plan).to_text() == windows.to_text()


def test_a_recorder_keeps_so_many_triggers_and_so_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_TRIGGERS", 8)
    monkeypatch.setattr(recorder_module, "MAX_CHARACTERS", 1000)

    def run(recorder: Recorder, triggers: int, size: int) -> None:
        for i in range(triggers):
            with recorder.step("getBatch", start=f"{i:0{size}}") as step:
                step.out(offsets={"ends": [f"{i:0{size}}"]})
            recorder.next_trigger(ran=True)

    recorder = Recorder()
    run(recorder, 20, 10)
    assert [e.trigger for e in recorder.events] == list(range(12, 20))
    run(recorder, 20, 300)
    assert [e.trigger for e in recorder.events] == [37, 38, 39]
    assert all(e.inputs["start"] is e.outputs["offsets"]["ends"][0] for e in recorder.events), "one object for equal texts"
    run(recorder, 1, 5000)
    assert [e.trigger for e in recorder.events] == [40]


def test_durations_are_in_the_text_if_asked_for(windows: Trace) -> None:
    assert " ms]" in windows.to_text(durations=True)


def test_rows_that_arrive_in_another_order_give_the_same_text(windows: Trace) -> None:
    turned = (
        replace(e, outputs={**e.outputs, "rows": e.outputs["rows"][::-1]}) if isinstance(e.outputs.get("rows"), list) else e
        for e in windows.events
    )
    assert replace(windows, events=tuple(turned)).to_text() == windows.to_text()


def test_a_saved_trace_is_loaded_as_it_was(windows: Trace, tmp_path: Path) -> None:
    assert Trace.load(windows.save(tmp_path / "again.json")) == windows


def test_a_batch_that_runs_again_after_a_restart_is_there_twice(windows: Trace) -> None:
    assert [(b.batch_id, b.rerun, b.error is not None) for b in windows.batches] == [
        (0, False, False), (1, False, False), (2, False, False), (3, False, True), (3, True, False), (4, False, False),
        (5, False, False),
    ]


def test_adding_traces_numbers_the_triggers_on() -> None:
    def run(batch_id: int) -> Trace:
        return Trace((Event("trigger", "model", 0, batch_id, 0, 0.0, 1.0), Event("maintenance", "model", None, None, 0, 0.0, 1.0)))

    assert [e.trigger for e in (run(0) + run(1) + run(2)).events] == [0, None, 1, None, 2, None]


def test_the_progress_of_a_batch_is_at_hand(windows: Trace) -> None:
    assert windows.batches[4].progress["numInputRows"] == 2
    assert windows.batches[3].progress == {}


def test_the_batches_are_a_table_in_pandas(windows: Trace) -> None:
    table = windows.to_pandas()
    assert table[["batch", "rows_in", "rows_out", "state_rows", "late_rows"]].iloc[4].to_list() == [3, 2, 2, 3, 0]
    assert str(table["watermark"].iloc[4]) == "2024-01-01 12:11:00+00:00" and table["addBatch"].iloc[4] > 0
    assert list(table["rerun"]) == [False, False, False, False, True, False, False] and "No space left" in table["error"].iloc[3]
    assert Trace(()).to_pandas().empty


def of(step: str, trace: dict[str, Any]) -> dict[str, Any]:
    """A step of the golden trace, which has them as a file has, to be changed."""
    return next(event for event in trace["events"] if event["step"] == step)


def deep(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for _ in range(levels):
        tree = {"below": [tree]}
    return tree


CHANGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("another format", lambda t: t.update(format="something"), 'expected a JSON object with "format"'),
    ("a later version", lambda t: t.update(version=2), "version 2 is not supported, only 1"),
    ("an unknown engine", lambda t: t.update(engine="flink"), 'engine must be "model" or "spark"'),
    ("no events", lambda t: t.pop("events"), "events must be a list"),
    ("an unknown step", lambda t: t["events"][2].update(step="dance"), "unknown step 'dance'"),
    ("no step", lambda t: t["events"][2].pop("step"), "unknown step None"),
    ("a field too many", lambda t: t["events"][2].update(code="x"), "event 2 has unknown fields: code"),
    ("a field too few", lambda t: t["events"][2].pop("depth"), "event 2: depth must be a whole number"),
    ("text as a batch id", lambda t: t["events"][2].update(batch_id="1"), "event 2: batch_id must be a whole number"),
    ("a depth that would overflow", lambda t: t["events"][2].update(depth=10**9), "event 2: depth must be"),
    ("a time that is none", lambda t: t["events"][2].update(start_ms=float("nan")), "event 2: start_ms must be a number"),
    ("inputs that are a list", lambda t: t["events"][2].update(inputs=[1]), "event 2, latestOffset: inputs must be an object"),
    ("a watermark that is text", lambda t: of("updateWatermark", t)["outputs"].update(watermark="x"),
     "updateWatermark: outputs.watermark must be a whole number"),
    ("a number without bounds", lambda t: of("queryPlanning", t)["inputs"].update(timestamp=10**40), "timestamp must be a whole number"),
    ("an entry in a list", lambda t: of("stateOperator", t)["outputs"]["after"].append(3), "outputs.after[2] must be an object"),
    ("a text in a report", lambda t: of("finishTrigger", t)["outputs"]["progress"].update(sources=[{"numInputRows": "2"}]),
     "finishTrigger: outputs.progress.sources[0].numInputRows must be a whole number"),
    ("code that did not run", lambda t: t["events"][2]["outputs"].update(code=[["run_batch.py", 1, "f"]]), "outputs.code[0] must be a list of 4"),
    ("a plan without end", lambda t: of("queryPlanning", t)["outputs"].update(tree=deep(200)), "is nested too deeply"),
    ("an event that is text", lambda t: t["events"].insert(0, "x"), "event 0 must be an object"),
]


@pytest.mark.parametrize("change, says", [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_changed_file_is_refused_by_name_and_reason(
    windows: Trace, tmp_path: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    value = json.loads(json.dumps(windows.to_json()))
    change(value)
    file = tmp_path / "changed.json"
    file.write_text(json.dumps(value))
    with pytest.raises(ValueError, match="changed.json is not a saved trace") as refused:
        Trace.load(file)
    assert says in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", "[" * 100_000, "\x00"], ids=str.__len__)
def test_a_file_that_is_not_a_trace_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "not-a-trace.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="not-a-trace.json is not a saved trace"):
        Trace.load(file)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="binary.json is not a saved trace"):
        Trace.load(file)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Trace.load(tmp_path / "missing.json")
