"""Continuous processing: epochs and rows of both engines, checkpoints that they exchange, what both refuse, and crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.extras.continuous.memory_stream import ContinuousMemoryStream
from minispark_stream.tools.compare.prepared import confs_set

ROOT = Path(__file__).parents[2]
EVERY = {"continuous": "500 milliseconds"}


def rate(session: SparkSession, **options: Any) -> DataFrame:
    return session.readStream.format("rate").options(rowsPerSecond=20, numPartitions=1, **options).load()


def numbers(checkpoint: Path, log: str) -> list[int]:
    """The epochs that a log has, in order."""
    return sorted(int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit())


def entry(checkpoint: Path, log: str, epoch: int) -> list[str]:
    """The lines of one entry."""
    return (checkpoint / log / str(epoch)).read_text().split("\n")


def last_committed(checkpoint: Path) -> int:
    return max(numbers(checkpoint, "commits"), default=-1) if (checkpoint / "commits").exists() else -1


def committed_offset(checkpoint: Path) -> Any:
    """The offset of each partition at the end of the last epoch that was committed, which a running query never purges."""
    epoch = last_committed(checkpoint)
    return json.loads(entry(checkpoint, "offsets", epoch)[2]) if epoch >= 0 else None


def last_value(checkpoint: Path) -> int:
    """The last value of the rate source's only partition that was committed."""
    offset = committed_offset(checkpoint)
    return -1 if offset is None else int(offset["0"]["value"])


def wait_for(condition: Callable[[], bool], query: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, query.status
        time.sleep(0.05)


def test_in_checkpoint_format_2_an_epoch_is_committed_as_ever(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    """There is no state in a continuous query, and no list of ids."""
    with confs_set(spark, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}):
        for engine, session in {"spark": spark, "model": mini}.items():
            checkpoint = tmp_path / engine
            query = rate(session).writeStream.format("noop").trigger(**EVERY).start(checkpointLocation=str(checkpoint))
            wait_for(lambda: last_committed(checkpoint) >= 0, query)  # noqa: B023
            query.stop()
    theirs, ours = ({tuple(entry(tmp_path / engine, "commits", epoch)) for epoch in numbers(tmp_path / engine, "commits")} for engine in ("spark", "model"))
    assert ours == theirs == {("v1", '{"nextBatchWatermarkMs":0}')}


@pytest.mark.parametrize("engine", ["model", "spark"])
def test_an_epoch_is_logged_after_the_fact_and_its_rows_are_those_up_to_its_offset(
    spark: SparkSession, mini: MiniSparkSession, engine: str, tmp_path: Path
) -> None:
    session, name = (mini if engine == "model" else spark), f"epochs_{engine}"
    tripled = rate(session).where("value % 3 = 0").select((F.col("value") * 2).alias("twice"))
    query = (
        tripled.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path)).trigger(**EVERY).start()
    )
    wait_for(lambda: last_value(tmp_path) >= 20, query)
    assert query.status["message"] == "Running" or query.status["message"].startswith("Committing epoch")
    assert query.lastProgress is None
    query.stop()
    epoch = last_committed(tmp_path)
    committed = numbers(tmp_path, "commits")
    assert committed == list(range(epoch + 1)) and set(committed) <= set(numbers(tmp_path, "offsets"))
    for logged in numbers(tmp_path, "offsets"):
        version, metadata, offset = entry(tmp_path, "offsets", logged)
        assert (version, metadata) == ("v1", "") and json.loads(offset).keys() == {"0"}
    assert all(entry(tmp_path, "commits", epoch) == ["v1", '{"nextBatchWatermarkMs":0}'] for epoch in committed)
    rows = sorted(row.twice for row in session.table(name).collect())
    assert rows == [2 * value for value in range(last_value(tmp_path) + 1) if value % 3 == 0]


