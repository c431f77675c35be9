"""Queries that keep no state: each batch alone, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

from tests.conformance.conftest import Compare
from tests.conformance.inputs import RANDOM_SCHEMA, random_rows, read_random

FEED = [random_rows(1), random_rows(2, 15)]


def plus_one(x: int | None) -> int | None:
    return None if x is None else x + 1


def doubled(x: pd.Series) -> pd.Series:
    return x * 2


def upper(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(k=frame["k"].str.upper())


def carriers(session: Any) -> Any:
    return session.createDataFrame([("a", "Alpha"), ("b", "Beta"), ("b", "Bis"), (None, "None")], "k string, name string")


QUERIES: dict[str, Callable[[Any, Any], Any]] = {
    "select and expressions": lambda s, df: df.select("k", (F.col("i") + F.col("d")).alias("sum"), F.expr("s || k"), "st.a"),
    "selectExpr": lambda s, df: df.selectExpr("k", "i * 2 as twice", "case when b then 'yes' else 'no' end as answer"),
    "where and filter": lambda s, df: df.where("i > 0").filter(F.col("k") != "a"),
    "withColumn and withColumns": lambda s, df: df.withColumn("j", F.col("i") + 1).withColumns({"x": F.lit(1), "y": F.col("j")}),
    "withColumnRenamed and drop": lambda s, df: df.withColumnRenamed("k", "key").drop("st", "xs"),
    "explode": lambda s, df: df.select("k", F.explode("xs").alias("x")),
    "explode_outer and posexplode": lambda s, df: df.select("k", F.posexplode_outer("xs")),
    "union of two branches of one stream": lambda s, df: df.where("b").select("k").union(df.where("i < 0").select("s")),
    "unionByName with a missing column": lambda s, df: df.select("k", "i").unionByName(df.select("k", "d"), True),
    "alias": lambda s, df: df.alias("t").select("t.k", F.col("t.i")),
    "a Python UDF": lambda s, df: df.select("k", F.udf(plus_one, "int")("i").alias("j")),
    "a pandas UDF": lambda s, df: df.select("k", F.pandas_udf(doubled, DoubleType())("d").alias("dd")),  # type: ignore[call-overload]
    "mapInPandas": lambda s, df: df.select("k", "i").mapInPandas(upper, "k string, i int"),
    "transform": lambda s, df: df.transform(lambda d: d.select("k", "m")),
    "no rows, as the optimizer sees": lambda s, df: df.where("false").select("k"),
    "dropna and fillna": lambda s, df: df.select("k", "i", "s").dropna(subset=["k"]).fillna({"i": 0, "s": "?"}),
    "replace": lambda s, df: df.select("k", "s").replace("x", "X", "s"),
    "casts, dates and decimals": lambda s, df: df.select(
        F.col("i").cast("string"), F.date_add("dt", 1), F.year("ts"), (F.col("m") * F.col("m")).alias("mm"), "ts"
    ),
    "higher-order functions": lambda s, df: df.select("k", F.transform("xs", lambda x: x + 1), F.size("xs")),
    "to_json and struct": lambda s, df: df.select(F.to_json(F.struct("k", "i", "st"))),
    "coalesce and repartition": lambda s, df: df.select("k").repartition(3).coalesce(1),
    "inner join with a table": lambda s, df: df.select("k", "i").join(carriers(s), "k"),
    "left join with a table": lambda s, df: df.select("k", "i").join(carriers(s), "k", "left"),
    "right join of a table with the stream": lambda s, df: carriers(s).join(df.select("k", "i"), "k", "right"),
    "semi join with a table": lambda s, df: df.select("k", "i").join(carriers(s), "k", "left_semi"),
    "anti join with a table": lambda s, df: df.select("k", "i").join(carriers(s), "k", "left_anti"),
    "join with a table on a range": lambda s, df: df.join(s.range(3), F.col("i") > F.col("id"), "left").select("k", "i", "id"),
    "broadcast hint": lambda s, df: df.select("k", "i").join(F.broadcast(carriers(s)), "k"),
    "sql over a temporary view": lambda s, df: (df.createOrReplaceTempView("stream"), s.sql("select k, i + 1 from stream"))[1],
    "a literal only": lambda s, df: df.select(F.lit(1).alias("one")),
    "no column at all": lambda s, df: df.select(),
    "nothing passes the filter": lambda s, df: df.where("false"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_stateless_query(compare: Compare, name: str) -> None:
    compare(lambda session, input_dir: QUERIES[name](session, read_random(session, input_dir)), FEED)


def test_update_mode_of_a_query_without_state_is_append(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).select("k"), FEED, output_mode="update")


def test_two_sources_are_numbered_in_the_order_of_the_plan(compare: Compare) -> None:
    def build(session: Any, input_dir: str) -> Any:
        left, right = (session.readStream.schema(RANDOM_SCHEMA).json(f"{input_dir}/{side}") for side in ("left", "right"))
        return left.select("k", F.lit("left")).union(right.select("k", F.lit("right")))

    compare(build, [{"left": random_rows(1, 3), "right": random_rows(2, 2)}, {"right": random_rows(3, 2)}, {"left": random_rows(4, 1)}])


def test_observed_metrics_of_the_user_are_reported(compare: Compare) -> None:
    comparison = compare(lambda s, d: read_random(s, d).observe("mine", F.count("*").alias("n"), F.max("i").alias("top")), FEED)
    spark, model = ([b.progress["observedMetrics"] for b in run.batches] for run in (comparison.spark, comparison.model))
    assert spark == model


def test_what_is_broadcast_while_a_batch_is_planned_is_read_with_the_confs_of_the_query(compare: Compare) -> None:
    """Spark broadcasts the stream, which it knows to be small. The parser must not drop the row that the join has no use for."""
    names = lambda s: s.createDataFrame([(2, "two")], "k int, name string")
    build = lambda s, d: s.readStream.schema("k int, v int").json(d).join(names(s), "k")
    confs = {"spark.sql.json.filterPushdown.enabled": "false"}
    comparison = compare(build, [['{"k":null,"v":40}', '{"k":2,"v":50}']], confs=confs)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [2]
