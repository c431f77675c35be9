"""What Spark's suites of the file source, the sinks, the queries and their manager hold, and a user of PySpark can see."""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from tests.spark.test_surface import run, same_on_both, text, with_conf

STREAMING = "org.apache.spark.sql.execution.streaming"
CONF = "spark.sql.streaming"
FILE_FORMATS = "org.apache.spark.sql.execution.datasources"


def words(action: Callable[..., Any], *arguments: Any) -> Any:
    """What an action raises: its class, and the text without ids, of a Java exception up to its stack trace."""
    try:
        return action(*arguments)
    except Exception as e:
        said = re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", str(e)).split("\n\tat ")[0]
        return type(e).__name__, re.sub("calling .*", "", said.split("\n\n")[0])


def counts(session: Any, folder: str) -> Any:
    return text(session, folder).groupBy("value").count().writeStream.outputMode("update").format("noop")


def classes_of_sinks(session: Any, folder: str) -> Any:
    found = []
    for i, name in enumerate((f"{FILE_FORMATS}.v2.json.JsonDataSourceV2", "org.apache.spark.sql.csv")):
        run(text(session, folder).writeStream.format(name), f"{folder}/{i}", f"{folder}/out{i}")
        found.append(session.read.text(f"{folder}/out{i}").count())
    return found


def with_nulls(session: Any, folder: str, count: bool) -> Any:
    """Of a column that cannot be null, as the schema has it."""
    Path(folder, "in", "a.txt").write_text('{"a": null}\n{"a": 2}\n{}\n')
    schema = StructType([StructField("a", LongType(), nullable=False)])
    out: list[Any] = []

    def start() -> None:
        rows = session.readStream.schema(schema).json(f"{folder}/in")
        assert not rows.schema["a"].nullable
        writer = (rows.groupBy("a").count() if count else rows).writeStream.outputMode("update" if count else "append")
        run(writer.foreachBatch(lambda batch, _: out.extend(map(tuple, batch.collect()))), folder)

    with_conf(session, f"{CONF}.fileSource.schema.forceNullable", "false", start)
    return sorted(out, key=str)


def printed(action: Callable[..., Any], *arguments: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        action(*arguments)
    return re.sub(r"#\d+|@\w+|plan_id=\d+|runId = \S+", "", out.getvalue())


def explained(session: Any, folder: str) -> list[str]:
    folder = str(Path(folder).parents[1] / "shared")
    Path(folder, "in").mkdir(parents=True, exist_ok=True)
    return [printed(df.explain, True) for df in (
        text(session, folder), text(session, folder).groupBy("value").count(), session.readStream.format("rate").load(),
        text(session, folder).join(session.createDataFrame([("a",)], "value string"), "value"),
    )]


def dropped_view(session: Any, folder: str) -> Any:
    query = text(session, folder).writeStream.format("memory").queryName("dropped").start()
    query.processAllAvailable()
    rows = session.table("dropped").count()
    session.catalog.dropTempView("dropped")
    Path(folder, "in", "b.txt").write_text("c\n")
    query.processAllAvailable()
    return rows, session.catalog.tableExists("dropped")


def is_continuous(session: Any, folder: str) -> Any:
    found: list[Any] = []

    def of_task(_: str) -> str | None:
        task = TaskContext.get()
        assert task is not None
        return task.getLocalProperty("__is_continuous_processing")

    asked = text(session, folder).select(F.udf(of_task)("value").alias("is"))
    run(asked.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect())), folder)
    return [row["is"] for row in found]


def stopped_too_late(session: Any, folder: str) -> Any:
    """A conf of the session counts when the query is stopped."""
    begun, may_end = threading.Event(), threading.Event()

    def wait(*_: Any) -> None:
        begun.set()
        may_end.wait(30)

    query = text(session, folder).writeStream.foreachBatch(wait).start()
    begun.wait(30)
    said = with_conf(session, f"{CONF}.stopTimeout", "200", lambda: words(query.stop))
    may_end.set()
    query.stop()
    return said[0], said[1].partition(" See the cause")[0], query.isActive


