"""Real-time mode on both engines: logs, reports and rows, what both refuse, and checkpoints that they exchange."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, PySparkTypeError, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set

SOON = {"realTime": "1 second"}
MODE = "spark.sql.streaming.realTimeMode"
SHORT_BATCHES = {f"{MODE}.minBatchDuration": "1000"}
ROWS = [("a", 1, [1, 2]), ("b", 2, []), ("c", 3, None), ("a", 4, [5])]
SCHEMA = "k string, v int, e array<int>"


@pytest.fixture(autouse=True)
def short_batches(spark: SparkSession) -> Iterator[None]:
    with confs_set(spark, SHORT_BATCHES):
        yield


@pytest.fixture
def engines(spark: SparkSession, mini: MiniSparkSession) -> dict[str, Any]:
    return {"spark": spark, "model": mini}


def wait_for(condition: Callable[[], bool], *queries: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        for query in queries:
            assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def append_to(path: Path) -> Callable[[Any], None]:
    """A foreach function that writes each row on a line of its own."""

    def write(row: Any, path: str = str(path)) -> None:
        with open(path, "a") as file:
            file.write(json.dumps(row.asDict()) + "\n")

    return write


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def start(df: DataFrame, folder: Path, trigger: Any = None, **options: str) -> Any:
    writer: Any = df.writeStream.outputMode("update").foreach(append_to(folder / "rows")).options(**options)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger or SOON).start()


def log(folder: Path, name: str) -> dict[int, list[Any]]:
    """The entries of a log, without the time of the batch."""
    found: dict[int, list[Any]] = {}
    for path in (folder / "checkpoint" / name).glob("[0-9]*"):
        with suppress(FileNotFoundError):  # a restart deletes offsets that have no commit
            version, *lines = path.read_text().split("\n")
            found[int(path.name)] = [version, *({**json.loads(line), "batchTimestampMs": 0} for line in lines)]
    return found


def committed(folder: Path) -> int:
    """How many rows of the only partition of the first source are committed."""
    commits, offsets = log(folder, "commits"), log(folder, "offsets")
    return int(offsets[max(commits)][2]["0"]) if commits and max(commits) in offsets else 0


def last_entries(folder: Path) -> list[Any]:
    """The last commit, and the offsets of its batch."""
    commits = log(folder, "commits")
    return [log(folder, "offsets")[max(commits)], commits[max(commits)]]


def shape(report: Any) -> dict[str, Any]:
    """A report without times, and without the names that Spark's objects have."""
    source, sink = report["sources"][0], report["sink"]
    return {
        "keys": sorted(report), "durations": sorted(report["durationMs"]), "rows": report["numInputRows"],
        "source": {key: source[key] for key in ("startOffset", "endOffset", "latestOffset", "numInputRows")},
        "sink": (sink["description"].split("(")[0], sink["numOutputRows"]),
        "observed": {name: row.asDict() for name, row in report["observedMetrics"].items()},
    }


def test_rows_are_written_while_the_batch_runs(mini: MiniSparkSession, tmp_path: Path) -> None:
    """A row is there long before its batch ends and before anything is logged; what was not committed is read again."""
    stream = LowLatencyMemoryStream(mini, SCHEMA)
    query = start(stream.to_df().where("v > 1").select("k"), tmp_path, {"realTime": "10 minutes"})
    for number in (1, 2):
        stream.add_data([("skipped", 1, None), (f"row {number}", 2, None)])
        wait_for(lambda number=number: len(rows_in(tmp_path / "rows")) == number, query)  # type: ignore[misc]
    query.stop()
    assert query.exception() is None
    assert not log(tmp_path, "offsets") and not log(tmp_path, "commits") and not query.recentProgress
    query = start(stream.to_df().where("v > 1").select("k"), tmp_path)
    wait_for(lambda: committed(tmp_path) == 4, query)
    query.stop()
    assert [row["k"] for row in rows_in(tmp_path / "rows")] == ["row 1", "row 2", "row 1", "row 2"]


