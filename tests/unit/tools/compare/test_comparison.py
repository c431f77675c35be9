"""What a comparison says of two runs: no red where the engines agree, no green where nothing was proven."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.board import Board
from minispark_stream.lens.view.merged_walk import stops
from minispark_stream.lens.view.page import page
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.engine_run import Cause, EngineBatch, EngineRun, cause_of
from minispark_stream.tools.compare.spark_batch import SparkBatch
from minispark_stream.tools.compare.spark_trace import spark_trace


def failed(message: str | None) -> EngineRun:
    """A run that ended before its first batch did."""
    return EngineRun((), Trace(()), {}, message and "STREAM_FAILED", cause_of(message or ""))


def failing(reason: str) -> str:
    return f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {reason} SQLSTATE: XXKST\n=== Streaming Query ==="


DIVIDED = failing(
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. "
    "SQLSTATE: 22012 SQLSTATE: 39000"
)


def test_two_runs_that_fail_at_once_are_not_reported_as_a_success() -> None:
    both = Comparison(failed(DIVIDED), failed(DIVIDED), ("x",))
    said = "No batch has ended well: both engines fail alike: DIVIDE_BY_ZERO: Division by zero."
    assert both.differences == () and both.to_text() == said
    assert repr(both) == "<Comparison: 0 batches, both engines fail alike>" and "<table" not in both._repr_html_()
    html = both._repr_html_()
    assert said in html and "#1b6e3c, #8fd3a1)'><b>" not in html


def test_a_comparison_of_nothing_proves_nothing() -> None:
    nothing = Comparison(failed(None), failed(None), ("x",))
    assert nothing.to_text() == "No batch ran: there is nothing to compare."
    assert repr(nothing) == "<Comparison: 0 batches, nothing to compare>"
    no_row = Comparison(ran(numInputRows=0), ran(numInputRows=0), ("x",))
    assert no_row.to_text().endswith("1 batch, and no row: there is nothing to compare.")
    assert not any("#1b6e3c, #8fd3a1)'><b>" in one._repr_html_() for one in (nothing, no_row))
    some = Comparison(ran(numInputRows=2), ran(numInputRows=2), ("x",))
    assert repr(some) == "<Comparison: 1 batches, 0 differences>"
    assert some.to_text().endswith("1 batch: both engines agree.") and "#1b6e3c, #8fd3a1)'><b>" in some._repr_html_()


def test_the_offsets_of_several_folders_leave_room_for_the_rest_of_a_line() -> None:
    two, one, kafka = ([{"startOffset": None, "endOffset": json.dumps(end), "numInputRows": 1} for end in ends] for ends in (
        ({"logOffset": 3}, {"logOffset": 12}), ({"logOffset": 3},), ({"logOffset": 3}, {"clicks": {"0": 5}}),
    ))
    said = [Comparison(run, run, ("x",)).to_text() for run in (ran(sources=ends, numInputRows=1) for ends in (two, one, kafka))]
    assert " logOffset 3/12 " in said[0] and ' {"logOffset":3} ' in said[1] and ' {"logOffset":3} {"clicks":{"0":5}} ' in said[2]


def ran(files: Any = None, **progress: Any) -> EngineRun:
    """A run of one batch."""
    report = {**PROGRESS, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "durationMs": {}, **progress}
    return EngineRun((EngineBatch(0, report, (), {}),), Trace(()), files or {})


def test_before_there_is_a_watermark_the_table_says_so() -> None:
    both = Comparison(ran(), ran(), ("x",))
    assert both.table()["watermark"].tolist() == ["none yet"] and "1970" not in both.to_text() + both._repr_html_()


def test_what_a_file_holds_is_said_in_records() -> None:
    spark = ran({"state/1/0/1.delta": Counter({(b"\0k", b"\0v"): 1}), "state/2/0/1.changelog": {b"k": b"v"}})
    model = ran({"state/1/0/1.delta": Counter({(b"\0k", b"\0v"): 1, (b"\0", None): 1}), "state/2/0/1.changelog": {b"k": None}})
    found = [(d.what, d.spark, d.model) for d in Comparison(spark, model, ("x",)).differences]
    assert found == [
        ("state/1/0/1.delta", "1 record, none of them only there", "2 records, 1 of them only there"),
        ("state/2/0/1.changelog", "1 record, 1 of them only there", "1 record, 1 of them only there"),
    ]
    damaged = Comparison(ran({"sources/0/0": b"\xff\0"}), ran({"sources/0/0": b"v1"}), ("x",)).differences
    assert [(d.spark, d.model) for d in damaged] == [("2 bytes", "v1")]


def test_timeouts_by_the_clock_count_from_the_time_of_their_batch() -> None:
    def waiting(began_ms: int, timeout_ms: int, schema: bytes = b"groupState timeoutTimestamp") -> EngineRun:
        state = bytes(16) + timeout_ms.to_bytes(8, "little", signed=True) + b"\1"
        files = {"state/0/0/_metadata/schema": schema, "state/0/1/1.delta": Counter({(b"k", state): 1, (b"gone", None): 1})}
        run = ran(files)
        entry = f'v1\n{{"batchTimestampMs":{began_ms}}}\n0'
        return replace(run, batches=(replace(run.batches[0], logs={"offsets/0": entry}),))

    def differ(one: EngineRun, other: EngineRun) -> list[str]:
        return [d.what for d in Comparison(one, other, ("x",)).differences]

    assert differ(waiting(5000, 6000), waiting(7000, 8000)) == []
    assert differ(waiting(5000, 6000), waiting(7000, 6000)) == []  # event times are what they are
    assert differ(waiting(5000, 6000), waiting(7000, 8001)) == ["state/0/1/1.delta"]
    assert differ(waiting(5000, -1), waiting(7000, 1999)) == ["state/0/1/1.delta"]  # one has a timeout, the other has none
    assert differ(waiting(5000, 6000, b"x"), waiting(7000, 8000, b"x")) == ["state/0/1/1.delta"]  # no timeout at all


def test_engines_that_fail_for_different_reasons_differ() -> None:
    cast = DIVIDED.replace("DIVIDE_BY_ZERO] Division by zero", "CAST_INVALID_INPUT] The value 'a' of the type")
    both = Comparison(failed(DIVIDED), failed(cast), ("x",))
    assert [d.what for d in both.differences] == ["cause of the error"]


def test_the_cause_of_an_error_is_the_innermost_one() -> None:
    assert cause_of(DIVIDED) == Cause("DIVIDE_BY_ZERO", "Division by zero.")
    worker = failing("[PYTHON_EXCEPTION] An exception was thrown.\nTraceback:\n  File x\nValueError: bad row")
    assert cause_of(worker) == Cause("ValueError", "bad row")
    assert cause_of("nothing is named here") is None
    damaged = failing("Failed to read. [MALFORMED_LOG_FILE] failed to read file:/tmp/run-1/offsets/2. SQLSTATE: KD002. Restore it.")
    assert str(cause_of(damaged)) == "MALFORMED_LOG_FILE: failed to read 2. Restore it."
    unnamed = failed(failing("batch 4 doesn't exist"))
    assert unnamed.error == "STREAM_FAILED: batch 4 doesn't exist" and unnamed.cause == Cause("", "batch 4 doesn't exist")
    assert failed(DIVIDED).error == "STREAM_FAILED: DIVIDE_BY_ZERO: Division by zero." and failed(None).error is None
    assert Comparison(unnamed, failed(DIVIDED), ("x",)).differences == ()  # a cause without a name is not compared


def test_a_query_with_two_sources_is_not_marked_different_where_the_engines_agree() -> None:
    """Two inputs of one folder, of which only one has data: the same name twice, and an offset that is null."""
    both = stops({"spark": spark_trace([SparkBatch(PROGRESS, LOGS)]), "model": MODEL})
    marked = [(s.moment.event.step, name) for s in both for name, html in Board().panels(s).items() if "different" in html]
    assert len(both) == len(MODEL.events)
    assert not marked
    other = {"spark": spark_trace([SparkBatch(PROGRESS, LOGS, rows=[{"value": "b"}])]), "model": MODEL}
    for differing, says in ((None, True), ({0}, True), (set(), False), ({1}, False)):
        assert any("different" in html for s in stops(other) for html in Board(None, differing).panels(s).values()) == says
        assert ('"differs":1' in page(other, differing=differing)) == says


NAMES = ("0: FileStreamSource[file:/in]", "1: FileStreamSource[file:/in]")
OFFSET = '{"logOffset":0}'
LOGS = {"offsets/0": f'v1\n{{"batchWatermarkMs":0}}\n{OFFSET}\n-', "commits/0": 'v1\n{"nextBatchWatermarkMs":0}'}
PROGRESS: dict[str, Any] = {
    "batchId": 0, "numInputRows": 2, "stateOperators": [], "sink": {"description": "Sink", "numOutputRows": 2},
    "sources": [
        {"description": "FileStreamSource[file:/in]", "startOffset": None, "endOffset": '{"logOffset": 0}', "numInputRows": 2},
        {"description": "FileStreamSource[file:/in]", "startOffset": "null", "endOffset": "null", "numInputRows": 0},
    ],
}


def of_model(step: str, depth: int, ins: dict[str, Any], outs: dict[str, Any]) -> Event:
    return Event(step, "model", 0, 0, depth, 0.0, 1.0, ins, outs)


MODEL = Trace((
    of_model("populateStartOffsets", 0, {}, {"batchId": 0, "rerun": False, "start": {}, "end": {}, "watermark": 0}),
    of_model("latestOffset", 2, {"source": NAMES[0], "start": None}, {"end": OFFSET, "files": []}),
    of_model("latestOffset", 2, {"source": NAMES[1], "start": None}, {"end": None, "files": []}),
    of_model("walCommit", 2, {"file": "offsets/0"}, {"text": LOGS["offsets/0"]}),
    of_model("constructNextBatch", 1, {"start": {}}, {"end": {NAMES[0]: OFFSET}, "newData": True, "run": True, "watermark": 0}),
    of_model("getBatch", 2, {"source": NAMES[0], "start": None, "end": OFFSET}, {"files": [], "rows": [{"value": "a"}]}),
    of_model("queryPlanning", 2, {"watermarkLate": None, "watermarkEviction": None}, {"operators": []}),
    of_model("addBatch", 2, {"sink": "Sink", "batchId": 0}, {"rows": [{"value": "a"}], "emitted": 1, "numOutputRows": 2}),
    of_model("updateWatermark", 2, {"watermark": 0}, {"watermark": 0}),
    of_model("commitOffsets", 2, {"file": "commits/0"}, {"text": LOGS["commits/0"]}),
    of_model("runBatch", 1, {"batchId": 0, "start": {}, "end": {NAMES[0]: OFFSET}}, {}),
    of_model("finishTrigger", 1, {}, {"progress": PROGRESS}),
    of_model("trigger", 0, {"trigger": "AvailableNowTrigger"}, {"ran": True}),
))


def test_a_column_without_any_value_is_named_where_the_engines_agree() -> None:
    rows = [{"n": None, "word": "a"}, {"n": None, "word": None}]
    read = Trace((of_model("getBatch", 2, {"source": NAMES[0]}, {"files": ["a.json"], "rows": rows}),))
    both = Comparison(ran(), replace(ran(), trace=read), ("x",))
    assert both.to_text().endswith("1 batch: both engines agree.\n  n is null in every row of the first batch: if the files have values "
                                   "there, the schema has another type for them.")


def test_equal_rows_are_shown_as_often_as_they_were_sent() -> None:
    def run(*rows: tuple[str, ...]) -> Any:
        return SimpleNamespace(batches=[EngineBatch(0, {}, rows, {})])

    two: Any = SimpleNamespace(spark=run(("a",), ("a",), ("b",)), model=run(("a",), ("a",), ("a",)), columns=("k",))
    assert Comparison.rows(two, 0).to_numpy().tolist() == [["a", "both"], ["a", "both"], ["a", "model only"], ["b", "spark only"]]
