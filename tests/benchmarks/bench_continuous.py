"""How old is a row when the sink has it? Continuous processing against micro-batches, on the model and on real Spark.

The query is a filter and a projection over the rate source, 100 rows a second in one partition; each row carries the time at which
it was due. Four variants run one after the other in one session, each for `--seconds`, after its first
commit and a `--warm-up`. Then micro-batches have two other sources: a socket with a row every 10 ms, and a folder with a file
of ten rows every 100 ms.

1. The sink is `foreach`: a function that notes the age of each row. Real Spark cannot run it in continuous mode; there the age is
   that of the row in the projection, which a call of Java's clock gives, so that the way to the sink is not counted.
2. Two bounds: the median of the model in continuous mode is at most 50 ms, and at least ten times below its own in micro-batches.
   Exit code 1 when one is broken.
3. How many rows a second are as many as can be? The same query with `noop` as its sink, in one partition. In continuous mode the
   source makes a row as soon as the queue of the reader has a place for it; a micro-batch has 200,000 rows.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from minispark_stream import MiniSparkSession

MEDIAN_BOUND_MS = 50
TIMES_BELOW = 10
CONTINUOUS = {"continuous": "1 second"}
Variant = tuple[Callable[..., list[float]], Any, dict[str, str]]  # how the ages are noted, the session, the trigger
TEXTS = ("CAST(value AS long) AS due", "CAST(value AS long) * 2 AS twice")


@dataclass(frozen=True)
class Times:
    """Seconds, from the first commit on."""

    warm_up: int
    seconds: int


def rows(session: Any, source: str = "rate", **options: int) -> DataFrame:
    rate = session.readStream.format(source).options(numPartitions=1, **options or {"rowsPerSecond": 100}).load()
    return rate.where("value % 10 <> 0").selectExpr("unix_millis(timestamp) AS due", "value * 2 AS twice")


@contextmanager
def from_socket(session: Any, directory: Path) -> Iterator[DataFrame]:
    """A row every 10 ms: the time at which it was due."""
    def send() -> None:
        with server.accept()[0] as connection, suppress(OSError):  # until the query has closed it
            for due_ms in every(10):
                connection.sendall(f"{due_ms}\n".encode())

    with socket.create_server(("localhost", 0)) as server:
        threading.Thread(target=send, daemon=True).start()
        where = {"host": "localhost", "port": server.getsockname()[1]}
        yield session.readStream.format("socket").options(**where).load().selectExpr(*TEXTS)


@contextmanager
def from_files(session: Any, directory: Path) -> Iterator[DataFrame]:
    """A file every 100 ms, with ten rows: the time at which it was due."""
    folder, ended = directory / "in", threading.Event()

    def write() -> None:
        for number, due_ms in enumerate(every(100)):
            if ended.is_set():
                return
            hidden = folder / f".{number}"
            hidden.write_text(f"{due_ms}\n" * 10)
            hidden.rename(folder / f"{number}.txt")

    folder.mkdir()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield session.readStream.text(str(folder)).selectExpr(*TEXTS)
    finally:
        ended.set()
        writer.join()


def every(interval_ms: int) -> Iterator[int]:
    """Every so many milliseconds, that time in ms since the epoch."""
    due_ms = int(time.time() * 1000)
    while True:
        time.sleep(max(0.0, due_ms / 1000 - time.time()))
        yield due_ms
        due_ms += interval_ms


@contextmanager
def from_rate(session: Any, directory: Path) -> Iterator[DataFrame]:
    yield rows(session)


def noted_by_the_sink(session: Any, trigger: dict[str, str], times: Times, directory: Path, source: Any = from_rate) -> list[float]:
    """(1) How many milliseconds after it was due the sink had each row."""
    path = directory / "noted"

    def note(row: Any) -> None:
        with path.open("a") as out:
            out.write(f"{row.due} {time.time() * 1000 - row.due}\n")

    with source(session, directory) as found:
        write = found.writeStream.foreach(note).option("checkpointLocation", str(directory / "checkpoint"))
        first = run(write.trigger(**trigger) if trigger else write, times, directory)
    noted = [line.split() for line in path.read_text().splitlines()]
    return [float(age) for due, age in noted if float(due) >= first]


def noted_by_the_projection(session: Any, trigger: dict[str, str], times: Times, directory: Path) -> list[float]:
    now = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS long) AS now"
    write = rows(session).selectExpr("due", now).writeStream.format("memory").queryName("noted")
    first = run(write.option("checkpointLocation", str(directory / "checkpoint")).trigger(**trigger), times, directory)
    return [row.now - row.due for row in session.table("noted").collect() if row.due >= first]


def run(write: Any, times: Times, directory: Path) -> float:
    """Run the query; from which due time on rows count, in ms since the epoch."""
    query = write.start()
    while not (directory / "checkpoint" / "commits" / "0").exists():
        query.awaitTermination(1)
    first = (time.time() + times.warm_up) * 1000
    query.awaitTermination(times.warm_up + times.seconds)
    query.stop()
    if query.exception() is not None:
        raise query.exception()
    return first


def rows_per_second(session: Any, trigger: dict[str, str], times: Times, directory: Path) -> float:
    """(3) By what was committed between two moments."""
    endless = ("rate", {"rowsPerSecond": 1_000_000}) if trigger else ("rate-micro-batch", {"rowsPerBatch": 200_000})
    write = rows(session, endless[0], **endless[1]).writeStream.format("noop")
    query = write.option("checkpointLocation", str(directory / "checkpoint")).trigger(**trigger or {"processingTime": "0 seconds"}).start()

    def committed() -> tuple[float, int]:
        """When the newest commit was written, in seconds, and how many rows there were by then."""
        newest = max((p for p in (directory / "checkpoint" / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        offset = json.loads((directory / "checkpoint" / "offsets" / newest.name).read_text().split("\n")[2])
        return newest.stat().st_mtime, offset["0"]["value"] if trigger else offset["offset"]

    while not (directory / "checkpoint" / "commits" / "0").exists():
        query.awaitTermination(1)
    query.awaitTermination(times.warm_up)
    began = committed()
    query.awaitTermination(times.seconds)
    while (ended := committed()) == began:
        query.awaitTermination(1)
    query.stop()
    return (ended[1] - began[1]) / (ended[0] - began[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=5)
    arguments = parser.parse_args()
    spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    mini = MiniSparkSession(spark)
    variants: dict[str, Variant] = {
        "model, continuous": (noted_by_the_sink, mini, CONTINUOUS),
        "model, micro-batch": (noted_by_the_sink, mini, {}),
        "spark, continuous": (noted_by_the_projection, spark, CONTINUOUS),
        "spark, micro-batch": (noted_by_the_sink, spark, {}),
    }
    of_sources: dict[str, Variant] = {
        f"{engine}, {name}": (partial(noted_by_the_sink, source=source), session, {})
        for name, source in (("socket", from_socket), ("files", from_files))
        for engine, session in (("model", mini), ("spark", spark))
    }
    medians = {}
    print(f"{'':24}{'rows':>8}{'median':>10}{'99 %':>10}   (ms from the time a row was due)")
    for name, (noted, session, trigger) in (variants | of_sources).items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            times = Times(arguments.warm_up, arguments.seconds)
            ages = sorted(noted(session, trigger, times, Path(directory)))
        medians[name] = statistics.median(ages)
        print(f"{name:24}{len(ages):8}{medians[name]:10.1f}{ages[int(len(ages) * 0.99)]:10.1f}", flush=True)
    print(f"{'':24}{'rows a second':>16}   (one partition)")
    for name, (_, session, trigger) in variants.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            times = Times(arguments.warm_up, arguments.seconds)
            print(f"{name:24}{rows_per_second(session, trigger, times, Path(directory)):16,.0f}", flush=True)
    spark.stop()
    factor = medians["model, micro-batch"] / medians["model, continuous"]
    holds = medians["model, continuous"] <= MEDIAN_BOUND_MS and factor >= TIMES_BELOW
    print(f"micro-batch / continuous of the model: {factor:.0f}; the bounds {'hold' if holds else 'do not hold'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