def test_either_engine_goes_on_where_the_other_has_stopped(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path
) -> None:
    checkpoint, reached = tmp_path / "checkpoint", []
    for session in (mini, spark, mini):
        before = last_value(checkpoint)
        query = (
            rate(session).writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(**EVERY).start()
        )
        wait_for(lambda before=before: last_value(checkpoint) > before, query)  # type: ignore[misc]
        query.stop()
        reached.append(last_value(checkpoint))
        assert query.exception() is None
    assert reached == sorted(set(reached))
    assert numbers(checkpoint, "commits") == list(range(last_committed(checkpoint) + 1))


@pytest.mark.parametrize("engine", ["model", "spark"])
def test_no_engine_continues_with_the_other_trigger(
    spark: SparkSession, mini: MiniSparkSession, engine: str, tmp_path: Path
) -> None:
    session = mini if engine == "model" else spark
    for name, first, second in (("epochs", EVERY, {}), ("batches", {}, EVERY)):
        checkpoint = tmp_path / name

        def start(trigger: dict[str, str], checkpoint: Path = checkpoint) -> Any:
            write = rate(session).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
            return (write.trigger(**trigger) if trigger else write).start()

        query = start(first)
        wait_for(lambda checkpoint=checkpoint: last_committed(checkpoint) >= 1, query)  # type: ignore[misc]
        query.stop()
        with pytest.raises(StreamingQueryException):
            start(second).awaitTermination(120)


def test_python_udfs(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    """Of values and of columns, one on top of the other, in a filter and in a projection; none is called for a marker."""
    is_even = F.udf(lambda value: value % 2 == 0, "boolean")
    next_one = F.udf(lambda value: value + 1, "long")

    @F.pandas_udf("n long, text string")  # type: ignore[call-overload]
    def both(values: pd.Series) -> pd.DataFrame:
        return pd.DataFrame({"n": values * 2, "text": values.astype(str)})

    key, conf = "spark.python.udf.pipelined.enabled", spark.sparkContext._jsc.sc().conf()
    try:
        for engine, session, pipelined in (("model", mini, "true"), ("spark", spark, "false")):
            conf.set(key, pipelined)  # as if Spark had been started with it
            computed = rate(session).where(is_even("value")).select(both(next_one("value")).alias("both")).select("both.*")
            write = computed.writeStream.format("memory").queryName(f"udfs_{engine}")
            query = write.option("checkpointLocation", str(tmp_path / engine)).trigger(**EVERY).start()
            wait_for(lambda engine=engine: last_value(tmp_path / engine) >= 20, query)  # type: ignore[misc]
            query.stop()
            values = range(1, last_value(tmp_path / engine) + 2, 2)
            rows = sorted((row.n, row.text) for row in session.table(f"udfs_{engine}").collect())
            assert rows == [(2 * value, str(value)) for value in values], engine
    finally:
        conf.remove(key)


def refused(build: Callable[[], Any]) -> tuple[str, str | None, str]:
    """What is raised by `start()`: the class, the condition, and the first line of the message."""
    with pytest.raises(PySparkException) as raised:
        build().stop()
    return type(raised.value).__name__, raised.value.getCondition(), str(raised.value).split("\n")[0]


REFUSED: dict[str, Callable[[SparkSession, DataFrame], DataFrame]] = {
    "an aggregation": lambda session, df: df.groupBy("value").count(),
    "a deduplication": lambda session, df: df.dropDuplicates(["value"]),
    "a join": lambda session, df: df.join(session.range(3), F.col("id") == F.col("value")),
    "a union": lambda session, df: df.union(df),
    "a limit": lambda session, df: df.limit(3),
    "a watermark": lambda session, df: df.withWatermark("timestamp", "1 second"),
    "the current time": lambda session, df: df.select(F.current_timestamp()),
    "the current date": lambda session, df: df.where("timestamp > current_date()"),
    "explode": lambda session, df: df.select(F.explode(F.array("value"))),
    "mapInArrow": lambda session, df: df.mapInArrow(lambda it: it, df.schema),
    "coalesce": lambda session, df: df.coalesce(1),
    "a sample": lambda session, df: df.sample(0.5),
    "a source of files": lambda session, df: session.readStream.text(str(Path(__file__).parent)),
    "a source of micro-batches": lambda session, df: session.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load(),
}


def test_both_engines_refuse_the_same(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    def starts(session: SparkSession) -> dict[str, Callable[[], Any]]:
        found: dict[str, Callable[[], Any]] = {}
        for name, build in REFUSED.items():
            mode = "complete" if name == "an aggregation" else "append"
            found[name] = lambda build=build, mode=mode: (  # type: ignore[misc]
                build(session, rate(session)).writeStream.format("noop").outputMode(mode).trigger(**EVERY).start()
            )
        found["foreachBatch"] = lambda: rate(session).writeStream.foreachBatch(print).trigger(**EVERY).start()
        for text in ("-1 second", "soon", "1 month"):
            found[text] = lambda text=text: rate(session).writeStream.format("noop").trigger(continuous=text).start()  # type: ignore[misc]
        return found

    model, real = starts(mini), starts(spark)
    differences = {name: (one, other) for name in real if (one := refused(model[name])) != (other := refused(real[name]))}
    assert not differences
    for session in (spark, mini):  # a sink that knows batches alone finds out on the query's thread
        files = rate(session).writeStream.format("parquet").trigger(**EVERY)
        query = files.start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / type(session).__name__))
        with pytest.raises(StreamingQueryException, match=r"Unknown type of trigger: ContinuousTrigger\(500\)"):
            query.awaitTermination(120)