@pytest.mark.parametrize("options", [{}, {"asyncProgressTrackingEnabled": "false"}], ids=["async", "sync"])
def test_logs_and_reports_are_equal(engines: dict[str, Any], tmp_path: Path, options: dict[str, str]) -> None:
    queries = {}
    for engine, session in engines.items():
        (tmp_path / engine).mkdir()
        stream = LowLatencyMemoryStream(session, SCHEMA)
        stream.add_data(ROWS[:3])
        observed = stream.to_df().observe("seen", F.count(F.lit(1)).alias("n"), F.sum("v").alias("sum"))
        queries[engine] = stream, start(observed.select("k", (F.col("v") * 2).alias("twice")), tmp_path / engine, **options)
    for engine, (stream, query) in queries.items():
        wait_for(lambda: committed(tmp_path / engine) == 3, query)  # noqa: B023
        stream.add_data(ROWS[3:])
    for engine, (_, query) in queries.items():
        wait_for(lambda: committed(tmp_path / engine) == 4, query)  # noqa: B023
        query.processAllAvailable()
        query.stop()
    theirs, ours = (
        {
            "entries": last_entries(tmp_path / engine),
            "folders": sorted(path.name for path in (tmp_path / engine / "checkpoint").glob("[!.]*")),
            "rows": sorted(row["twice"] for row in rows_in(tmp_path / engine / "rows")),
            "report": next(shape(one) for one in query.recentProgress if one["numInputRows"] and one["sources"][0]["startOffset"] == '{"0": 3}'),
        }
        for engine, (_, query) in queries.items()
    )
    assert ours == theirs


