"""Stateful operators on top of each other: each has state and watermarks of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import at

FEED = [at("12:02", "12:07"), at("12:14", "12:02"), at("12:21", "12:04", "12:11"), at("12:50", "12:17"), at("13:30", "12:05"), at("14:30")]


def events(session: Any, input_dir: str, delay: str = "5 minutes") -> Any:
    return session.readStream.schema("ts timestamp, k string").json(input_dir).withWatermark("ts", delay)


def clicks(session: Any, input_dir: str) -> Any:
    return events(session, input_dir, "1 minute").select(F.col("ts").alias("ts2"), F.col("k").alias("k2"))


def small_windows(df: Any) -> Any:
    return df.groupBy(F.window("ts", "5 minutes")).count()


def in_sql(session: Any, input_dir: str) -> Any:
    events(session, input_dir).createOrReplaceTempView("events")
    return session.sql(
        "WITH small AS (SELECT window, k, count(*) AS n FROM events GROUP BY window(ts, '5 minutes'), k), "
        "busy AS (SELECT * FROM small WHERE n > 0) "
        "SELECT window(window, '15 minutes').start, sum(n) FROM busy GROUP BY window(window, '15 minutes')"
    )


QUERIES: dict[str, Callable[[Any, str], Any]] = {
    "common table expressions": in_sql,
    "windows of windows": lambda s, d: (
        small_windows(events(s, d)).groupBy(F.window("window", "15 minutes")).agg(F.sum("count"), F.max("count"))
    ),
    "windows of the time of windows": lambda s, d: (
        small_windows(events(s, d)).select(F.window_time("window").alias("t"), "count").groupBy(F.window("t", "30 minutes")).sum("count")
    ),
    "windows of distinct rows": lambda s, d: small_windows(events(s, d).dropDuplicates(["ts", "k"])),
    "windows of rows that are distinct within the watermark": lambda s, d: small_windows(events(s, d).dropDuplicatesWithinWatermark(["k", "ts"])),
    "distinct counts": lambda s, d: small_windows(events(s, d)).select("window", "count").dropDuplicates(["window", "count"]),
    "windows of sessions": lambda s, d: (
        events(s, d).groupBy(F.session_window("ts", "6 minutes"), "k").count()
        .groupBy(F.window(F.col("session_window"), "1 hour")).agg(F.count("*"), F.sum("count"))
    ),
    "windows of joined rows": lambda s, d: (
        events(s, d).join(clicks(s, d), F.expr("k = k2 AND ts2 BETWEEN ts AND ts + interval 10 minutes"))
        .groupBy(F.window("ts", "15 minutes")).count()
    ),
    "windows of outer joined rows": lambda s, d: (
        events(s, d).join(clicks(s, d), F.expr("k = k2 AND ts2 > ts AND ts2 <= ts + interval 5 minutes"), "left")
        .groupBy(F.window("ts", "15 minutes")).agg(F.count("*"), F.count("k2"))
    ),
    "a join with distinct rows that have no watermark": lambda s, d: (
        s.readStream.schema("ts timestamp, k string").json(d).dropDuplicates()
        .join(clicks(s, d), F.expr("k = k2 AND ts2 <= ts AND ts2 > ts - interval 5 minutes"), "left_outer")
    ),
    "a join by window with distinct rows that have no watermark": lambda s, d: (
        s.readStream.schema("ts timestamp, k string").json(d).dropDuplicates().select("k", F.window("ts", "5 minutes").alias("window"))
        .join(clicks(s, d).select("k2", F.window("ts2", "5 minutes").alias("window")), "window", "right_outer")
    ),
    "the first windows": lambda s, d: small_windows(events(s, d)).limit(2),
    "windows in one partition": lambda s, d: small_windows(events(s, d)).coalesce(1).where("count > 0"),
    "windows of a union of windows": lambda s, d: (
        small_windows(events(s, d)).union(small_windows(events(s, d, "10 minutes"))).groupBy(F.window("window", "1 hour")).sum("count")
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_operators_in_a_row(compare: Compare, name: str) -> None:
    compare(QUERIES[name], FEED, restart_after=(2,))


@pytest.mark.parametrize(("other", "threshold", "topmost"), [
    ("k", "10MB", "stateStoreSave"), ("k", "-1", "symmetricHashJoin"), ("count", "10MB", "symmetricHashJoin"),
])
def test_a_semi_join_is_moved_below_an_aggregation_if_the_other_stream_is_small(
    compare: Compare, other: str, threshold: str, topmost: str
) -> None:
    """What a file has, or that there is none, decides in each batch; a count is not there below."""
    def query(session: Any, input_dir: str) -> Any:
        left = events(session, f"{input_dir}/left").groupBy(F.window("ts", "5 minutes"), "k").count()
        right = events(session, f"{input_dir}/right").groupBy(F.window("ts", "5 minutes"), "k").count()
        return left.join(right, ["window", other], "left_semi")

    feed = [{"left": at("12:02", "12:07"), "right": at("12:08")}, {"left": at("12:30")}, {"right": at("12:31"), "left": at("12:40")}]
    comparison = compare(query, feed, confs={"spark.sql.autoBroadcastJoinThreshold": threshold})
    assert [batch.progress["stateOperators"][0]["operatorName"] for batch in comparison.spark.batches[:1]] == [topmost]
