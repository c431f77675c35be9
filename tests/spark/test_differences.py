"""What differs from Spark and can only be seen with Spark (docs/differences.md): each test says what either engine does."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming import StatefulProcessor

from minispark_stream import MiniSparkSession

Engines = dict[str, tuple[Any, Path]]


@pytest.fixture
def engines(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Engines:
    """Each engine's session, and a folder with one file of text below `in`."""
    caplog.set_level(logging.CRITICAL, "minispark_stream")
    for engine in ("spark", "model"):
        (tmp_path / engine / "in").mkdir(parents=True)
        (tmp_path / engine / "in" / "a.txt").write_text("a\nb\nc\n")
    return {"spark": (spark, tmp_path / "spark"), "model": (mini, tmp_path / "model")}


def on_both(engines: Engines, look: Callable[[Any, Path], Any]) -> dict[str, Any]:
    return {engine: look(session, folder) for engine, (session, folder) in engines.items()}


def text(session: Any, folder: Path) -> DataFrame:
    return session.readStream.text(f"{folder}/in")


def run(writer: Any, folder: Path) -> Any:
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def with_confs(session: Any, confs: dict[str, str], action: Callable[[], Any]) -> Any:
    for key, value in confs.items():
        session.conf.set(key, value)
    try:
        return action()
    finally:
        for key in confs:
            session.conf.unset(key)


# -- what is refused ------------------------------------------------------------------------------------------------


def run_on(df: DataFrame, output_mode: str = "append") -> Any:
    """Start a query and wait until it ends, by itself or with its error."""
    return df.writeStream.format("noop").outputMode(output_mode).start().awaitTermination(60)


def join_in_format_1(session: Any, folder: Path) -> Any:
    rows = text(session, folder).withColumn("ts", F.current_timestamp()).withWatermark("ts", "1 minute")
    joined = rows.join(rows.withColumnsRenamed({"value": "other", "ts": "then"}), F.expr("value = other"))
    return with_confs(session, {"spark.sql.streaming.join.stateFormatVersion": "1"}, lambda: run_on(joined))


def frames_of_a_group(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"n": [sum(1 for _ in frames)]})


def applied_in_format_1(session: Any, folder: Path) -> Any:
    rows = text(session, folder).groupBy("value").applyInPandasWithState(frames_of_a_group, "n int", "n int", "append", "NoTimeout")
    key = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
    return with_confs(session, {key: "1"}, lambda: run_on(rows))


def aggregated_in_format_1(session: Any, folder: Path) -> Any:
    counts = text(session, folder).groupBy("value").count()
    return with_confs(session, {"spark.sql.streaming.aggregation.stateFormatVersion": "1"}, lambda: run_on(counts, "update"))


def python_udf_in_epochs(session: Any, folder: Path) -> Any:
    rows = session.readStream.format("rate").load().select(F.udf(str)("value"))
    return rows.writeStream.trigger(continuous="1 second").format("noop").start().awaitTermination(60)


