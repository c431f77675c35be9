"""Aggregations without event time: keys and output modes. The functions are in test_aggregate_functions.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random, rows_of

FEED = [random_rows(1), random_rows(2), random_rows(3, 10)]

QUERIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "word count": ("update", lambda df: df.select(F.explode(F.split("s", "")).alias("c")).groupBy("c").count()),
    "complete repeats everything": ("complete", lambda df: df.groupBy("k").count()),
    "complete with orderBy": ("complete", lambda df: df.groupBy("k", F.col("st.a")).count().orderBy(F.desc("count"), "k", "a")),
    "complete with orderBy and limit": ("complete", lambda df: df.groupBy("k").count().orderBy(F.desc("count"), "k").limit(3)),
    "global in complete": ("complete", lambda df: df.groupBy().agg(F.sum("d"), F.count("*"))),
    "global in update": ("update", lambda df: df.groupBy().agg(F.sum("d"), F.count("*"))),
    "several keys": ("update", lambda df: df.groupBy("k", "b", "dt").agg(F.sum("l"))),
    "a struct and an array as keys": ("update", lambda df: df.groupBy("st", "xs").count()),
    "a double and a decimal as keys": ("update", lambda df: df.groupBy("m", "d").count()),
    "an expression as key": ("update", lambda df: df.groupBy((F.col("i") % 3).alias("mod")).agg(F.max("ts"))),
    "no function": ("update", lambda df: df.groupBy("k", "b").agg(F.lit(1).alias("one"))),
    "distinct by groupBy": ("update", lambda df: df.select("k", "b").groupBy("k", "b").agg(F.first("k").alias("f"))),
    "having": ("update", lambda df: df.groupBy("k").agg(F.sum("i").alias("t")).where("t > 3")),
    "only a part of the result is used": ("update", lambda df: df.groupBy("k").agg(F.sum("i").alias("a"), F.avg("d")).select("a")),
    "rollup": ("update", lambda df: df.rollup("k", "b").count()),
    "rollup of nothing, sorted": ("complete", lambda df: df.rollup().agg(F.sum("i").alias("t"), F.min("d")).orderBy("t")),
    "cube": ("complete", lambda df: df.cube("k", "b").agg(F.sum("i"))),
    "union of a stream with itself": ("update", lambda df: df.select("k").union(df.select("k")).groupBy("k").count()),
    "after a join with a table": (
        "update", lambda df: df.join(df.sparkSession.createDataFrame([("a", 1), ("b", 2)], "k string, v int"), "k").groupBy("v").count()
    ),
    "dropping in update": ("update", lambda df: df.groupBy("k").count().where("count % 2 = 0")),
}


@pytest.mark.parametrize("name", QUERIES)
def test_aggregation(compare: Compare, name: str) -> None:
    mode, query = QUERIES[name]
    compare(lambda s, d: query(read_random(s, d)), FEED, output_mode=mode)


def test_state_survives_a_restart(compare: Compare) -> None:
    compare(
        lambda s, d: read_random(s, d).groupBy("k").agg(F.sum("i"), F.avg("d"), F.collect_set("s").alias("x")).withColumn(
            "x", F.sort_array("x")), FEED, output_mode="update", restart_after=(0, 1), state_bytes=False,
    )


def test_four_shuffle_partitions_make_four_stores(compare: Compare) -> None:
    comparison = compare(
        lambda s, d: read_random(s, d).groupBy("k").count(), FEED, output_mode="update", confs={"spark.sql.shuffle.partitions": "4"}
    )
    assert {f.split("/")[2] for f in comparison.model.files if f.endswith(".delta")} == {"0", "1", "2", "3"}


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_the_compression_codec_of_state_files_is_sparks(compare: Compare, codec: str) -> None:
    compare(
        lambda s, d: read_random(s, d).groupBy("k").count(), FEED, output_mode="update",
        confs={"spark.sql.streaming.stateStore.compression.codec": codec}, restart_after=(0,),
    )


def test_row_checksums(compare: Compare) -> None:
    compare(
        lambda s, d: read_random(s, d).groupBy("k").count(), FEED, output_mode="update",
        confs={"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}, restart_after=(1,),
    )


def test_many_batches_make_snapshots_and_stay_equal(compare: Compare) -> None:
    feed = [random_rows(i, 3) for i in range(14)]
    compare(
        lambda s, d: read_random(s, d).groupBy("k").count(), feed, output_mode="update", restart_after=(12,),
        confs={
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3", "spark.sql.streaming.minBatchesToRetain": "100",
            "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
        },
    )


def test_old_log_entries_are_purged_alike(compare: Compare) -> None:
    feed = [random_rows(i, 3) for i in range(7)]
    comparison = compare(
        lambda s, d: read_random(s, d).select("k"), feed,
        confs={"spark.sql.streaming.minBatchesToRetain": "2", "spark.sql.streaming.asyncLogPurge.enabled": "false"},
    )
    assert sorted(f for f in comparison.model.files if f.startswith("offsets/")) == ["offsets/4", "offsets/5", "offsets/6"]


def test_an_aggregate_that_has_nothing_to_remember_is_a_row_of_the_state(compare: Compare) -> None:
    """Its state has neither keys nor buffers: a row of no columns."""
    compare(lambda s, d: read_random(s, d).groupBy().agg(F.lit(1)), FEED[:3], output_mode="update", restart_after=(0,))


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_an_aggregate_of_all_rows_has_a_row_in_every_batch(compare: Compare, mode: str) -> None:
    """A file without rows makes no difference, be it the first one; nor does a batch without data."""
    some = rows_of({"ts": "2024-01-01 12:00:00", "v": 1}, {"ts": "2024-01-01 12:30:00", "v": 2})

    def query(session: Any, input_dir: str) -> Any:
        events = session.readStream.schema("ts timestamp, v int").json(input_dir).withWatermark("ts", "1 minute")
        return events.agg(F.count("*"), F.sum("v"), F.min("v"), F.avg("v"), F.first("v"), F.collect_list("v"))

    comparison = compare(query, [[], [], some, [], some], output_mode=mode, restart_after=(0, 2))
    assert {len(b.rows) for b in comparison.spark.batches} == {1}
    assert list(comparison.spark.batches[0].rows) == [(0, None, None, None, None, [])]


@pytest.mark.parametrize(("how", "hint"), [("left", "merge"), ("left", "broadcast"), ("inner", "merge"), ("inner", None)])
def test_a_sort_takes_a_sample_of_counts_that_are_joined_with_a_table(compare: Compare, how: str, hint: str | None) -> None:
    """So the counts are computed twice, unless the join has shuffled or broadcast them first."""

    def query(session: Any, input_dir: str) -> Any:
        table = session.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "k string, v int")
        counts = read_random(session, input_dir).groupBy("k").count()
        return counts.join(table if hint is None else table.hint(hint), "k", how).orderBy("count", "k")

    comparison = compare(query, FEED[:2], output_mode="complete")
    [state] = comparison.model.batches[0].progress["stateOperators"]
    assert state["numStateStoreInstances"] == (2 if hint is None else 4)
