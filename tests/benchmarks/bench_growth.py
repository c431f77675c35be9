"""What grows when a query runs for long? Time per trigger, memory, and a cold restart, on the model or on real Spark.

The query counts rows by key. Its first file has every key once (`--keys`), each of the others 100 rows of any keys, and a trigger
takes one file, or `--per-trigger` files. So the state has its full size from the first batch on, and each later batch changes
little of it. With `--windows` it counts by windows of five minutes as well, and each file is a minute later than the one before:
the watermark moves in every trigger, and evicts every fifth time.
With `--files` the query has no state: it writes the rows of each file to a file, and each tenth batch compacts the logs of
source and sink, which have a line for every file so far.

1. Write the files.
2. Run the query, and look at it every second: the time of each trigger, and the processor time of the driver, the JVM and the
   Python workers together, which other programs on the machine disturb less.
3. After 10, 100, 1,000, ... triggers and at the end: the memory of the three, the JVM's live objects after a collection, the
   number of files in the checkpoint, and how many threads and open files (sockets, too) the three have together.
4. Stop Spark, write one more file, and start again: seconds from `start()` to the first commit. The JVM is warm, the workers are new.
5. Of a long run, the last hundred triggers may take at most 1.2 times as long as the second hundred (the median): else exit code 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.engine.state.state_store import PROVIDER_CLASS, ROCKS_DB_PROVIDER
from tests.benchmarks.report import now
from tests.benchmarks.workloads import spark_session, times, windowed_count

GROWTH_BOUND = 1.2
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
COLUMNS = ("triggers", "ms", "CPU ms", "driver", "JVM", "live", "workers", "files", "threads", "open")


# (1)
def write_file(folder: Path, number: int, keys: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number}"  # a file appears whole
    pq.write_table(pa.table({"key": keys, "time": times(np.full(len(keys), number * 60.0))}), hidden)
    hidden.rename(folder / f"{number:06}.parquet")


def write_files(folder: Path, files: int, keys: int) -> None:
    rng = np.random.default_rng(7)
    write_file(folder, 0, np.arange(keys))
    for number in range(1, files):
        write_file(folder, number, rng.integers(0, keys, 100))


def start(spark: SparkSession, args: argparse.Namespace, scratch: Path) -> Any:
    session: Any = MiniSparkSession(spark) if args.engine == "model" else spark
    reader = session.readStream.schema("key long, time timestamp").option("maxFilesPerTrigger", args.per_trigger)
    rows = reader.parquet(str(scratch / "in"))
    if args.files:
        write = rows.writeStream.format("parquet").option("path", str(scratch / "out"))
    elif args.windows:
        write = windowed_count({"events": rows}).writeStream.outputMode("update").format("noop")
    else:
        write = rows.groupBy("key").count().writeStream.outputMode("update").format("noop")
    return write.option("checkpointLocation", str(scratch / "checkpoint")).trigger(availableNow=True).start()


# (2)
def watch(query: Any) -> Iterator[dict[int, float]]:
    """Once a second: the milliseconds of every trigger so far, by batch."""
    found: dict[int, float] = {}
    active = True
    while active:
        active = not query.awaitTermination(1)
        for progress in (json.loads(p.json) for p in query.recentProgress):
            found[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        yield found


def processes() -> list[psutil.Process]:
    """The driver, and all that it has started; `chmod`, which Spark runs for each of its files, is gone at once."""
    driver = psutil.Process()
    return [driver, *driver.children(recursive=True)]


def used() -> tuple[dict[str, int], float]:
    """Memory in bytes, and the seconds of processor time of them all and of workers that have ended."""
    memory, seconds, driver = {"driver": 0, "JVM": 0, "workers": 0}, 0.0, psutil.Process()
    for process in processes():
        with suppress(psutil.NoSuchProcess):
            name = "driver" if process == driver else "JVM" if process.name() == "java" else "workers"
            memory[name] += process.memory_info().rss
            seconds += sum(process.cpu_times()[:4])
    return memory, seconds


# (3)
def sizes(spark: SparkSession, checkpoint: Path) -> dict[str, float]:
    """Memory in MiB; `live` are the objects of the JVM."""
    memory, _ = used()
    java: Any = spark.sparkContext._jvm
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    live, files = runtime.totalMemory() - runtime.freeMemory(), sum(1 for _ in checkpoint.rglob("*"))
    threads = opened = 0
    for process in processes():
        with suppress(psutil.NoSuchProcess):
            threads += process.num_threads()
            opened += process.num_fds()
    return {**{name: size >> 20 for name, size in memory.items()}, "live": live >> 20, "files": files, "threads": threads, "open": opened}


def long_run(spark: SparkSession, args: argparse.Namespace, scratch: Path) -> tuple[list[dict[str, float]], dict[int, float]]:
    found: list[dict[str, float]] = []
    query = start(spark, args, scratch)
    marks = [m for n in range(1, 9) for m in (10**n, 3 * 10**n) if m < args.triggers] + [args.triggers]
    before, (_, cpu) = 0, used()
    for of_batch in watch(query):
        if len(of_batch) >= marks[0]:
            marks = [m for m in marks if m > len(of_batch)] or [sys.maxsize]
            newest = statistics.median([of_batch[b] for b in sorted(of_batch)][before:][-100:])
            spent = (used()[1] - cpu) * 1000 / (len(of_batch) - before)
            row = {"triggers": len(of_batch), "ms": newest, "CPU ms": round(spent), **sizes(spark, scratch / "checkpoint")}
            print("".join(f"{row[c]:>10,.0f}" for c in COLUMNS), flush=True)
            found.append(row)
            before, (_, cpu) = len(of_batch), used()
    return found, of_batch


# (4)
def cold_restart(args: argparse.Namespace, scratch: Path) -> float:
    write_file(scratch / "in", args.triggers * args.per_trigger, np.arange(100) % args.keys)
    spark = spark_session(confs(args))
    spark.range(1).count()
    commits = scratch / "checkpoint" / "commits"
    before = {p.name for p in commits.iterdir()}
    began = time.perf_counter()
    query = start(spark, args, scratch)
    while not {p.name for p in commits.iterdir() if p.name.isdigit()} - before:
        if query.awaitTermination(0.02) and query.exception():
            raise query.exception()
    seconds = time.perf_counter() - began
    query.awaitTermination()
    spark.stop()
    return seconds


def confs(args: argparse.Namespace) -> dict[str, str]:
    return {PROVIDER_CLASS: ROCKS_DB_PROVIDER, CHANGELOGS: "true"} if args.rocksdb else {}


def main() -> int:
    parser = argparse.ArgumentParser(description="what grows in a long run: time per trigger, memory, a cold restart")
    parser.add_argument("--engine", choices=["model", "spark"], default="model")
    parser.add_argument("--rocksdb", action="store_true", help="the state in RocksDB, with changelogs")
    parser.add_argument("--windows", action="store_true", help="windows of five minutes, which the watermark evicts")
    parser.add_argument("--files", action="store_true", help="no state: from files to files")
    parser.add_argument("--triggers", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--per-trigger", type=int, default=1, help="files of a trigger (1)")
    parser.add_argument("--keys", type=int, default=1000, help="rows of state (1000)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what was measured to FILE, beside what it has of the other engine")
    args = parser.parse_args()
    print("".join(f"{c:>10}" for c in COLUMNS) + "   (memory in MiB)", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        write_files(scratch / "in", args.triggers * args.per_trigger, args.keys)
        spark = spark_session(confs(args))
        rows, of_batch = long_run(spark, args, scratch)
        spark.stop()
        restart = cold_restart(args, scratch)
    of = [of_batch[b] for b in sorted(of_batch)]
    growth = statistics.median(of[-100:]) / statistics.median(of[100:200]) if len(of) > 300 else None  # (5)
    holds = growth is None or growth <= GROWTH_BOUND
    print(f"cold restart: {restart:.1f} s")
    if growth is not None:
        print(f"last hundred / second hundred: {growth:.2f}, at most {GROWTH_BOUND}: {'holds' if holds else 'BROKEN'}")
    if args.json:
        measured = {"measured": now(), "keys": args.keys, "rows": rows, "ms": of, "cold_restart_s": restart, "growth": growth}
        of_both = json.loads(args.json.read_text()) if args.json.exists() else {}
        args.json.write_text(json.dumps({**of_both, args.engine: measured}) + "\n")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
