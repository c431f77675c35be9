"""Each batch has a plan of its own: tables as they are at that moment, the batch's time, new seeds. Both engines, batch by batch."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf, udtf

from minispark_stream import MiniSparkSession

BATCHES = [[("a", 1), ("b", 2)], [("a", 3)], [("b", 4)]]
Batch = tuple[list[tuple[Any, ...]], str]


def run(
    session: Any, folder: Path, query: Callable[[Any, Any], Any], mode: str = "append", after_first: Callable[[], Any] | None = None
) -> list[Batch | str | None]:
    """The rows and the schema of each batch, and the condition of the query's error. Random numbers are told by their order."""
    source, found, numbers = folder / "in", [], dict[str, int]()
    source.mkdir(parents=True)
    for i, rows in enumerate(BATCHES):
        (source / f"{i}.json").write_text("\n".join(json.dumps({"k": k, "v": v}) for k, v in rows))
        os.utime(source / f"{i}.json", (1_700_000_000 + i, 1_700_000_000 + i))

    def keep(batch: Any, batch_id: int) -> None:
        rows = sorted(tuple(map(str, row)) for row in batch.collect())
        if "r" in batch.columns:
            at = batch.columns.index("r")
            rows = [(*row[:at], str(numbers.setdefault(row[at], len(numbers))), *row[at + 1 :]) for row in rows]
        found.append((rows, batch.schema.json()))
        if batch_id == 0 and after_first is not None:
            after_first()

    stream = session.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).json(str(source))
    writer = query(session, stream).writeStream.outputMode(mode).foreachBatch(keep).trigger(availableNow=True)
    started = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        started.awaitTermination()
    except StreamingQueryException as e:
        return [*found, e.getCondition()]
    return [*found, None]


class Table:
    """A table of two rows that can change; `static` is what the stream is joined with."""

    def __init__(self, spark: SparkSession, folder: Path, partitioned: bool = False):
        self.spark, self.folder, self.name = spark, folder, f"t{uuid.uuid4().hex}"
        self.path = str(folder / "table")
        by = "partitioned by (w)" if partitioned else ""
        spark.sql(f"create table {self.name} (k string, w int) using parquet {by} location '{self.path}'")
        self.insert("('a', 1), ('b', 2)")
        self.static = spark.table(self.name)

    def insert(self, values: str, how: str = "into") -> None:
        self.spark.sql(f"insert {how} {self.name} values {values}")

    def overwrite_files_and_refresh(self) -> None:
        self.append_files("overwrite")
        self.spark.catalog.refreshTable(self.name)

    def append_files(self, mode: str = "append") -> None:
        self.spark.createDataFrame([("a", 7)], "k string, w int").coalesce(1).write.mode(mode).parquet(self.path)

    def cached(self, static: Any) -> Any:
        self.static = static.cache()
        self.static.count()
        return self.static


def drop_and_create(table: Table) -> None:
    table.spark.sql(f"drop table {table.name}")
    table.spark.sql(f"create table {table.name} using parquet location '{table.path}2' as select 'a' as k, 9 as w")


def joined(table: Table, session: Any, stream: Any) -> Any:
    return stream.join(table.static, "k")


