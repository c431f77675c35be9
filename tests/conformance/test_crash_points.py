"""A kill at any durable action, in stateful operators of every kind and in each output mode; and a second kill after the first.

In the long run of the tests it is a few points of each query, drawn by a seed. `make crash-test` takes all of them, and for each one
a second kill at a point of the run that follows, which a seed draws; what it has explored is a table in docs/crashes.md. With
`MINISPARK_CRASH=2/4` it is the second quarter of the points. What was explored stays in build/crash, and is not explored again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.runner import confs_set
from tests.conformance.crash_explorer import Explorer, Outcome, Point, Query, photograph
from tests.conformance.inputs import at
from tests.result_tables import fill_in

PART = os.environ.get("MINISPARK_CRASH", "").replace("all", "1/1")
SAMPLE = 2  # points of each query
BUILD = Path(__file__).parents[2] / "build/crash"
# Whether a batch without data runs at the end of a stage is not to decide what becomes of a row. Each stage is one file: of two, a restart
# may read both in one batch, when the source had noted the first and the batch was not logged yet (Spark does the same).
STAGES = [
    [[*at("12:01", "12:02"), *at("12:02", k="b")]],
    [[*at("12:06", "12:07", "12:03"), *at("12:13", k="c")]],
    [[*at("12:30", k="c"), *at("11:50", k="b")]],  # the last one is late
    [at("13:00"), at("13:30", k="b")],
]
# The file sink and Delta skip a batch that they have, so that its rows move no watermark (test_sinks.py shows it of Spark). After two
# such batches one after the other, a row is late by the third. So for them the late row comes last.
LATE_AT_THE_END = [*STAGES[:2], [at("12:30", k="c")], [[*at("13:00"), *at("11:50", k="b")], at("13:30", k="b")]]
FIRST, SECOND = 2, 3  # a kill is in one of so many stages, and a second one, too


def events(session: Any, folder: str) -> DataFrame:
    read = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(folder)
    return read.withWatermark("ts", "1 minute")


def windows(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.window("ts", "5 minutes"), "k").count()


def counts(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy("k").count()


def sessions(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.session_window("ts", "3 minutes"), "k").count()


def first_of_each_key(session: Any, folder: str) -> DataFrame:
    return events(session, folder).dropDuplicates(["ts", "k"])


def join(session: Any, folder: str, how: str, *columns: Column) -> DataFrame:
    left, right = events(session, folder).alias("a"), events(session, folder).where("k = 'b'").alias("b")
    on = F.expr("a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + interval 5 minutes")
    return left.join(right, on, how).select("a.ts", "a.k", *columns)


def outer_join(session: Any, folder: str) -> DataFrame:
    return join(session, folder, "left_outer", F.col("b.ts").alias("then"))


STORE = "spark.sql.streaming.stateStore."
ROCKSDB = {
    f"{STORE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
}
# Snapshots are taken, and what no restart needs is deleted, while the query runs.
CLEANED = {"spark.sql.streaming.minBatchesToRetain": "2", f"{STORE}minDeltasForSnapshot": "2", f"{STORE}maintenanceInterval": "100ms"}


class Count(StatefulProcessor):
    """How often a key was there, said a minute after it came first."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle, self.seen = handle, handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N803
        came = [row.ts for row in rows]
        if not self.seen.exists():
            self.handle.registerTimer(int(min(came).timestamp() * 1000) + 60_000)
        [before] = self.seen.get() or (0,)
        self.seen.update((before + len(came),))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N803
        [n] = self.seen.get() or (0,)
        yield Row(k=key[0], n=n)
        self.seen.clear()


