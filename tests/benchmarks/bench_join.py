"""Milliseconds per trigger of a join of two streams: the model against real Structured Streaming (`make bench`).

A left outer join of impressions and clicks by an id and a time range, noop sink, `availableNow`. Each file has ten minutes; half of
the clicks belong to an impression of the same ten minutes, a quarter to one of the ten minutes before, the rest to none.

    join-20k      20,000 rows of each side a trigger
    join-200k     200,000 rows

1. Write the files, one of each side for a trigger.
2. One round that is not counted: the JVM compiles its code.
3. `--rounds` rounds, both engines once in a round; of each run the first `--warm-up` triggers are dropped.
4. Divide the medians of the two runs of one round, and take the median of that over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.benchmarks.bench_trigger import Run, median, ratio, run_once

CASES = {"join-20k": 20_000, "join-200k": 200_000}
MINUTES = 10


# (1)
def write_files(directory: Path, triggers: int, rows: int) -> None:
    rng = np.random.default_rng(7)
    start = pd.Timestamp("2024-01-01")
    for side in ("impressions", "clicks"):
        (directory / side).mkdir(parents=True)
    for n in range(triggers):
        ids = n * rows + rng.permutation(rows)
        clicked = [rng.permutation(ids)[: rows // 2], rng.permutation(ids)[: rows // 4] - rows]
        nobody = -1 - n * rows - np.arange(rows - rows // 2 - rows // 4) - rows
        for side, keys in (("impressions", ids), ("clicks", np.concatenate([*clicked, nobody]))):
            times = start + pd.to_timedelta(n * MINUTES * 60 + rng.integers(0, MINUTES * 60, rows), unit="s")
            table = pd.DataFrame({"id": keys, "time": times.strftime("%Y-%m-%d %H:%M:%S"), "text": [f"text {i % 1000}" for i in range(rows)]})
            table.to_csv(directory / side / f"{n:03}.csv", index=False, header=False)


def outer_join(session: Any, path: Path) -> DataFrame:
    def side(name: str, prefix: str) -> DataFrame:
        schema = f"{prefix}id long, {prefix}time timestamp, {prefix}text string"
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(path / name))
        return rows.withWatermark(f"{prefix}time", f"{MINUTES} minutes")

    condition = f"iid = cid AND ctime >= itime AND ctime <= itime + interval {MINUTES} minutes"
    return side("impressions", "i").join(side("clicks", "c"), F.expr(condition), "leftOuter")


def measure(spark: SparkSession, name: str, args: argparse.Namespace) -> None:
    sessions: dict[str, Any] = {"spark": spark, "model": MiniSparkSession(spark, trace="off")}
    runs: dict[str, list[Run]] = {engine: [] for engine in sessions}
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        write_files(scratch / "in", args.triggers, CASES[name])
        for number in range(args.rounds + 1):
            for engine, session in sessions.items():
                query = outer_join(session, scratch / "in").writeStream.outputMode("append")
                run = run_once(query, scratch / f"checkpoint-{number}-{engine}", args.warm_up)
                if number > 0:  # (2)
                    runs[engine].append(run)
    if runs["spark"][0].work != runs["model"][0].work:
        raise SystemExit(f"the engines did not compute the same batches: {runs['spark'][0].work} {runs['model'][0].work}")
    for engine, of in runs.items():
        tenths = statistics.quantiles([ms for run in of for ms in run.triggers], n=10)
        print(f"{name:12}{engine:8}{median(of):10.1f}{tenths[0]:10.1f}{tenths[-1]:10.1f}{of[0].work[-1][2]:12,}", flush=True)
    print(f"{name:12}model / spark  {ratio(runs['model'], runs['spark']):.3f}", flush=True)  # (4)


def main() -> None:
    parser = argparse.ArgumentParser(description="milliseconds per trigger of a join of two streams, model against Spark")
    parser.add_argument("--only", choices=CASES, help="one of the cases (all)")
    parser.add_argument("--triggers", type=int, default=12, help="triggers of each run (12)")
    parser.add_argument("--rounds", type=int, default=3, help="counted runs of each engine (3)")
    parser.add_argument("--warm-up", type=int, default=4, help="triggers dropped at the start of each run (4)")
    args = parser.parse_args()
    if args.warm_up > args.triggers - 2:
        parser.error("--warm-up must leave at least two triggers of --triggers")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", str(args.triggers + 10))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print(f"{'':20}{'median':>10}{'10 %':>10}{'90 %':>10}{'state rows':>12}   (ms per trigger)")
    for name in [args.only] if args.only else CASES:
        measure(spark, name, args)
    spark.stop()


if __name__ == "__main__":
    main()
