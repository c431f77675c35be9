"""Whatever a foreachBatch function does with a batch, each key is counted in its own partition of the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from minispark_stream import MiniSparkSession

FEED = (["a", "b", "a", "c"], ["b", "d", "e", "a"], ["c", "a", "f", "g", "b"])


def static(df: DataFrame) -> DataFrame:
    """A table of three partitions, with the columns of the batch."""
    return df.sparkSession.range(0, 3, 1, 3).selectExpr("'static' value", *(f"id {c}" for c in df.columns[1:]))


def in_order(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()))


ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "coalesce to one": lambda df: in_order(df.coalesce(1)),
    "coalesce to two": lambda df: in_order(df.coalesce(2)),
    "an rdd's coalesce": lambda df: sorted(map(tuple, df.rdd.coalesce(1).collect())),
    "an rdd of two batches": lambda df: df.rdd.union(df.rdd).count(),
    "union behind other rows": lambda df: in_order(static(df).union(df)),
    "union with itself": lambda df: in_order(df.union(df)),
    "repartition": lambda df: in_order(df.repartition(3)),
    "sort": lambda df: [tuple(row) for row in df.orderBy("value").collect()],
    "join with itself": lambda df: in_order(df.alias("x").join(df.alias("y"), "value")),
    "cached": lambda df: (df.cache().count(), in_order(df), df.unpersist() is None),
    "twice": lambda df: (df.count(), in_order(df)),
    "one row": lambda df: len(df.limit(1).collect()),
    "is it empty": lambda df: df.isEmpty(),
    "a filter": lambda df: in_order(df.where("value < 'c'")),
    "nothing": lambda df: None,
}
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "count": lambda df: df.groupBy("value").count(),
    "dropDuplicates": lambda df: df.dropDuplicates(["value"]),
    "count of counts": lambda df: df.dropDuplicates(["value"]).groupBy("value").count(),
}


def run(session: SparkSession, folder: Path, query: str, actions: list[str]) -> list[Any]:
    """What the actions gave in each batch, or the condition with which the query ended. Later batches show the state."""
    found: list[Any] = []
    source, checkpoint = folder / "in", str(folder / "checkpoint")
    source.mkdir(parents=True)
    for i, lines in enumerate(FEED):
        (source / f"{i}.txt").write_text("\n".join(lines))
        writer = QUERIES[query](session.readStream.text(str(source))).writeStream.outputMode("update")
        writer = writer.foreachBatch(lambda df, _: found.append([ACTIONS[name](df) for name in actions]))
        started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            started.awaitTermination()
        except StreamingQueryException as e:
            return [*found, e.getCondition()]
    return found


@pytest.fixture(scope="module", autouse=True)
def failures_are_quiet() -> Iterator[None]:
    """Some of the queries fail, on both engines, and the model logs it. (`caplog` is made for one test, not for its examples.)"""
    logger = logging.getLogger("minispark_stream")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@given(st.sampled_from(sorted(QUERIES)), st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=2))
@settings(
    max_examples=8, derandomize=True, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_a_key_stays_in_its_partition(
    spark: SparkSession, mini: MiniSparkSession, tmp_path_factory: pytest.TempPathFactory, query: str, actions: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("actions")
    assert run(mini, folder / "model", query, actions) == run(spark, folder / "spark", query, actions)
