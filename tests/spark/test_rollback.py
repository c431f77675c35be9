"""A rollback on real Spark: batches are taken back, new code runs instead of them, and the result is that of a run that was never
rolled back, also after two more restarts, which load the state from the disk.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, inspect, rollback
from minispark_stream.tools.compare.prepared import confs_set

FILES, MORE = 4, 8  # files of the batches that stay; with those that are taken back
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROCKSDB_CONF = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
CONFS = {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
         "spark.sql.streaming.stateStore.maintenanceInterval": "100ms"}
KINDS: dict[str, Mapping[str, str]] = {
    "count": {}, "left outer join": {}, "file sink": {},
    "changelogs": {"spark.sql.streaming.stateStore.providerClass": ROCKSDB, ROCKSDB_CONF: "true"},
}


def feed(folder: Path, batches: range) -> None:
    folder.mkdir(exist_ok=True)
    for i in batches:
        rows = [{"k": k, "v": i + j, "ts": f"2026-03-01 12:{i:02}:00"} for j, k in enumerate("ab" if i % 2 else "abc")]
        (folder / f".{i}").write_text("\n".join(map(json.dumps, rows)))
        os.utime(folder / f".{i}", (1_700_000_000 + i, 1_700_000_000 + i))  # files of one time may be read in any order
        (folder / f".{i}").rename(folder / f"{i}.json")


def build(session: Any, kind: str, home: Path, factor: int) -> DataFrame:
    rows = session.readStream.schema("k string, v long, ts timestamp").option("maxFilesPerTrigger", 1).json(str(home / "in"))
    rows = rows.withColumn("v", F.col("v") * factor)  # what the new code does otherwise
    if kind == "left outer join":
        timed = rows.withWatermark("ts", "2 minutes")
        right = timed.where("v % 2 = 0").select(F.col("k").alias("k2"), F.col("v").alias("v2"), F.col("ts").alias("ts2"))
        near = "k = k2 and ts2 >= ts - interval 1 minute and ts2 <= ts + interval 1 minute"
        return timed.join(right, F.expr(near), "leftOuter").select("k", "v", "v2")
    return rows.select("k", "v") if kind == "file sink" else rows.groupBy("k").agg(F.sum("v").alias("v"))


def run(session: Any, kind: str, home: Path, checkpoint: Path, factor: int) -> dict[int, list[str]]:
    """The rows of each batch; none for the file sink."""
    found: dict[int, list[str]] = {}

    def keep(data: DataFrame, batch_id: int) -> None:
        found[batch_id] = sorted(str(tuple(row)) for row in data.collect())

    writer = build(session, kind, home, factor).writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer = writer.outputMode("update" if kind in ("count", "changelogs") else "append")
    query = (writer.format("json").option("path", str(home / "out")) if kind == "file sink" else writer.foreachBatch(keep)).start()
    query.awaitTermination()
    return found


def everything(session: Any, kind: str, home: Path, checkpoint: Path, take_back: bool, damage: Any = None) -> dict[int, list[str]]:
    """Some batches with old code, new code after them, and two restarts; with or without a detour over the old code."""
    feed(home / "in", range(FILES))
    found = run(session, kind, home, checkpoint, 1)
    last = inspect(str(checkpoint)).batches[-1].batch_id  # a join also has batches without data
    feed(home / "in", range(FILES, MORE))
    if take_back:
        run(session, kind, home, checkpoint, 1)
        sink = home / "out" if kind == "file sink" else None
        copy = checkpoint.with_name("copy")
        rollback(checkpoint, last, to=copy, sink=sink)
        if damage:
            damage(checkpoint, copy)
        checkpoint = copy
    found |= run(session, kind, home, checkpoint, 100)
    for i in (MORE, MORE + 1):
        feed(home / "in", range(i, i + 1))
        found |= run(session, kind, home, checkpoint, 100)
    if kind == "file sink":
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


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_rollback_the_query_goes_on_as_if_it_had_never_run_on(
    session: Any, spark: SparkSession, spark_files: Any, tmp_path: Path, kind: str
) -> None:
    with confs_set(spark, KINDS[kind]):
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
