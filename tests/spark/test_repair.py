"""A repaired checkpoint on both engines: the query goes on to the result, and the state, of a run whose checkpoint was never damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, inspect, repair
from minispark_stream.tools.compare.runner import confs_set
from minispark_stream.tools.operations.edit_state import add_rows, delete_rows, set_values

BATCHES = 4  # before the damage; one more comes after the repair
Damage = Callable[[Path, Path], None]


def lost_metadata(checkpoint: Path, later: Path) -> None:
    (checkpoint / "metadata").unlink()


def killed_while_it_planned(checkpoint: Path, later: Path) -> None:
    """The files of the next batch are logged; its entry in the offset log is torn."""
    shutil.copy(later / f"sources/0/{BATCHES}", checkpoint / f"sources/0/{BATCHES}")
    (checkpoint / f"offsets/{BATCHES}").write_bytes((later / f"offsets/{BATCHES}").read_bytes()[:20])


def damaged_state(checkpoint: Path, later: Path) -> None:
    (checkpoint / f"state/0/0/{BATCHES}.delta").write_bytes(b"damaged")


def lost_entry_of_the_source_log(checkpoint: Path, later: Path) -> None:
    (checkpoint / "sources/0/2").unlink()


REPAIRS: list[tuple[Damage, dict[str, Any]]] = [
    (lost_metadata, {}), (killed_while_it_planned, {}), (damaged_state, {}), (lost_entry_of_the_source_log, {}),
    (lost_entry_of_the_source_log, {"rebuild_source_log": True}),
]


def feed(folder: Path, batch: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{batch}.json").write_text("\n".join(json.dumps({"k": k, "v": batch + 1}) for k in "abc"[: batch % 3 + 1]))
    if batch < BATCHES:  # files of one time may be read in any order
        os.utime(folder / f"{batch}.json", (1_700_000_000 + batch, 1_700_000_000 + batch))


def run(session: Any, home: Path, checkpoint: Path) -> dict[str, int]:
    """The newest row of each key that the run has written."""
    newest: dict[str, int] = {}

    def keep(data: DataFrame, batch_id: int) -> None:
        newest.update((row.k, row.v) for row in data.collect())

    rows = session.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(str(home / "in"))
    writer = rows.groupBy("k").agg(F.sum("v").alias("v")).writeStream.outputMode("update").foreachBatch(keep)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return newest


def state(checkpoint: Path) -> list[str]:
    return sorted(str((row.key, row.value)) for row in inspect(str(checkpoint)).rows())


@pytest.fixture(params=["spark", "model"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Any]:
    with confs_set(spark, {"spark.sql.shuffle.partitions": "1"}):
        yield spark if request.param == "spark" else MiniSparkSession(spark)


def test_a_repaired_checkpoint_goes_on_as_if_it_had_never_been_damaged(session: Any, tmp_path: Path) -> None:
    for batch in range(BATCHES):
        feed(tmp_path / "in", batch)
    before, straight = tmp_path / "before", tmp_path / "straight"
    written = run(session, tmp_path, straight)
    shutil.copytree(straight, before)
    feed(tmp_path / "in", BATCHES)
    written |= run(session, tmp_path, straight)
    for number, (damage, asked) in enumerate(REPAIRS):
        damaged, copy = tmp_path / f"damaged{number}", tmp_path / f"repaired{number}"
        shutil.copytree(before, damaged)
        damage(damaged, straight)
        assert inspect(str(damaged)).next.refused is not None, damage
        repair(damaged, to=copy, **asked)
        newest = run(session, tmp_path, copy)
        assert newest.items() <= written.items() and newest, damage
        assert state(copy) == state(straight), damage


def test_a_key_that_was_deleted_begins_anew(session: Any, tmp_path: Path) -> None:
    for batch in range(2):
        feed(tmp_path / "in", batch)
    assert run(session, tmp_path, tmp_path / "checkpoint") == {"a": 3, "b": 2}
    delete_rows(tmp_path / "checkpoint", "a", to=tmp_path / "copy")
    feed(tmp_path / "in", 2)
    assert run(session, tmp_path, tmp_path / "copy") == {"a": 3, "b": 5, "c": 3}
    assert run(session, tmp_path, tmp_path / "checkpoint") == {"a": 6, "b": 5, "c": 3}


def test_a_query_goes_on_from_values_that_were_set_and_rows_that_were_added(session: Any, tmp_path: Path) -> None:
    """A query that has read one file without rows gets a table for its state, and goes on from it, also after a restart."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/empty.json").write_text("")
    os.utime(tmp_path / "in/empty.json", (1_699_999_999, 1_699_999_999))
    run(session, tmp_path, tmp_path / "checkpoint")
    table = [{"k": k, "sum": 100 * n} for n, k in enumerate("abcdefgh")]
    add_rows(tmp_path / "checkpoint", table, to=tmp_path / "seeded")
    set_values(tmp_path / "seeded", {"sum": 7}, {}, ["sum >= 300", "k < e"], to=tmp_path / "copy")
    for batch in range(3):
        feed(tmp_path / "in", batch)
        found = run(session, tmp_path, tmp_path / "copy")
    assert found == {"a": 6, "b": 105, "c": 203}
    assert {row.key["k"]: row.value["sum"] for row in inspect(str(tmp_path / "copy")).rows()} == {
        "a": 6, "b": 105, "c": 203, "d": 7, "e": 400, "f": 500, "g": 600, "h": 700,
    }


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = [{}, {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}]


@pytest.mark.parametrize("store", STORES, ids=["hdfs", "rocksdb"])
def test_a_batch_that_always_fails_is_passed_over(session: Any, store: dict[str, str], spark: SparkSession, tmp_path: Path) -> None:
    """The function fails when the state of the batch is written. The query goes on behind its rows, as if they had never come."""
    calls: list[tuple[int, dict[str, int]]] = []

    def keep(data: DataFrame, batch_id: int) -> None:
        rows = {row.k: row.v for row in data.collect()}
        if "poison" in rows:
            raise ValueError("this row cannot be written")
        calls.append((batch_id, rows))

    def go(checkpoint: Path) -> None:
        rows = session.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        writer = rows.groupBy("k").agg(F.sum("v").alias("v")).writeStream.outputMode("update").foreachBatch(keep)
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    with confs_set(spark, store):
        for batch in range(2):
            feed(tmp_path / "in", batch)
        go(tmp_path / "checkpoint")
        poison = tmp_path / "in/poison.json"
        poison.write_text('{"k": "a", "v": 1000}\n{"k": "poison", "v": 1}')
        for _ in range(2):
            with pytest.raises(Exception, match="this row cannot be written"):
                go(tmp_path / "checkpoint")
        if not store:  # what the maintenance may have written: Spark loads it before the delta that comes in its place
            of_state = tmp_path / "checkpoint/state/0/0"
            shutil.copy(of_state / "3.delta", of_state / "3.snapshot")
        done = repair(tmp_path / "checkpoint", skip_batch=2, to=tmp_path / "copy")
        assert "source 0 loses 1 file: " in str(done) and "poison.json" in str(done)
        feed(tmp_path / "in", BATCHES)
        calls.clear()
        go(tmp_path / "copy")
        assert [batch_id for batch_id, _ in calls] == [2, 3] and calls[0][1] == {}
        poison.unlink()
        go(tmp_path / "straight")
        assert calls[1][1] == calls[-1][1]
        go(tmp_path / "copy")  # a restart has nothing to read, and loads the state
        assert state(tmp_path / "copy") == state(tmp_path / "straight")
