"""The state of a checkpoint of real Spark gets another number of partitions: both engines go on to the rows of a run that never stopped.

Before anything is moved, each row must be where the hash of its key says, so this also compares the hash with Spark's.
MINISPARK_ROLLBACK=1 plays the kinds of `PLAYED_ONCE`, too.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from minispark_stream.tools.operations.repartition import RepartitionRefused, repartition

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
KINDS = ["types", "join"]
PLAYED_ONCE = ["sessions", "dedup", "two operators", "limit", "rocksdb"]
TYPES = ("k", "v", "cast(v as int) i", "cast(v as double) / 3 d", "cast(-v as float) f", "v > 3 b", "cast(ts as date) date",
         "cast(v as decimal(10, 2)) m", "cast(v as decimal(30, 2)) l", "struct(k, v) s", "cast(k as binary) y", "ts", "cast(v as short) h")


def feed(folder: Path, batches: range) -> None:
    folder.mkdir(exist_ok=True)
    for i in batches:
        rows = [{"k": k * (i + 1) if k != "c" else None, "v": i + j, "ts": f"2026-03-01 12:{i:02}:00"} for j, k in enumerate("abcdefgh")]
        (folder / f".{i}").write_text("\n".join(map(json.dumps, rows)))
        os.utime(folder / f".{i}", (1_700_000_000 + i, 1_700_000_000 + i))  # files of one time may be read in any order
        (folder / f".{i}").rename(folder / f"{i}.json")


def build(session: Any, kind: str, home: Path) -> DataFrame:
    rows = session.readStream.schema("k string, v long, ts timestamp").option("maxFilesPerTrigger", 1).json(str(home / "in"))
    timed = rows.withWatermark("ts", "2 minutes")
    if kind == "types":
        typed = rows.selectExpr(*TYPES)
        return typed.groupBy(*typed.columns, F.window("ts", "5 minutes")).count()
    if kind == "sessions":
        return timed.groupBy(F.session_window("ts", "90 seconds"), "k").agg(F.sum("v").alias("v")).select("session_window.end", "k", "v")
    if kind == "dedup":
        return timed.dropDuplicates(["k"]).select("k", "v")
    if kind == "two operators":
        return timed.dropDuplicatesWithinWatermark(["k"]).groupBy(F.window("ts", "3 minutes")).count().select("window.end", "count")
    if kind == "limit":
        return rows.limit(36)  # reached after the change, in the middle of a file
    if kind == "rocksdb":
        return rows.groupBy("v").count()
    right = timed.where("v % 2 = 0").select(F.col("k").alias("k2"), F.col("v").alias("v2"), F.col("ts").alias("ts2"))
    near = "k = k2 and ts2 >= ts - interval 1 minute and ts2 <= ts + interval 1 minute"
    return timed.join(right, F.expr(near), "leftOuter").select("k", "v", "v2")


def run(session: Any, kind: str, home: Path, checkpoint: Path) -> list[list[str]]:
    found: list[list[str]] = []

    def keep(data: DataFrame, batch_id: int) -> None:
        found.append(sorted(str(tuple(row)) for row in data.collect()))

    writer = build(session, kind, home).writeStream.outputMode("update" if kind in ("types", "rocksdb") else "append")
    writer.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return [batch for batch in found if batch]


@pytest.mark.parametrize("kind", [*KINDS, *(PLAYED_ONCE if os.environ.get("MINISPARK_ROLLBACK") else ())])
def test_a_query_goes_on_with_another_number_of_partitions(spark: SparkSession, spark_files: Any, tmp_path: Path, kind: str) -> None:
    feed(tmp_path / "in", range(3))
    confs = {"spark.sql.shuffle.partitions": "3", "spark.sql.streaming.minBatchesToRetain": "2"}
    with confs_set(spark, {**confs, **(ROCKSDB if kind == "rocksdb" else {})}):
        run(spark, kind, tmp_path, tmp_path / "checkpoint")
        if kind == "rocksdb":
            with pytest.raises(RepartitionRefused, match="a session of Spark"):
                repartition(tmp_path / "checkpoint", 5, to=tmp_path / "no")
        copies = [tmp_path / f"copy{n}" for n in (5, 2)]
        for n, copy in zip((5, 2), copies):
            repartition(tmp_path / "checkpoint", n, to=copy, spark=spark)
        shutil.copytree(copies[0], tmp_path / "for the model")
        feed(tmp_path / "in", range(3, 6))
        straight = run(spark, kind, tmp_path, tmp_path / "checkpoint")
        assert straight
        for session, checkpoint in ((spark, copies[0]), (MiniSparkSession(spark), tmp_path / "for the model"), (spark, copies[1])):
            assert run(session, kind, tmp_path, checkpoint) == straight, (type(session).__name__, checkpoint.name)
        feed(tmp_path / "in", range(6, 7))
        assert run(spark, kind, tmp_path, copies[0]) == run(spark, kind, tmp_path, tmp_path / "checkpoint")