def in_a_catalog(session: Any, folder: Path) -> Any:
    catalog = {
        "spark.sql.catalog.mine": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "spark.sql.catalog.mine.url": "jdbc:derby:memory:mine;create=true",
        "spark.sql.catalog.mine.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    writer = text(session, folder).writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return with_confs(session, catalog, lambda: writer.toTable("mine.a.b"))


REFUSED: dict[Callable[[Any, Path], Any], str] = {
    join_in_format_1: "implements stream-stream joins only with .*stateFormatVersion of 2, 3, 4, not 1",
    applied_in_format_1: "implements applyInPandasWithState only with .*stateFormatVersion=2",
    aggregated_in_format_1: "implements aggregations only with .*stateFormatVersion=2",
    in_a_catalog: "writes to tables of spark_catalog only",
    lambda session, folder: session.readStream.format("libsvm").schema("label double, features string").load(str(folder)): "has no streaming source",
    python_udf_in_epochs: "requires .* for Python UDFs in continuous mode",
}


def test_what_only_the_model_refuses(engines: Engines) -> None:
    for action, words in REFUSED.items():
        with pytest.raises(Exception, match=f"minispark_stream.*{words}"):
            action(*engines["model"])


def test_a_catalog_is_known_while_another_session_is_active(engines: Engines) -> None:
    engines["spark"][0].newSession().createDataFrame([(1,)], "a int")
    with pytest.raises(AnalysisException, match=REFUSED[in_a_catalog]):
        in_a_catalog(*engines["model"])


def outcome(writer: Any, folder: Path) -> str:
    """"done", or the message of the error that ended the query."""
    try:
        run(writer, folder)
        return "done"
    except StreamingQueryException as e:
        return str((e.getMessageParameters() or {})["message"])


def test_a_shuffle_right_above_apply_in_pandas_with_state(engines: Engines) -> None:
    def count(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"n": [sum(map(len, frames))]})

    def shuffled(session: Any, folder: Path) -> str:
        groups = text(session, folder).groupBy("value").applyInPandasWithState(count, "n int", "n int", "update", "NoTimeout")
        return outcome(groups.repartition(2).writeStream.outputMode("update").format("noop"), folder)

    told = on_both(engines, shuffled)
    assert "ClassCastException" in told["spark"] and told["model"] == "done"


class Failing(StatefulProcessor):
    def __init__(self, where: str):
        self.where = where

    def init(self, handle: Any) -> None:
        assert self.where != "init", "not today"

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame({"n": [1]})

    def close(self) -> None:
        assert self.where != "close", "not today"