def timers(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy("k").transformWithState(Count(), "k string, n long", "append", "EventTime")


QUERIES = {
    "windows": Query("append", windows),
    "windows updated": Query("update", windows),
    "counts complete": Query("complete", counts),
    "sessions": Query("append", sessions),
    "first of each key": Query("append", first_of_each_key),
    "first within the watermark": Query("append", lambda s, d: events(s, d).dropDuplicatesWithinWatermark(["k"])),
    "limit": Query("append", lambda s, d: events(s, d).limit(5)),
    "outer join": Query("append", outer_join),
    "no state": Query("append", lambda s, d: events(s, d).select("k")),
    "windows into files, snapshots in RocksDB": Query("append", windows, "json", {**ROCKSDB, **CLEANED}),
}
# Of these the tests take no sample.
MORE = {
    "windows, old versions deleted": Query("append", windows, confs=CLEANED),
    "windows, every version a snapshot of RocksDB": Query("append", windows, confs=dict([*ROCKSDB.items()][:1])),
    "windows into Delta": Query("append", windows, "delta"),
    "counts complete into Delta": Query("complete", counts, "delta"),
    "sessions in RocksDB": Query("append", sessions, confs=ROCKSDB),
    "first of each key in RocksDB": Query("append", first_of_each_key, confs=ROCKSDB),
    "outer join in RocksDB": Query("append", outer_join, confs=ROCKSDB),
    "full join": Query("append", lambda s, d: join(s, d, "full_outer", F.col("b.ts").alias("then"))),
    "semi join": Query("append", lambda s, d: join(s, d, "left_semi")),
    "timers of transformWithState": Query("append", timers, confs={**ROCKSDB, **CLEANED}),
    "no state into files": Query("append", lambda s, d: events(s, d).select("k"), "json"),
}
EVERY = QUERIES | (MORE if PART else {})


class Case:
    """One query: the run that nothing disturbs, with photographs, from which it is killed again and again."""

    def __init__(self, explorer: Explorer, mini: MiniSparkSession):
        self.explorer, self._mini = explorer, mini
        self.expected = explorer.run(mini, photographed=FIRST)
        self.points = explorer.points

    def outcomes(self) -> Iterator[tuple[str, Outcome | Exception]]:
        """(moment, what came of it) of kills at the points that are to be explored."""
        if not PART:
            for point in random.Random(29).sample(self.points, SAMPLE):
                yield point.moment, self._killed_at(point)
            return
        number, of = map(int, PART.split("/"))
        for at_point, point in list(enumerate(self.points))[number - 1 :: of]:
            yield point.moment, self._killed_at(point, photographed=SECOND)
            second = random.Random(at_point).choice(self.explorer.points[1:])
            yield f"{point.moment}, then at: {second.moment}", self._killed_at(second)

    def _killed_at(self, point: Point, photographed: int = 0) -> Outcome | Exception:
        self.explorer.put_back(point)
        self.explorer.points = [point]
        return self.explorer.run(self._mini, photographed)


@pytest.mark.parametrize("name", EVERY)
def test_no_durable_action_is_a_bad_moment(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if PART and explored(name).exists():
        pytest.skip("explored already")
    query, began, kills = EVERY[name], time.monotonic(), 0
    if query.sink == "delta":
        pytest.importorskip("deltalake")
    stages = LATE_AT_THE_END if query.build is windows and query.sink != "foreachBatch" else STAGES
    explorer = Explorer(query, stages, tmp_path / "in", tmp_path / "work")
    photograph(explorer, monkeypatch)
    with confs_set(spark, query.confs):
        case = Case(explorer, mini)
        assert not isinstance(case.expected, Exception), case.expected
        for moment, outcome in case.outcomes():
            assert outcome == case.expected, f"killed at: {moment}"
            kills += 1
    assert len(case.points) > 15
    if PART:
        report(name, kills // 2, time.monotonic() - began)


def explored(name: str, part: str = PART) -> Path:
    return BUILD / f"{name} {part.replace('/', ' of ')}.json"


def report(name: str, points: int, seconds: float) -> None:
    """Keep what a part of the long run has explored; when all parts are there, they are a line of the page."""
    BUILD.mkdir(parents=True, exist_ok=True)
    explored(name).write_text(json.dumps([points, seconds]))
    of = int(PART.partition("/")[2])
    parts = [explored(name, f"{i}/{of}") for i in range(1, of + 1)]
    if all(part.exists() for part in parts):
        points, seconds = map(sum, zip(*(json.loads(part.read_text()) for part in parts)))
        query = EVERY[name]
        fill_in("crashes.md", {name: (query.mode, query.store, query.sink, points, points, f"{seconds / 60:.1f}")}, EVERY)
