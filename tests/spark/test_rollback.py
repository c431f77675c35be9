"""A rollback on real Spark: batches are taken back, new code runs instead of them, and the result is that of a run that was never
rolled back, also after two more restarts, which load the state from the disk.

`MINISPARK_ROLLBACK=all` also plays the kinds of ALSO.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, inspect, rollback
from minispark_stream.tools.compare.prepared import confs_set
from tests.spark.check_pairs import Adds

FILES, MORE = 4, 8  # files of the batches that stay; with those that are taken back
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROCKSDB_CONF = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CONFS = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
         "spark.sql.streaming.stateStore.maintenanceInterval": "100ms"}
KINDS: dict[str, Mapping[str, str]] = {
    "count": {}, "left outer join": {}, "file sink": {},
    "changelogs": {"spark.sql.streaming.stateStore.providerClass": ROCKSDB, ROCKSDB_CONF: "true"},
}
FORMAT_2 = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB, ROCKSDB_CONF: "true",
            "spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
ALSO: dict[str, Mapping[str, str]] = {
    "windows": {}, "deduplication": {}, "sessions": {}, "limit": {}, "windows of windows": {}, "two sources": {}, "pandas with state": {},
    "zips": {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}, "format 2": FORMAT_2, "transformWithState": FORMAT_2,
    "compacted logs": {f"spark.sql.streaming.{log}.log.compactInterval": "3" for log in ("fileSource", "fileSink")},
    "file checksums": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "true"},
}
PLAYED = KINDS | ALSO if os.environ.get("MINISPARK_ROLLBACK") == "all" else KINDS
FILE_SINK = ("file sink", "compacted logs")
APPEND = ("left outer join", "windows", "deduplication", "sessions", "limit", "windows of windows", *FILE_SINK)


def feed(folder: Path, batches: range) -> None:
    folder.mkdir(exist_ok=True)
    for i in batches:
        rows = [{"k": k, "v": i + j, "ts": f"2026-03-01 12:{i:02}:00"} for j, k in enumerate("ab" if i % 2 else "abc")]
        (folder / f".{i}").write_text("\n".join(map(json.dumps, rows)))
        os.utime(folder / f".{i}", (1_700_000_000 + i, 1_700_000_000 + i))  # files of one time may be read in any order
        (folder / f".{i}").rename(folder / f"{i}.json")


def arrive(home: Path, batches: range) -> None:
    for folder in ("in", "in2"):
        feed(home / folder, batches)


def adds(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(int(frame.v.sum()) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "v": [total]})


def build(session: Any, kind: str, home: Path, factor: int) -> DataFrame:
    def read(folder: str) -> DataFrame:
        rows = session.readStream.schema("k string, v long, ts timestamp").option("maxFilesPerTrigger", 1).json(str(home / folder))
        return rows.withColumn("v", F.col("v") * factor)  # what the new code does otherwise

    rows = read("in")
    timed = rows.withWatermark("ts", "2 minutes")
    total = F.sum("v").alias("v")
    match kind:
        case "left outer join":
            right = timed.where("v % 2 = 0").select(F.col("k").alias("k2"), F.col("v").alias("v2"), F.col("ts").alias("ts2"))
            near = "k = k2 and ts2 >= ts - interval 1 minute and ts2 <= ts + interval 1 minute"
            return timed.join(right, F.expr(near), "leftOuter").select("k", "v", "v2")
        case "windows":
            return timed.groupBy(F.window("ts", "2 minutes"), "k").agg(total)
        case "deduplication":
            return timed.withColumn("v", F.col("v") / 2).dropDuplicates(["k", "v"])
        case "sessions":
            return timed.groupBy(F.session_window("ts", "90 seconds"), "k").agg(total)
        case "limit":
            return rows.limit(17)
        case "windows of windows":
            small = timed.groupBy(F.window("ts", "1 minute")).agg(total)
            return small.groupBy(F.window(F.window_time("window"), "2 minutes")).agg(total)
        case "two sources":
            return rows.union(read("in2")).groupBy("k").agg(total)
        case "pandas with state":
            return rows.groupBy("k").applyInPandasWithState(adds, "k string, v long", "total long", "update", "NoTimeout")
        case "transformWithState":
            return rows.groupBy("k").transformWithStateInPandas(Adds(), "k string, n long", "update", "none")
    return rows.select("k", "v") if kind in FILE_SINK else rows.groupBy("k").agg(total)


def run(session: Any, kind: str, home: Path, checkpoint: Path, factor: int) -> dict[int, list[str]]:
    """The rows of each batch; none for the file sink."""
    found: dict[int, list[str]] = {}

    def keep(data: DataFrame, batch_id: int) -> None:
        found[batch_id] = sorted(str(tuple(row)) for row in data.collect())

    writer = build(session, kind, home, factor).writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer = writer.outputMode("append" if kind in APPEND else "update")
    query = (writer.format("json").option("path", str(home / "out")) if kind in FILE_SINK else writer.foreachBatch(keep)).start()
    query.awaitTermination()
    return found


def everything(session: Any, kind: str, home: Path, checkpoint: Path, take_back: bool, damage: Any = None) -> dict[int, list[str]]:
    """Some batches with old code, new code after them, and two restarts; with or without a detour over the old code."""
    arrive(home, range(FILES))
    found = run(session, kind, home, checkpoint, 1)
    last = inspect(str(checkpoint)).batches[-1].batch_id  # a join also has batches without data
    arrive(home, range(FILES, MORE))
    if take_back:
        run(session, kind, home, checkpoint, 1)
        sink = home / "out" if kind in FILE_SINK else None
        copy = checkpoint.with_name("copy")
        rollback(checkpoint, last, to=copy, sink=sink)
        if damage:
            damage(checkpoint, copy)
        checkpoint = copy
    found |= run(session, kind, home, checkpoint, 100)
    for i in (MORE, MORE + 1):
        arrive(home, range(i, i + 1))
        found |= run(session, kind, home, checkpoint, 100)
    if kind in FILE_SINK:
        found = {0: sorted(str(tuple(row)) for row in SparkSession.active().read.json(str(home / "out")).collect())}
    return found


@pytest.fixture(autouse=True)
def maintenance_begins_anew(spark: SparkSession) -> Iterator[None]:
    """Spark's maintenance keeps the interval with which it began, in whatever test that was."""
    store: Any = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore  # type: ignore[union-attr]
    store.stop()
    yield
    store.stop()


