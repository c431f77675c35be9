"""limit(n) in append mode: n rows in the life of a query, restarts included; in complete mode, n rows of each answer."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream import side_by_side
from tests.conformance.conftest import Compare
from tests.conformance.inputs import rows_of

FEED = [rows_of(*({"k": k} for k in keys)) for keys in ("aab", "bcc", "dd", "e")]


def read(session, input_dir):
    return session.readStream.schema("k string").json(input_dir)


@pytest.mark.parametrize("n", [0, 1, 3, 5, 100])
def test_limit_of_appended_rows(compare: Compare, n: int) -> None:
    compare(lambda s, d: read(s, d).limit(n), FEED)


@pytest.mark.parametrize("relay", [("model",), ("model", "spark"), ("spark", "model")], ids="-".join)
def test_restarts_remember_how_many_rows_have_passed(compare: Compare, relay: tuple[str, ...]) -> None:
    compare(lambda s, d: read(s, d).select(F.upper("k").alias("K")).limit(4), FEED, restart_after=range(3), relay=relay)


def test_limit_above_and_below_a_filter(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).where("k > 'a'").limit(3), FEED)


def test_limit_of_the_whole_answer(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().orderBy(F.desc("count"), "k").limit(2), FEED, output_mode="complete")


def test_limit_of_the_whole_answer_in_no_order(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().select("count").where("count < 0").limit(2), FEED, output_mode="complete")


def test_state_is_kept_below_a_filter_that_no_row_can_pass(compare: Compare) -> None:
    compare(lambda s, d: read(s, d).groupBy("k").count().where("1 = 0"), FEED, output_mode="complete")


@pytest.mark.parametrize("relay", [("model",), ("spark", "model")], ids="-".join)
def test_limit_below_an_aggregation_of_the_whole_stream(compare: Compare, relay: tuple[str, ...]) -> None:
    """Below the aggregation only appended rows pass, so the limit is one of the stream in complete mode, too."""
    comparison = compare(
        lambda s, d: read(s, d).limit(5).groupBy("k").count(), FEED, output_mode="complete", restart_after=range(2), relay=relay
    )
    assert [op["operatorName"] for op in comparison.model.batches[0].progress["stateOperators"]] == ["stateStoreSave", "globalLimit"]


@pytest.mark.parametrize(
    ("query", "mode", "relay"),
    [
        (lambda df: df.limit(4).groupBy().count(), "complete", ("spark", "model")),
        (lambda df: df.select().limit(4), "append", ("model", "spark")),
    ],
    ids=["counted", "emitted"],
)
def test_rows_without_columns_are_rows(compare: Compare, query: Any, mode: str, relay: tuple[str, ...]) -> None:
    """What is above a limit may need none of its columns, and then it has none."""
    comparison = compare(lambda s, d: query(read(s, d)), FEED, output_mode=mode, restart_after=(0, 1), relay=relay)
    assert [len(b.rows) if mode == "append" else b.rows[0][0] for b in comparison.model.batches][:2] == ([3, 1] if mode == "append" else [3, 4])


@pytest.mark.parametrize(
    ("query", "mode", "validate"),
    [
        (lambda df: df.groupBy("k").count(), "complete", "true"),
        (lambda df: df.groupBy("k").count(), "complete", "false"),
        (lambda df: df.groupBy().count(), "complete", "true"),
        (lambda df: df.dropDuplicates(["k"]).join(df.sparkSession.range(5).limit(2), F.length("k") == F.col("id")), "append", "true"),
    ],
    ids=["keys", "no check", "no keys", "a limit of a table"],
)
def test_a_sink_that_reads_nothing(spark: SparkSession, query: Any, mode: str, validate: str) -> None:
    """Spark finds out that no state was written, unless there is a limit or an aggregation without keys."""
    comparison = side_by_side(
        spark, lambda s, d: query(read(s, d)), FEED[:2], output_mode=mode, collect=lambda df: [], trace="steps", progress=False,
        confs={"spark.sql.streaming.stateStore.commitValidation.enabled": validate},
    )
    assert comparison.spark.condition == comparison.model.condition
    assert len(comparison.spark.batches) == len(comparison.model.batches)
