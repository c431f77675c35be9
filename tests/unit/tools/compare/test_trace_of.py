"""The trace of real Structured Streaming: what progress reports and log files tell, and what is said where they tell no more."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, StreamingQueryProgress

from minispark_stream import TraceListener, trace_of
from minispark_stream.engine.times import iso_ms, iso_time
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.tools.compare import trace_listener
from minispark_stream.tools.compare.spark_batch import SparkBatch, spark_batches
from minispark_stream.tools.compare.spark_trace import spark_trace
from minispark_stream.tools.held_query import Known

NOON_MS = iso_ms("2024-01-01T12:00:00.000Z") or 0
QUERY, RUN, NEXT_RUN = (str(uuid.UUID(int=i)) for i in range(3))
FIRST_TRY = {"latestOffset": 1, "walCommit": 2, "getBatch": 1, "queryPlanning": 1, "addBatch": 5, "commitOffsets": 1, "triggerExecution": 12}
RERUN = {name: ms for name, ms in FIRST_TRY.items() if name not in ("latestOffset", "walCommit")}


def report(n: int, took: Mapping[str, int] = FIRST_TRY, run: str = RUN) -> dict[str, Any]:
    """Batch `n` of a windowed count: 12:0n arrives, and the watermark is that time of the batch before."""
    times = {"watermark": iso_time(watermark(n)), **{name: iso_time(NOON_MS + n * 60_000) for name in ("min", "avg", "max")}}
    counts = dict.fromkeys(("numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark", "numShufflePartitions", "numStateStoreInstances"), 0)
    operator = {"operatorName": "stateStoreSave", "numRowsTotal": n + 1, **counts, **dict.fromkeys(("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs", "memoryUsedBytes"), 1)}
    rates = {"numInputRows": 1, "inputRowsPerSecond": 2.0, "processedRowsPerSecond": 3.0}
    source = {"description": "FileStreamSource[file:/in]", "startOffset": f'{{"logOffset": {n - 1}}}', "endOffset": f'{{"logOffset": {n}}}', "latestOffset": None, **rates}
    return {
        "id": QUERY, "runId": run, "name": None, "timestamp": "2026-01-01T00:00:00.000Z", "batchId": n, "batchDuration": 12, **rates,
        "durationMs": dict(took), "eventTime": times, "stateOperators": [operator], "sources": [source], "sink": {"description": "Sink", "numOutputRows": 1},
    }


def watermark(n: int) -> int:
    return NOON_MS + (n - 1) * 60_000 if n else 0


def logs(n: int) -> dict[str, str]:
    return {
        f"offsets/{n}": f'v1\n{{"batchWatermarkMs":{watermark(n)},"batchTimestampMs":7}}\n{{"logOffset":{n}}}',
        f"commits/{n}": f'v1\n{{"nextBatchWatermarkMs":{watermark(n + 1)}}}',
    }


def steps(trace: Trace, step: str) -> list[Any]:
    return [(e.batch_id, e.inputs, e.outputs) for e in trace.events if e.step == step]


def pictures(trace: Trace, folder: Path) -> str:
    """Draw everything that there is to draw; the text of it."""
    assert trace.event_time().svg.startswith("<svg") and trace.timeline().svg and trace.draw().source
    assert trace.to_html(folder / "trace.html").stat().st_size and trace.stepper()._repr_html_()
    assert list(trace.to_pandas()["batch"]) == [batch.batch_id for batch in trace.batches]
    return trace.to_text()


def test_a_batch_that_runs_again_shows_in_its_progress_report_and_a_new_run_in_its_id() -> None:
    reports = [report(0), report(1), report(2, RERUN, NEXT_RUN), report(3, run=NEXT_RUN), report(4)]
    trace = spark_trace([SparkBatch(one, logs(one["batchId"])) for one in reports])
    assert [(n, outs["rerun"]) for n, _, outs in steps(trace, "populateStartOffsets")] == [(0, False), (2, True), (4, False)]
    assert [batch.rerun for batch in trace.batches] == [False, False, True, False, False]
    assert 2 not in [n for n, _, _ in steps(trace, "walCommit")]
    late = [ins["watermarkLate"] for _, ins, _ in steps(trace, "queryPlanning")]
    assert late == [0, *map(watermark, range(4))]
    assert trace.note is None


def test_what_is_missing_is_said_and_what_is_there_is_drawn(tmp_path: Path) -> None:
    """Reports from batch 7 on, and no checkpoint: watermarks come from the reports, the late one of the first is not known."""
    trace = spark_trace(spark_batches(str(tmp_path / "gone"), [report(7), {"durationMs": {"latestOffset": 1}}, report(8)]))
    assert trace.note is not None and trace.note.startswith("Batches before 7 are missing")
    assert "The checkpoint is not there" in trace.note
    assert steps(trace, "populateStartOffsets") == []
    planned = [(ins["watermarkLate"], ins["watermarkEviction"]) for _, ins, _ in steps(trace, "queryPlanning")]
    assert planned == [(None, watermark(7)), (watermark(7), watermark(8))]
    assert [outs["watermark"] for _, _, outs in steps(trace, "updateWatermark")] == [watermark(8), None]
    assert trace.note in pictures(trace, tmp_path) and trace.note in trace._repr_html_()
    assert Trace.load(trace.save(tmp_path / "trace.json")) == trace


def test_whether_a_batch_would_run_without_its_rows_is_told_only_where_there_were_none() -> None:
    """Spark reports of a batch that it had new data; what it would have done without, nobody knows."""
    (source,) = report(1)["sources"]
    no_data = {**report(1), "sources": [{**source, "endOffset": source["startOffset"]}]}
    trace = spark_trace([SparkBatch(one, logs(one["batchId"])) for one in (report(0), no_data)])
    decided = [(outs["newData"], outs.get("anotherBatch")) for _, _, outs in steps(trace, "constructNextBatch")]
    assert decided == [(True, None), (False, True)]
    said = [narrate(e) for e in trace.events if e.step == "constructNextBatch"]
    assert said[0] == "there is new data: run a batch" and said[1].startswith("no new data, but a stateful operator has work")


def test_a_new_file_without_rows_is_new_data_as_in_the_model() -> None:
    (source,) = report(1)["sources"]
    empty_file = {**report(1), "numInputRows": 0, "sources": [{**source, "numInputRows": 0}]}
    nothing = {**report(2), "sources": [{**source, "startOffset": source["endOffset"]}]}
    trace = spark_trace([SparkBatch(one, {}) for one in (report(0), empty_file, nothing)])
    assert [outs["message"] for _, _, outs in steps(trace, "trigger")] == [
        "Processing new data", "Processing new data", "No new data but cleaning up state",
    ]


def test_a_query_that_failed_has_a_last_batch_that_failed(tmp_path: Path) -> None:
    for reports, failed in (([], 0), ([report(0), report(1)], 2)):
        trace = spark_trace([SparkBatch(one, logs(one["batchId"])) for one in reports], error="ValueError: boom")
        assert (trace.batches[-1].batch_id, trace.batches[-1].error) == (failed, "ValueError: boom")
        assert f"batch {failed} begins; it ends with an error: ValueError: boom" in trace.to_text()
        assert "failed: ValueError: boom" in trace._repr_html_()
        assert "ends with an error: ValueError: boom" in trace.to_html(tmp_path / "failed.html").read_text()
    pictures(trace, tmp_path)


def test_a_listener_keeps_the_newest_batches_of_the_newest_queries_over_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(streams=SimpleNamespace(get=lambda id: None if id == QUERY[:-1] + "9" else object()))
    monkeypatch.setattr(trace_listener, "look", lambda query, checkpoint=None: Known("/gone", "append", "a plan", ("0",)))
    listener = TraceListener(session, max_batches=3, max_queries=2)

    def start(id: str, name: str | None, run: str = RUN) -> None:
        listener.onQueryStarted(QueryStartedEvent(uuid.UUID(id), uuid.UUID(run), name, "", set()))

    def progress(*reports: dict[str, Any]) -> None:
        for one in reports:
            listener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(one)))

    start(QUERY, "counts")
    progress(report(0), report(1))
    start(QUERY, "counts", NEXT_RUN)
    progress(report(2, RERUN, NEXT_RUN), report(3, run=NEXT_RUN))
    listener.onQueryTerminated(SimpleNamespace(id=uuid.UUID(QUERY), exception="boom"))  # type: ignore[arg-type]
    trace = listener.traces["counts"]
    assert [(b.batch_id, b.rerun) for b in trace.batches] == [(1, False), (2, True), (3, False), (4, False)]
    assert trace.batches[-1].error == "boom" and trace.plan == "a plan"
    start(QUERY[:-1] + "9", "of another session")
    for i in "67":
        start(QUERY[:-1] + i, None)
    assert list(listener.traces) == [QUERY[:-1] + "6", QUERY[:-1] + "7"]


def test_what_is_no_query_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"the StreamingQuery that start\(\) returned, or progress reports, not int"):
        trace_of(wrong)
    with pytest.raises(FileNotFoundError):
        trace_of("counts")


def test_a_batch_in_real_time_mode_is_logged_when_it_ends(tmp_path: Path) -> None:
    """Nothing is planned before it is read, and a report without a `walCommit` is not that of a batch that runs again."""
    reports = [report(0), report(1), report(2, RERUN, NEXT_RUN)]
    trace = spark_trace([SparkBatch(one, logs(one["batchId"]), is_real_time=True) for one in reports])
    order = [e.step for e in trace.batches[1].events if e.step in ("constructNextBatch", "getBatch", "addBatch", "walCommit", "commitOffsets")]
    assert order == ["constructNextBatch", "getBatch", "addBatch", "walCommit", "commitOffsets"]
    assert not any(batch.rerun for batch in trace.batches) and "latestOffset" not in {e.step for e in trace.events}
    text = pictures(trace, tmp_path)
    assert text.index("a plan that reads on from") < text.index("offsets/0 written: read up to")
    assert "there is always a batch, and how far it reads is known and logged when it ends" in text
    assert trace.epochs().svg.startswith("<svg")
