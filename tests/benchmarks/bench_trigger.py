"""Milliseconds per trigger: the model against real Structured Streaming (`make bench`).

The query is a small windowed count: 40 files of 1000 rows, one file in a batch, `availableNow`, noop sink. All runs
share one session and one set of files; the variants take turns, so that a slow minute of the machine hits them all:

    spark   real Structured Streaming
    off     the model, tracing off
    steps   the model, every step recorded, no row previews

1. Write the files.
2. One round that is not counted: the JVM compiles its code.
3. `--rounds` rounds, each variant once in a round, in another order each time (six rounds are all the orders there
   are). Of each run the first `--warm-up` batches are dropped and `durationMs.triggerExecution` of the others is kept.
4. Divide the medians of the two runs of one round, take the median of that over the rounds, and compare it with the
   bounds, off / spark <= 0.9 and steps / off <= 1.05: exit code 1 when one is broken.

`wall` is what a watch sees: the whole run, from start() to the end of the query, divided by its batches.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from minispark_stream import MiniSparkSession

MODEL_BOUND = 0.9
TRACING_BOUND = 1.05


@dataclass(frozen=True)
class Run:
    """One run of one variant: ms per trigger after the warm-up, wall ms per batch, and what it computed."""

    triggers: list[float]
    wall: float
    work: list[tuple[int, int, int]]

    @property
    def median(self) -> float:
        return statistics.median(self.triggers)


@dataclass(frozen=True)
class Bound:
    says: str
    ratio: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


# (1)
def write_files(directory: Path, files: int, rows: int) -> None:
    """Event times go on by a minute a file and are spread over ten minutes before that."""
    start = datetime(2024, 1, 1)
    directory.mkdir()
    for n in range(files):
        times = (start + timedelta(minutes=n, seconds=-(i * 7919 % 600)) for i in range(rows))
        text = "".join(f"{t:%Y-%m-%d %H:%M:%S},{i % 10}\n" for i, t in enumerate(times))
        (directory / f"{n:03}.csv").write_text(text)


def windowed_count(session: Any, path: Path) -> DataFrame:
    events = session.readStream.schema("time timestamp, key int").option("maxFilesPerTrigger", 1).csv(str(path))
    return events.withWatermark("time", "10 minutes").groupBy(F.window("time", "5 minutes"), "key").count()


def run_once(writer: DataStreamWriter, checkpoint: Path, warm_up: int) -> Run:
    began = time.perf_counter()
    query = writer.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    elapsed = (time.perf_counter() - began) * 1000
    # the watermark's last batch has no data: another kind of batch, not counted
    progress = [p for p in map(as_json, query.recentProgress) if p["numInputRows"] > 0]
    return Run(
        triggers=[p["durationMs"]["triggerExecution"] for p in progress][warm_up:],
        wall=elapsed / len(progress),
        work=[(p["batchId"], p["numInputRows"], p["stateOperators"][0]["numRowsTotal"]) for p in progress],
    )


def as_json(progress: Any) -> dict[str, Any]:
    return dict(json.loads(progress.json))


def measure(spark: SparkSession, scratch: Path, args: argparse.Namespace) -> dict[str, list[Run]]:
    sessions: dict[str, Callable[[], Any]] = {
        "spark": lambda: spark,
        "off": lambda: MiniSparkSession(spark, trace="off"),
        "steps": lambda: MiniSparkSession(spark, trace="steps"),
    }
    write_files(scratch / "in", args.files, args.rows)
    runs: dict[str, list[Run]] = {name: [] for name in sessions}
    orders = itertools.cycle(itertools.permutations(sessions))
    for number, order in zip(range(args.rounds + 1), orders):
        for name in order:
            query = windowed_count(sessions[name](), scratch / "in").writeStream.outputMode("update")
            run = run_once(query, scratch / f"checkpoint-{number}-{name}", args.warm_up)
            say(f"  round {number} {name:6} {run.median:7.1f} ms", args)
            # (2)
            if number > 0:
                runs[name].append(run)
    return runs


def check_same_work(runs: dict[str, list[Run]]) -> None:
    """A benchmark of different work is none."""
    kinds = {name: {tuple(run.work) for run in of} for name, of in runs.items()}
    if len(set.union(*kinds.values())) != 1:
        raise SystemExit(f"the variants did not compute the same batches (batchId, rows, state rows): {kinds}")


def median(runs: list[Run]) -> float:
    return statistics.median(ms for run in runs for ms in run.triggers)


# (4)
def bounds(runs: dict[str, list[Run]]) -> list[Bound]:
    spark, off, steps = runs["spark"], runs["off"], runs["steps"]
    return [Bound("model / spark", ratio(off, spark), MODEL_BOUND),
            Bound("tracing / no tracing", ratio(steps, off), TRACING_BOUND)]


def ratio(runs: list[Run], to: list[Run]) -> float:
    """Runs of one round are minutes apart at most, so what the machine does meanwhile divides out."""
    return statistics.median(run.median / other.median for run, other in zip(runs, to, strict=True))


def table(runs: dict[str, list[Run]]) -> str:
    lines = [f"{'':8}{'median':>10}{'10 %':>10}{'90 %':>10}{'wall':>10}{'triggers':>10}   (ms per trigger)"]
    for name, of in runs.items():
        ms = [m for run in of for m in run.triggers]
        tenths = statistics.quantiles(ms, n=10)
        wall = statistics.median(run.wall for run in of)
        lines.append(f"{name:8}{median(of):10.1f}{tenths[0]:10.1f}{tenths[-1]:10.1f}{wall:10.1f}{len(ms):10}")
    for bound in bounds(runs):
        verdict = "holds" if bound.holds else "BROKEN"
        lines.append(f"{bound.says:22}{bound.ratio:.3f}, at most {bound.limit}: {verdict}")
    return "\n".join(lines)


def say(line: str, args: argparse.Namespace) -> None:
    """Progress goes to stderr with --json, so that stdout is the JSON alone."""
    print(line, file=sys.stderr if args.json else sys.stdout, flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="milliseconds per trigger, model against real Structured Streaming")
    parser.add_argument("--files", type=int, default=40, help="files, one a batch (40)")
    parser.add_argument("--rows", type=int, default=1000, help="rows in a file (1000)")
    parser.add_argument("--rounds", type=int, default=6, help="counted runs of each variant (6)")
    parser.add_argument("--warm-up", type=int, default=5, help="batches dropped at the start of each run (5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    if args.warm_up > args.files - 2:
        parser.error("--warm-up must leave at least two batches of --files")

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench_trigger")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(args.files + 10))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            say(f"{args.files} files x {args.rows} rows, {args.rounds} rounds, Spark {spark.version}", args)
            runs = measure(spark, Path(scratch), args)
    finally:
        spark.stop()
    check_same_work(runs)
    found = bounds(runs)
    if args.json:
        medians = {name: median(of) for name, of in runs.items()}
        print(json.dumps({"arguments": vars(args), "median_ms": medians,
                          "bounds": [{**asdict(b), "holds": b.holds} for b in found],
                          "runs": {name: [asdict(r) for r in of] for name, of in runs.items()}}))
    else:
        print(table(runs))
    return 0 if all(bound.holds for bound in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
