"""When batches run: ProcessingTime, Once, AvailableNow; names, ids and the life of a query."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException, StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.conformance.conftest import Compare
from tests.conformance.inputs import at, random_rows, read_random

ONCE, NOW = {"once": True}, {"availableNow": True}
FEED = [at("12:02", "12:07"), at("12:14"), at("12:21", "12:04", "12:11"), at("12:30", "12:17"), at("12:05")]


def windowed(session: Any, input_dir: str) -> Any:
    times = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(input_dir)
    return times.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count()


def all_at_once(folder: str) -> None:
    """Four files are there before the query starts; the last one moves the watermark."""
    for i, lines in enumerate(FEED[:4]):
        path = Path(folder, f"{i}.json")
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))


def test_available_now_runs_batch_after_batch_and_a_last_one_without_data(compare: Compare) -> None:
    comparison = compare(windowed, [all_at_once], trigger=NOW)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [2, 1, 3, 2, 0]


def test_once_reads_everything_in_one_batch_and_emits_nothing_yet(compare: Compare) -> None:
    comparison = compare(windowed, [all_at_once], trigger=ONCE)
    assert [len(b.rows) for b in comparison.model.batches] == [0]


def test_once_again_and_again_emits_one_run_later(compare: Compare) -> None:
    compare(windowed, FEED, trigger=ONCE)


def test_available_now_again_and_again(compare: Compare) -> None:
    compare(windowed, FEED, trigger=NOW)


def test_available_now_with_nothing_there(compare: Compare, spark: Any, tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    reports = []
    for session in (spark, MiniSparkSession(spark)):
        query = read_random(session, str(tmp_path / "in")).writeStream.format("noop").trigger(**NOW).start()
        query.awaitTermination()
        reports.append([(p["batchId"], p["numInputRows"], "addBatch" in p["durationMs"]) for p in query.recentProgress])
    assert reports[0] == reports[1]


def test_processing_time_with_an_interval(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).select("k"), [random_rows(1), random_rows(2)], trigger={"processingTime": "100 milliseconds"})


@pytest.mark.parametrize(
    "trigger", [{}, {"once": False}, {"processingTime": ""}, {"processingTime": "soon"}, {"processingTime": "-1 second"}, {"availableNow": False},
                {"once": True, "availableNow": True}, *({"realTime": text} for text in ("", 5, True, "0 seconds", "-1 second", "soon", "1 month")),
                {"realTime": "5 seconds", "once": True}], ids=str,
)
def test_impossible_triggers(spark: Any, tmp_path: Any, trigger: dict[str, Any]) -> None:
    raised = []
    for session in (spark, MiniSparkSession(spark)):
        writer = read_random(session, str(tmp_path)).writeStream
        with pytest.raises(Exception) as e:  # noqa: B017 - what matters is that both are equal
            writer.trigger(**trigger)
        raised.append((type(e.value), str(e.value).split("JVM stacktrace")[0]))
    assert raised[0] == raised[1]


def refusal_of_real_time(session: Any, folder: Path, sink: str, mode: str, interval: str, name: str) -> tuple[str, ...]:
    """Whether start() refuses it or the query's thread, and the words."""
    rows = read_random(session, str(folder)) if name == "files" else session.readStream.format(name).load()
    writer = rows.writeStream.outputMode(mode).trigger(realTime=interval)
    writer = writer.foreach(print) if sink == "foreach" else writer.format(sink)
    try:
        query = writer.option("path", f"{folder}/out").option("checkpointLocation", f"{folder}/{type(session).__name__}").start()
    except PySparkException as e:
        return "start", type(e).__name__, str(e)
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination()
    return "query", str(error.value).split("terminated with exception: ")[1].split("=== Streaming Query")[0]


@pytest.mark.parametrize(("name", "sink", "mode", "interval", "condition"), [
    ("rate", "noop", "append", "1 second", "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
    ("files", "parquet", "append", "1 second", "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
    ("rate", "console", "append", "4 seconds", "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL"),
    ("rate", "console", "append", "5 seconds", "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED"),
    ("rate", "foreach", "update", "5 seconds", "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"),
    ("files", "console", "update", "5 seconds", "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"),
])
def test_what_spark_refuses_of_real_time_mode(
    spark: Any, tmp_path: Path, name: str, sink: str, mode: str, interval: str, condition: str
) -> None:
    theirs, ours = (refusal_of_real_time(one, tmp_path, sink, mode, interval, name) for one in (spark, MiniSparkSession(spark)))
    assert ours == theirs and condition in ours[-1]


def test_a_name_can_be_used_once_at_a_time(spark: Any, tmp_path: Any) -> None:
    for session in (spark, MiniSparkSession(spark)):
        writer = lambda: read_random(session, str(tmp_path)).writeStream.format("noop").queryName("same")  # noqa: B023
        first = writer().start()
        try:
            with pytest.raises(IllegalArgumentException, match="Cannot start query with name same as a query with that name is already"):
                writer().start()
        finally:
            first.stop()
        writer().start().stop()


def test_a_second_query_on_a_checkpoint_stops_the_first(spark: Any, tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    for name, session in (("spark", spark), ("model", MiniSparkSession(spark))):
        writer = lambda: read_random(session, str(tmp_path / "in")).writeStream.format("noop").option(  # noqa: B023
            "checkpointLocation", str(tmp_path / name))  # noqa: B023
        first = writer().start()
        second = writer().start()
        assert (first.isActive, second.isActive) == (False, True)
        assert first.id == second.id and first.runId != second.runId
        second.stop()


def test_the_memory_sink_shows_the_same_table(spark: Any, tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join(random_rows(1)))
    for mode in ("append", "update", "complete"):
        tables = []
        for name, session in (("spark", spark), ("model", MiniSparkSession(spark))):
            df = read_random(session, str(tmp_path / "in"))
            df = df.select("k", "i") if mode == "append" else df.groupBy("k").agg(F.sum("i"))
            query = df.writeStream.outputMode(mode).format("memory").queryName(f"table_{mode}_{name}").start()
            query.processAllAvailable()
            query.stop()
            tables.append(sorted(map(repr, session.table(f"table_{mode}_{name}").collect())))
        assert tables[0] == tables[1]
