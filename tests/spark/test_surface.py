"""The surface: what a PySpark user sees of a session, of readers and writers, of a query's report and of errors, on both engines.

A snippet is run on real Spark and on the model, each in a folder of its own with one file of text below `in`. What it gives must
be equal; or what it raises: the class, the condition, the SQL state and the text.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener, StreamingQueryManager
from pyspark.sql.types import LongType

Snippet = Callable[[Any, str], Any]


def same_on_both(spark: Any, mini: Any, tmp_path: Path, snippets: dict[str, Snippet]) -> None:
    different = []
    for i, (name, snippet) in enumerate(snippets.items()):
        outcomes = []
        for engine, session in (("spark", spark), ("model", mini)):
            folder = tmp_path / engine / str(i)
            (folder / "in").mkdir(parents=True)
            (folder / "in" / "a.txt").write_text("a\nb\n")
            outcomes.append(outcome(snippet, session, str(folder)))
            for query in session.streams.active:
                query.stop()
        if outcomes[0] != outcomes[1]:
            different.append(f"{name}\n    spark: {outcomes[0]}\n    model: {outcomes[1]}")
    assert not different, "\n" + "\n".join(different)


def outcome(snippet: Snippet, session: Any, folder: str) -> tuple[Any, ...]:
    try:
        return ("gives", snippet(session, folder))
    except StreamingQueryException as e:  # of which only the cause is told here
        return "ends with", str(e).split("terminated with exception: ")[1].split(" SQLSTATE: XXKST")[0]
    except Exception as e:
        lines = re.sub(r"calling \S+", "calling it", str(e)).replace(folder, "FOLDER").split("\n")
        said = lines[:2]  # what is wrong, and of a plan its first node; the leaves of the engines are not the same
        return type(e).__name__, *(getattr(e, ask, lambda: None)() for ask in ("getCondition", "getSqlState")), said


def text(session: Any, folder: str) -> DataFrame:
    return session.readStream.text(f"{folder}/in")


def run(writer: Any, folder: str, path: str | None = None) -> Any:
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start(path)
    query.awaitTermination()
    return query


def public(value: Any) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_") and name not in ("trace", "explain_output")]


class Listener(StreamingQueryListener):
    """Equal to every other one, which must not matter."""

    def __init__(self) -> None:
        self.started = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listener)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.started += 1

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


def listeners(session: Any, folder: str) -> tuple[int, int]:
    """Added twice, taken away once; and one that is not there is taken away."""
    twice, once = Listener(), Listener()
    for listener in (twice, twice, once):
        session.streams.addListener(listener)
    session.streams.removeListener(twice)
    session.streams.removeListener(Listener())
    run(text(session, folder).writeStream.format("noop"), folder)
    for listener in (twice, once):
        session.streams.removeListener(listener)
    return twice.started, once.started


class Reports(StreamingQueryListener):
    """Keeps what it is told of the batches of queries that start after it is added: the end of an older one may be told late."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.told: list[Any] = []
        self.ended = threading.Semaphore(0)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.runs.append(event.runId)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.runId in self.runs:
            self.told.append(event.progress)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        if event.runId in self.runs:
            self.ended.release()


def reports(session: Any, folder: str) -> list[Any]:
    """The types of observed metrics, the text of offsets, the looks of a report's parts, what a batch without anything has."""
    listener = Reports()
    session.streams.addListener(listener)
    rows = text(session, folder).withColumn("time", F.timestamp_seconds(F.ascii("value") + 0.5))
    observed = rows.observe(
        "checks", F.count("*").alias("rows"), F.max("time").alias("last"), F.max(F.to_date("time")).alias("day"),
        F.sum(F.lit(1).cast("decimal(10, 2)")).alias("decimal"), F.max(F.encode("value", "utf-8")).alias("bytes"),
        F.max(F.struct("value", "time")).alias("both"), F.sort_array(F.collect_set("value")).alias("all"),
    )
    run(observed.withWatermark("time", "1 minute").groupBy("time").count().writeStream.format("noop"), folder)
    run(text(session, folder).writeStream.format("noop"), folder + "/again")
    for _ in range(2):
        assert listener.ended.acquire(timeout=30)
    session.streams.removeListener(listener)
    return [
        (
            type(one), one.name, one.batchId, one.numInputRows, one.eventTime, one.observedMetrics, sorted(one.durationMs),
            [(s.startOffset, s.endOffset, s.latestOffset, s.metrics) for s in one.sources], str(one.sink),
            [re.sub(r"\d+", "", str(operator)).split("customMetrics")[0] for operator in one.stateOperators],
        )
        for one in listener.told
    ]


