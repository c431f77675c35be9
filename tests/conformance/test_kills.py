"""Real kills of a query in micro-batches: every row is there in the end, and once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.conformance.inputs import at

pytestmark = pytest.mark.usefixtures("spark_files")

ROOT = Path(__file__).parents[2]
FILES = 12
DRIVER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from minispark_stream import MiniSparkSession
from tests.conformance.test_kills import windows
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC").getOrCreate()
windows(MiniSparkSession(spark), Path(sys.argv[1])).awaitTermination()
"""


def put(folder: Path, number: int, lines: list[str]) -> None:
    """One more input file, which appears whole."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f"in/.{number:03}.json"
    hidden.write_text("\n".join(lines))
    os.utime(hidden, (1_700_000_000 + number,) * 2)
    hidden.rename(folder / f"in/{number:03}.json")


def windows(session: Any, folder: Path) -> Any:
    """Counts in windows, into files, of all that is there."""
    events = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    counts = events.withWatermark("ts", "1 minute").groupBy(F.window("ts", "5 minutes"), "k").count()
    writer = counts.select("window.start", "k", "count").writeStream.format("json")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start(str(folder / "out"))


def test_the_driver_is_killed_at_a_moment_that_a_seed_draws(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    draw = random.Random(29)
    for i in range(FILES):
        put(tmp_path, i, at(f"12:{i * 5:02}", f"12:{i * 5 + 1:02}"))
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=ROOT, start_new_session=True)
    try:
        batch, until = tmp_path / f"checkpoint/offsets/{draw.randrange(3, FILES - 3)}", time.monotonic() + 120
        while not batch.exists():
            assert driver.poll() is None and time.monotonic() < until, "the driver has not come so far"
        time.sleep(draw.uniform(0, 0.3))  # the moment
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM
        driver.wait()
    assert len(list((tmp_path / "checkpoint/commits").glob("[0-9]*"))) < FILES, "it was killed on its way"
    put(tmp_path, FILES, at("14:00"))
    windows(mini, tmp_path).awaitTermination()
    found = spark.read.schema("start timestamp, k string, count long").json(str(tmp_path / "out")).collect()
    assert sorted(f"{row['start']:%H:%M} {row['count']}" for row in found) == [f"12:{i * 5:02} 2" for i in range(FILES)]


def test_a_worker_is_killed_within_a_task_that_has_state(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def count(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((n,))
        if n > 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    written: dict[int, list[tuple[str, int]]] = {}

    def keep(data: DataFrame, batch_id: int) -> None:
        written[batch_id] = sorted((row.k, row.n) for row in data.collect())

    def run() -> None:
        events = mini.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        counts = events.groupBy("k").applyInPandasWithState(count, "k string, n int", "n int", "update", "NoTimeout")
        writer = counts.writeStream.outputMode("update").foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    for i in range(2):
        put(tmp_path, i, [json.dumps({"k": k}) for k in "abc"])
    with pytest.raises(StreamingQueryException):
        run()
    assert killed.exists()
    run()
    assert written == {0: [("a", 1), ("b", 1), ("c", 1)], 1: [("a", 2), ("b", 2), ("c", 2)]}
