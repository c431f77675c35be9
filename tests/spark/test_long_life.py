"""Many queries, many restarts, a session that goes away, a clock that is set: every row is there in the end, and once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from minispark_stream import MiniSparkSession
from minispark_stream.engine.clock import ManualClock
from tests.conformance.inputs import at
from tests.conformance.test_kills import ROOT, put, windows

pytestmark = pytest.mark.usefixtures("spark_files")

DRIVER = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from minispark_stream import MiniSparkSession
from tests.spark.test_long_life import counts
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
query = counts(MiniSparkSession(spark), Path(sys.argv[1]), slowly=True).start()
while not (Path(sys.argv[1]) / "checkpoint/commits/1").exists():
    time.sleep(0.01)
spark.stop()
query.awaitTermination(60) if query.exception() is None else None
print("active:", query.isActive)
"""


def slow(batches: Iterator[Any]) -> Iterator[Any]:
    time.sleep(0.3)
    yield from batches


def counts(session: Any, folder: Path, slowly: bool = False) -> Any:
    """A writer of the windows that are closed, a file of input in each batch."""
    events = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    if slowly:
        events = events.mapInArrow(slow, events.schema)
    counted = events.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes"), "k").count()
    writer = counted.select("window.start", "k", "count").writeStream.format("json").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def fill(folder: Path, files: int) -> list[str]:
    """Input of `files` batches, the last of which closes all windows but its own; and what is to come out."""
    for i in range(files):
        put(folder, i, at(f"{12 + i // 12}:{i % 12 * 5:02}", f"{12 + i // 12}:{i % 12 * 5 + 1:02}"))
    put(folder, files, at("23:00"))
    return [f"{12 + i // 12}:{i % 12 * 5:02} 2" for i in range(files)]


def written(spark: SparkSession, folder: Path) -> list[str]:
    rows = spark.read.schema("start timestamp, k string, count long").json(str(folder / "out")).collect()
    return sorted(f"{row['start']:%H:%M} {row['count']}" for row in rows)


def test_ten_queries_at_once_in_one_session(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    threads, folders = threading.active_count(), [tmp_path / str(i) for i in range(10)]
    expected = []
    for folder in folders:
        folder.mkdir()
        expected = fill(folder, files=2)
    queries = [windows(mini, folder) for folder in folders]
    assert len({query.runId for query in mini.streams.active} & {query.runId for query in queries}) > 1, "they run at the same time"
    for query, folder in zip(queries, folders):
        query.awaitTermination()
        assert written(spark, folder) == expected
    assert threading.active_count() <= threads + 1  # py4j may keep one


def test_a_query_that_is_stopped_and_started_all_the_time(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    draw, expected = random.Random(30), fill(tmp_path, files=8)
    for _ in range(12):
        query = counts(mini, tmp_path).start()
        query.awaitTermination(draw.choice([0.01, 0.1, 0.3, 0.6]))
        query.stop()
        assert query.exception() is None
    windows(mini, tmp_path).awaitTermination()
    assert written(spark, tmp_path) == expected


def test_a_session_that_is_stopped_under_its_query(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    expected = fill(tmp_path, files=8)
    driver = subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "active: False" in driver.stdout, driver.stderr[-3000:]
    assert len(list((tmp_path / "checkpoint/commits").glob("[0-9]*"))) < 9, "it was stopped on its way"
    windows(mini, tmp_path).awaitTermination()
    assert written(spark, tmp_path) == expected


def test_a_clock_that_is_set_back_and_forward(spark: SparkSession, tmp_path: Path) -> None:
    """A timeout by the clock fires when a batch begins at its time or later, and only once; to set the clock back delays it."""
    clock = ManualClock(1_000_000)

    def silent_for_ten_seconds(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"k": [key[0]]})
        else:
            state.update((1,))
            state.setTimeoutDuration(10_000)

    timeout, fired, sent = GroupStateTimeout.ProcessingTimeTimeout, [], list[str]()
    for number, jump_ms in enumerate((0, -600_000, 605_000, 6_000, 60_000)):
        clock.advance(jump_ms)
        put(tmp_path, number, at("12:00", k=f"{number}"))
        events = MiniSparkSession(spark, clock=clock).readStream.schema("ts timestamp, k string").json(str(tmp_path / "in"))
        timed = events.groupBy("k").applyInPandasWithState(silent_for_ten_seconds, "k string", "n int", "update", timeout)
        writer = timed.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer = writer.foreachBatch(lambda batch, batch_id: sent.extend(row.k for row in batch.collect()))
        writer.trigger(once=True).start().awaitTermination()
        fired.append(Counter(sent)["0"])
    assert fired == [0, 0, 0, 1, 1]