def sessions_of(session: Any, folder: str) -> list[Any]:
    """Whatever a session or a DataFrame leads to is of the same engine."""
    kind, query, inner = type(session), text(session, folder).writeStream.format("noop").queryName("one").start(), []
    df = text(session, folder).where("value > ''")
    session.createDataFrame([(1,)], "a int")  # makes the session the active one
    run(df.writeStream.foreachBatch(lambda batch, _: inner.append(type(batch.sparkSession))), folder)
    found = [
        kind.builder.getOrCreate(), kind.getActiveSession(), kind.active(), session.newSession(), copy.copy(session), df.sparkSession
    ]
    return [
        [type(one) is kind for one in found], inner == [kind], df.sparkSession is session, session.__enter__() is session,
        [type(one.readStream) is type(session.readStream) for one in found],
        [one.name for one in df.sparkSession.streams.active], [one.name for one in copy.copy(session).streams.active],
        len(session.newSession().streams.active), session.streams is session.streams,
        isinstance(session, SparkSession), isinstance(session.streams, StreamingQueryManager),
        session.streams.get(query.id).name, kind.__exit__ is SparkSession.__exit__,
    ]


SESSION: dict[str, Snippet] = {
    "sessions": sessions_of,
    "listeners": listeners,
    "what listeners are told of batches": reports,
    "names of the session": lambda s, d: public(s),
    "names of the manager": lambda s, d: public(s.streams),
    "names of a reader": lambda s, d: public(s.readStream),
    "names of a writer": lambda s, d: public(text(s, d).writeStream),
    "names of a query": lambda s, d: public(text(s, d).writeStream.format("noop").start()),
    "table": lambda s, d: (s.range(3).createOrReplaceTempView("three"), s.table(tableName="three").count())[1],
    "table of a number": lambda s, d: s.table(3),
    "a number as a listener": lambda s, d: s.streams.addListener(3),
    "the class of a listener": lambda s, d: s.streams.addListener(Listener),
    "a number as a listener to be removed": lambda s, d: s.streams.removeListener(3),
    "a UUID or a number as an id": lambda s, d: [outcome(lambda *_: s.streams.get(one), s, d)[0] for one in (uuid.uuid4(), 17)],  # noqa: B023
    "an unknown id": lambda s, d: s.streams.get("00000000-0000-0000-0000-000000000000"),
    "no id at all": lambda s, d: s.streams.get("junk"),
    "None as an id": lambda s, d: s.streams.get(None),
}


def test_a_session_and_where_it_leads(spark, mini, tmp_path):
    same_on_both(spark, mini, tmp_path, SESSION)


def actions(session: Any, folder: str) -> list[str]:
    """What a stream says to some actions, with its source as Spark shows it."""
    told = []
    for name in ("count", "cache", "toJSON", "inputFiles", "localCheckpoint"):
        with pytest.raises(AnalysisException) as e:
            getattr(text(session, folder), name)()
        told.append(str(e.value).replace(folder, "FOLDER"))
    return told


READS: dict[str, Snippet] = {
    "actions": actions,
    "xml": lambda s, d: s.readStream.xml(f"{d}/in", rowTag="r", schema="a int").schema,
    "xml without a schema": lambda s, d: s.readStream.xml(f"{d}/in", rowTag="r"),
    "binaryFile": lambda s, d: s.readStream.format("binaryFile").load(f"{d}/in"),
    "images": lambda s, d: s.readStream.format("image").load(f"{d}/in"),
    "a state store": lambda s, d: s.readStream.format("statestore").load(f"{d}/in"),
    "a path as a table": lambda s, d: s.readStream.table(f"text.`{d}/in`").isStreaming,
    "no path": lambda s, d: s.readStream.format("xml").schema("a int").load(),
    "no such path": lambda s, d: s.readStream.text(f"{d}/nope"),
    "a path and an option": lambda s, d: s.readStream.option("path", d).load(d, format="text"),
    "a path and an option, in short": lambda s, d: s.readStream.option("path", d).text(d),
    "a schema for rate": lambda s, d: s.readStream.schema("a int").format("rate").load(),
    "socket without a host": lambda s, d: s.readStream.format("socket").load(),
    "a named source": lambda s, d: s.readStream.name("one").text(f"{d}/in"),
    "a builder with a name": lambda s, d: s.readStream.name("one").option("a", 1) is None,
    "a name that is none": lambda s, d: s.readStream.name("one two"),
    "the changes of a table": lambda s, d: s.readStream.changes("nope"),
    "a pipeline of batches": lambda s, d: s.range(3).writeStream,
}