# What the stream is joined with, before the query starts; and what changes after its first batch.
CHANGES: dict[str, tuple[Callable[[Table], Any], Callable[[Table], Any]]] = {
    "files are appended": (lambda t: None, lambda t: t.append_files()),
    "rows are inserted": (lambda t: None, lambda t: t.insert("('a', 7)")),
    "the table is overwritten": (lambda t: None, lambda t: t.insert("('a', 7)", "overwrite")),
    "files are overwritten, and refreshed": (lambda t: None, lambda t: t.overwrite_files_and_refresh()),
    "rows are inserted into a cached table": (lambda t: t.spark.catalog.cacheTable(t.name), lambda t: t.insert("('a', 7)")),
    "files are appended to a cached folder": (lambda t: t.cached(t.spark.read.parquet(t.path)), lambda t: t.append_files()),
    "a cached folder is overwritten": (lambda t: t.cached(t.spark.read.parquet(t.path)), lambda t: t.append_files("overwrite")),
    "there is a new partition": (lambda t: setattr(t, "static", t.static.where("w > 0")), lambda t: t.insert("('a', 7)")),
    "random numbers are cached from the start": (lambda t: t.cached(t.static.withColumn("r", F.rand())), lambda t: None),
    "random numbers are cached": (
        lambda t: setattr(t, "static", t.static.withColumn("r", F.rand())), lambda t: t.static.cache().count()
    ),
    "random numbers are not cached any more": (
        lambda t: t.cached(t.static.withColumn("r", F.rand())), lambda t: t.static.unpersist(True)
    ),
    "the table is another one": (lambda t: None, drop_and_create),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_table_is_seen_in_each_batch_as_spark_sees_it(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, name: str
) -> None:
    before, change = CHANGES[name]
    outcomes = []
    for engine, session in (("spark", spark), ("model", mini)):
        table = Table(spark, tmp_path / engine, partitioned="partition" in name)
        before(table)
        outcomes.append(run(session, tmp_path / engine, partial(joined, table), after_first=partial(change, table)))
        spark.catalog.clearCache()
        spark.sql(f"drop table {table.name}")
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("cached", (False, True))
def test_a_subquery_is_asked_in_each_batch(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, cached: bool) -> None:
    outcomes = []
    for engine, session in (("spark", spark), ("model", mini)):
        table = Table(spark, tmp_path / engine)
        asks = f"select * from st where v >= (select min(w) from {table.name}) and k in (select k from {table.name})"
        if cached:
            spark.catalog.cacheTable(table.name)
        change = partial(table.insert, "('a', 4), ('b', 4)", "overwrite")
        outcomes.append(run(session, tmp_path / engine, sql(asks), after_first=change))
        spark.sql(f"drop table {table.name}")
    assert outcomes[1] == outcomes[0]


def plus(column: Any) -> Any:
    return udf(lambda v: v + 1, "int").asNondeterministic()(column)


class Twice:
    def eval(self, v: int) -> Iterator[tuple[int]]:
        yield (v,)
        yield (v * 2,)


def twice(column: Any) -> Any:
    table_function: Any = udtf(Twice, returnType="y int")
    return table_function(column)


def sql(text: str) -> Callable[[Any, Any], Any]:
    def query(session: Any, stream: Any) -> Any:
        stream.createOrReplaceTempView("st")
        return session.sql(text)

    return query


def with_something_cached(session: Any, stream: Any) -> Any:
    session.range(3).cache()
    return stream.select(F.expr("uniform(1, 2)").alias("x")).select(F.col("x") > 0)


def times(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    different = {str(now) for frame in frames for now in frame["now"]}
    yield pd.DataFrame({"k": [key[0]], "different": [len(different)]})


QUERIES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a common table expression joined with itself": (
        sql("with e as (select k, v from st) select x.k, x.v, y.v w from e x join e y on x.k = y.k"), "append"
    ),
    "random numbers of a common table expression": (
        sql("with e as (select k, rand(7) z from st) select x.k from e x join e y on x.k = y.k and x.z = y.z"), "append"
    ),
    "a function that is not deterministic": (lambda _, s: s.where(plus("v") > 2).select(plus("v").alias("v")), "append"),
    "one below an aggregation": (lambda _, s: s.withColumn("p", plus("v")).groupBy("k").agg(F.sum("p")), "update"),
    "one above an aggregation": (lambda _, s: s.groupBy("k").agg(F.max("v").alias("m")).select("k", plus("m")), "update"),
    "one below dropDuplicates": (lambda _, s: s.withColumn("p", plus("v")).dropDuplicates(["k", "p"]), "append"),
    "one of a table": (lambda m, s: s.join(m.range(3).select("id", plus("id")), F.col("v") == F.col("id")), "append"),
    "a Python table function": (lambda _, s: s.lateralJoin(twice(F.col("v").outer())), "append"),
    "uniform() while something is cached": (with_something_cached, "append"),
    "the time below a function with state": (
        lambda _, s: s.withColumn("now", F.current_timestamp()).groupBy("k").applyInPandasWithState(
            times, "k string, different int", "n int", "append", "NoTimeout"
        ), "append",
    ),
    "names in another case": (
        lambda _, s: s.select(s.k.alias("Key"), s.v.alias("Total")).groupBy("Key", "Total").count().select("TOTAL", "key"), "update"
    ),
    "a map as a key": (lambda _, s: s.select(F.create_map("k", "v").alias("m")).groupBy("m").count(), "update"),
    "the time as a key": (lambda _, s: s.groupBy(F.year(F.current_timestamp()) > 2000).count(), "update"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_the_optimizer_makes_of_a_query_goes_to_the_planner(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, name: str
) -> None:
    query, mode = QUERIES[name]
    expected, found = (run(session, tmp_path / str(i), query, mode) for i, session in enumerate((spark, mini)))
    spark.catalog.clearCache()
    assert found == expected and found[-1] is None


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "a cross join": (lambda s, df: df.join(s.range(3), F.lit(True)), "append"),
    "a Python function in an outer join": (
        lambda s, df: df.join(s.range(3), udf(lambda a, b: a == b, "boolean")("v", "id"), "left"), "append"
    ),
    "an aggregate of the time": (lambda s, df: df.groupBy("k").agg(F.max(F.current_timestamp())), "update"),
    "a join by the time": (lambda s, df: df.join(s.range(3), F.expr("v = id and id < unix_seconds(current_timestamp())")), "append"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_optimised_ends_the_first_batch(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, name: str
) -> None:
    query, mode = REFUSED[name]
    spark.conf.set("spark.sql.crossJoin.enabled", "false")
    try:
        expected, found = (run(session, tmp_path / str(i), query, mode) for i, session in enumerate((spark, mini)))
    finally:
        spark.conf.unset("spark.sql.crossJoin.enabled")
    assert found == expected and len(found) == 1


def test_what_is_broadcast_is_no_planning(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    """A static side that takes long: both engines report its time as addBatch."""
    long = spark.range(500_000_000).select(F.sum(F.xxhash64("id") % 3).alias("n")).select(F.lit("a").alias("k"), "n")
    for i, rows in enumerate(BATCHES):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{i}.json").write_text("\n".join(json.dumps({"k": k, "v": v}) for k, v in rows))
    for name, session in (("spark", spark), ("model", mini)):
        stream = session.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).json(f"{tmp_path}/in")
        writer = stream.join(F.broadcast(long), "k").groupBy("k").count().writeStream.outputMode("update").format("noop")
        query = writer.option("checkpointLocation", f"{tmp_path}/{name}").trigger(availableNow=True).start()
        query.awaitTermination()
        durations = query.recentProgress[-1].durationMs
        assert 2 * durations["queryPlanning"] < durations["addBatch"], (name, durations)


WRITERS: dict[str, Callable[[Any], Any]] = {
    "memory": lambda w: w.format("memory").queryName("explained"),
    "console": lambda w: w.format("console").option("truncate", "false"),
    "noop": lambda w: w.format("noop"),
    "foreach": lambda w: w.foreach(lambda row: None),
    "foreachBatch": lambda w: w.foreachBatch(lambda df, batch_id: df.collect()),
    "files": lambda w: w.format("parquet"),
}


@pytest.mark.parametrize("sink", WRITERS)
def test_the_plan_begins_with_what_writes_the_rows(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, sink: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same line, but for the package and the id of the writer, which the model does not have."""
    plans = []
    for engine, session in (("spark", spark), ("model", mini), ("shown", MiniSparkSession(spark, trace="rows"))):
        (tmp_path / engine / "in").mkdir(parents=True)
        (tmp_path / engine / "in" / "a.txt").write_text("a\n")
        writer = WRITERS[sink](session.readStream.text(f"{tmp_path}/{engine}/in").writeStream).trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{tmp_path}/{engine}/checkpoint").start(f"{tmp_path}/{engine}/out")
        query.awaitTermination()
        capsys.readouterr()
        query.explain()
        _, first, second, *_ = capsys.readouterr().out.splitlines()
        plans.append((re.sub(r"writer: (?:\w+\.)*([\w\[]+)(?:\$+anon\$\d+)?(?:@\w+)?", r"writer: \1", first), second[:11]))
    if sink in ("foreachBatch", "files"):
        assert [first[:8] for first, _ in plans[:2]] == ["FileScan", "FileScan"]
    else:
        assert plans[0] == plans[1] and plans[0][1] == "+- FileScan" and plans[2][0] == plans[0][0]
