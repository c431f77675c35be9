"""How long does it take until a query has processed its first batch? `python -m tests.benchmarks.bench_first_query`.

The query of the workload `windows`, with 1,000 rows a batch. The engines take turns, each run in a new process:

    define      from Spark's session to `start()`: on the model, this includes its import and its session
    first       from `start()` until the first batch is reported, in a JVM in which no query has run
    end         from `start()` until the query has processed its three batches
    warm        from `start()` until the first batch of the same query in the same session is reported, on another checkpoint

Exit code 1 if the model takes more than a tenth longer than Spark in `first`, `end` or `warm`, in medians: two runs of one engine
differ by more than that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tests.benchmarks.workloads import WORKLOADS, spark_session

ENGINES = ("Spark", "the model")
COLUMNS = ("define", "first", "end", "warm")
BOUND, A_RUN_SECONDS = 1.1, 300
WINDOWS = replace(next(workload for workload in WORKLOADS if workload.name == "windows"), triggers=3)


def batches(counts: DataFrame, checkpoint: str) -> tuple[float, float]:
    """Seconds from `start()` until the first batch is reported, and until the query has ended."""
    began = time.monotonic()
    write = counts.writeStream.outputMode(WINDOWS.mode).format("noop").option("checkpointLocation", checkpoint)
    query: Any = write.trigger(availableNow=True).start()
    while not query.recentProgress:
        time.sleep(0.005)
    first = time.monotonic() - began
    query.awaitTermination()
    return first, time.monotonic() - began


def run(engine: str) -> dict[str, float]:
    """One engine in this process: seconds by the names of COLUMNS."""
    with tempfile.TemporaryDirectory() as scratch:
        WINDOWS.write(Path(scratch, "in"))
        session: Any = spark_session()
        began = time.monotonic()
        if engine == "the model":
            from minispark_stream import MiniSparkSession

            session = MiniSparkSession(session)
        counts = WINDOWS.query(WINDOWS.read(session, Path(scratch, "in"), streaming=True))
        define = time.monotonic() - began
        first, end = batches(counts, f"{scratch}/first")
        warm, _ = batches(counts, f"{scratch}/warm")
        session.stop()
    return dict(zip(COLUMNS, (define, first, end, warm), strict=True))


def main(rounds: int) -> int:
    seconds: dict[str, list[dict[str, float]]] = {engine: [] for engine in ENGINES}
    print(f"{'':10}" + "".join(f"{name:>20}" for name in COLUMNS) + "   (seconds, medians, least to most)")
    for _ in range(rounds):
        for engine in ENGINES:
            command = [sys.executable, "-m", "tests.benchmarks.bench_first_query", "--engine", engine]
            done = subprocess.run(command, capture_output=True, text=True, timeout=A_RUN_SECONDS, check=True)
            seconds[engine].append(json.loads(done.stdout))
    medians = {engine: {name: statistics.median(one[name] for one in seconds[engine]) for name in COLUMNS} for engine in ENGINES}
    for engine in ENGINES:
        cells = []
        for name in COLUMNS:
            each = [one[name] for one in seconds[engine]]
            cells.append(f"{medians[engine][name]:.2f} ({min(each):.2f} to {max(each):.2f})")
        print(f"{engine:10}" + "".join(f"{cell:>20}" for cell in cells))
    slow = [name for name in COLUMNS[1:] if medians["the model"][name] > BOUND * medians["Spark"][name]]
    print(f"the model takes longer than Spark: {', '.join(slow)}" if slow else "the model takes no longer than Spark")
    return 1 if slow else 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--engine", choices=ENGINES, help="run this engine alone, in this process")
    asked = arguments.parse_args()
    if asked.engine:
        print(json.dumps(run(asked.engine)))
    else:
        sys.exit(main(asked.rounds))
