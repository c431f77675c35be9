"""dropDuplicates, distinct and dropDuplicatesWithinWatermark: what passes, what is remembered, and until when."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from minispark_stream.engine.jvm.query_execution import KEY_ORDER
from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random, rows_of

RANDOM = [random_rows(i, 30) for i in range(4)]


def row(k: str | None, minute: int | None) -> dict[str, Any]:
    return {"k": k, "ts": None if minute is None else f"2024-01-01 {12 + minute // 60}:{minute % 60:02d}:00"}


TIMES = [
    rows_of(row("a", 2), row("a", 2), row("b", 3)),
    rows_of(row("a", 2), row("a", 4), row("c", 14)),
    rows_of(row("b", 3), row("d", 25), row(None, 20), row(None, 20)),
    rows_of(row("a", 5), row("d", 25), row("a", 40)),
    rows_of(row("a", None), row("a", 41), row("a", 70)),
    rows_of(row("a", 42), row("d", 75), row("a", 75)),
]


def timed(session: Any, input_dir: str) -> Any:
    return session.readStream.schema("ts timestamp, k string").json(input_dir).withWatermark("ts", "10 minutes")


STATELESS_KEYS: dict[str, Callable[[Any], Any]] = {
    "one column": lambda df: df.select("k").dropDuplicates(["k"]),
    "several columns": lambda df: df.select("k", "i", "b").dropDuplicates(["i", "k"]).select("k", "i"),
    "all columns": lambda df: df.select("k", "m", "dt").dropDuplicates(),
    "a struct": lambda df: df.select("st").dropDuplicates(),
    "numbers and dates": lambda df: df.select("l", "d", "m", "dt", "b").dropDuplicates(["d", "m"]).select("d", "m"),
    "distinct": lambda df: df.select("k", "i").distinct(),
    "a filter above": lambda df: df.select("k", "i").dropDuplicates(["k", "i"]).where("i > 0"),
}


@pytest.mark.parametrize("name", STATELESS_KEYS)
def test_without_event_time(compare: Compare, name: str) -> None:
    mode = "update" if name in ("distinct", "a struct") else "append"  # distinct is an aggregation: append needs a watermark
    compare(lambda s, d: STATELESS_KEYS[name](read_random(s, d)), RANDOM, output_mode=mode, restart_after=(1,))


KEYS: dict[str, Callable[[Any], Any]] = {
    "event time among the columns": lambda df: df.dropDuplicates(["k", "ts"]),
    "event time alone": lambda df: df.select("ts").dropDuplicates(["ts"]),
    "all columns": lambda df: df.dropDuplicates(),
    "event time not among the columns": lambda df: df.dropDuplicates(["k"]).select("k"),
    "a window": lambda df: df.select("k", F.window("ts", "5 minutes").alias("w")).dropDuplicates(["k", "w"]),
    "distinct with event time": lambda df: df.distinct(),
    "within the watermark": lambda df: df.dropDuplicatesWithinWatermark(["k"]).select("k"),
    "within the watermark, all columns": lambda df: df.dropDuplicatesWithinWatermark(),
}


@pytest.mark.parametrize("name", KEYS)
def test_with_event_time(compare: Compare, name: str) -> None:
    compare(lambda s, d: KEYS[name](timed(s, d)), TIMES, restart_after=(0, 1, 3))  # two batches in a row find the state in memory


@pytest.mark.parametrize(
    ("name", "relay"), [("all columns", ("model", "spark")), ("within the watermark", ("spark", "model"))], ids=["all", "within"]
)
def test_each_engine_goes_on_where_the_other_stopped(compare: Compare, name: str, relay: tuple[str, ...]) -> None:
    compare(lambda s, d: KEYS[name](timed(s, d)), TIMES, restart_after=range(5), relay=relay)


def test_times_in_the_schemas_of_older_sparks(compare: Compare) -> None:
    """The log of a query that was begun by Spark 4.2 does not have this conf."""
    confs = {"spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false"}
    compare(lambda s, d: KEYS["within the watermark"](timed(s, d)), TIMES[:2], confs=confs, restart_after=(0,))


def test_the_order_of_the_keys_is_the_one_with_which_the_query_was_begun(compare: Compare) -> None:
    """Without the conf, five names or more are in the order of a set."""
    def five_columns(session: Any, input_dir: str) -> Any:
        session.conf.set(KEY_ORDER, "true" if os.listdir(input_dir) else "false")  # "true" when it is restarted
        return session.readStream.schema("a int, b int, c int, d int, e int").json(input_dir).dropDuplicates()

    rows = rows_of({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, {"a": 6, "b": 7, "c": 8, "d": 9, "e": 10})
    comparison = compare(five_columns, [rows[:1], rows], confs={KEY_ORDER: "true"}, restart_after=(0,))
    assert [len(batch.rows) for batch in comparison.model.batches] == [1, 1]


@pytest.mark.parametrize("within", [False, True])
def test_a_key_of_no_columns_is_refused_in_the_words_of_spark(spark: Any, mini: Any, tmp_path: Any, within: bool) -> None:
    messages = []
    for engine in (spark, mini):
        events = engine.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
        distinct = events.dropDuplicatesWithinWatermark([]) if within else events.dropDuplicates([])
        with pytest.raises(StreamingQueryException) as error:
            distinct.writeStream.format("noop").trigger(once=True).start().awaitTermination()
        [said] = re.findall("requirement failed: .*", str(error.value))[:1]
        messages.append((said, error.value.getCondition()))
    assert messages[1] == messages[0] and "should not be Nil. An AllTuples" in messages[0][0]


def test_duplicates_are_counted(compare: Compare) -> None:
    comparison = compare(lambda s, d: timed(s, d).dropDuplicates(["k", "ts"]), TIMES)
    counted = [b.progress["stateOperators"][0]["customMetrics"]["numDroppedDuplicateRows"] for b in comparison.model.batches]
    assert sum(counted) == 4


@pytest.mark.parametrize(
    ("key", "within"),
    [("x", True), ("struct(x, id % 2)", False), ("array(x, 1.0)", False), ("struct(array(struct(x)))", True), ("float(x)", False)],
)
def test_equal_numbers_are_one_key(compare: Compare, key: str, within: bool) -> None:
    """0.0 and -0.0, and all that is not a number, have different bytes."""
    numbers = ["0.0", "-0.0", '"NaN"', "1.5", "null", "-0.0", '"NaN"', "null"]
    rows = [f'{{"x": {x}, "id": 2, "ts": "2024-01-01 12:00:00"}}' for x in numbers]

    def distinct(session: Any, input_dir: str) -> Any:
        keyed = session.readStream.schema("x double, id int, ts timestamp").json(input_dir).withColumn("key", F.expr(key))
        keyed = keyed.withWatermark("ts", "1 hour")
        return keyed.dropDuplicatesWithinWatermark(["key"]) if within else keyed.dropDuplicates(["key"])

    comparison = compare(distinct, [rows[:4], rows[4:]])
    assert [len(batch.rows) for batch in comparison.model.batches if batch.rows] == [3, 1]