def escaped(session: Any, folder: str) -> Any:
    """Under the paths of Spark 2.4, which had escaped a space once or three times."""
    Path(folder, "a%252520b").mkdir()
    Path(folder, "out%20x", "_spark_metadata").mkdir(parents=True)
    rows = text(session, folder).writeStream
    starts = (
        lambda: rows.format("noop").option("checkpointLocation", f"{folder}/a b").start(),
        lambda: rows.format("text").option("checkpointLocation", f"{folder}/c").start(f"{folder}/out x"),
    )
    found = [words(start)[1].replace(folder, "FOLDER") for start in starts]
    checked = f"{CONF}.checkpoint.escapedPathCheck.enabled"
    return found, [with_conf(session, checked, "false", lambda: start() is None) for start in starts]  # noqa: B023


def folders_in_logs(session: Any, folder: str) -> Any:
    """A folder is no entry of a log, so nothing says that the file with the id of the query is lost."""
    Path(folder, "checkpoint", "commits", "0").mkdir(parents=True)
    return words(run, counts(session, folder), folder)[1].partition("\n")[0].replace(folder, "FOLDER").partition("exception: ")[2]


def never_compacted(session: Any, folder: str) -> Any:
    started = lambda: run(text(session, folder).writeStream.format("text"), folder, f"{folder}/out")
    return [words(with_conf, session, f"{CONF}.{log}.log.compactInterval", value, started)
            for log in ("fileSource", "fileSink") for value in ("0", "-1")]


def into_the_catalog(session: Any, folder: str) -> Any:
    run_ = text(session, folder).writeStream.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True)
    name = f"spark_catalog.default.into_{Path(folder).parent.name}"
    run_.toTable(name).awaitTermination()
    rows = session.table(name).count()
    session.sql(f"drop table {name}")
    return rows


def later_than_its_first_batch(session: Any, folder: str) -> Any:
    def rows(start_ms: int) -> Any:
        source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("startTimestamp", start_ms)
        return source.load().writeStream

    words(lambda: run(rows(0).foreachBatch(lambda *_: 1 / 0), folder))
    return run(rows(5000).format("noop"), folder)


def started_twice(session: Any, folder: str) -> Any:
    writer = text(session, folder).writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    writer.start()
    return with_conf(session, f"{CONF}.stopActiveRunOnRestart", "false", lambda: words(writer.start))


def test_what_sparks_suites_hold(spark: SparkSession, mini: Any, tmp_path: Path) -> None:
    state_store = f"{CONF}.stateStore.providerClass"
    same_on_both(spark, mini, tmp_path, {
        "a source by its class": lambda s, d: [s.readStream.format(name).load().columns for name in (
            f"{STREAMING}.RateSourceProvider", f"{STREAMING}.sources.RateStreamProvider")],
        "files by their class": lambda s, d: s.readStream.format(f"{FILE_FORMATS}.csv.CSVFileFormat").schema("a int").load(f"{d}/in").columns,
        "no such class": lambda s, d: s.readStream.format("no.such.Class").load(),
        "sinks by their class": classes_of_sinks,
        "a sink by its class, in another mode": lambda s, d: run(
            text(s, d).groupBy().count().writeStream.outputMode("update").format("org.apache.spark.sql.parquet"), d, f"{d}/out"),
        "a setting of Hadoop": lambda s, d: words(lambda: s.readStream.option("fs.defaultFS", "nope://nope").text("/in")),
        "nulls where the schema has none": lambda s, d: with_nulls(s, d, count=False),
        "their count": lambda s, d: with_nulls(s, d, count=True),
        "a stream is explained": explained,
        "two loads of one folder": lambda s, d: [text(s, d).sameSemantics(text(s, d)), text(s, d).sameSemantics(text(s, f"{d}/.."))],
        "a view that is dropped": dropped_view,
        "a state store that is no class": lambda s, d: with_conf(s, state_store, "no.such.Class", lambda: run(counts(s, d), d)),
        "a state store that is none": lambda s, d: with_conf(s, state_store, "java.lang.String", lambda: run(counts(s, d), d)),
        "a codec of the state": lambda s, d: with_conf(s, f"{CONF}.stateStore.compression.codec", "no", lambda: run(counts(s, d), d)),
        "what a task is told": is_continuous,
        "a stop that takes too long": stopped_too_late,
        "paths of Spark 2.4": escaped,
        "folders in the logs": folders_in_logs,
        "no entry between two compactions": never_compacted,
        "a table by its full name": into_the_catalog,
        "a batch that is to begin later": later_than_its_first_batch,
        "a second run": started_twice,
        "no file to infer a schema from": lambda s, d: with_conf(
            s, f"{CONF}.schemaInference", "true", lambda: s.readStream.json(f"{d}/in/*.json")),
    })
