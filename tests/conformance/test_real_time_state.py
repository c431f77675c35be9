"""Real-time mode with state, on both engines: logs, reports and state, refusals, checkpoints that they exchange, and kills."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession, inspect
from minispark_stream.extras.jvm.pipelined_stages import free_slots
from minispark_stream.extras.real_time import pipelines, real_time_execution
from minispark_stream.extras.real_time.low_latency_memory_stream import LowLatencyMemoryStreamReader
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.test_real_time_mode import (
    MODE,
    SCHEMA,
    SHORT_BATCHES,
    SOON,
    Refused,
    committed,
    identity,
    last_entries,
    log,
    refusal,
    rows_in,
    shape,
    start,
    wait_for,
)

MOST_ON_THE_WAY, ROW_BYTES = 32 * 2**20, 4000  # the sockets on the way have the most of it
ROWS = [("a", 1, None), ("b", 2, None), ("a", 3, None)]
ROCKSDB_WITH_IDS = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def wait_for_slots(spark: SparkSession, number: int) -> None:
    """All slots must be free: Spark does not wait for the job that starts workers."""
    for thread in threading.enumerate():
        if thread.name == "start Python workers":
            thread.join()
    wait_for(lambda: free_slots(spark) == number)


@pytest.fixture(autouse=True)
def two_slots(spark: SparkSession, mini: MiniSparkSession) -> Iterator[None]:
    """One task that reads, and one that has state."""
    wait_for_slots(spark, 2)
    with confs_set(spark, {**SHORT_BATCHES, "spark.sql.shuffle.partitions": "1"}):
        yield


@pytest.fixture
def engines(spark: SparkSession, mini: MiniSparkSession) -> dict[str, Any]:
    return {"spark": spark, "model": mini}


def distinct(df: DataFrame) -> DataFrame:
    """A query with operators below the state and above it."""
    return df.where("v > 0").dropDuplicates(["k"]).select("k", (F.col("v") * 2).alias("twice"))


def state_files(folder: Path) -> list[str]:
    """The names of the files of the state, without the ids in them."""
    state = folder / "checkpoint/state"
    return sorted({str(path.relative_to(state)).split("_")[0] for path in state.rglob("[!.]*") if path.is_file()})


def keys_in_state(folder: Path) -> list[str]:
    return sorted(row.key["k"] for row in inspect(str(folder / "checkpoint")).rows())


def without_ids(entries: list[Any]) -> list[Any]:
    for entry in entries:
        for part in entry:
            if isinstance(part, dict) and "stateUniqueIds" in part:
                part["stateUniqueIds"] = {operator: [len(ids) for ids in of_all] for operator, of_all in part["stateUniqueIds"].items()}
    return entries


def test_logs_and_reports_are_equal(engines: dict[str, Any], tmp_path: Path) -> None:
    found = {}
    for engine, session in engines.items():
        folder = tmp_path / engine
        folder.mkdir()
        stream = LowLatencyMemoryStream(session, SCHEMA)
        stream.add_data(ROWS)
        query = start(distinct(stream.to_df()), folder)
        wait_for(lambda: committed(folder) == 3, query)  # noqa: B023
        stream.add_data([("b", 4, None), ("c", 5, None), ("d", 0, None)])
        wait_for(lambda: committed(folder) == 6, query)  # noqa: B023
        query.stop()
        report = next(one for one in query.recentProgress if one["numInputRows"] and one["sources"][0]["startOffset"] == '{"0": 3}')
        [operator] = report["stateOperators"]
        found[engine] = {
            "entries": without_ids(last_entries(folder)), "rows": rows_in(folder / "rows"), "report": shape(report),
            "state": {k: v for k, v in operator.items() if not k.endswith("TimeMs") and k not in ("customMetrics", "memoryUsedBytes")},
            "duplicates": operator["customMetrics"]["numDroppedDuplicateRows"],
            "metadata": (folder / "checkpoint/state/0/_metadata/metadata").read_text(),
            "files": [name for name in state_files(folder) if name == "0/0/1"],
        }
    assert found["model"] == found["spark"]
    assert found["model"]["rows"] == [{"k": "a", "twice": 2}, {"k": "b", "twice": 4}, {"k": "c", "twice": 10}]


def test_rows_pass_while_the_batch_runs(mini: MiniSparkSession, tmp_path: Path) -> None:
    """A row is written long before its batch ends. The batch is cut off, so its keys are in no state, and its rows are read again."""
    stream = LowLatencyMemoryStream(mini, SCHEMA)
    query = start(distinct(stream.to_df()), tmp_path, {"realTime": "10 minutes"})
    for number, name in enumerate("ab", 1):
        stream.add_data([(name, 1, None), (name, 2, None)])
        wait_for(lambda number=number: len(rows_in(tmp_path / "rows")) == number, query)  # type: ignore[misc]
    query.stop()
    assert query.exception() is None and not log(tmp_path, "offsets") and not log(tmp_path, "commits")
    query = start(distinct(stream.to_df()), tmp_path)
    wait_for(lambda: committed(tmp_path) == 4, query)
    query.stop()
    assert [row["k"] for row in rows_in(tmp_path / "rows")] == ["a", "b", "a", "b"]


def test_a_source_waits_for_a_slow_sink(mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink stands still at its first row: what has left the source is in queues and sockets, whose sizes have limits."""
    furthest, records = [0], LowLatencyMemoryStreamReader._records

    def noted(reader: Any, message: Any) -> Any:
        furthest.append(message.offset)
        return records(reader, message)

    def stand_still(row: Any, gate: str = str(tmp_path / "gate")) -> None:
        while not os.path.exists(gate):
            time.sleep(0.05)

    monkeypatch.setattr(LowLatencyMemoryStreamReader, "_records", noted)
    stream, text = LowLatencyMemoryStream(mini, "i int, v string"), "x" * ROW_BYTES
    stream.add_data([(i, text) for i in range(3 * MOST_ON_THE_WAY // ROW_BYTES)])
    writer: Any = stream.to_df().dropDuplicates(["i"]).writeStream.outputMode("update").foreach(stand_still)
    query = writer.trigger(realTime="10 minutes").start()
    wait_for(lambda: furthest[-1] > 0, query)
    seen = -1
    while seen < furthest[-1]:
        seen = furthest[-1]
        query.awaitTermination(1)
    (tmp_path / "gate").touch()
    query.stop()
    assert seen * ROW_BYTES < MOST_ON_THE_WAY


def test_late_rows_and_old_keys(engines: dict[str, Any], tmp_path: Path) -> None:
    """The watermark stands still within a batch; at the end of the next one, keys that it has passed leave the state."""
    found = {}
    for engine, session in engines.items():
        folder = tmp_path / engine
        folder.mkdir()
        stream = LowLatencyMemoryStream(session, SCHEMA)
        timed = stream.to_df().select(F.timestamp_seconds("v").alias("t"), "k").withWatermark("t", "10 seconds")
        query = start(timed.dropDuplicates(["k", "t"]).select("k"), folder)
        for number, rows in enumerate([[("a", 100, None), ("b", 50, None)], [("late", 80, None), ("c", 101, None)], [("a", 100, None)]]):
            stream.add_data(rows)
            wait_for(lambda number=number: committed(folder) == [2, 4, 5][number], query)  # type: ignore[misc]  # noqa: B023
            batches = max(log(folder, "commits"))
            wait_for(lambda batches=batches: max(log(folder, "commits")) > batches, query)  # type: ignore[misc]  # noqa: B023
        query.stop()
        [last] = query.lastProgress["stateOperators"]
        dropped = sum(one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in query.recentProgress)
        removed = sum(one["stateOperators"][0]["numRowsRemoved"] for one in query.recentProgress)
        found[engine] = [row["k"] for row in rows_in(folder / "rows")], last["numRowsTotal"], dropped, removed
    assert found["model"] == found["spark"] == (["a", "b", "c"], 2, 1, 1)


def take_turns(engines: dict[str, Any], folder: Path, query_of: Any) -> None:
    """Spark in real time, the model in micro-batches, the model in real time, and Spark again, each with an old and a new key."""
    streams = {engine: LowLatencyMemoryStream(session, SCHEMA) for engine, session in engines.items()}
    turns: list[tuple[str, Any]] = [("spark", SOON), ("model", {"availableNow": True}), ("model", SOON), ("spark", SOON)]
    with confs_set(engines["spark"], ROCKSDB_WITH_IDS):
        for number, (engine, trigger) in enumerate(turns, 1):
            for stream in streams.values():
                stream.add_data([("old", 1, None), (f"key {number}", number, None)])
            query = start(query_of(streams[engine].to_df()), folder, trigger)
            wait_for(lambda: committed(folder) == 2 * number, *([query] if trigger is SOON else []))  # noqa: B023
            if trigger is SOON:
                query.stop()
            query.awaitTermination(60)
            assert query.exception() is None


def test_either_engine_goes_on_where_the_other_has_stopped(engines: dict[str, Any], tmp_path: Path) -> None:
    """No key passes twice."""
    take_turns(engines, tmp_path, distinct)
    assert [row["k"] for row in rows_in(tmp_path / "rows")] == ["old", "key 1", "key 2", "key 3", "key 4"]


def counted(df: DataFrame) -> DataFrame:
    return df.groupBy("k").count()


@pytest.mark.parametrize("query_of", [distinct, counted])
def test_kills_at_each_durable_action(
    mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query_of: Any
) -> None:
    """Whatever is on the disk when the process dies: afterwards the state has each row once, and it was written at least once."""
    disk, photographs = tmp_path / "disk", list[Path]()
    disk.mkdir()

    def photographed(name: str) -> None:
        step = getattr(real_time_execution, name)

        def run(query: Any, context: Any, *arguments: Any) -> Any:
            for when in ("before", "after"):
                photographs.append(tmp_path / f"{context.batch_id} {when} {name}")
                if when == "after":
                    result = step(query, context, *arguments)
                shutil.copytree(disk, photographs[-1])
            return result

        monkeypatch.setattr(real_time_execution, name, run)

    for name in ("wal_commit", "commit_offsets"):  # the state has been written before
        photographed(name)
    stream = LowLatencyMemoryStream(mini, SCHEMA)
    stream.add_data(ROWS)
    query = start(query_of(stream.to_df()), disk)
    wait_for(lambda: committed(disk) == 3, query)
    stream.add_data([("c", 4, None), ("b", 5, None)])
    wait_for(lambda: committed(disk) == 5, query)
    query.stop()
    monkeypatch.undo()
    last = max(log(disk, "commits"))
    chosen = [one for one in photographs if int(one.name.split(" ")[0]) == last]
    assert [one.name.split(" ", 1)[1] for one in chosen] == [
        "before wal_commit", "after wal_commit", "before commit_offsets", "after commit_offsets",
    ]
    del chosen[2]  # the same as the one before it
    in_the_middle = tmp_path / "before the state"
    shutil.copytree(chosen[0], in_the_middle)
    for path in (in_the_middle / "checkpoint/state/0/0").glob(f"*{last + 1}_*"):
        path.unlink()
    if query_of is counted:
        chosen = chosen[:1]  # all but the rows of the state is the same
    for folder in (in_the_middle, *chosen):
        begun = start(query_of(stream.to_df()), folder)
        wait_for(lambda: committed(folder) == 5, begun)  # noqa: B023
        begun.stop()
        assert begun.exception() is None
        assert keys_in_state(folder) == ["a", "b", "c"]
        written = rows_in(folder / "rows")
        if query_of is counted:
            counts = {row.key["k"]: row.value["count"] for row in inspect(str(folder / "checkpoint")).rows()}
            assert counts == {row["k"]: row["count"] for row in written} == {"a": 2, "b": 2, "c": 1}
        else:
            assert sorted({row["k"] for row in written}) == ["a", "b", "c"]
            assert [row["k"] for row in written].count("a") == [row["k"] for row in written].count("b") == 1


def _other(rows: DataFrame) -> DataFrame:
    return LowLatencyMemoryStream(rows.sparkSession, "k string").to_df()


REFUSED: dict[str, Refused] = {
    "UDF below": (lambda rows: rows.select(F.udf(lambda k: k)("k").alias("k")).dropDuplicates(["k"]), "console", {}, {}, "python.ArrowEvalPythonExec is not in"),
    "UDF above": (lambda rows: rows.dropDuplicates(["k"]).select(F.udf(lambda k: k)("k")), "console", {}, {}, "python.ArrowEvalPythonExec is not in"),
    "mapInPandas above, and coalesce": (
        lambda rows: rows.dropDuplicates(["k"]).mapInPandas(identity, SCHEMA).coalesce(1), "console", {}, {},
        "CoalesceExec, org.apache.spark.sql.execution.python.MapInPandasExec are not",
    ),
    "within the watermark": (
        lambda rows: rows.select("k", F.timestamp_seconds("v").alias("t")).withWatermark("t", "1 second").dropDuplicatesWithinWatermark(["k"]),
        "console", {}, {}, "StreamingDeduplicateWithinWatermarkExec is not in",
    ),
    "join": (lambda rows: rows.join(_other(rows), "k"), "console", {}, {}, "join.StreamingSymmetricHashJoinExec is not in"),
    "asynchronous logs": (
        lambda rows: rows.dropDuplicates(["k"]), "console", {"asyncProgressTrackingEnabled": "true"}, {}, "does not support async progress",
    ),
    "slots": (lambda rows: rows.dropDuplicates(["k"]), "console", {}, {"spark.sql.shuffle.partitions": "4"}, "needs 5 concurrent task slots"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(
    engines: dict[str, Any], spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "_OTHERS_END_S", 0)
    case = REFUSED[name]
    with confs_set(spark, case[3]):
        theirs, ours = (refusal(session, case, tmp_path / engine) for engine, session in engines.items())
    assert ours == theirs and case[-1] in ours[1]


@pytest.mark.parametrize("build", [lambda rows: rows.select("k"), lambda rows: rows.groupBy("k").count()], ids=["no state", "count"])
def test_a_checkpoint_of_format_1_is_refused(engines: dict[str, Any], spark: SparkSession, tmp_path: Path, build: Any) -> None:
    """Micro-batches have begun it, which write format 1 unless a conf says otherwise. Another conf allows it, and format 1 stays."""
    found = {}
    for engine, session in engines.items():
        (tmp_path / engine).mkdir()
        stream = LowLatencyMemoryStream(session, SCHEMA)
        stream.add_data(ROWS)
        start(build(stream.to_df()), tmp_path / engine, {"availableNow": True}).awaitTermination(60)
        with pytest.raises(StreamingQueryException) as refused:
            start(build(stream.to_df()), tmp_path / engine).awaitTermination(60)
        told = str(refused.value).split("terminated with exception: ")[1].split("=== Streaming Query")[0]
        with confs_set(spark, {f"{MODE}.dangerouslyAllowCheckpointV1.enabled": "true"}):
            query = start(build(stream.to_df()), tmp_path / engine)
            wait_for(lambda: 1 in log(tmp_path / engine, "commits"), query)  # noqa: B023
            query.stop()
        found[engine] = told, log(tmp_path / engine, "commits")[1]
    assert found["model"] == found["spark"] and found["model"][0].startswith("[STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED]")
    assert found["model"][1][0] == "v1"


ONLY_THE_MODEL_REFUSES: dict[str, tuple[str, Any]] = {
    "Repartition in a query with state": ("realTimeMode.allowlistCheck", lambda rows: rows.repartition(1).dropDuplicates(["k"])),
    "an aggregation of the results": ("unsupportedOperationCheck", lambda rows: rows.groupBy("k").count().groupBy("count").count()),
}


@pytest.mark.parametrize("what", ONLY_THE_MODEL_REFUSES)
def test_what_only_the_model_refuses(mini: MiniSparkSession, tmp_path: Path, what: str) -> None:
    """Spark refuses it, too, unless a check is off."""
    check, build = ONLY_THE_MODEL_REFUSES[what]
    with confs_set(mini, {f"spark.sql.streaming.{check}": "false"}):
        query = start(build(LowLatencyMemoryStream(mini, SCHEMA).to_df()), tmp_path)
        with pytest.raises(StreamingQueryException, match=f"minispark_stream cannot run {what}"):
            query.awaitTermination(60)
