"""The shapes of the paper's measurements (SIGMOD'18, sections 6.2 and 9), on both engines: `python -m tests.benchmarks.bench_shapes`.

1. Batch size against throughput and latency: the same rows in triggers of 1, 4, 16 and 64 files. What a trigger costs however
   few rows it has is divided among more rows; each row waits longer. All files in one trigger is what running once a day saves.
2. Catching up: while no query runs, files gather; the query that starts then takes them all in its first batch, and is soon
   back at the size of batch that the stream has.
3. What a partition of the state costs: the same 1,000 rows a trigger, their windows in 2, 8 and 32 partitions. This is what a
   cluster adds to each trigger, because it needs a partition for each core.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from minispark_stream import MiniSparkSession
from tests.benchmarks.workloads import WORKLOADS, Workload, ad_events, by_campaign, reports_with_data, spark_session

FILES, ROWS = 64, 50_000
ADS = Workload("campaigns", "counts by campaign and ten seconds", ROWS, ad_events, by_campaign, goal=1.0, triggers=FILES)
BACKLOG, EACH = 40, 8  # files that gather while no query runs; files that come while one does


def batches(query: Any) -> list[tuple[int, int]]:
    """Rows and milliseconds of the triggers that had data."""
    return [(one["numInputRows"], one["durationMs"]["triggerExecution"]) for one in reports_with_data(query)]


def warm_up(name: str, session: Any, scratch: Path) -> None:
    """A run that is not counted: the JVM compiles its code."""
    few = replace(ADS, triggers=12)
    few.write(scratch / "in")
    few.start(session, scratch / "in", scratch / "checkpoint", availableNow=True).awaitTermination()


# (1)
def batch_sizes(name: str, session: Any, scratch: Path) -> None:
    print(f"\n{name:8}{'rows a trigger':>16}{'ms per trigger':>16}{'rows a second':>16}{'seconds for all':>18}")
    ADS.write(scratch / "in")
    for files in (1, 4, 16, 64):
        query = replace(ADS, files=files).start(session, scratch / "in", scratch / f"checkpoint-{files}", availableNow=True)
        query.awaitTermination()
        rows, ms = zip(*batches(query))
        print(f"{'':8}{files * ROWS:16,}{statistics.median(ms):16,.0f}{sum(rows) / sum(ms) * 1000:16,.0f}{sum(ms) / 1000:18.1f}", flush=True)


# (2)
def catching_up(name: str, session: Any, scratch: Path) -> None:
    ADS.write(scratch / "all")
    waiting = sorted((scratch / "all" / "events").iterdir())
    (scratch / "in" / "events").mkdir(parents=True)

    def arrive() -> None:
        file = waiting.pop(0)
        os.rename(file, scratch / "in" / "events" / file.name)

    at_once = replace(ADS, files=FILES)
    for gathered in (1, BACKLOG):
        for _ in range(gathered):
            arrive()
        query = at_once.start(session, scratch / "in", scratch / "checkpoint", processingTime="0 seconds")
        for _ in range(EACH):
            time.sleep(1)
            arrive()
        query.processAllAvailable()
        query.stop()
    print(f"{name:8}after {BACKLOG} files had gathered, rows (ms) of each batch: " + ", ".join(f"{rows:,} ({ms:,})" for rows, ms in batches(query)))


# (3)
def partitions(name: str, session: Any, scratch: Path) -> None:
    (windows,) = (workload for workload in WORKLOADS if workload.name == "windows")
    windows.write(scratch / "in")
    found = []
    for number in (2, 8, 32):
        session.conf.set("spark.sql.shuffle.partitions", number)
        query = windows.start(session, scratch / "in", scratch / f"checkpoint-{number}", availableNow=True)
        query.awaitTermination()
        found.append((number, statistics.median(ms for _, ms in batches(query)[windows.warm_up :])))
    session.conf.set("spark.sql.shuffle.partitions", 2)
    print(f"{name:8}" + ", ".join(f"{number} partitions {ms:,.0f} ms" for number, ms in found), flush=True)


def main() -> None:
    spark = spark_session()
    engines = {"spark": spark, "model": MiniSparkSession(spark, trace="off")}
    for measure in (warm_up, batch_sizes, catching_up, partitions):
        for name, session in engines.items():
            with tempfile.TemporaryDirectory() as scratch:
                measure(name, session, Path(scratch))
    spark.stop()


if __name__ == "__main__":
    main()
