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
from tests.conformance.actions import ACTIONS

FEED = (["a", "b", "a", "c"], ["b", "d", "e", "a"], ["c", "a", "f", "g", "b"])


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