WRITES: dict[str, Snippet] = {
    "no mode for aggregates": lambda s, d: text(s, d).groupBy("value").count().writeStream.format("noop").start(),
    "a limit": lambda s, d: text(s, d).limit(3).writeStream.outputMode("update").format("noop").start(),
    "memory without a name": lambda s, d: text(s, d).writeStream.format("memory").start(),
    "no checkpoint": lambda s, d: text(s, d).writeStream.format("parquet").start(d),
    "a mode that files cannot have": lambda s, d: run(
        text(s, d).groupBy("value").count().writeStream.outputMode("update").format("PARQUET"), d, f"{d}/out"
    ),
    "a path and an option": lambda s, d: text(s, d).writeStream.format("parquet").option("path", d).start(d),
    "memory, again": lambda s, d: [run(text(s, d).writeStream.format("memory").queryName("again"), d) for _ in range(2)],
    "partitioned and clustered": lambda s, d: text(s, d).writeStream.partitionBy("value").clusterBy("value"),
    "clustered and partitioned": lambda s, d: text(s, d).writeStream.clusterBy("value").partitionBy("value"),
    "clustered by what is not there": lambda s, d: run(text(s, d).writeStream.clusterBy("x").format("json"), d, f"{d}/out"),
    "noop clusters by anything": lambda s, d: run(text(s, d).writeStream.clusterBy("x").format("noop"), d).lastProgress.numInputRows,
    "foreachbatch": lambda s, d: text(s, d).writeStream.format("foreachbatch").start(),
    "a format of which streams are only read": lambda s, d: text(s, d).writeStream.format("rate").start(),
    "a number as a format": lambda s, d: s.readStream.text(f"{d}/in").writeStream.format(3),
    "a number as the name of an option": lambda s, d: s.readStream.text(f"{d}/in").writeStream.option(3, "a"),
    "a number as a path": lambda s, d: s.readStream.text(f"{d}/in").writeStream.format("noop").start(3),
    "a list of paths": lambda s, d: s.readStream.text(f"{d}/in").writeStream.format("json").option("checkpointLocation", d).start([d]),
    "partitioned by None": lambda s, d: run(s.readStream.text(f"{d}/in").writeStream.partitionBy(None).format("json"), d, f"{d}/out"),
    "a format of batches": lambda s, d: text(s, d).writeStream.format("jdbc").start(),
    "files of Hive": lambda s, d: text(s, d).writeStream.format("Hive").start(d),
    "a table that is partitioned by what is not there": lambda s, d: text(s, d).writeStream.partitionBy("z").toTable("no", checkpointLocation=d),
    "a table of too many names": lambda s, d: text(s, d).writeStream.toTable("a.b.c.d", checkpointLocation=d),
    "a table of three names": lambda s, d: text(s, d).writeStream.toTable("a.b.c", checkpointLocation=d),
    "a table of the session catalog": lambda s, d: text(s, d).writeStream.toTable("spark_catalog.b.c.d", checkpointLocation=d),
    "a table in no database": lambda s, d: text(s, d).writeStream.toTable("nope.c", checkpointLocation=d),
    "a name that is taken": lambda s, d: [text(s, d).writeStream.format("noop").queryName("taken").start() for _ in range(2)],
    "the view of a refused query": lambda s, d: view_of_the_user(s, text(s, d).groupBy("value").count(), "append"),
    "the view of a query whose name is taken": lambda s, d: view_of_a_query(s, d),
}


def view_of_the_user(session: Any, df: DataFrame, mode: str) -> tuple[str, int]:
    session.range(5).createOrReplaceTempView("mine")
    with pytest.raises(Exception, match="without watermark"):
        df.writeStream.outputMode(mode).format("memory").queryName("mine").start()
    return session.table("mine").schema.simpleString(), session.table("mine").count()