def test_rows_of_a_memory_stream_and_what_is_left_when_a_query_stops(mini: MiniSparkSession, tmp_path: Path) -> None:
    stream = ContinuousMemoryStream(mini, "k string, v int")
    threads = set(threading.enumerate())
    stream.add_data([("a", 1), ("b", 2), ("c", 3)])
    upper = stream.to_df().alias("x").where("v <> 2").selectExpr("upper(x.k) AS k", "assert_true(v is not null)", "v")
    query: Any = (
        upper.writeStream.format("memory").queryName("in_epochs").option("checkpointLocation", str(tmp_path)).trigger(**EVERY)
        .start()
    )
    wait_for(lambda: committed_offset(tmp_path) == {"0": 2, "1": 1}, query)
    assert stream.add_data([("d", 4)]) == '{"0":3,"1":1}'
    wait_for(lambda: committed_offset(tmp_path) == {"0": 3, "1": 1}, query)
    query.processAllAvailable()
    assert sorted((row.k, row.v) for row in mini.table("in_epochs").collect()) == [("A", 1), ("C", 3), ("D", 4)]
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began < 5
    new = set(threading.enumerate()) - threads
    left = [thread for thread in new if not thread.name.endswith("(run)")]  # py4j's, by which the JVM tells what it has collected
    for thread in left:
        thread.join(5)
    assert not [thread.name for thread in left if thread.is_alive()]
    jobs = mini.sparkContext.statusTracker().getActiveJobsIds  # Spark's books are a moment behind
    wait_for(lambda: not jobs(), SimpleNamespace(isActive=True, status="a job is left"), 10)
    assert entry(tmp_path, "offsets", last_committed(tmp_path)) == ["v1", "", '{"0":3,"1":1}']
    steps = [event.step for event in query.trace.events]
    assert steps[:2] == ["startQuery", "getStartOffset"] and steps[-1] == "runContinuous"
    assert steps.index("addOffset") < steps.index("commitEpoch")


