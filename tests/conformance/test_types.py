"""What may be in a column: every type as a key and as a value of every operator with state, through state that both engines write.

    pytest tests/conformance/test_types.py                               one cell of each kind of operator, over all types that it takes
    MINISPARK_TYPES=all pytest tests/conformance/test_types.py           all cells so, and each type of each cell anew: an hour
    MINISPARK_TYPES="limit,aggregation" pytest tests/conformance/test_types.py           all cells so, and each type of these anew

The long run writes what it finds into types.json, from which `make docs` makes the table of docs/types.md.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing.objects import PythonOnlyPoint, PythonOnlyUDT

from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.conftest import Compare
from tests.conformance.inputs import rows_of
from tests.conformance.types_by_operators import CELLS, EQUAL, FEED, FOUND, NAMES, compares, outcomes, recorded, ways

ASKED = os.environ.get("MINISPARK_TYPES", "")
ANEW = [(operator, place) for operator, place in CELLS if ASKED == "all" or operator in ASKED.split(",")]
# What a short run looks at: an operator of each kind.
IN_SHORT = [
    ("aggregation", "key"), ("session window", "value"), ("dropDuplicatesWithinWatermark", "key"), ("stream-stream join", "value"),
    ("applyInPandasWithState", "value"), ("transformWithState", "value"),
]


def equal(operator: str, place: str) -> list[str]:
    """The types on which the engines agree there, whoever goes on."""
    return [name for name, cell in recorded()[operator].get(place, {}).items() if set(cell.values()) == {EQUAL}]


@pytest.mark.parametrize(("operator", "place"), CELLS if ASKED else IN_SHORT)
def test_each_engine_goes_on_with_what_the_other_has_kept(compare: Compare, operator: str, place: str) -> None:
    """All types at once; rows, metrics and the bytes of the state are those of Spark alone."""
    names = equal(operator, place)
    keys, values = (names, []) if place == "key" else ([], names)
    relay = ("model", "model", "spark", "model")
    comparison = compare(feed=FEED, **compares(operator, keys, values), restart_after=(0, 1, 2), relay=relay)
    assert comparison.model.batches and comparison.model.error is None


def with_points(session: Any, input_dir: str) -> Any:
    """Rows with values of types that a user has defined: of MLlib's vectors, whose code is in the JVM, and of one only in Python."""
    point = F.udf(lambda v: PythonOnlyPoint(v, 1.0), PythonOnlyUDT())
    rows = session.readStream.schema("k string, v double, ts timestamp").json(input_dir).withWatermark("ts", "1 minute")
    rows = rows.withColumn("vector", array_to_vector(F.array("v", F.lit(1.0)))).withColumn("point", point("v"))
    return rows.withColumn("both", F.struct("vector", F.array("point").alias("points")))


USER_DEFINED = {
    "a value": lambda df: df.groupBy("k").agg(F.first("vector"), F.first("both"), F.first(F.create_map(F.lit(1), "point"))),
    "a key": lambda df: df.groupBy("point", "both").count(),
    "dropDuplicates": lambda df: df.dropDuplicates(["vector", "point"]),
    "a join": lambda df: df.alias("x").join(df.alias("y"), F.expr("x.vector = y.vector AND x.ts = y.ts")).select("x.both", "y.point"),
    "a session": lambda df: df.groupBy(F.session_window("ts", "5 minutes"), "k").agg(F.first("point"), F.max_by("vector", "v")),
}


@pytest.mark.parametrize("relay", [("model",), ("spark", "model")], ids="-".join)
@pytest.mark.parametrize("name", USER_DEFINED)
def test_values_of_types_that_a_user_has_defined(compare: Compare, name: str, relay: tuple[str, ...]) -> None:
    feed = [rows_of({"k": "a", "v": 1, "ts": f"2024-01-01 12:{first}"}, {"k": "b", "v": 2, "ts": f"2024-01-01 12:{last}"})
            for first, last in (("00", "01"), ("00", "31"))]
    mode = "append" if name in ("dropDuplicates", "a join", "a session") else "update"
    comparison = compare(lambda s, d: USER_DEFINED[name](with_points(s, d)), feed, output_mode=mode, restart_after=(0,), relay=relay)
    assert comparison.model.error is None and any(batch.rows for batch in comparison.model.batches)


def test_the_table_has_every_cell() -> None:
    """And each of them was run in every way, or says what both engines refuse or on what they differ."""
    table = recorded()
    assert [(operator, place) for operator in table for place in table[operator]] == CELLS
    for operator, place in CELLS:
        assert list(table[operator][place]) == NAMES, operator
        for cell in table[operator][place].values():
            assert list(cell) == list(ways(operator)) or cell.get("refused") or cell.get("different"), (operator, place, cell)


@pytest.mark.parametrize(("operator", "place"), ANEW)
def test_a_cell_is_what_was_found(spark: SparkSession, spark_files: None, operator: str, place: str) -> None:
    """Long: each type, in each way, on both engines."""
    table, found = recorded(), outcomes(spark, operator, place)
    before = table[operator].get(place)
    table[operator][place] = found
    FOUND.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == before


@pytest.mark.parametrize("name", ["aggregation", "dropDuplicates"])
def test_a_time_is_a_type_where_a_conf_allows_it(compare: Compare, spark: SparkSession, spark_files: None, name: str) -> None:
    def build(session: Any, input_dir: str) -> Any:
        times = session.readStream.text(input_dir).selectExpr("CAST(value AS TIME) AS t", "CAST(value AS TIME(0)) AS s")
        return times.dropDuplicates(["t"]) if name == "dropDuplicates" else times.groupBy("t").agg(F.first("s"), F.count("*"))

    feed = [["12:34:56.789", "00:00:00"], ["12:34:56.789", "23:59:59.999999"], ["00:00:00"]]
    with confs_set(spark, {"spark.sql.timeType.enabled": "true"}):
        compare(build, feed, output_mode="append" if name == "dropDuplicates" else "update", restart_after=range(2))