def view_of_a_query(session: Any, folder: str) -> int:
    writer = text(session, folder).writeStream.format("memory").queryName("shown")
    writer.start().processAllAvailable()
    with pytest.raises(Exception, match="already active"):
        writer.start()
    return int(session.table("shown").count())


def test_what_is_refused(spark, mini, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "minispark_stream")
    same_on_both(spark, mini, tmp_path, {**{f"read: {n}": r for n, r in READS.items()}, **WRITES})


@F.pandas_udf(LongType())  # type: ignore[call-overload]
def size(values: pd.Series) -> int:
    return len(values)


def reported(query: Any) -> tuple[bool, str, int]:
    """Whether a report has event times, what it calls the sink without an object's id, and the rows that the sink has counted."""
    report = json.loads(query.lastProgress.json)
    return "eventTime" in report, re.split("[@(]", report["sink"]["description"])[0], report["sink"]["numOutputRows"]


def timed(session: Any, folder: str) -> DataFrame:
    return text(session, folder).selectExpr("timestamp'2024-01-01' t", "timestamp'2024-01-01' u").withWatermark("t", "1 minute")


def counted(session: Any, folder: str, *functions: Any) -> Any:
    return text(session, folder).groupBy("value").agg(*functions).writeStream.outputMode("update").format("noop")


def clustered_table(session: Any, folder: str) -> list[Any]:
    name = f"clustered_{uuid.uuid4().hex}"
    writer = text(session, folder).writeStream.clusterBy("VALUE").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).toTable(name).awaitTermination()
    rows = session.sql(f"describe {name}").collect() + session.table(name).orderBy("value").collect()
    session.sql(f"drop table {name}")
    return [tuple(row) for row in rows]


RUNS: dict[str, Snippet] = {
    "noop": lambda s, d: reported(run(text(s, d).writeStream.format("noop"), d)),
    "console": lambda s, d: reported(run(text(s, d).writeStream.format("console").option("numRows", 1), d)),
    "foreach": lambda s, d: reported(run(text(s, d).writeStream.foreach(print), d)),
    "foreachBatch": lambda s, d: reported(run(text(s, d).writeStream.foreachBatch(lambda batch, _: batch.show()), d)),
    "memory": lambda s, d: reported(run(text(s, d).writeStream.format("memory").queryName("reported"), d)),
    "a watermark": lambda s, d: reported(run(timed(s, d).writeStream.format("noop"), d)),
    "xml": lambda s, d: run(s.readStream.schema("a int").xml(f"{d}/in", rowTag="r").writeStream.format("noop"), d).lastProgress.numInputRows,
    "xml files": lambda s, d: (run(text(s, d).writeStream.format("xml").option("rowTag", "r"), d, f"{d}/out"), os.path.exists(f"{d}/out/_spark_metadata/0"))[1],
    "binaryFile": lambda s, d: run(s.readStream.schema(s.read.format("binaryFile").load(d).schema).format("binaryFile").load(f"{d}/in").writeStream.format("noop"), d).lastProgress.numInputRows,
    "clustered files": lambda s, d: reported(run(text(s, d).writeStream.clusterBy("value").format("json"), d, f"{d}/out"))[2],
    "a clustered table": clustered_table,
    "truncate that is no boolean": lambda s, d: run(text(s, d).writeStream.format("console").option("truncate", "maybe"), d),
    "numRows that is no number": lambda s, d: run(text(s, d).writeStream.format("console").option("numRows", "many"), d),
    "a file in the place of a folder": lambda s, d: run(s.readStream.text(f"{d}/in/a.txt").writeStream.format("noop"), d),
    "a watermark twice": lambda s, d: run(timed(s, d).withWatermark("t", "2 minutes").writeStream.format("noop"), d),
    "a watermark of another column": lambda s, d: run(timed(s, d).withWatermark("u", "2 minutes").writeStream.format("noop"), d),
    "a pandas aggregate": lambda s, d: run(counted(s, d, size("value")), d),
    "a pandas aggregate beside another one": lambda s, d: run(counted(s, d, size("value"), F.count("*")), d),
    "no function for foreachBatch": lambda s, d: failing_sink(s, d, "foreachBatch"),
}