@pytest.fixture(params=["spark", "model"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Any]:
    with confs_set(spark, CONFS):
        yield spark if request.param == "spark" else MiniSparkSession(spark)


@pytest.mark.parametrize("kind", PLAYED)
def test_after_a_rollback_the_query_goes_on_as_if_it_had_never_run_on(
    session: Any, spark: SparkSession, spark_files: Any, tmp_path: Path, kind: str
) -> None:
    with confs_set(spark, PLAYED[kind]):
        homes = [tmp_path / "straight", tmp_path / "back"]
        for home in homes:
            home.mkdir()
        straight = everything(session, kind, homes[0], homes[0] / "checkpoint", take_back=False)
        assert everything(session, kind, homes[1], homes[1] / "checkpoint", take_back=True) == straight
        assert any(straight.values())


def test_a_snapshot_that_is_left_is_loaded_again(spark: SparkSession, spark_files: Any, tmp_path: Path) -> None:
    """Why a rollback removes state: real Spark, on a copy to which the snapshots of the abandoned batches come back."""

    def put_back(checkpoint: Path, copy: Path) -> None:
        left = [p for p in checkpoint.glob("state/0/0/*.snapshot") if int(p.name.split(".")[0]) > FILES]
        assert left
        for path in left:
            shutil.copy(path, copy / path.relative_to(checkpoint))

    with confs_set(spark, CONFS):
        for name in ("straight", "back"):
            (tmp_path / name).mkdir()
        straight = everything(spark, "count", tmp_path / "straight", tmp_path / "straight/checkpoint", take_back=False)
        wrong = everything(spark, "count", tmp_path / "back", tmp_path / "back/checkpoint", take_back=True, damage=put_back)
        assert wrong != straight
        assert inspect(str(tmp_path / "back/copy")).next.batch_id == MORE + 2


def test_a_delta_table_must_be_restored_and_the_copy_have_another_id(mini: MiniSparkSession, tmp_path: Path) -> None:
    """The table knows the batches that are taken back, even when it has been restored: under the same id, they are skipped."""
    deltalake = pytest.importorskip("deltalake")

    def run_on(checkpoint: Path, table: Path, factor: int) -> list[int]:
        rows = mini.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        writer = rows.select("k", (F.col("v") * factor).alias("v")).writeStream.format("delta")
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start(str(table)).awaitTermination()
        return sorted(deltalake.DeltaTable(table).to_pandas().v.tolist())

    arrive(tmp_path, range(FILES))
    straight = run_on(tmp_path / "straight", tmp_path / "straight_table", 1)
    assert straight == run_on(tmp_path / "checkpoint", tmp_path / "table", 1)
    version = deltalake.DeltaTable(tmp_path / "table").version()
    arrive(tmp_path, range(FILES, MORE))
    run_on(tmp_path / "checkpoint", tmp_path / "table", 1)
    right = run_on(tmp_path / "straight", tmp_path / "straight_table", 100)
    found = []
    for name, new_id in (("same", False), ("other", True)):
        shutil.copytree(tmp_path / "table", tmp_path / f"{name}_table")
        deltalake.DeltaTable(tmp_path / f"{name}_table").restore(version)
        rollback(tmp_path / "checkpoint", FILES - 1, to=tmp_path / name, new_id=new_id)
        found.append(run_on(tmp_path / name, tmp_path / f"{name}_table", 100))
    assert found == [straight, right] and right != straight
