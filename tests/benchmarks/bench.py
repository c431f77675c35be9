"""Milliseconds per trigger, the model against real Structured Streaming, in every workload and setting (`make bench`).

    spark            real Structured Streaming
    spark rocksdb    the same with Spark's RocksDB state store
    model            the model, tracing off
    model rocksdb    the same with its state in RocksDB's files
    model steps      the model, every step recorded (in the workload `windows`)
    model rows       the model with previews of rows and state: for looking, not for speed (the same)
    batch job        the plain Spark job over the files of one trigger: the floor of any micro-batch engine

1. Each setting has a process of its own: Spark as users get it, and then each setting that helps one of the engines. The last ones
   ask whether another choice of files and of the heap would have said something else: few triggers in which the state grows, or many
   with a state that is full, each in heaps of 4, 6 and 8 GB. `--triggers`, `--warm-up`, `--files` and `--heap` make other choices.
2. Write the files of a workload. All variants run the same query over them, in one session, with `availableNow` and a noop sink.
3. The first round is cold: the JVM compiles the code of the query. It is told, and counts for nothing else.
4. Then rounds follow, each variant once in a round, in another order each time, at least five of them, until each engine stands still:
   its medians in the last three rounds, which are the ones that count, differ by at most 5 %. When `--rounds` are over before that,
   it is told, too. A provider that took a third longer than the engine's other one in the first of them is not waited for again.
5. Of each run the first triggers are dropped, and `durationMs.triggerExecution` of the others that had data is kept. How long the
   JVM collected garbage meanwhile is kept as well: it explains a good deal of what a heap or a shape changes.
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
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from tests.benchmarks.others import Others
from tests.benchmarks.report import Ratio, Row, Run, now, print_table, read_rows, write_page
from tests.benchmarks.workloads import MORE_WORKLOADS, WORKLOADS, Workload, reports_with_data, spark_session

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SMALL = ("stateless", "windows", "windows-200")
SHAPED = ("campaigns", "keys", "duplicates", "short-sessions", "short-join-20k", "short-join-200k")
TRACING_BOUND, STILL, MUCH_SLOWER = 1.05, 1.05, 1.33
LEAST_ROUNDS, COUNTED = 5, 3


@dataclass(frozen=True)
class Setting:
    """Confs with which Spark is started, the workloads that they can make a difference to, and what is another in each workload.

    `providers`: whether RocksDB is measured as well.
    """

    confs: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[str, ...] = tuple(workload.name for workload in WORKLOADS)
    shape: Mapping[str, Any] = field(default_factory=dict)
    providers: bool = True


SHAPES = {"growing state": {"triggers": 6, "warm_up": 1, "files": 2}, "full state": {"triggers": 20, "warm_up": 10}}
SETTINGS = {  # (1)
    "default": Setting(),
    "unix sockets": Setting({"spark.python.unix.domain.socket.enabled": "true"}),
    "plain files": Setting({"spark.sql.streaming.checkpointFileManagerClass": FILES}, SMALL),
    **{
        f"{name}, {heap} GB": Setting({"spark.driver.memory": f"{heap}g"}, SHAPED, shape, providers=False)
        for name, shape in SHAPES.items() for heap in (4, 6, 8)
    },
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


def measure(spark: SparkSession, workload: Workload, variants: Sequence[Variant], most: int, scratch: Path) -> Row:
    data = scratch / "in"
    workload.write(data)  # (2)
    runs: list[dict[str, Run]] = []
    with Others() as others, confs(spark, workload.confs):  # (7)
        cold = one_round(spark, workload, variants, data, scratch / "cold")  # (3)
        while len(runs) < most and not still(runs):  # (4)
            first = len(runs) % len(variants)
            runs.append(one_round(spark, workload, [*variants[first:], *variants[:first]], data, scratch / str(len(runs))))
            if len(runs) == 1:
                slow = slower_providers(runs[0])
                variants = [variant for variant in variants if variant.name not in slow]
    check_same_work(workload, [cold, *runs])
    counted = runs[-COUNTED:]
    of = {name: [run[name] for run in (counted if name in counted[-1] else runs) if name in run] for name in cold}
    against = min(set(of) & {"spark", "spark rocksdb"}, key=lambda name: statistics.median(run.median for run in of[name]))
    return Row(
        workload.name, workload.says, workload.goal, against, still(runs), others.cores,
        cold={name: run.median for name, run in cold.items()},
        medians={name: statistics.median(ms for run in each for ms in run.triggers) for name, each in of.items()},
        runs={name: [run.triggers for run in each] for name, each in of.items()},
        ratios=[Ratio.of(counted, "model", against), Ratio.of(counted, "model", "batch job")]  # (6)
        + [Ratio.of(counted, variant.name, "model") for variant in variants if variant in TRACED],
        distance=workload.distance,
        collector={name: statistics.median(run.collector for run in each) for name, each in of.items()},
    )


def one_round(
    spark: SparkSession, workload: Workload, variants: Sequence[Variant], data: Path, checkpoints: Path
) -> dict[str, Run]:
    found = {}
    for variant in variants:
        with confs(spark, variant.conf):
            found[variant.name] = run_once(spark, variant.session(spark), workload, data, checkpoints / variant.name)
    frame = (workload.plain or workload.query)(workload.read(spark, data, streaming=False))
    return found | {"batch job": Run(elapsed_ms(partial(save, frame)), [])}


def still(rounds: Sequence[Mapping[str, Run]]) -> bool:
    """Whether each engine took the same time in each of the last rounds."""
    medians = [(of["model"].median, min(run.median for name, run in of.items() if name.startswith("spark"))) for of in rounds[-COUNTED:]]
    return len(rounds) >= LEAST_ROUNDS and all(max(engine) <= STILL * min(engine) for engine in zip(*medians))


def slower_providers(of: Mapping[str, Run]) -> list[str]:
    """Spark's provider that takes much longer than its other one, and the model's RocksDB if it does: the ratios are those of `model`."""
    if "spark rocksdb" not in of:
        return []
    quick, slow = sorted(("spark", "spark rocksdb"), key=lambda name: of[name].median)
    pairs = (quick, slow), ("model", "model rocksdb")
    return [slow for quick, slow in pairs if of[slow].median > MUCH_SLOWER * of[quick].median]


def run_once(spark: SparkSession, session: Any, workload: Workload, data: Path, checkpoint: Path) -> Run:
    before = collector_ms(spark)
    query = workload.start(session, data, checkpoint, availableNow=True)
    query.awaitTermination()
    reports = reports_with_data(query)  # (5)
    return Run(
        triggers=[p["durationMs"]["triggerExecution"] for p in reports][workload.warm_up :],
        work=[(p["batchId"], p["numInputRows"], sum(op["numRowsTotal"] for op in p["stateOperators"])) for p in reports],
        collector=(collector_ms(spark) - before) / len(reports),
    )


def collector_ms(spark: SparkSession) -> int:
    """How long the JVM has collected garbage since its start, as its own beans say."""
    beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()  # type: ignore[union-attr]
    return sum(bean.getCollectionTime() for bean in beans)


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


def measure_setting(name: str, setting: Setting, most: int, out: Path) -> None:
    """One process: the workloads in a setting. After each of them, `out` has what was found up to there."""
    spark = spark_session(setting.confs)
    java = spark._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    machine = f"{os.cpu_count()} cores, Spark {spark.version}, Java {java}, Python {platform.python_version()}"
    rows: list[Row] = []
    try:
        for workload in (*WORKLOADS, *MORE_WORKLOADS):
            if workload.name in setting.workloads:
                engines = ENGINES if setting.providers else [variant for variant in ENGINES if not variant.conf]
                traced = TRACED if (workload.name, name) == ("windows", "default") else ()
                with tempfile.TemporaryDirectory() as scratch:
                    rows.append(measure(spark, replace(workload, **setting.shape), [*engines, *traced], most, Path(scratch)))
                print_table(name, rows[-1:])
                found = {"machine": machine, "measured": {name: now()}, "settings": {name: [asdict(row) for row in rows]}}
                out.write_text(json.dumps(found))
    finally:
        spark.stop()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="milliseconds per trigger, the model against real Structured Streaming")
    names = [workload.name for workload in (*WORKLOADS, *MORE_WORKLOADS)]
    parser.add_argument("--only", action="append", choices=names, help="this workload (all; may be given more than once)")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS), help="this setting (all; the same)")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each variant after the first, at most (15)")
    for part in "triggers", "warm_up", "files":
        parser.add_argument(f"--{part.replace('_', '-')}", type=int, help="of a run, instead of what the workload and the setting have")
    parser.add_argument("--heap", help="of the JVM, such as 6g, instead of the setting's")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where bench.json and bench.html go (build/bench)")
    parser.add_argument("--here", action="store_true", help="in this process; for one setting")
    args = parser.parse_args(argv)

    args.out.mkdir(parents=True, exist_ok=True)
    settings = args.setting or list(SETTINGS)
    if args.here:
        setting = SETTINGS[settings[-1]]
        heap = {"spark.driver.memory": args.heap} if args.heap else {}
        shape = {part: getattr(args, part) for part in ("triggers", "warm_up", "files") if getattr(args, part) is not None}
        chosen = replace(
            setting, confs={**setting.confs, **heap}, workloads=tuple(args.only or setting.workloads), shape={**setting.shape, **shape}
        )
        measure_setting(settings[-1], chosen, args.rounds, args.out / f"{settings[-1]}.json")
        return 0
    found: dict[str, Any] = {"machine": "", "measured": {}, "settings": {}}
    for setting in settings:
        own = ["--here", *(sys.argv[1:] if argv is None else argv), "--setting", setting]  # the last one counts
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