def failing_sink(session: Any, folder: str, name: str) -> str:
    with pytest.raises(StreamingQueryException) as e:
        run(text(session, folder).writeStream.format(name), folder)
    return str(e.value).split("terminated with exception: ")[1].split("]")[0]


def test_what_runs_and_how_it_is_reported(spark, mini, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL, "minispark_stream")
    same_on_both(spark, mini, tmp_path, RUNS)


class Locked:
    """A writer that cannot be sent to a task."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def process(self, row: Any) -> None: ...


def seen_by_tasks(session: Any, folder: str) -> list[str]:
    """What a task finds of its batch, in the description without the ids of the query."""
    def of_batch(_: Any) -> str:
        find = TaskContext.get().getLocalProperty  # type: ignore[union-attr]
        return f"{find('streaming.sql.batchId')} {str(find('spark.job.description')).split('batch')[-1]}"

    rows: list[Any] = []
    (Path(folder) / "in" / "b.txt").write_text("c\n")
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/in").select(F.udf(of_batch)("value").alias("seen"))
    writer = lines.writeStream.foreachBatch(lambda df, _: rows.extend(df.distinct().collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    return [row.seen for row in rows]


def with_conf(session: Any, key: str, value: str, action: Callable[[], Any]) -> Any:
    session.conf.set(key, value)
    try:
        return action()
    finally:
        session.conf.unset(key)


def finished(session: Any, folder: str) -> Any:
    for i in range(3):
        (Path(folder) / "in" / f"{i}.txt").write_text("x\n")
    lines = session.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/in")
    query = lines.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def waited(session: Any, folder: str, timeout: Any) -> Any:
    query = text(session, folder).writeStream.format("noop").start()
    query.processAllAvailable()
    return query.awaitTermination(timeout)


def reader_used_twice(session: Any) -> list[str]:
    session.sql("create table if not exists twice (v string) using parquet")
    reader = session.readStream
    reader.table("twice")
    return reader.format("rate").load().columns


def test_what_a_reader_of_sparks_source_would_try(spark: SparkSession, mini: Any, tmp_path: Path) -> None:
    kept, checkpoints = "spark.sql.streaming.numRecentProgressUpdates", "spark.sql.streaming.checkpointLocation"
    same_on_both(spark, mini, tmp_path, {
        "the name as an option": lambda s, d: text(s, d).writeStream.format("memory").option("QueryName", "named").start().name,
        "a sink in another spelling": lambda s, d: text(s, d).writeStream.format("Console").start(),
        "noop in another spelling": lambda s, d: text(s, d).writeStream.format("NOOP").start(),
        "no checkpoint but an empty one": lambda s, d: text(s, d).writeStream.format("noop").option("checkpointLocation", "").start(),
        "an empty default": lambda s, d: with_conf(s, checkpoints, "", text(s, d).writeStream.format("noop").start),
        "no time to wait": lambda s, d: waited(s, d, 0),
        "less than a millisecond": lambda s, d: waited(s, d, 0.0001),
        "a reader that has read a table": lambda s, d: reader_used_twice(s),
        "keys that JSON cannot have": lambda s, d: s.readStream.schema("m map<int,string>").json(f"{d}/in"),
        "the same by its format": lambda s, d: s.readStream.schema("m map<int,string>").format("json").load(f"{d}/in").columns,
        "keys that XML cannot have": lambda s, d: s.readStream.schema("m map<int,string>").option("rowTag", "r").xml(f"{d}/in"),
        "how many reports are kept": lambda s, d: with_conf(s, kept, "3", lambda: len(finished(s, d).recentProgress)),
        "rates to one decimal": lambda s, d: {
            round(rate * 10) / 10 == rate for p in finished(s, d).recentProgress for rate in (p["processedRowsPerSecond"], *(
                source["inputRowsPerSecond"] for source in p["sources"]))
        },
        "what a task finds of its batch": seen_by_tasks,
        "a batch sink in a continuous query": lambda s, d: text(s, d).writeStream.format("parquet").trigger(
            continuous="1 second").option("checkpointLocation", f"{d}/c").start(f"{d}/out").awaitTermination(60),
    })


def test_a_writer_that_cannot_be_sent_is_refused_at_once(spark: SparkSession, mini: Any) -> None:
    for session in (spark, mini):
        with pytest.raises(PicklingError, match="cannot pickle '_thread.lock' object"):
            session.readStream.format("rate").load().writeStream.foreach(Locked())