def test_the_conf_that_says_how_logs_are_written(engines: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    """Without asynchronous logs, a commit lists the files of the state, and there are none; no option says so, but the conf does."""
    with confs_set(spark, {f"{MODE}.asyncProgressTrackingByDefault.enabled": "false"}):
        for engine, session in engines.items():
            (tmp_path / engine).mkdir()
            query = start(LowLatencyMemoryStream(session, SCHEMA).to_df(), tmp_path / engine)
            wait_for(lambda: 0 in log(tmp_path / engine, "commits"), query)  # noqa: B023
            query.stop()
    theirs, ours = (log(tmp_path / engine, "commits")[0] for engine in engines)
    assert ours == theirs and "stateUniqueIds" in ours[1]


def joined(kind: str, flipped: bool = False) -> Callable[[SparkSession, DataFrame], DataFrame]:
    def build(session: SparkSession, rows: DataFrame) -> DataFrame:
        table = F.broadcast(session.createDataFrame([("a", 10), ("a", 11), ("z", 1)], "k string, w int"))
        return table.join(rows, "k", kind) if flipped else rows.join(table, "k", kind)

    return build


QUERIES: dict[str, Callable[[SparkSession, DataFrame], DataFrame]] = {
    "explode in a division": lambda s, rows: rows.select((F.lit(12) / F.col("v")).alias("x"), F.explode("e").alias("y")),
    "outer": lambda s, rows: rows.select("k", F.posexplode_outer("e").alias("i", "y")).where("coalesce(i, 1) > 0"),
    "map": lambda s, rows: rows.select(F.explode(F.create_map("k", "v")).alias("x", "y")),
    "stack": lambda s, rows: rows.select(F.expr("stack(2, k, CAST(10 div v AS int), 'z', v) AS (x, y)")),
    "inner": joined("inner"),
    "inner, table first": joined("inner", flipped=True),
    "left": joined("left"),
    "semi": joined("left_semi"),
    "anti": joined("left_anti"),
    "union": lambda s, rows: rows.select("k").union(LowLatencyMemoryStream(s, "k string").to_df()),
    "watermark": lambda s, rows: rows.select(F.timestamp_seconds("v").alias("t"), "k").withWatermark("t", "1 second").where("k <> 'b'"),
    "repartition": lambda s, rows: rows.repartition(2).select("k"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_operator_of_the_list_gives_the_rows_of_a_batch(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, name: str) -> None:
    """The rows that push others forward pass all operators, and leave no trace."""
    stream = LowLatencyMemoryStream(mini, SCHEMA)
    stream.add_data(ROWS)
    query = start(QUERIES[name](mini, stream.to_df()).select(F.to_json(F.struct("*")).alias("row")), tmp_path)
    wait_for(lambda: committed(tmp_path) == len(ROWS), query)
    query.stop()
    if name == "union":
        assert sorted(row["row"] for row in rows_in(tmp_path / "rows")) == ['{"k":"a"}', '{"k":"a"}', '{"k":"b"}', '{"k":"c"}']
        return
    batch = QUERIES[name](spark, spark.createDataFrame(ROWS, SCHEMA)).select(F.to_json(F.struct("*")).alias("row"))
    assert sorted(row["row"] for row in rows_in(tmp_path / "rows")) == sorted(row.row for row in batch.collect())
    report = next(report for report in query.recentProgress if report["numInputRows"])
    if name == "watermark":
        assert dict(report["eventTime"])["max"] == "1970-01-01T00:00:04.000Z" and dict(report["eventTime"])["min"] == "1970-01-01T00:00:01.000Z"


def test_either_engine_goes_on_where_the_other_has_stopped(engines: dict[str, Any], tmp_path: Path) -> None:
    """Spark in real time, the model in micro-batches, the model in real time, and Spark again; nothing is missed or comes twice."""
    streams = {engine: LowLatencyMemoryStream(session, SCHEMA) for engine, session in engines.items()}
    for number, (engine, trigger) in enumerate([("spark", SOON), ("model", {"availableNow": True}), ("model", SOON), ("spark", SOON)], 1):
        for stream in streams.values():
            stream.add_data([(f"row {number}", number, None)])
        query = start(streams[engine].to_df().select("k"), tmp_path, trigger)
        wait_for(lambda: committed(tmp_path) == number, *([query] if trigger is SOON else []))  # noqa: B023
        if trigger is SOON:
            query.stop()
        query.awaitTermination(60)
        assert query.exception() is None
        last = max(log(tmp_path, "commits"))
        (tmp_path / f"checkpoint/offsets/{last + 1}").write_text((tmp_path / f"checkpoint/offsets/{last}").read_text())
        if number in (1, 4):  # a micro-batch would run it; real-time mode deletes an entry without its commit
            (tmp_path / f"checkpoint/offsets/{last + 1}").unlink()
            (tmp_path / f"checkpoint/offsets/.{last + 1}.crc").unlink(missing_ok=True)
    assert [row["k"] for row in rows_in(tmp_path / "rows")] == [f"row {number}" for number in (1, 2, 3, 4)]


def test_two_queries_read_one_stream(mini: MiniSparkSession, tmp_path: Path) -> None:
    stream = LowLatencyMemoryStream(mini, "k string")
    queries = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        queries.append(start(stream.to_df(), tmp_path / name, {"realTime": "10 minutes"}))
    stream.add_data([("a",)])
    wait_for(lambda: all(rows_in(tmp_path / name / "rows") == [{"k": "a"}] for name in ("one", "two")), *queries)
    for query in queries:
        query.stop()


def test_rows_that_do_not_fit_are_refused(engines: dict[str, Any]) -> None:
    for session in engines.values():
        stream = LowLatencyMemoryStream(session, "k string, v int", num_partitions=2)
        with pytest.raises(PySparkTypeError):
            stream.add_data([("a", 1), ("a", "b")])
        assert stream.add_data([]) == '{"0":0,"1":0}'
        assert stream.add_data([{"k": "a", "v": 1}, ("b", None), ("c", 3)]) == '{"0":2,"1":1}'


def test_a_function_that_fails_ends_the_query(engines: dict[str, Any], tmp_path: Path) -> None:
    def fail(row: Any) -> None:
        raise ValueError(f"no {row.k} today")

    for session in engines.values():
        stream = LowLatencyMemoryStream(session, "k string")
        stream.add_data([("cat",)])
        query = stream.to_df().writeStream.outputMode("update").foreach(fail).trigger(**SOON).start()
        with pytest.raises(StreamingQueryException, match="no cat today"):
            query.awaitTermination(60)


def writer_object(path: Path, refused: int | None = None, fails: str = "") -> Any:
    """A writer that notes each call. `open` refuses a partition, and the method `fails` raises an error, after it has noted its call."""

    class Writer:
        def __init__(self) -> None:
            self.path, self.calls = str(path), 0

        def note(self, *call: Any) -> None:
            self.calls += 1
            with open(self.path, "a") as file:
                file.write(json.dumps([*self.of, self.calls, *call]) + "\n")
            if call[0] == fails:
                raise ValueError(f"no {fails} today")

        def open(self, partition_id: int, epoch_id: int) -> bool:
            self.of = partition_id, epoch_id
            self.note("open")
            return partition_id != refused

        def process(self, row: Any) -> None:
            self.note("process", row.k)

        def close(self, error: Exception | None) -> None:
            self.note("close", repr(error))

    return Writer()


@pytest.mark.parametrize("fails", ["", "open", "process", "close"])
def test_what_an_object_of_foreach_is_called_with(engines: dict[str, Any], tmp_path: Path, fails: str) -> None:
    """Each partition of each batch has calls of its own, in which the object counts from its beginning. Partition 1 is refused."""
    found = {}
    for engine, session in engines.items():
        stream, path = LowLatencyMemoryStream(session, "k string", num_partitions=2), tmp_path / engine
        stream.add_data([(k,) for k in "abcde"])
        writer: Any = stream.to_df().writeStream.outputMode("update").foreach(writer_object(path, refused=1, fails=fails))
        query = writer.trigger(**SOON).start()
        if fails:
            with pytest.raises(StreamingQueryException, match=f"no {fails} today"):
                query.awaitTermination(60)
        else:
            wait_for(lambda: len(query.recentProgress) > 1, query)  # noqa: B023
            query.stop()
        calls = [json.loads(line) for line in path.read_text().splitlines()]
        of_partitions = (0,) if fails in ("open", "process") else (0, 1)  # when one fails, the other may have begun or not
        found[engine] = [[call for call in calls if call[:2] == [number, epoch]] for number in of_partitions for epoch in range(2 - bool(fails))]
    assert found["model"] == found["spark"]
    assert found["model"][0][0] == [0, 0, 1, "open"]


def identity(batches: Any) -> Any:
    yield from batches


Refused = tuple[Callable[[DataFrame], DataFrame], str, dict[str, str], dict[str, str], str]
AS_IT_IS = partial(lambda rows: rows)
UNCHECKED = {f"{MODE}.allowlistCheck": "false"}
SYNC = {"asyncProgressTrackingEnabled": "false"}
REFUSED: dict[str, Refused] = {
    "UDF": (lambda rows: rows.select(F.udf(lambda k: k)("k")), "console", {}, {}, "python.ArrowEvalPythonExec is not in"),
    "mapInPandas, then coalesce": (
        lambda rows: rows.mapInPandas(identity, SCHEMA).coalesce(1), "console", {}, {}, "CoalesceExec, org.apache.spark.sql.execution.python.MapInPandasExec are not",
    ),
    "range": (lambda rows: rows.repartitionByRange(2, "k"), "console", {}, {}, "OPERATOR_OR_SINK"),
    "the same source twice": (lambda rows: rows.union(rows), "console", {}, {}, "IDENTICAL_SOURCES_IN_UNION"),
    "memory": (AS_IT_IS, "memory", {}, {}, "OPERATOR_OR_SINK"),
    "foreachBatch": (AS_IT_IS, "foreachBatch", {}, {}, "OPERATOR_OR_SINK"),
    "foreachBatch, unchecked": (AS_IT_IS, "foreachBatch", {}, UNCHECKED, "Sink ForeachBatchSink does not support async progress tracking"),
    "foreachBatch, unchecked, sync": (AS_IT_IS, "foreachBatch", SYNC, UNCHECKED, "SINK_NOT_SUPPORTED"),
    "interval of the logs": (AS_IT_IS, "console", {"asyncProgressTrackingCheckpointIntervalMs": "5"}, {}, "INTERVAL_NON_ZERO"),
    "state below a union": (lambda rows: rows.dropDuplicates(["k"]).union(rows), "console", {}, {}, "STATEFUL_OPERATORS_BEFORE_UNION"),
    "confs": (
        AS_IT_IS, "console", {},
        {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1", "spark.sql.execution.sortBeforeRepartition": "true",
         "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"},
        "SQL_CONFIGURATION_NOT_SUPPORTED",
    ),
}


def refusal(session: Any, case: Refused, folder: Path, mode: str = "update") -> tuple[str, str]:
    """Whether start() refuses it or the query's thread, and the words."""
    build, sink, options, _, _ = case
    writer: Any = build(LowLatencyMemoryStream(session, SCHEMA).to_df()).writeStream.outputMode(mode).queryName("refused")
    writer = writer.foreachBatch(lambda rows, batch_id: None) if sink == "foreachBatch" else writer.format(sink)
    try:
        query = writer.options(**options).option("checkpointLocation", str(folder)).trigger(**SOON).start()
    except PySparkException as e:
        return f"start: {type(e).__name__}", str(e).split(";")[0]
    try:
        with pytest.raises(StreamingQueryException) as error:
            query.awaitTermination(60)
    finally:
        query.stop()
    return "query", str(error.value).split("terminated with exception: ")[1].split("=== Streaming Query")[0]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(engines: dict[str, Any], spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = REFUSED[name]
    with confs_set(spark, case[3]):
        theirs, ours = (refusal(session, case, tmp_path / engine) for engine, session in engines.items())
    if name == "the same source twice":  # Spark's description of the source has the ids of its columns
        theirs = theirs[0], theirs[1].split("Sources provided")[0]
        ours = ours[0], ours[1].split("Sources provided")[0]
    assert ours == theirs and case[-1] in ours[1]


OF_TWO: dict[str, tuple[str, Refused]] = {
    "mode, plan": ("append", (lambda rows: rows.orderBy("k"), "console", {}, {}, "OUTPUT_MODE_NOT_SUPPORTED")),
    "union, plan": ("update", (lambda rows: rows.orderBy("k").union(rows.distinct()), "console", {}, {}, "STATEFUL_OPERATORS_BEFORE_UNION")),
    "confs, mode": ("append", (AS_IT_IS, "console", {}, {"spark.sql.execution.sortBeforeRepartition": "true"}, "SQL_CONFIGURATION_NOT_SUPPORTED")),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_which_of_two_refusals_comes_first(engines: dict[str, Any], spark: SparkSession, tmp_path: Path, name: str) -> None:
    mode, case = OF_TWO[name]
    with confs_set(spark, case[3]):
        theirs, ours = (refusal(session, case, tmp_path / engine, mode) for engine, session in engines.items())
    assert ours == theirs and case[-1] in ours[1]
