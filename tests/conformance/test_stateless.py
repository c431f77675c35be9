"""Queries that keep no state: each batch alone, on both engines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

from minispark_stream import MiniSparkSession
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
    below, above = (F.count("*").alias("n"), F.max("i").alias("top")), F.count("*").alias("n")
    comparison = compare(lambda s, d: read_random(s, d).observe("a", *below).where("b").observe("b", above), FEED)
    spark, model = ([list(b.progress["observedMetrics"].items()) for b in run.batches] for run in (comparison.spark, comparison.model))
    assert spark == model


def test_a_user_may_give_any_name_to_what_is_observed_beside_a_watermark(compare: Compare) -> None:
    """The model observes event times in the same way."""
    names = ("eventTimeStats:0", "eventTimeStats", "max")

    def build(session: Any, input_dir: str) -> Any:
        times = session.readStream.text(input_dir).select(F.expr("timestamp_seconds(int(value))").alias("max"))
        for name in names:
            times = times.observe(name, F.count("*").alias("count"))
        return times.withWatermark("max", "1 second").dropDuplicates(["max"])

    comparison = compare(build, [["5", "6"], ["9", "9"]])
    for run in (comparison.spark, comparison.model):
        assert {name: list(row) for name, row in run.batches[0].progress["observedMetrics"].items()} == dict.fromkeys(names, [2])
        assert "1970-01-01T00:00:08.000Z" in {b.progress["eventTime"]["watermark"] for b in run.batches}


def test_metrics_are_not_reported_where_one_has_no_form_in_json(compare: Compare) -> None:
    odd = {"d": "max(make_dt_interval(i))", "y": "max(make_ym_interval(i))", "v": "first(parse_json('{\"a\":1}'))"}
    metrics = [F.expr(e).alias(x) for x, e in odd.items()]
    comparison = compare(lambda s, d: read_random(s, d).observe("odd", *metrics).observe("n", F.count("*").alias("n")), FEED)
    assert not any(b.progress.get("observedMetrics") for run in (comparison.spark, comparison.model) for b in run.batches)


def test_what_is_broadcast_while_a_batch_is_planned_is_read_with_the_confs_of_the_query(compare: Compare) -> None:
    """Spark broadcasts the stream, which it knows to be small. The parser must not drop the row that the join has no use for."""
    names = lambda s: s.createDataFrame([(2, "two")], "k int, name string")
    build = lambda s, d: s.readStream.schema("k int, v int").json(d).join(names(s), "k")
    confs = {"spark.sql.json.filterPushdown.enabled": "false"}
    comparison = compare(build, [['{"k":null,"v":40}', '{"k":2,"v":50}']], confs=confs)
    assert [b.progress["numInputRows"] for b in comparison.model.batches] == [2]


@pytest.mark.parametrize(
    "query",
    [
        lambda df, empty: df.observe("seen", F.count("*").alias("n")).dropDuplicates(["k"]).join(empty, "k"),
        lambda df, empty: df.observe("seen", F.count("*").alias("n")).groupBy("k").count().join(empty, "k", "left_semi"),
        lambda df, empty: df.dropDuplicates(["k"]).join(empty.union(empty), F.lit(False)),
    ],
    ids=["inner", "left semi", "a condition that never holds"],
)
def test_a_join_with_an_empty_table_leaves_the_stream_as_it_is(compare: Compare, query: Any) -> None:
    """Spark's optimizer drops both sides of such a join, but not those that are streams: their state would miss rows."""
    def build(session: Any, input_dir: str) -> Any:
        return query(read_random(session, input_dir).select("k", "i"), session.sql("select 'x' as k where 1 = 0"))

    comparison = compare(build, FEED, output_mode="update")
    assert all(batch.progress["numInputRows"] > 0 for batch in comparison.model.batches)


@pytest.mark.parametrize("engine", ["spark", "model"])
def test_random_numbers_are_others_in_each_batch(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, engine: str) -> None:
    """Seeds are given by the analysis or the user once; each batch gets new ones, even in the place of the user's."""
    session, source, rows = spark if engine == "spark" else mini, tmp_path / "in", []
    source.mkdir()
    numbers = session.readStream.text(str(source)).select(
        F.expr("uuid()").alias("id"), F.rand(7).alias("a"), F.randn().alias("b"), F.shuffle(F.sequence(F.lit(1), F.lit(40))).alias("c")
    )
    writer = numbers.dropDuplicates(["id"]).writeStream.foreachBatch(lambda df, _: rows.extend(df.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for name in ("0.txt", "1.txt", "2.txt"):
        (source / name).write_text("a row")
        writer.trigger(availableNow=True).start().awaitTermination()
    assert len(rows) == 3
    assert all(len({str(row[column]) for row in rows}) == 3 for column in numbers.columns)


def test_the_time_of_the_batch_is_that_of_all_expressions(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    """In a condition and below several grouping sets as well as in a projection."""
    now = F.current_timestamp()
    for session in (spark, mini):
        rows: list[Any] = []
        stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load().withColumn("now", now)
        grouped = stream.where(F.col("now") == now).rollup(F.lit(1).alias("i"), now.alias("t")).agg(F.max("now").alias("m"))
        def keep(df: Any, _: int, rows: list[Any] = rows) -> None:
            rows.extend(df.collect())

        writer = grouped.writeStream.outputMode("complete").foreachBatch(keep)
        writer.trigger(once=True).start().awaitTermination()
        assert len(rows) == 3 and len({row.m for row in rows} | {row.t for row in rows if row.t}) == 1


def test_what_is_cached_is_read_from_the_cache(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    """The files of a table may change: who has cached what was computed from them goes on with that."""
    def run(session: Any, folder: Path) -> list[Any]:
        files, rows, source = str(folder / "table"), [], folder / "in"
        spark.range(4).selectExpr("id % 2 as k", "id as v").write.parquet(files)
        table = spark.read.parquet(files).groupBy("k").agg(F.max("v").alias("most")).cache()
        table.count()
        source.mkdir()
        stream = session.readStream.schema("k long").json(str(source)).join(table, "k").where("most > 0").select("k", "most")
        writer = stream.writeStream.foreachBatch(lambda df, _: rows.append(sorted(map(tuple, df.collect()))))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        for i in range(2):
            (source / f"{i}.json").write_text('{"k": 0}\n{"k": 1}')
            writer.trigger(availableNow=True).start().awaitTermination()
            shutil.rmtree(files, ignore_errors=True)
        table.unpersist()
        return rows

    assert run(mini, tmp_path / "model") == run(spark, tmp_path / "spark") == [[(0, 2), (1, 3)]] * 2
