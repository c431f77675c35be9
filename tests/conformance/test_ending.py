"""How a query ends on both engines: what a failure tells whom, who may wait for the end, and what `stop()` stops."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.accumulators import _accumulatorRegistry
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.endings import failed


class Terminated(StreamingQueryListener):
    """Waits for the last event of a query."""

    def __init__(self) -> None:
        self.event: Any = None
        self.told = threading.Event()

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: Any) -> None: ...  # noqa: N802

    def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.event = event
        self.told.set()


def refuse(*_: Any) -> Any:
    raise ValueError("no")


FAILING: dict[str, Callable[[Any], Any]] = {
    "a cast": lambda df: df.select(F.col("value").cast("int")).writeStream.format("noop"),
    "a UDF": lambda df: df.select(F.udf(refuse)("value")).writeStream.format("noop"),
    "foreachBatch": lambda df: df.writeStream.foreachBatch(refuse),
    "foreach": lambda df: df.writeStream.foreach(refuse),
}


@pytest.fixture
def engines(spark: Any, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x\n")
    return {"spark": spark, "model": MiniSparkSession(spark)}


@pytest.mark.parametrize("deleted", [False, True])
def test_what_becomes_of_a_temporary_checkpoint_after_a_failure(
    spark: Any, engines: dict[str, Any], tmp_path: Path, deleted: bool
) -> None:
    with confs_set(spark, {"spark.sql.streaming.forceDeleteTempCheckpointLocation": str(deleted)}):
        for engine, session in engines.items():
            query = FAILING["a cast"](session.readStream.text(str(tmp_path / "in"))).start()
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
            found = query._jsq.streamingQuery().resolvedCheckpointRoot() if engine == "spark" else query.trace.events[0].inputs["checkpoint"]
            folder = Path(found.removeprefix("file:"))
            assert folder.exists() is not deleted, engine
            assert re.fullmatch("temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", folder.name), engine


@pytest.mark.parametrize("name", FAILING)
def test_what_a_failure_tells(engines: dict[str, Any], tmp_path: Path, name: str) -> None:
    seen = {}
    for engine, session in engines.items():
        listener = Terminated()
        session.streams.addListener(listener)
        query = FAILING[name](session.readStream.text(str(tmp_path / "in"))).start()
        with pytest.raises(StreamingQueryException) as e:
            query.awaitTermination()
        assert listener.told.wait(30)
        session.streams.removeListener(listener)
        error: Any = e.value
        kept, event = query.exception(), listener.event
        assert "Traceback" in event.exception or "\tat " in event.exception, "a stack trace"
        assert "\tat " in kept._stackTrace or 'File "' in kept._stackTrace or ".scala:" in kept._stackTrace
        assert query.status["message"].startswith("Terminated with exception: [")
        assert query.status["message"].endswith(error.getMessageParameters()["message"])
        seen[engine] = {
            "raised": (type(error).__name__, error.getCondition(), error.getSqlState(), sorted(error.getMessageParameters())),
            "words": re.split("Reason: |Traceback| SQLSTATE", str(error))[0].replace(query.id, "").replace(query.runId, ""),
            "returned": (type(kept).__name__, kept.getCondition(), kept.getSqlState(), kept.getMessageParameters()),
            "cause": (type(error._cause).__name__, type(kept._cause).__name__),
            "event": (event.errorClassOnException, str(event.id) == query.id),
        }
    assert seen["model"] == seen["spark"]


def test_a_function_that_fails_is_shown_with_the_lines_of_the_user(engines: dict[str, Any], tmp_path: Path) -> None:
    def first(df: Any, batch_id: int) -> None:
        raise KeyError("k")

    def then(df: Any, batch_id: int) -> None:
        try:
            first(df, batch_id)
        except KeyError as e:
            raise RuntimeError("two\nlines") from e

    for function, lines in ((first, 1), (then, 3)):
        told = [failed(session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(function).start(), __file__) for session in engines.values()]
        assert told[0] == told[1]
        assert told[1]["begins"].endswith("An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):")
        assert len(told[1]["lines"]) == lines and told[1]["cause"][1] == "py4j.Py4JException"


STATEFUL_SINKS: dict[str, Callable[[Any], Any]] = {
    "noop": lambda writer: writer.format("noop"),
    "foreach": lambda writer: writer.foreach(lambda row: None),
    "foreachBatch": lambda writer: writer.foreachBatch(lambda df, batch_id: df.collect()),
}


def counts(session: Any, folder: Path, sink: Callable[[Any], Any], checkpoint: Path) -> Any:
    writer = sink(session.readStream.text(str(folder / "in")).groupBy("value").count().writeStream.outputMode("update"))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


@pytest.fixture
def damaged(engines: dict[str, Any], tmp_path: Path) -> dict[str, Path]:
    """For each engine, the checkpoint of a count that has lost the state of its first batch, and there is a second file to read."""
    checkpoints = {engine: tmp_path / f"checkpoint of {engine}" for engine in engines}
    for engine, session in engines.items():
        counts(session, tmp_path, STATEFUL_SINKS["noop"], checkpoints[engine]).awaitTermination()
        for name in ("1.delta", ".1.delta.crc"):
            for path in checkpoints[engine].rglob(name):
                path.unlink()
    (tmp_path / "in" / "b.txt").write_text("y\n")
    return checkpoints


@pytest.mark.parametrize("sink", STATEFUL_SINKS)
def test_state_that_is_lost_is_the_error_of_whoever_reads(
    engines: dict[str, Any], damaged: dict[str, Path], tmp_path: Path, sink: str
) -> None:
    told = [failed(counts(session, tmp_path, STATEFUL_SINKS[sink], damaged[engine]), __file__) for engine, session in engines.items()]
    lost = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    for one in told:
        assert one["conditions"][-1] == lost
        if sink == "foreachBatch":  # what is between is the way of the error through the other engine
            one["conditions"], one["ends"] = [one["conditions"][0], lost], one["ends"].replace("PythonException", "SparkException")
    keys = told[0].keys() - ({"ends"} if sink == "foreachBatch" else set())
    assert {key: told[1][key] for key in keys} == {key: told[0][key] for key in keys}


def test_the_error_of_a_query_inside_a_function_is_not_that_of_the_query_outside(
    engines: dict[str, Any], damaged: dict[str, Path], tmp_path: Path
) -> None:
    told = []
    for engine, session in engines.items():

        def run_another(df: Any, batch_id: int) -> None:
            counts(session, tmp_path, STATEFUL_SINKS["noop"], damaged[engine]).awaitTermination()  # noqa: B023

        query = session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(run_another).start()
        told.append(failed(query, __file__))
        assert told[-1]["conditions"][0] == "FOREACH_BATCH_USER_FUNCTION_ERROR"
        assert told[-1]["conditions"][-1] == "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    assert [told[0][key] for key in ("begins", "lines", "cause")] == [told[1][key] for key in ("begins", "lines", "cause")]


def joined(session: Any, folder: Path) -> Any:
    """Rows with two times that have a watermark."""
    lines = session.readStream.text(str(folder / "in"))
    left = lines.select(F.current_timestamp().alias("a"), "value").withWatermark("a", "1 second")
    right = lines.select(F.current_timestamp().alias("b"), F.col("value").alias("w")).withWatermark("b", "1 second")
    return left.join(right, F.expr("value = w AND a BETWEEN b - INTERVAL 1 SECOND AND b + INTERVAL 1 SECOND"))


def around_table(session: Any, folder: Path) -> Any:
    session.readStream.text(str(folder / "in")).createOrReplaceTempView("lines")
    return session.sql("SELECT * FROM lines LEFT JOIN LATERAL pairs(value) ON true")


class Pairs:
    def eval(self, value: str) -> Any:
        yield value, 1


REFUSED_BY_TASKS: dict[str, tuple[Callable[[Any, Path], Any], str, str]] = {
    "a table is subtracted": (
        lambda s, folder: s.readStream.text(str(folder / "in")).subtract(s.sql("SELECT 'z'")), "append", "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
    ),
    "a left join with a table function": (around_table, "append", "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK"),
    "two times are grouped": (lambda s, folder: joined(s, folder).groupBy("a", "b").count(), "append", "MULTIPLE_EVENT_TIME_COLUMNS"),
    "two times are deduplicated": (lambda s, folder: joined(s, folder).dropDuplicates(["value"]), "append", "MULTIPLE_EVENT_TIME_COLUMNS"),
    "a time beside its session": (
        lambda s, folder: joined(s, folder).groupBy(F.session_window("a", "1 second"), "b").count(), "append", "MULTIPLE_EVENT_TIME_COLUMNS",
    ),
    "sessions that are updated": (
        lambda s, folder: joined(s, folder).groupBy(F.session_window("a", "1 second"), "value").count(), "update", "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_TASKS)
def test_what_tasks_refuse_is_an_error_of_the_function_that_reads(spark: Any, engines: dict[str, Any], tmp_path: Path, name: str) -> None:
    """Spark's operators refuse it when they run, so the sink has its batch by then, and a function may read or not."""
    build, mode, condition = REFUSED_BY_TASKS[name]
    spark.udtf.register("pairs", F.udtf(Pairs, returnType="w string, n int"))
    seen: dict[str, list[Any]] = {}
    for engine, session in engines.items():
        caught: list[Any] = []

        def catch(df: Any, batch_id: int) -> None:
            assert df.limit(0).collect() == []
            with pytest.raises(PySparkException) as e:
                df.collect()
            caught.append((batch_id, type(e.value).__name__, e.value.getCondition(), re.sub(r"#\d+", "", str(e.value).split("\n")[0])))  # noqa: B023

        read = lambda df, batch_id: df.collect()  # noqa: E731
        ends = []
        with confs_set(spark, {"spark.sql.streaming.unsupportedOperationCheck": "false"}):
            for function in (read, catch):
                query = build(session, tmp_path).writeStream.outputMode(mode).foreachBatch(function).trigger(availableNow=True).start()
                ends.append(failed(query, __file__)["conditions"])
            query = build(session, tmp_path).writeStream.outputMode(mode).format("noop").trigger(availableNow=True).start()
            ends.append(failed(query, __file__)["conditions"])
        seen[engine] = [ends[0], ends[2], *caught]
    assert seen["model"] == seen["spark"]
    assert seen["model"][:2] == [["FOREACH_BATCH_USER_FUNCTION_ERROR", condition], [condition]] and len(seen["model"]) == 3


