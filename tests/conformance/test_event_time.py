"""Watermarks and windows: what is late, what is final, and when it is emitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, side_by_side
from tests.conformance.actions import ACTIONS
from tests.conformance.conftest import Compare
from tests.conformance.inputs import at, random_rows, read_random, rows_of

# The times of one learner's morning: 12:04 comes late twice, once early enough and once too late.
LATE = [at("12:02", "12:07"), at("12:14"), at("12:21", "12:04", "12:11"), at("12:30", "12:17"), at("12:05")]


def read_times(session: Any, input_dir: str) -> Any:
    return session.readStream.schema("ts timestamp, k string").json(input_dir)


def windowed(delay: str = "10 minutes", *window: str) -> Callable[[Any, str], Any]:
    lengths = window or ("5 minutes",)
    return lambda s, d: read_times(s, d).withWatermark("ts", delay).groupBy(F.window("ts", *lengths)).count()


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_tumbling_windows_in_every_output_mode(compare: Compare, mode: str) -> None:
    compare(windowed(), LATE, output_mode=mode)


@pytest.mark.parametrize("mode", ["append", "update"])
def test_sliding_windows(compare: Compare, mode: str) -> None:
    compare(windowed("10 minutes", "10 minutes", "5 minutes"), LATE, output_mode=mode)


def test_window_with_a_start_offset(compare: Compare) -> None:
    compare(windowed("10 minutes", "5 minutes", "5 minutes", "1 minute"), LATE)


@pytest.mark.parametrize("restart", [0, 1, 2, 3])
def test_restart_at_any_point_keeps_watermark_and_state(compare: Compare, restart: int) -> None:
    compare(windowed(), LATE, restart_after=(restart,))


def test_of_a_window_as_event_time_spark_reads_a_time_in_1970(compare: Compare) -> None:
    def build(session: Any, input_dir: str) -> Any:
        windows = read_times(session, input_dir).select(F.window("ts", "5 minutes").alias("w"))
        return windows.withWatermark("w", "1 minute").groupBy("w").count()

    comparison = compare(build, [at("12:02"), at("12:14")])
    assert comparison.model.batches[0].progress["eventTime"]["max"] == "1970-01-01T19:05:19.476Z"


def test_a_key_whose_event_time_is_a_window_is_forgotten_at_once(compare: Compare) -> None:
    def build(session: Any, input_dir: str) -> Any:
        rows = read_times(session, input_dir).withWatermark("ts", "10 minutes").withColumn("text", F.lit("abc"))
        counts = rows.groupBy("text", F.window("ts", "5 minutes").alias("w"), F.minute("ts").alias("minute")).count()
        return counts.dropDuplicatesWithinWatermark(["text"])

    comparison = compare(build, [at("12:02"), at("12:14"), at("12:16"), at("12:30"), at("12:40")])
    assert sum(len(batch.rows) for batch in comparison.model.batches) > 1  # within the ten minutes


def test_late_rows_are_dropped_and_counted(compare: Compare) -> None:
    comparison = compare(windowed("0 seconds"), [at("12:00"), at("12:10"), at("12:20"), at("12:01", "12:02", "12:11")])
    assert sum(op["numRowsDroppedByWatermark"] for b in comparison.model.batches for op in b.progress["stateOperators"]) == 2


def test_a_row_at_the_watermark_is_late(compare: Compare) -> None:
    query = lambda s, d: read_times(s, d).withWatermark("ts", "0 seconds").groupBy("ts").count()
    compare(query, [at("12:00"), at("12:00", "12:05"), at("12:05", "12:06"), at("12:06")])


def test_without_data_batches_nothing_is_emitted_until_the_next_data(compare: Compare) -> None:
    compare(windowed(), LATE, confs={"spark.sql.streaming.noDataMicroBatches.enabled": " False"})  # Spark is not strict about spelling


def test_null_event_times_count_as_1970(compare: Compare) -> None:
    rows = [rows_of({"ts": None, "k": "a"}, {"ts": "2024-01-01 12:00:00", "k": "b"}), at("12:30"), rows_of({"ts": None, "k": "c"})]
    compare(windowed(), rows)


def test_event_times_and_watermarks_outside_of_the_years_1_to_9999(spark: Any, tmp_path: Any) -> None:
    """Rows and state are shown, too, although Python has no date for them."""

    def build(session: Any, input_dir: str) -> Any:
        counts = read_times(session, input_dir).withWatermark("ts", "1 minute").groupBy("ts").count()
        return counts.select(F.col("ts").cast("string"), "count")

    near, far = rows_of({"ts": "-0001-12-31 23:59:59"}, {"ts": "2024-01-01 12:00:00"}), rows_of({"ts": "+10000-01-01 00:00:00"})
    feed = [near, far, rows_of({"ts": "9999-12-31 23:59:59"}, {"ts": "+20000-01-01 00:00:00"})]
    compared = side_by_side(spark, build, feed, directory=str(tmp_path), trace="rows", progress=False)
    assert not compared.differences and compared.model.error is None
    assert [b.progress["eventTime"]["watermark"] for b in compared.model.batches][-1] == "+19999-12-31T23:59:00.000Z"
    [rows] = [e.outputs["rows"] for e in compared.model.trace.events if e.step == "getBatch" and e.batch_id == 2]
    assert rows == [{"ts": "+10000-01-01 00:00:00", "k": None}]
    state = [row["key"]["ts"] for e in compared.model.trace.events if e.step == "stateOperator" for row in e.outputs["after"]]
    assert "10000-01-01 00:00:00" in state


def test_keys_beside_the_window(compare: Compare) -> None:
    query = lambda s, d: (
        read_random(s, d).withWatermark("ts", "5 minutes").groupBy(F.window("ts", "10 minutes"), "k").agg(F.sum("m"), F.avg("d"))
    )
    compare(query, [random_rows(i, 30) for i in range(4)])


def test_the_event_time_itself_as_key(compare: Compare) -> None:
    query = lambda s, d: read_random(s, d).withWatermark("ts", "5 minutes").groupBy("ts").count()
    compare(query, [random_rows(i, 30) for i in range(3)])


def test_the_end_of_a_window_as_key(compare: Compare) -> None:
    query = lambda s, d: (
        read_times(s, d).withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes").end.alias("end")).count()
    )
    compare(query, LATE, output_mode="update")


def test_no_watermark_keeps_all_windows(compare: Compare) -> None:
    compare(lambda s, d: read_times(s, d).groupBy(F.window("ts", "5 minutes")).count(), LATE, output_mode="update")


def test_watermark_without_aggregation_drops_nothing(compare: Compare) -> None:
    compare(lambda s, d: read_times(s, d).withWatermark("ts", "1 minute").select("ts", "k"), LATE)


def test_watermark_before_a_filter(compare: Compare) -> None:
    query = lambda s, d: (
        read_random(s, d).withWatermark("ts", "5 minutes").where("i > 0").groupBy(F.window("ts", "10 minutes")).count()
    )
    compare(query, [random_rows(i, 20) for i in range(4)])


@pytest.mark.parametrize("policy", ["min", "max"])
def test_two_watermarks(compare: Compare, policy: str) -> None:
    def query(session: Any, input_dir: str) -> Any:
        left, right = (
            session.readStream.schema("ts timestamp, k string").json(f"{input_dir}/{side}").withWatermark("ts", delay)
            for side, delay in (("left", "10 minutes"), ("right", "2 minutes"))
        )
        return left.union(right).groupBy(F.window("ts", "5 minutes")).count()

    feed = [
        {"left": at("12:00", "12:06"), "right": at("12:20")},
        {"left": at("12:30")},
        {"right": at("12:40")},
        {"left": at("13:00"), "right": at("12:55", "12:01")},
    ]
    compare(query, feed, confs={"spark.sql.streaming.multipleWatermarkPolicy": policy}, restart_after=(1,))


def test_an_idle_input_holds_the_watermark_back(compare: Compare) -> None:
    def query(session: Any, input_dir: str) -> Any:
        sides = [session.readStream.schema("ts timestamp, k string").json(f"{input_dir}/{s}").withWatermark("ts", "1 minute") for s in "ab"]
        return sides[0].union(sides[1]).groupBy(F.window("ts", "5 minutes")).count()

    comparison = compare(query, [{"a": at("12:00"), "b": []}, {"a": at("12:30")}, {"a": at("13:00")}])
    assert all(b.progress["eventTime"]["watermark"].startswith("1970") for b in comparison.model.batches)


def test_current_timestamp_is_the_time_of_the_batch(compare: Compare) -> None:
    query = lambda s, d: read_times(s, d).select("k", (F.current_timestamp() > F.lit("2020-01-01")).alias("later"))
    compare(query, LATE)


SINGLE: dict[str, Callable[[Any], Any]] = {
    "windows": lambda df: df.groupBy(F.window("ts", "5 minutes")).count(),
    "sessions": lambda df: df.groupBy(F.session_window("ts", "3 minutes"), "k").count(),
    "distinct rows": lambda df: df.dropDuplicates(["ts", "k"]),
    "distinct rows within the watermark": lambda df: df.dropDuplicatesWithinWatermark(["k"]),
    "rows without a partner": lambda df: df.join(
        df.select(F.col("k").alias("rk"), F.col("ts").alias("rts")), F.expr("k = rk AND rts > ts AND rts <= ts + interval 3 minutes"), "left"
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_with_one_operator_allowed_rows_are_late_by_the_watermark_of_their_own_batch(compare: Compare, name: str) -> None:
    """Without batches in between, the first batch after the watermark has moved tells the two rules apart."""
    feed = [at("12:02", "12:07"), at("12:14"), at("12:21", "12:04", "12:11"), at("12:30", "12:17", "12:06"), at("12:05", "12:31"), at("12:31", "12:22")]
    confs = {"spark.sql.streaming.statefulOperator.allowMultiple": "false", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    query = lambda s, d: SINGLE[name](read_times(s, d).withWatermark("ts", "10 minutes"))
    compare(query, feed, confs=confs, restart_after=(2,))


@pytest.mark.parametrize("actions", [("rows", "is it empty"), ("is it empty", "rows"), ("twice",)], ids=" and ".join)
def test_event_times_count_each_time_that_a_function_reads_its_batch(
    spark: Any, tmp_path: Any, actions: tuple[str, ...]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(at("12:02", "12:20", "12:11")))
    found = []
    for session in (spark, MiniSparkSession(spark)):
        times = read_times(session, str(tmp_path / "in")).withWatermark("ts", "1 minute").writeStream
        query = times.foreachBatch(lambda df, _: [ACTIONS[name](df) for name in actions]).trigger(availableNow=True).start()
        query.awaitTermination()
        found.append(json.loads(query.recentProgress[0].json)["eventTime"])
    assert found[0] == found[1] and found[0]["max"] != found[0]["min"]
