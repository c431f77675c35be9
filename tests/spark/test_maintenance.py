"""State maintenance in the workers: who reads and writes, what else runs, and how it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_store import PROVIDER_CLASS, ROCKS_DB_PROVIDER
from minispark_stream.lens.view.state_files import chains
from minispark_stream.tools.compare.prepared import confs_set

CONFS = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "20ms", "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
}


@pytest.fixture
def often(spark: SparkSession) -> Iterator[None]:
    with confs_set(spark, CONFS):
        yield


def until(what: Any) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def start(mini: MiniSparkSession, folder: Path) -> Any:
    (folder / "in").mkdir(exist_ok=True)
    words = mini.readStream.schema("word string").csv(f"{folder}/in").groupBy("word").agg(F.count("*").alias("count"))
    return words.writeStream.outputMode("update").format("noop").option("checkpointLocation", f"{folder}/checkpoint").start()


def maintained(query: Any) -> list[Any]:
    return [event for event in query.trace.events if event.step == "maintenance"]


def test_snapshots_are_written_by_workers_and_the_driver_reads_no_state(
    mini: MiniSparkSession, often: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = list[str]()
    for name in ("_read", "write_snapshot", "delete", "store_files", "identity"):
        monkeypatch.setattr(StateFiles, name, lambda files, *_, **__: touched.append(str(files)))
    query = start(mini, tmp_path)
    tracker, jobs = mini.sparkContext.statusTracker(), list[int]()
    try:
        for batch in range(6):
            (tmp_path / "in" / f"{batch}.csv").write_text("a\nb\nc\n")
            query.processAllAvailable()
            jobs.append(len(tracker.getJobIdsForGroup(query.runId)))
        state = tmp_path / "checkpoint" / "state" / "0"
        until(lambda: all((state / partition / "6.snapshot").exists() for partition in "01"))
        until(lambda: not (state / "0" / "1.delta").exists())
        until(lambda: {event.inputs["partition"] for event in maintained(query)} == {0, 1})
        assert len(tracker.getJobIdsForGroup(query.runId)) == jobs[-1] == 6 * jobs[0], "its jobs are in another group"
        assert tracker.getJobIdsForGroup(f"{query.runId} maintenance")
    finally:
        query.stop()
    done = maintained(query)
    assert not touched and not any(event.error for event in done)
    assert str(os.getpid()) not in {event.outputs["worker"].rpartition(":")[2] for event in done}
    assert any(event.outputs["fromMemory"] for event in done)
    assert {event.depth for event in done} == {0}
    assert not any("where" in event.outputs for event in query.trace.events), "below the level rows, no task says where it is"


def test_a_query_that_stops_does_not_wait_for_maintenance_and_leaves_no_job_of_it(
    mini: MiniSparkSession, often: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = tmp_path / "hangs"

    class Hanging:
        def run(self) -> None:
            hangs.touch()
            time.sleep(600)

    monkeypatch.setattr("minispark_stream.engine.runtime.stream_execution.MaintenanceRound", lambda *_: Hanging())
    query = start(mini, tmp_path)
    try:
        (tmp_path / "in" / "0.csv").write_text("a\nb\nc\n")
        query.processAllAvailable()
        until(hangs.exists)
        (tmp_path / "in" / "1.csv").write_text("a\n")
        query.processAllAvailable()
        assert query.lastProgress["batchId"] == 1, "a batch goes on beside it"
    finally:
        began = time.monotonic()
        query.stop()
    assert time.monotonic() - began < 30
    jobs = mini.sparkContext.statusTracker().getJobIdsForGroup(f"{query.runId} maintenance")
    until(lambda: not set(jobs) & set(mini.sparkContext.statusTracker().getActiveJobsIds()))
    assert query.exception() is None and not caplog.records


def test_which_tables_of_rocksdb_a_version_shares_is_seen_on_both_engines(spark: SparkSession):
    def first_of_each(session: Any, folder: str) -> DataFrame:
        return session.readStream.schema("value string").text(folder).dropDuplicates()

    confs = {PROVIDER_CLASS: ROCKS_DB_PROVIDER}
    seen = side_by_side(spark, first_of_each, [["a"], ["b"], ["c"]], confs=confs, progress=False)
    for engine in (seen.spark, seen.model):
        for chain in chains(engine.trace):
            assert (chain.whole, chain.next_load) == ((1, 2, 3), ("3.zip",))
            first, second, third = (set(chain.tables.get(version, ())) for version in (1, 2, 3))
            assert first <= second <= third
        assert sum(len(chain.tables.get(3, ())) for chain in chains(engine.trace)) == 3  # one for each key