def test_nobody_waits_for_a_query_on_its_own_thread(engines: dict[str, Any], tmp_path: Path) -> None:
    words = "Cannot wait for a query state from the same thread that is running the query"
    for session in engines.values():
        begun = threading.Event()
        queries: list[Any] = []
        answers: list[bool] = []

        def wait(df: Any, batch_id: int) -> None:
            begun.wait(30)  # noqa: B023
            for method in (queries[0].awaitTermination, queries[0].processAllAvailable):  # noqa: B023
                try:
                    method()
                except Exception as e:
                    answers.append(words in str(e))  # noqa: B023

        queries.append(session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(wait).trigger(availableNow=True).start())
        begun.set()
        assert queries[0].awaitTermination(60)
        assert answers == [True, True]


def test_stop_cancels_the_jobs_that_begin_later(engines: dict[str, Any], tmp_path: Path) -> None:
    """`stop()` comes while the driver is busy in Python; the long job that it begins then does not run."""
    begun = threading.Event()
    result: list[str] = []

    def slow(value: str) -> str:
        time.sleep(60)
        return value

    def work(df: Any, batch_id: int) -> None:
        begun.set()
        while not query._execution.stop_requested.is_set():
            time.sleep(0.01)
        time.sleep(0.3)
        try:
            df.select(F.udf(slow)("value")).collect()
        except Exception as e:
            result.append(str(e))
            raise

    query = engines["model"].readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(work).start()
    assert begun.wait(60)
    before = time.monotonic()
    query.stop()
    assert time.monotonic() - before < 30
    assert "SPARK_JOB_CANCELLED" in result[0] and query.exception() is None and query.status["message"] == "Stopped"


