"""Milliseconds per trigger, the model against real Structured Streaming, in every workload and setting (`make bench`).

    spark            real Structured Streaming
    spark rocksdb    the same with Spark's RocksDB state store
    model            the model, tracing off
    model rocksdb    the same with its state in RocksDB's files
    model steps      the model, every step recorded (in the workload `windows`)
    model rows       the model with previews of rows and state: for looking, not for speed (the same)
    batch job        the plain Spark job over the files of one trigger: the floor of any micro-batch engine

1. Each setting has a process of its own: Spark as users get it, and then each setting that helps one of the engines.
2. Write the files of a workload. All variants run the same query over them, in one session, with `availableNow` and a noop sink.
3. The first round is cold: the JVM compiles the code of the query. It is told, and counts for nothing else.
4. Then rounds follow, each variant once in a round, in another order each time, until the ratio of the model to Spark differs by at
   most a tenth over the last three, which are the ones that count; or until `--rounds` are over, and that is told, too. A provider
   that took a third longer than the engine's other one in the first of them is not waited for again.
5. Of each run the first triggers are dropped, and `durationMs.triggerExecution` of the others that had data is kept.
6. Divide the medians of the two runs of one round; the ratio is the median of that over the rounds, its spread the least and the most.
   The first ratio is the one to Spark's faster provider.
7. Meanwhile the processor time of all other programs is counted: where it is more than a tenth of a core, the row is disturbed.

Exit code 1 when the model is slower than Spark in a row of any setting, or when recording the steps costs more than 5 % in every round
(one run of a small trigger differs from the next by more than that).

Each setting takes about an hour on 2 cores. One workload in one setting: `make bench BENCH='--only windows --setting default'`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
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
from tests.benchmarks.others import Others
from tests.benchmarks.report import Ratio, Row, Run, now, print_table, read_rows, write_page
from tests.benchmarks.workloads import WORKLOADS, Workload, reports_with_data, spark_session

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SMALL = ("stateless", "windows", "windows-200")
TRACING_BOUND, AGREE, MUCH_SLOWER = 1.05, 1.1, 1.33


@dataclass(frozen=True)
class Setting:
    """Confs with which Spark is started, and the workloads that they can make a difference to (all)."""

    confs: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[str, ...] | None = None


SETTINGS = {  # (1)
    "default": Setting(),
    "unix sockets": Setting({"spark.python.unix.domain.socket.enabled": "true"}),
    "plain files": Setting({"spark.sql.streaming.checkpointFileManagerClass": FILES}, SMALL),
}


@dataclass(frozen=True)
class Variant:
    name: str
    session: Callable[[SparkSession], Any]
    conf: Mapping[str, str] = field(default_factory=dict)


ENGINES = (
    Variant("spark", lambda spark: spark),
    Variant("spark rocksdb", lambda spark: spark, {PROVIDER: ROCKSDB}),
    Variant("model", lambda spark: MiniSparkSession(spark, trace="off")),
    Variant("model rocksdb", lambda spark: MiniSparkSession(spark, trace="off"), {PROVIDER: ROCKSDB}),
)
TRACED = (
    Variant("model steps", lambda spark: MiniSparkSession(spark, trace="steps")),
    Variant("model rows", lambda spark: MiniSparkSession(spark, trace="rows")),
)


def measure(spark: SparkSession, workload: Workload, setting: str, most: int, scratch: Path) -> Row:
    data = scratch / "in"
    workload.write(data)  # (2)
    variants = ENGINES + (TRACED if (workload.name, setting) == ("windows", "default") else ())
    runs: list[dict[str, Run]] = []
    with Others() as others, confs(spark, workload.confs):  # (7)
        cold = one_round(spark, workload, variants, data, scratch / "cold")  # (3)
        while len(runs) < most and not agree(runs):  # (4)
            first = len(runs) % len(variants)
            runs.append(one_round(spark, workload, variants[first:] + variants[:first], data, scratch / str(len(runs))))
            if len(runs) == 1:
                slow = slower_providers(runs[0])
                variants = tuple(variant for variant in variants if variant.name not in slow)
    check_same_work(workload, [cold, *runs])
    counted = runs[-3:]
    of = {name: [run[name] for run in (counted if name in counted[-1] else runs) if name in run] for name in cold}
    against = min(("spark", "spark rocksdb"), key=lambda name: statistics.median(run.median for run in of[name]))
    return Row(
        workload.name, workload.says, workload.goal, against, agree(runs), others.cores,
        cold={name: run.median for name, run in cold.items()},
        medians={name: statistics.median(ms for run in each for ms in run.triggers) for name, each in of.items()},
        runs={name: [run.triggers for run in each] for name, each in of.items()},
        ratios=[Ratio.of(counted, "model", against), Ratio.of(counted, "model", "batch job")]  # (6)
        + [Ratio.of(counted, variant.name, "model") for variant in variants[len(ENGINES) :] if variant in TRACED],
        distance=workload.distance,
    )


def one_round(
    spark: SparkSession, workload: Workload, variants: Sequence[Variant], data: Path, checkpoints: Path
) -> dict[str, Run]:
    found = {}
    for variant in variants:
        with confs(spark, variant.conf):
            found[variant.name] = run_once(variant.session(spark), workload, data, checkpoints / variant.name)
    frame = (workload.plain or workload.query)(workload.read(spark, data, streaming=False))
    return found | {"batch job": Run(elapsed_ms(partial(save, frame)), [])}


def agree(rounds: Sequence[Mapping[str, Run]]) -> bool:
    ratios = [of["model"].median / min(run.median for name, run in of.items() if name.startswith("spark")) for of in rounds[-3:]]
    return len(ratios) == 3 and max(ratios) <= AGREE * min(ratios)


def slower_providers(of: Mapping[str, Run]) -> list[str]:
    """Spark's provider that takes much longer than its other one, and the model's RocksDB if it does: the ratios are those of `model`."""
    quick, slow = sorted(("spark", "spark rocksdb"), key=lambda name: of[name].median)
    pairs = (quick, slow), ("model", "model rocksdb")
    return [slow for quick, slow in pairs if of[slow].median > MUCH_SLOWER * of[quick].median]


def run_once(session: Any, workload: Workload, data: Path, checkpoint: Path) -> Run:
    query = workload.start(session, data, checkpoint, availableNow=True)
    query.awaitTermination()
    reports = reports_with_data(query)  # (5)
    return Run(
        triggers=[p["durationMs"]["triggerExecution"] for p in reports][workload.warm_up :],
        work=[(p["batchId"], p["numInputRows"], sum(op["numRowsTotal"] for op in p["stateOperators"])) for p in reports],
    )


def save(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def elapsed_ms(action: Callable[[], None], times: int = 2) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append((time.perf_counter() - began) * 1000)
    return found


@contextmanager
def confs(spark: SparkSession, pairs: Mapping[str, str]) -> Iterator[None]:
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in pairs}
    for key, value in pairs.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def check_same_work(workload: Workload, rounds: Sequence[Mapping[str, Run]]) -> None:
    """A benchmark of different work is none."""
    kinds = {tuple(run.work) for of in rounds for run in of.values() if run.work}
    if len(kinds) != 1:
        raise SystemExit(f"{workload.name}: the engines did not run the same batches (batchId, rows, rows of state): {kinds}")


def broken(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    return [
        f"{row.workload}, {setting}: {ratio.over} / {ratio.under} is {ratio}, more than {bound}"
        for setting, of in rows.items() for row in of for ratio in row.ratios
        for over, under, bound, found in (
            ("model", row.against, 1.0, ratio.median), ("model steps", "model", TRACING_BOUND, ratio.least)
        )
        if (ratio.over, ratio.under) == (over, under) and found > bound
    ]


def measure_setting(name: str, only: Sequence[str], most: int, out: Path) -> None:
    """One process: the workloads in a setting. After each of them, `out` has what was found up to there."""
    setting = SETTINGS[name]
    spark = spark_session(setting.confs)
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    machine = f"{os.cpu_count()} cores, Spark {spark.version}, Java {java}, Python {platform.python_version()}"
    rows: list[Row] = []
    try:
        for workload in WORKLOADS:
            if workload.name in (only or setting.workloads or (workload.name,)):
                with tempfile.TemporaryDirectory() as scratch:
                    rows.append(measure(spark, workload, name, most, Path(scratch)))
                print_table(name, rows[-1:])
                found = {"machine": machine, "measured": {name: now()}, "settings": {name: [asdict(row) for row in rows]}}
                out.write_text(json.dumps(found))
    finally:
        spark.stop()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="milliseconds per trigger, the model against real Structured Streaming")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", action="append", choices=names, help="this workload (all; may be given more than once)")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS), help="this setting (all; the same)")
    parser.add_argument("--rounds", type=int, default=6, help="counted runs of each variant, at most (6)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where bench.json and bench.html go (build/bench)")
    parser.add_argument("--here", action="store_true", help="in this process; for one setting")
    args = parser.parse_args(argv)

    args.out.mkdir(parents=True, exist_ok=True)
    settings = args.setting or list(SETTINGS)
    if args.here:
        measure_setting(settings[0], args.only or (), args.rounds, args.out / f"{settings[0]}.json")
        return 0
    found: dict[str, Any] = {"machine": "", "measured": {}, "settings": {}}
    for setting in settings:
        only = [word for name in args.only or () for word in ("--only", name)]
        own = ["--here", "--setting", setting, "--rounds", str(args.rounds), "--out", str(args.out), *only]
        subprocess.run([sys.executable, "-m", "tests.benchmarks.bench", *own], check=True)
        of = json.loads((args.out / f"{setting}.json").read_text())
        found = {"machine": of["machine"], **{key: found[key] | of[key] for key in ("measured", "settings")}}
        (args.out / "bench.json").write_text(json.dumps(found))
        write_page(args.out / "bench.html", found["machine"], read_rows(found))
    lines = broken(read_rows(found))
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{args.out}/bench.html, {args.out}/bench.json")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