@pytest.mark.parametrize("where", ["init", "close"])
def test_a_processor_that_fails_before_or_after_its_rows(engines: Engines, where: str) -> None:
    def failed(session: Any, folder: Path) -> str:
        confs = {"spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
        groups = text(session, folder).groupBy("value").transformWithStateInPandas(Failing(where), "n int", "Update", "None")
        return str(with_confs(session, confs, lambda: outcome(groups.writeStream.outputMode("update").format("noop"), folder)))

    told = on_both(engines, failed)
    assert "driver worker exited unexpectedly" in told["spark"] and "not today" not in told["spark"]
    assert "AssertionError: not today" in told["model"]


def test_the_commit_log_before_its_first_entry(engines: Engines) -> None:
    def there(session: Any, folder: Path) -> bool:
        outcome(text(session, folder).select(F.col("value").cast("int")).writeStream.format("noop"), folder)
        assert (folder / "checkpoint/offsets/0").exists() and not list((folder / "checkpoint").glob("commits/*"))
        return (folder / "checkpoint/commits").exists()

    assert on_both(engines, there) == {"spark": True, "model": False}


def test_what_is_said_of_sources_that_have_changed(engines: Engines) -> None:
    def said(session: Any, folder: Path) -> tuple[str, str]:
        run(text(session, folder).writeStream.format("noop"), folder)
        two = text(session, folder).union(session.readStream.text(str(folder)))
        other = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        return outcome(two.writeStream.format("noop"), folder), outcome(other.writeStream.format("noop"), folder)

    told, way_out = on_both(engines, said), " Give the query the sources that it had, in their order, or a new checkpoint location."
    assert told["model"][0] == told["spark"][0] + way_out
    assert told["spark"][1].startswith("No usable value for offset")
    assert told["model"][1].endswith("is not one of a rate-micro-batch source." + way_out)


def test_structs_with_other_names_are_keys_of_a_join(engines: Engines) -> None:
    def joined(session: Any, folder: Path) -> str:
        one, other = (text(session, folder).select(F.struct(F.col("value").alias(name)).alias(name)) for name in "ab")
        try:
            return f"{run(one.join(other, F.expr('a = b')).writeStream.format('noop'), folder).lastProgress.sink.numOutputRows} rows"
        except Exception as e:
            return str(e)

    told = on_both(engines, joined)
    assert "Join keys from two sides should have same length and types" in told["spark"]
    assert told["model"] == "3 rows"


@pytest.mark.parametrize("by", ["m", "m, session"])
def test_a_map_is_a_key_beside_a_value_of_any_type(engines: Engines, by: str) -> None:
    """For the greatest text of a group, Spark sorts the rows by their keys, and a map has no order."""
    def greatest(session: Any, folder: Path) -> str:
        rows = text(session, folder).selectExpr("timestamp'2024-01-01' AS ts", "value", "map(value > 'b', 1) AS m")
        session_window = [F.session_window("ts", "1 minute")] if "session" in by else []
        found = rows.withWatermark("ts", "1 minute").groupBy("m", *session_window).agg(F.max("value").alias("newest"))
        out: list[Any] = []
        writer = found.writeStream.outputMode("complete").foreachBatch(lambda batch, _: out.extend(row.newest for row in batch.collect()))
        try:
            run(writer, folder)
        except StreamingQueryException as e:
            return str(e)
        return " ".join(sorted(out))

    told = on_both(engines, greatest)
    assert 'does not support ordering on type "MAP<BOOLEAN, INT>"' in told["spark"]
    assert told["model"] == "b c"


def test_duplicates_right_above_a_function_with_state(engines: Engines) -> None:
    def distinct(session: Any, folder: Path) -> Any:
        groups = text(session, folder).groupBy("value").applyInPandasWithState(frames_of_a_group, "n int", "n int", "append", "NoTimeout")
        out: list[Any] = []
        try:
            run(groups.dropDuplicates(["n"]).writeStream.foreachBatch(lambda batch, _: out.extend(row.n for row in batch.collect())), folder)
        except StreamingQueryException as e:
            return str(e)
        return out

    told = on_both(engines, distinct)
    assert "ClassCastException" in told["spark"]
    assert told["model"] == [1]


# -- what is reported -----------------------------------------------------------------------------------------------


def counts_of_two_windows(session: Any, folder: Path) -> DataFrame:
    """A stream is counted twice, and the counts are joined: one shuffle does for both in Spark."""
    time = "timestamp'2024-01-01 12:00:00' + make_interval(0, 0, 0, 0, 0, ascii(value) - 97) AS ts"
    rows = text(session, folder).selectExpr(time, "value AS k").withWatermark("ts", "1 minute")
    one, other = (rows.groupBy(F.window("ts", "5 minutes"), "k").agg(F.count("*").alias(name)) for name in ("n", "m"))
    return one.join(other, ["window", "k"])


def test_what_two_operators_share(engines: Engines) -> None:
    def joined(session: Any, folder: Path) -> Any:
        (folder / "in" / "b.txt").write_text("y\n")
        query = run(counts_of_two_windows(session, folder).writeStream.format("noop"), folder)
        batches = query.recentProgress
        removed = [sum(batch.stateOperators[i].numRowsRemoved for batch in batches) for i in (1, 2)]
        return batches[0].numInputRows, sorted(removed)

    def count_twice(df: DataFrame, batch_id: int) -> None:
        assert df.count() == df.count()

    def twice(session: Any, folder: Path) -> Any:
        counts = text(session, folder).dropDuplicates(["value"]).groupBy("value").count()
        query = run(counts.writeStream.outputMode("complete").foreachBatch(count_twice), folder / "twice")
        return [operator.numRowsUpdated for operator in query.lastProgress.stateOperators]

    assert on_both(engines, joined) == {"spark": (4, [0, 3]), "model": (8, [3, 3])}
    assert on_both(engines, twice) == {"spark": [8, 8], "model": [8, 4]}


def test_a_limit_stays_in_a_batch_without_rows_for_it(engines: Engines) -> None:
    def rows_of_three_batches(session: Any, folder: Path) -> Any:
        (folder / "other").mkdir()
        limited = text(session, folder).limit(4).union(session.readStream.text(f"{folder}/other"))
        query = limited.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()
        try:
            query.processAllAvailable()
            for name in ("other/b.txt", "in/c.txt"):
                (folder / name).write_text("x\ny\n")
                query.processAllAvailable()
            error = None
        except StreamingQueryException as e:
            error = "CANNOT_READ_DELTA_FILE_NOT_EXISTS" in str(e)
        query.stop()
        return [batch.sink.numOutputRows for batch in query.recentProgress if batch.numInputRows], error

    assert on_both(engines, rows_of_three_batches) == {"spark": ([3, 2], True), "model": ([3, 2, 1], None)}


def test_what_explain_shows_of_a_stream(engines: Engines, capsys: pytest.CaptureFixture[str]) -> None:
    def nodes(session: Any, folder: Path) -> list[str]:
        query = run(text(session, folder).writeStream.format("noop"), folder)
        capsys.readouterr()
        query.explain(extended=True)
        logical, _ = capsys.readouterr().out.split("== Physical Plan ==")
        return sorted(set(re.findall(r"WriteTo\w+|\b(?:Streaming)?Relation\b", logical)))

    of_spark = ["Relation", "WriteToDataSourceV2", "WriteToMicroBatchDataSource"]
    assert on_both(engines, nodes) == {"spark": of_spark, "model": ["StreamingRelation"]}


def test_a_task_that_is_not_read_to_its_end_reports_nothing(engines: Engines) -> None:
    def count_and_take(df: DataFrame, batch_id: int) -> None:
        assert (df.count(), len(df.take(1))) == (3, 1)

    def updated(session: Any, folder: Path) -> int:
        query = run(text(session, folder).dropDuplicates(["value"]).writeStream.foreachBatch(count_and_take), folder)
        [operator] = query.lastProgress.stateOperators
        return operator.numRowsUpdated

    found = on_both(engines, updated)
    assert found["spark"] > 3 == found["model"]


def test_a_foreach_batch_function_that_ignores_a_stop(engines: Engines) -> None:
    def committed(session: Any, folder: Path) -> list[str]:
        started = threading.Event()
        queries: list[Any] = []

        def stop(batch: DataFrame, batch_id: int) -> None:
            started.wait()
            with suppress(Exception):
                queries[0].stop()

        queries.append(text(session, folder).writeStream.foreachBatch(stop).option("checkpointLocation", f"{folder}/checkpoint").start())
        started.set()
        assert queries[0].awaitTermination(60)
        return [path.name for path in (folder / "checkpoint/commits").glob("0")]

    assert on_both(engines, committed) == {"spark": ["0"], "model": []}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # Spark's side is a thread that exits
def test_a_foreach_batch_function_that_exits(engines: Engines) -> None:
    def connections() -> dict[int, ClientServerConnection]:
        """Those by which the JVM calls Python."""
        found = [one for one in gc.get_objects() if isinstance(one, ClientServerConnection)]
        return {id(one): one for one in found if not one.initiated_from_client}

    def failed(session: Any, folder: Path) -> bool | str:
        before = connections()
        query = text(session, folder).writeStream.foreachBatch(lambda df, batch_id: sys.exit("enough")).trigger(once=True).start()
        try:
            return bool(query.awaitTermination(3))
        except StreamingQueryException as e:
            return "FOREACH_BATCH_USER_FUNCTION_ERROR" in str(e) and "SystemExit: enough" in str(e) and "failed"
        finally:
            for connection in [one for number, one in connections().items() if number not in before]:
                connection.socket.shutdown(socket.SHUT_RDWR)  # Spark's query waits for its answer
            with suppress(StreamingQueryException):
                query.awaitTermination()

    assert on_both(engines, failed) == {"spark": False, "model": "failed"}


def test_a_common_table_expression_joined_with_itself_is_read_once(engines: Engines) -> None:
    def rows_read(session: Any, folder: Path) -> tuple[int, ...]:
        text(session, folder).createOrReplaceTempView("lines")
        of_view = session.sql("select x.value from lines x join lines y on x.value = y.value")
        of_expression = session.sql("with e as (select value from lines) select x.value from e x join e y on x.value = y.value")
        queries = [run(df.writeStream.format("noop"), folder / str(i)) for i, df in enumerate((of_view, of_expression))]
        return tuple(query.lastProgress.numInputRows for query in queries)

    assert on_both(engines, rows_read) == {"spark": (3, 6), "model": (3, 3)}


def test_what_an_error_tells(engines: Engines) -> None:
    def nothing_was_run(session: Any, folder: Path) -> str:
        counts = text(session, folder).groupBy("value").count().writeStream.outputMode("update")
        with pytest.raises(StreamingQueryException) as e:
            run(counts.foreachBatch(lambda df, _: None), folder)
        return re.split(r"terminated with exception: |\.? *SQLSTATE|\n", str(e.value))[1]

    told = on_both(engines, nothing_was_run)
    assert told["spark"].startswith("Exception thrown in awaitResult")
    assert told["model"].startswith("[STATE_STORE_COMMIT_VALIDATION_FAILED]")


def test_sinks(engines: Engines) -> None:
    """What they are called, and what a view shows of a batch that came later."""

    def seen(session: Any, folder: Path) -> Any:
        rows = text(session, folder)
        called = [
            run(writer, folder / name).lastProgress.sink.description
            for name, writer in (("foreach", rows.writeStream.foreach(print)), ("console", rows.writeStream.format("console")))
        ]
        query = rows.writeStream.format("memory").queryName(f"view_of_{folder.name}").start()
        view = session.table(f"view_of_{folder.name}")
        query.processAllAvailable()
        again = session.table(f"view_of_{folder.name}")
        counted = view.count(), again.count()
        query.stop()
        return ["@" in name for name in called], counted

    assert on_both(engines, seen) == {"spark": ([True, True], (3, 3)), "model": ([False, False], (0, 3))}


def test_batches_are_not_adaptive(engines: Engines) -> None:
    def adaptive(session: Any, folder: Path) -> list[str | None]:
        seen: list[str | None] = []
        conf = "spark.sql.adaptive.enabled"
        run(text(session, folder).writeStream.foreachBatch(lambda df, _: seen.append(df.sparkSession.conf.get(conf))), folder)
        return seen

    def rows_read(session: Any, folder: Path) -> int:
        """No row is known not to be in a table with a null: Spark broadcasts the table, sees that, and reads no line."""
        text(session, folder).createOrReplaceTempView("lines")
        unknown = session.sql("select * from lines where value not in (select * from values ('x'), (null))")
        return int(run(unknown.writeStream.format("noop"), folder / "unknown").lastProgress.numInputRows)

    assert on_both(engines, adaptive) == {"spark": ["true"], "model": ["false"]}
    assert on_both(engines, rows_read) == {"spark": 0, "model": 3}


def test_a_batch_in_a_foreach_batch_function_has_no_partitioning(engines: Engines) -> None:
    def is_shuffled(session: Any, folder: Path) -> bool:
        plans: list[str] = []

        def count(df: DataFrame, batch_id: int) -> None:
            counts: Any = df.groupBy("value").count()
            plans.append(counts._jdf.queryExecution().executedPlan().toString())
            df.collect()

        run(text(session, folder).limit(2).writeStream.foreachBatch(count), folder)
        return "Exchange" in plans[0]

    assert on_both(engines, is_shuffled) == {"spark": False, "model": True}


def test_a_batch_that_is_sorted_by_a_key_can_be_cached(engines: Engines) -> None:
    def counted(session: Any, folder: Path) -> Any:
        rows: list[int] = []
        in_order = text(session, folder).groupBy("value").count().orderBy("value").writeStream.outputMode("complete")
        try:
            run(in_order.foreachBatch(lambda df, batch_id: rows.append(df.cache().count())), folder)
        except StreamingQueryException as e:
            return "NoSuchElementException: key not found: value" in str(e)
        finally:
            engines["spark"][0].catalog.clearCache()
        return rows

    assert on_both(engines, counted) == {"spark": True, "model": [3]}


def test_without_offsets_nothing_of_a_checkpoint_is_lost_or_overwritten(engines: Engines) -> None:
    def refused(session: Any, folder: Path) -> Any:
        def again() -> Any:
            return run(text(session, folder).groupBy("value").count().writeStream.outputMode("update").foreachBatch(keep), folder)

        def files() -> dict[Path, bytes]:
            return {path: path.read_bytes() for path in (folder / "checkpoint").rglob("*") if path.is_file()}

        sent: list[int] = []
        keep = lambda df, batch_id: sent.append(df.count())  # noqa: E731
        again()
        (folder / "checkpoint/offsets").rename(folder / "offsets")
        before = files()
        with pytest.raises(StreamingQueryException) as failed:
            again()
        kept = files() == before
        shutil.rmtree(folder / "checkpoint/offsets", ignore_errors=True)
        (folder / "offsets").rename(folder / "checkpoint/offsets")  # what the error advises
        again()
        return kept, len(sent), re.findall(r"assertion failed(?:: .*?checkpoint/commits has batch 0, but there are no offsets.)?", str(failed.value))[0]

    said = on_both(engines, refused)
    assert said["spark"] == (True, 1, "assertion failed")
    assert said["model"][:2] == (True, 1) and said["model"][2].endswith("/commits has batch 0, but there are no offsets."), said


def test_two_sessions_around_one_spark(spark: SparkSession, engines: Engines) -> None:
    _, folder = engines["model"]
    one, other = MiniSparkSession(spark), MiniSparkSession(spark)
    query = text(one, folder).writeStream.format("noop").start()
    assert [active.id for active in one.streams.active] == [query.id] and other.streams.active == []
    query.stop()


class Seen(StatefulProcessor):
    """Has a variable of some schema, and does nothing with it."""

    def __init__(self, schema: str):
        self.schema = schema

    def init(self, handle: Any) -> None:
        handle.getValueState("seen", self.schema)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame({"n": [sum(len(frame) for frame in rows)]})

    def close(self) -> None:
        pass


def test_a_kill_within_the_first_log_entry_leaves_a_checkpoint_that_can_be_used(engines: Engines) -> None:
    def left_half(session: Any, folder: Path) -> str:
        (folder / "checkpoint" / "offsets").mkdir(parents=True)
        (folder / "checkpoint" / "offsets" / ".0.1a2b.tmp").write_text("v1")
        try:
            run(text(session, folder).writeStream.format("json").option("path", f"{folder}/out"), folder)
        except StreamingQueryException as e:
            return re.findall(r"\[(\w+)\] The checkpoint", str(e))[0]
        return "".join(sorted(row.value for row in session.read.json(f"{folder}/out").collect()))

    assert on_both(engines, left_half) == {"spark": "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "model": "abc"}


# -- what runs where ------------------------------------------------------------------------------------------------


class OneNumber(DataSourceStreamReader):
    """One partition without rows; the offset is the process that has been asked for it."""

    def initialOffset(self) -> dict:
        return {"process": 0}

    def latestOffset(self) -> dict:  # type: ignore[override]
        return {"process": os.getpid()}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: Any) -> Iterator[Any]:
        yield (1,)


class Process(DataSourceStreamWriter):
    """Says which process commits."""

    def __init__(self, path: str):
        self.path = path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        list(iterator)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        Path(self.path).write_text(str(os.getpid()))


class Processes(DataSource):
    @classmethod
    def name(cls) -> str:
        return "processes"

    def schema(self) -> str:
        return "n int"

    def streamReader(self, schema: Any) -> OneNumber:  # noqa: N802
        return OneNumber()

    def streamWriter(self, schema: Any, overwrite: bool) -> Process:  # noqa: N802
        return Process(self.options["path"])


def test_python_data_sources_run_in_the_drivers_python(spark: SparkSession, engines: Engines) -> None:
    spark.dataSource.register(Processes)

    def mine(session: Any, folder: Path) -> list[bool]:
        writer = session.readStream.format("processes").load().writeStream.format("processes")
        query = run(writer.option("path", f"{folder}/process"), folder)
        asked = re.findall(r"\d+", query.recentProgress[0].sources[0].endOffset)
        return [int(process) == os.getpid() for process in (*asked, (folder / "process").read_text())]

    assert on_both(engines, mine) == {"spark": [False, False], "model": [True, True]}