def test_a_batch_in_which_stop_comes_is_not_committed(engines: dict[str, Any], spark_files: None, tmp_path: Path) -> None:
    for engine, session in engines.items():
        query = start_with(lambda query: query.stop(), session, tmp_path, engine)
        assert query.awaitTermination(60) and query.exception() is None
        assert not (tmp_path / engine / "commits/0").exists(), engine


def test_a_batch_in_which_another_thread_says_stop_is_not_committed(engines: dict[str, Any], tmp_path: Path) -> None:
    """In Spark it depends on who notices the interrupt of the query's thread: some of Hadoop's functions for files ignore it."""
    stopped = threading.Event()
    query = start_with(lambda query: stopped.wait(60), engines["model"], tmp_path, "model")
    stopper = threading.Thread(target=query.stop)
    stopper.start()
    time.sleep(1)
    stopped.set()
    stopper.join()
    assert query.exception() is None and not (tmp_path / "model/commits/0").exists()


def start_with(action: Callable[[Any], Any], session: Any, folder: Path, checkpoint: str) -> Any:
    """A query that is in its first batch, and runs `action` there."""
    queries: list[Any] = []
    started, begun = threading.Event(), threading.Event()

    def act(df: Any, batch_id: int) -> None:
        begun.set()
        started.wait()
        action(queries[0])

    writer = session.readStream.text(str(folder / "in")).writeStream.foreachBatch(act)
    queries.append(writer.option("checkpointLocation", str(folder / checkpoint)).start())
    assert begun.wait(60)
    started.set()
    return queries[0]