def test_what_a_query_prints(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The console, the plan, a trace with rows, and a warning; and epochs that are as short as can be."""
    mini = MiniSparkSession(spark, trace="rows")
    tripled = rate(mini).selectExpr("value * 3 AS tripled")
    write: Any = tripled.writeStream.format("console").option("checkpointLocation", str(tmp_path / "console"))
    query: Any = write.trigger(**EVERY).start()
    wait_for(lambda: last_value(tmp_path / "console") >= 10, query)
    query.explain()
    query.stop()
    printed = capsys.readouterr().out
    assert "Batch: 0" in printed and "|tripled|" in printed and "|     30|" in printed
    assert "== Physical Plan ==" in printed and "Project" in printed and "MapInArrow" in printed
    assert query.trace.epochs().svg.startswith("<svg")
    write = rate(mini).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "quick"))
    query = write.trigger(continuous="0 seconds").start()
    commits = tmp_path / "quick" / "commits"  # the entries come and go too quickly to be read
    wait_for(lambda: commits.exists() and any(name.isdigit() and int(name) >= 50 for name in os.listdir(commits)), query)
    query.stop()
    assert query.exception() is None
    query = mini.readStream.format("rate").option("numPartitions", 3).load().writeStream.format("noop").trigger(**EVERY).start()
    wait_for(lambda: "3 partitions need one each, 2 are available" in caplog.text, query)
    query.stop()


def start_noting(session: SparkSession, folder: Path) -> Any:
    """A query whose sink notes each value in a file."""
    written = folder / "written"

    def note(row: Any) -> None:
        with written.open("a") as out:
            out.write(f"{row.value}\n")

    write = rate(session).writeStream.foreach(note).option("checkpointLocation", str(folder / "checkpoint"))
    return write.trigger(**EVERY).start()


DRIVER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from minispark_stream import MiniSparkSession
from tests.conformance.test_continuous import start_noting
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
start_noting(MiniSparkSession(spark), Path(sys.argv[1])).awaitTermination()
"""


def test_no_row_is_lost_when_the_driver_is_killed(mini: MiniSparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=ROOT, start_new_session=True)
    try:
        wait_for(lambda: last_value(checkpoint) >= 10, SimpleNamespace(isActive=True, status="no epoch was committed"))
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM
        driver.wait()
    epoch, value = last_committed(checkpoint), last_value(checkpoint)
    query = start_noting(mini, tmp_path)
    try:
        wait_for(lambda: last_value(checkpoint) >= value + 10, query)
    finally:
        query.stop()  # its tasks would keep the slots that the next test waits for
    assert [e.outputs["epoch"] for e in query.trace.events if e.step == "getStartOffset"] == [epoch + 1]
    assert numbers(checkpoint, "commits") == list(range(last_committed(checkpoint) + 1))
    values = {int(line) for line in (tmp_path / "written").read_text().splitlines()}
    assert set(range(last_value(checkpoint) + 1)) <= values


def test_no_row_is_lost_when_a_worker_is_killed(mini: MiniSparkSession, tmp_path: Path) -> None:
    stream = ContinuousMemoryStream(mini, "v int", num_partitions=1)
    written = tmp_path / "written"

    class Write:
        def open(self, partition_id: int, epoch_id: int) -> bool:
            return True

        def process(self, row: Any) -> None:
            with written.open("a") as out:
                out.write(f"{row.v} {os.getpid()}\n")

    def lines() -> list[list[str]]:
        return [line.split() for line in written.read_text().splitlines()] if written.exists() else []

    def start() -> Any:
        return stream.to_df().writeStream.foreach(Write()).option("checkpointLocation", str(tmp_path / "cp")).trigger(**EVERY).start()

    query = start()
    stream.add_data([(v,) for v in range(10)])
    wait_for(lambda: committed_offset(tmp_path / "cp") == {"0": 10}, query)
    stream.add_data([(v,) for v in range(10, 20)])
    wait_for(lambda: len(lines()) >= 20, query)
    os.kill(int(lines()[-1][1]), signal.SIGKILL)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(120)
    resumed = start()
    stream.add_data([(20,)])
    wait_for(lambda: committed_offset(tmp_path / "cp") == {"0": 21}, resumed)
    resumed.stop()
    values = [int(value) for value, _ in lines()]
    assert set(values) == set(range(21)) and values.count(0) == 1
