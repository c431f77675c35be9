"""The trace of a query of real Structured Streaming that somebody else started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, TraceListener, explain_output, side_by_side, trace_of
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace

FEED = [["12:01,a", "12:07,b"], ["12:21,c"], ["12:04,a", "12:40,d"]]
SCRIPT = """
import sys, time
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).option("startTimestamp", 1000).load()
counts = rows.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second")).count()
query = counts.writeStream.format("memory").queryName("counts").trigger(processingTime="1 second").start()
while len(query.recentProgress) < 3:
    time.sleep(0.05)
assert "minispark_stream" not in sys.modules
from minispark_stream import explain_output, trace_of

running = trace_of(query)
print("running:", len(running.batches) >= 3, running.note, "offsets/1" in running.to_text())
query.stop()
ended = trace_of(query)
print("ended:", ended.note)
for trace in (running, ended):
    trace.to_html("trace.html"), trace.event_time(), trace.timeline(), trace.draw(), trace.stepper(), trace.to_pandas()
print(explain_output(query))
"""


def windows(session: Any, folder: str) -> DataFrame:
    parts = F.split("value", ",")
    time = F.to_timestamp(F.concat(F.lit("2024-01-01 "), parts[0]))
    rows = session.readStream.text(folder).select(time.alias("t"), parts[1].alias("k")).withWatermark("t", "10 minutes")
    return rows.groupBy(F.window("t", "5 minutes")).count()


def without_rows(trace: Trace) -> list[Event]:
    """What only the sink knows, and where a listener is told the same in another spelling."""
    outs = [{k: v for k, v in e.outputs.items() if k not in ("rows", "emitted", "progress", "metrics")} for e in trace.events]
    return [replace(event, outputs=out) for event, out in zip(trace.events, outs)]


def test_it_is_the_trace_that_side_by_side_records(spark: SparkSession, tmp_path: Path) -> None:
    listener, queries = TraceListener(spark), []
    spark.streams.addListener(listener)
    try:
        grab = lambda folder: queries.extend(spark.streams.active)
        recorded = side_by_side(spark, windows, [*FEED, grab], directory=str(tmp_path), progress=False).spark.trace
        found = trace_of(queries[0])
        heard = _until(lambda: listener.traces[queries[0].id], len(found.batches))
    finally:
        spark.streams.removeListener(listener)
    assert without_rows(found) == without_rows(recorded) == without_rows(heard)
    assert found.plan == heard.plan == recorded.plan and found.note is None
    assert "output mode append" in str(explain_output(queries[0]))
    note = found.fate({"value": "12:04,a"}).note  # it says what to ask instead; this asks it
    asked = eval(note.rpartition(" ask ")[2], {"side_by_side": side_by_side, "spark": spark, "query": windows, "feed": FEED})
    assert "dropped: its window ended 12:05:00, at or before the late watermark, 12:11:00" in str(asked), note


def test_the_error_of_a_query_is_in_its_trace_and_on_its_page(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    def fall(batch: DataFrame, number: int) -> None:
        raise ValueError("the cat fell")

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.txt").write_text("1\n")
    listener = TraceListener(spark)
    spark.streams.addListener(listener)
    try:
        for session in (spark, mini):
            query = session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(fall).trigger(availableNow=True).start()
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
            traces = [trace_of(query), *([_until(lambda id=query.id: listener.traces[id], 1)] if session is spark else [])]
            for trace in traces:
                shown = [trace.to_text(), trace.to_html(tmp_path / "run.html").read_text(), trace._repr_html_(), trace.batches[-1].error]
                assert all("ValueError: the cat fell" in str(one) for one in shown), (session, shown[0])
                assert trace.batches[-1].batch_id == 0
    finally:
        spark.streams.removeListener(listener)


def test_a_batch_in_real_time_mode_is_read_before_it_is_logged(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    memory = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
    stream = memory.apply(spark._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.STRING())
    writer: Any = DataFrame(stream.toDF(), spark).writeStream.format("console").outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(realTime="5 seconds").start()
    try:
        deadline = time.monotonic() + 120
        while len(trace_of(query).batches) < 2 and time.monotonic() < deadline:
            stream.addData(jvm.PythonUtils.toSeq(["a"]))
            query.awaitTermination(0.5)
        trace = trace_of(query)
    finally:
        query.stop()
    logged = ("constructNextBatch", "getBatch", "addBatch", "walCommit", "commitOffsets")
    for batch in trace.batches[:2]:
        assert [e.step for e in batch.events if e.step in logged] == list(logged)
    assert "as long as the batch lasts" in trace.to_text() and not any(batch.rerun for batch in trace.batches)


def test_a_query_of_the_model_goes_the_same_way(mini: MiniSparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.txt").write_text("12:01,a\n")
    listener = TraceListener(mini)
    mini.streams.addListener(listener)
    for _ in range(2):
        writer = windows(mini, str(tmp_path / "in")).writeStream.format("noop").queryName("counts").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        assert trace_of(query) == query.trace  # type: ignore[attr-defined]
    assert [e.step for e in listener.traces["counts"].events].count("startQuery") == 2


def test_a_query_that_began_before_this_package_was_imported(tmp_path: Path) -> None:
    """Its checkpoint is a temporary one, which is deleted when it stops."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0] == "running: True None True"
    assert lines[1].startswith("ended: The checkpoint is not there (a temporary one is deleted when its query stops")
    assert "output mode append" in done.stdout


def _until(look: Any, batches: int) -> Trace:
    """Spark tells listeners of a batch a moment later."""
    deadline = time.monotonic() + 60
    while len(look().batches) < batches and time.monotonic() < deadline:
        time.sleep(0.05)
    return look()