def test_what_fails_while_the_query_stops_has_failed(engines: dict[str, Any], tmp_path: Path) -> None:
    """A cancelled job is no failure, but a full disk is one, whenever it comes."""
    for session in engines.values():
        begun, stopping = threading.Event(), threading.Event()

        def work(df: Any, batch_id: int) -> None:
            begun.set()  # noqa: B023
            stopping.wait(30)  # noqa: B023
            raise OSError("disk full")

        query = session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(work).start()
        assert begun.wait(60)
        stopper = threading.Thread(target=query.stop)
        stopper.start()
        time.sleep(1)
        stopping.set()
        stopper.join()
        assert "disk full" in str(query.exception())


def test_a_query_that_ended_has_no_counters(engines: dict[str, Any], tmp_path: Path) -> None:
    before = set(_accumulatorRegistry)
    counts = engines["model"].readStream.text(str(tmp_path / "in")).groupBy("value").count()
    query = counts.writeStream.outputMode("update").format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.lastProgress.stateOperators[0].numRowsTotal == 1
    assert set(_accumulatorRegistry) == before


def test_a_query_that_does_not_stop_in_time_is_not_active(spark: Any, engines: dict[str, Any], tmp_path: Path) -> None:
    """But its thread is still there, so it is in the list of the session."""
    told = {}
    for engine, session in engines.items():
        begun, may_end = threading.Event(), threading.Event()

        def hold(df: Any, batch_id: int) -> None:
            begun.set()  # noqa: B023
            may_end.wait(60)  # noqa: B023

        with confs_set(spark, {"spark.sql.streaming.stopTimeout": "500ms"}):
            query = session.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(hold).start()
            assert begun.wait(60) and query.isActive
            with pytest.raises(Py4JJavaError, match="TimeoutException") as e:
                query.stop()
        words = str(e.value.java_exception).replace(query.id, "id").replace(query.runId, "runId")
        calling = re.sub(r"o\d+\.", "", str(e.value).split("\n")[0])
        listed = [other.id for other in session.streams.active] == [query.id]
        told[engine] = words, calling, query.isActive, listed, query.awaitTermination(1), query.exception(), query.status["message"]
        may_end.set()
        query.awaitTermination()
        assert not query.isActive and session.streams.active == [], engine
    assert told["model"] == told["spark"] and told["model"][1:5] == ("An error occurred while calling stop.", False, True, True)
