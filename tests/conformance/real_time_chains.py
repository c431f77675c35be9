"""Queries in real-time mode with two stateful operators, on both engines; one goes on with each on the other one's checkpoint.

    python -m tests.conformance.real_time_chains FOLDER      writes FOLDER/found.json: {query: {engine: what it has done}}

A process of its own runs them, because all three stages of such a query run at once, and need more cores than the tests' Spark has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession, inspect
from tests.conformance.test_real_time_mode import SHORT_BATCHES, committed, log, rows_in, start, wait_for
from tests.conformance.test_real_time_state import wait_for_slots

SLOTS, GOES_ON = 3, "above an aggregation"
FEEDS = [[("a", 1), ("b", 2), ("a", 3), ("a", 1), ("b", 100)], [("a", 1), ("a", 5), ("c", 1), ("b", 101)]]
FEED_OF_THE_OTHER = [("a", 9), ("d", 102), ("d", 102)]


def windows(df: DataFrame) -> DataFrame:
    timed = df.select("k", F.timestamp_seconds("v").alias("t")).withWatermark("t", "10 seconds")
    return timed.groupBy(F.window("t", "10 seconds")).count()


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "two": lambda df: df.dropDuplicates(["k", "v"]).select("k").distinct(),
    "below an aggregation": lambda df: df.dropDuplicates(["k", "v"]).groupBy("k").count(),
    "above an aggregation": lambda df: df.groupBy("k").agg(F.avg("v").alias("of")).where("of > 1").select(F.expr("6 / of").alias("x")).distinct(),
    "above windows": lambda df: windows(df).dropDuplicates(["count"]).select("count"),
}


def state(folder: Path) -> list[str]:
    report = inspect(str(folder / "checkpoint"))
    return sorted(f"{operator} {row.key} {row.value}" for operator in (0, 1) for row in report.rows(operator=operator))


def play(session: Any, query: Callable[[DataFrame], DataFrame], folder: Path, feeds: list[Any], before: list[Any]) -> dict[str, Any]:
    """Run a query until it has committed `feeds`, each in a batch of its own; `before` is what it has committed already."""
    folder.mkdir(exist_ok=True)
    wait_for_slots(SparkSession.builder.getOrCreate(), SLOTS)
    stream = LowLatencyMemoryStream(session, "k string, v int")
    stream.add_data(before)
    running, sent = start(query(stream.to_df()), folder), len(before)
    for rows in feeds:
        stream.add_data(rows)
        sent += len(rows)
        wait_for(lambda sent=sent: committed(folder) == sent, running)  # type: ignore[misc]
        batches = max(log(folder, "commits"))
        wait_for(lambda batches=batches: max(log(folder, "commits")) > batches, running)  # type: ignore[misc]
    running.stop()
    counted = ("operatorName", "numRowsTotal", "numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")
    reports = [one for one in running.recentProgress if one["numInputRows"]]
    operators = [[{name: operator[name] for name in counted} for operator in one["stateOperators"]] for one in reports]
    return {"rows": rows_in(folder / "rows"), "operators": operators, "state": state(folder)}


def main(folder: Path) -> None:
    builder = SparkSession.builder.master(f"local[{SLOTS}]").config("spark.sql.shuffle.partitions", "1").config("spark.ui.enabled", "false")
    spark = builder.config(map={**SHORT_BATCHES}).getOrCreate()
    engines = {"spark": spark, "model": MiniSparkSession(spark)}
    found: dict[str, dict[str, list[Any]]] = {}
    for name, query in QUERIES.items():
        folders = {engine: folder / name / engine for engine in engines}
        (folder / name).mkdir(parents=True)
        found[name] = {engine: [play(session, query, folders[engine], FEEDS, [])] for engine, session in engines.items()}
        for (engine, session), other in zip(engines.items(), reversed(folders.values()) if name == GOES_ON else []):
            found[name][engine].append(play(session, query, other, [FEED_OF_THE_OTHER], sum(FEEDS, [])))
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
