"""Aggregations in real-time mode, on both engines: rows, logs, reports and state, checkpoints that they exchange, and kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession, inspect
from tests.conformance.test_real_time_mode import SCHEMA, committed, last_entries, log, rows_in, shape, start, wait_for
from tests.conformance.test_real_time_state import ROCKSDB_WITH_IDS, engines, state_files, take_turns, two_slots, without_ids  # noqa: F401

Query = Callable[[DataFrame], DataFrame]


def by_key(df: DataFrame) -> DataFrame:
    """Operators below the aggregation and above it, which drops some results, and a filter for one function."""
    values = [
        F.count("*").alias("n"), F.sum("w").alias("sum"), F.avg("w").alias("avg"), F.min("w").alias("min"), F.max("w").alias("max"),
        F.expr("count(w) FILTER (WHERE 6 / w > 2)").alias("small"),
    ]
    return df.selectExpr("k", "v * 2 AS w").groupBy("k").agg(*values).where("n <> 2").withColumn("twice", F.col("sum") * 2)


def whole(df: DataFrame) -> DataFrame:
    """Functions whose buffers are objects, without keys."""
    return df.agg(F.collect_list("v").alias("all"), F.approx_count_distinct("k").alias("different"))


def windows(df: DataFrame) -> DataFrame:
    timed = df.select("k", F.timestamp_seconds("v").alias("t")).withWatermark("t", "10 seconds")
    counts = timed.groupBy(F.window("t", "10 seconds", "5 seconds"), "k").count()
    return counts.select(F.col("window.start").cast("long").alias("begin"), "k", "count")


def computed_key(df: DataFrame) -> DataFrame:
    """A key that no row without values may reach, and one row for each grouping."""
    return df.rollup((6 / F.coalesce("v", F.lit(0))).alias("of six"), "k").count()


def planned_anew(df: DataFrame) -> DataFrame:
    """The plan of each batch is optimised anew, which gives the key another id."""
    return df.groupBy((F.col("v") % 2).alias("odd")).count().where("current_timestamp() > timestamp'2020-01-01'")


def distinct(df: DataFrame) -> DataFrame:
    """An aggregation without functions."""
    df.createOrReplaceTempView("rows_of_a_stream")
    return df.sparkSession.sql("SELECT DISTINCT k, v > 1 AS more FROM rows_of_a_stream")


QUERIES: dict[str, tuple[Query, list[list[Any]]]] = {
    "by key": (by_key, [[("a", 1, None), ("b", 2, None), ("a", 3, None), ("a", 2, None)], [("b", 4, None), ("a", None, None), (None, 1, None)]]),
    "no keys": (whole, [[("a", 1, None), ("b", 2, None)], [("a", 3, None)]]),
    "windows": (windows, [[("a", 100, None), ("b", 50, None), ("a", 101, None)], [("late", 20, None), ("c", 101, None), ("b", 88, None)]]),
    "distinct": (distinct, [[("a", 1, None), ("b", 2, None), ("a", 1, None)], [("a", 1, None), ("a", 3, None)]]),
    "planned anew": (planned_anew, [[("a", 1, None), ("b", 2, None)], [("a", 3, None), ("a", 1, None)]]),
    "rollup": (computed_key, [[("a", 1, None), ("b", 1, None), ("a", 2, None)]]),
}


def state(folder: Path) -> list[Any]:
    return sorted(((row.key, row.value) for row in inspect(str(folder / "checkpoint")).rows()), key=str)


@pytest.mark.parametrize("name", QUERIES)
def test_rows_reports_and_state_are_equal(engines: dict[str, Any], tmp_path: Path, name: str) -> None:  # noqa: F811
    """Each row emits a result, in the order in which they come; late rows do not, and old windows leave the state."""
    query, feeds = QUERIES[name]
    found = {}
    for engine, session in engines.items():
        folder, sent = tmp_path / engine, 0
        folder.mkdir()
        stream = LowLatencyMemoryStream(session, SCHEMA)
        running = start(query(stream.to_df()), folder)
        for rows in feeds:
            stream.add_data(rows)
            sent += len(rows)
            wait_for(lambda sent=sent: committed(folder) == sent, running)  # type: ignore[misc]  # noqa: B023
            batches = max(log(folder, "commits"))
            wait_for(lambda batches=batches: max(log(folder, "commits")) > batches, running)  # type: ignore[misc]  # noqa: B023
        running.stop()
        operators = [one["stateOperators"][0] for one in running.recentProgress if one["numInputRows"]]
        report = [one for one in running.recentProgress if one["numInputRows"]][-1]
        found[engine] = {
            "rows": rows_in(folder / "rows"), "state": state(folder), "report": shape(report),
            "entries": without_ids(last_entries(folder)),
            "operators": [
                {k: v for k, v in one.items() if not k.endswith("TimeMs") and k not in ("customMetrics", "memoryUsedBytes")}
                for one in operators
            ],
            "removed": sum(one["stateOperators"][0]["numRowsRemoved"] for one in running.recentProgress),
            "metadata": (folder / "checkpoint/state/0/_metadata/metadata").read_text(),
            "files": [file for file in state_files(folder) if file == "0/0/1"],
        }
    assert found["model"] == found["spark"]
    assert found["model"]["rows"]


def test_either_engine_goes_on_where_the_other_has_stopped(engines: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    """Each row counts once."""
    take_turns(engines, tmp_path, lambda rows: rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("sum")))
    written = [(row["k"], row["n"], row["sum"]) for row in rows_in(tmp_path / "rows")]
    assert sorted(written) == [*((f"key {n}", 1, n) for n in (1, 2, 3, 4)), *(("old", n, n) for n in (1, 2, 3, 4))]


def test_a_batch_that_is_cut_off_counts_its_rows_once(mini: MiniSparkSession, tmp_path: Path) -> None:
    """Results are written while the batch runs. It is not committed, so its rows are read again; the state has them once."""
    stream = LowLatencyMemoryStream(mini, SCHEMA)
    counts = stream.to_df().groupBy("k").count()
    query = start(counts, tmp_path, {"realTime": "10 minutes"})
    for number in (1, 2):
        stream.add_data([("a", 1, None)])
        wait_for(lambda number=number: len(rows_in(tmp_path / "rows")) == number, query)  # type: ignore[misc]
    query.stop()
    assert query.exception() is None and not log(tmp_path, "offsets") and not log(tmp_path, "commits")
    query = start(counts, tmp_path)
    wait_for(lambda: committed(tmp_path) == 2, query)
    query.stop()
    assert [row["count"] for row in rows_in(tmp_path / "rows")] == [1, 2, 1, 2] and state(tmp_path) == [({"k": "a"}, {"count": 2})]
