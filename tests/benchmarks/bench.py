"""Milliseconds per trigger, the model against real Structured Streaming, in every workload (`make bench`).

    spark            real Structured Streaming
    spark rocksdb    the same with Spark's RocksDB state store
    model            the model, tracing off
    model steps      the model, every step recorded (in the workload `windows`)
    model rows       the model with previews of rows and state: for looking, not for speed (the same)
    batch job        the plain Spark job over the files of one trigger: the floor of any micro-batch engine
    empty job        the least that a Spark job takes

1. Write the files of a workload. All variants run the same query over them, in one session, with `availableNow` and a noop sink.
2. One round that is not counted: the JVM compiles its code. Then `--rounds` rounds, each variant once in a round, in another
   order each time, so that a slow minute of the machine hits them all.
3. Of each run the first triggers are dropped, and `durationMs.triggerExecution` of the others that had data is kept.
4. Divide the medians of the two runs of one round; the ratio is the median of that over the rounds, its spread the least and the most.

Exit code 1 when the model is slower than Spark in a workload, or when recording the steps costs more than 5 % in every round (one run
of a small trigger differs from the next by more than that).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from tests.benchmarks.report import Ratio, Row, Run, print_table, write_page
from tests.benchmarks.workloads import WORKLOADS, Workload, reports_with_data, spark_session

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRACING_BOUND = 1.05


@dataclass(frozen=True)
class Variant:
    name: str
    session: Callable[[SparkSession], Any]
    conf: Mapping[str, str] = field(default_factory=dict)


ENGINES = (
    Variant("spark", lambda spark: spark),
    Variant("spark rocksdb", lambda spark: spark, {PROVIDER: ROCKSDB}),
    Variant("model", lambda spark: MiniSparkSession(spark, trace="off")),
)
TRACED = (
    Variant("model steps", lambda spark: MiniSparkSession(spark, trace="steps")),
    Variant("model rows", lambda spark: MiniSparkSession(spark, trace="rows")),
)


def measure(spark: SparkSession, workload: Workload, rounds: int, scratch: Path) -> Row:
    data = scratch / "in"
    workload.write(data)  # (1)
    variants = ENGINES + (TRACED if workload.name == "windows" else ())
    runs: dict[str, list[Run]] = {variant.name: [] for variant in variants}
    floors: dict[str, list[float]] = {"batch job": [], "empty job": []}
    for number in range(rounds + 1):  # (2)
        first = number % len(variants)
        for variant in variants[first:] + variants[:first]:
            with confs(spark, variant.conf):
                run = run_once(variant.session(spark), workload, data, scratch / f"{number}-{variant.name}")
            if number > 0:
                runs[variant.name].append(run)
        frame = (workload.plain or workload.query)(workload.read(spark, data, streaming=False))
        floors["batch job"] += elapsed_ms(partial(save, frame))
        floors["empty job"] += elapsed_ms(lambda: save(spark.range(0)))
    check_same_work(workload, runs)
    return Row(
        workload.name, workload.says, workload.goal,
        medians={name: statistics.median(ms for run in of for ms in run.triggers) for name, of in runs.items()}
        | {name: statistics.median(of) for name, of in floors.items()},
        runs={name: [run.triggers for run in of] for name, of in runs.items()},
        ratios=[Ratio.of(runs, "model", "spark"), Ratio.of(runs, "model", "spark rocksdb")]  # (4)
        + [Ratio.of(runs, variant.name, "model") for variant in variants[len(ENGINES) :]],
    )


def run_once(session: Any, workload: Workload, data: Path, checkpoint: Path) -> Run:
    query = workload.start(session, data, checkpoint, availableNow=True)
    query.awaitTermination()
    reports = reports_with_data(query)  # (3)
    return Run(
        triggers=[p["durationMs"]["triggerExecution"] for p in reports][workload.warm_up :],
        work=[(p["batchId"], p["numInputRows"], sum(op["numRowsTotal"] for op in p["stateOperators"])) for p in reports],
    )


def save(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def elapsed_ms(action: Callable[[], None], times: int = 3) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append((time.perf_counter() - began) * 1000)
    return found


@contextmanager
def confs(spark: SparkSession, pairs: Mapping[str, str]) -> Iterator[None]:
    for key, value in pairs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in pairs:
            spark.conf.unset(key)


def check_same_work(workload: Workload, runs: Mapping[str, Sequence[Run]]) -> None:
    """A benchmark of different work is none."""
    kinds = {name: {tuple(run.work) for run in of} for name, of in runs.items()}
    if len(set.union(*kinds.values())) != 1:
        raise SystemExit(f"{workload.name}: the engines did not run the same batches (batchId, rows, rows of state): {kinds}")


def broken(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row.workload}: {ratio.over} / {ratio.under} is {ratio}, more than {bound}"
        for row in rows for ratio in row.ratios
        for over, under, bound, found in (("model", "spark", 1.0, ratio.median), ("model steps", "model", TRACING_BOUND, ratio.least))
        if (ratio.over, ratio.under) == (over, under) and found > bound
    ]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="milliseconds per trigger, the model against real Structured Streaming")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", action="append", choices=names, help="this workload (all; may be given more than once)")
    parser.add_argument("--rounds", type=int, default=3, help="counted runs of each variant (3)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where bench.json and bench.html go (build/bench)")
    args = parser.parse_args(argv)

    spark = spark_session()
    machine = f"{os.cpu_count()} cores, Spark {spark.version}, Java {spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}"  # type: ignore[union-attr]
    print(f"{machine}; {args.rounds} rounds")
    rows: list[Row] = []
    try:
        for workload in WORKLOADS:
            if not args.only or workload.name in args.only:
                with tempfile.TemporaryDirectory() as scratch:
                    rows.append(measure(spark, workload, args.rounds, Path(scratch)))
                print_table(rows[-1:])
                args.out.mkdir(parents=True, exist_ok=True)
                found = {"machine": machine, "rows": [asdict(row) for row in rows]}
                (args.out / "bench.json").write_text(json.dumps(found, indent=1))
                write_page(args.out / "bench.html", machine, rows)
    finally:
        spark.stop()
    for line in broken(rows):
        print(line, file=sys.stderr)
    print(f"{args.out}/bench.html, {args.out}/bench.json")
    return 1 if broken(rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
