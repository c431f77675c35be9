"""How old is a row when the sink has it? Continuous processing against micro-batches, on the model and on real Spark.

The query is a filter and a projection over the rate source, 100 rows a second in one partition; each row carries the time at which
it was due. Four variants run one after the other in one session, each for `--seconds`, after its first
commit and a `--warm-up`.

1. The sink is `foreach`: a function that notes the age of each row. Real Spark cannot run it in continuous mode; there the age is
   that of the row in the projection, which a call of Java's clock gives, so that the way to the sink is not counted.
2. Two bounds: the median of the model in continuous mode is at most 50 ms, and at least ten times below its own in micro-batches.
   Exit code 1 when one is broken.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from minispark_stream import MiniSparkSession

MEDIAN_BOUND_MS = 50
TIMES_BELOW = 10
CONTINUOUS = {"continuous": "1 second"}


@dataclass(frozen=True)
class Times:
    """Seconds, from the first commit on."""

    warm_up: int
    seconds: int


def rows(session: Any) -> DataFrame:
    rate = session.readStream.format("rate").options(rowsPerSecond=100, numPartitions=1).load()
    return rate.where("value % 10 <> 0").selectExpr("unix_millis(timestamp) AS due", "value * 2 AS twice")


def noted_by_the_sink(session: Any, trigger: dict[str, str], times: Times, directory: Path) -> list[float]:
    """(1) How many milliseconds after it was due the sink had each row."""
    path = directory / "noted"

    def note(row: Any) -> None:
        with path.open("a") as out:
            out.write(f"{row.due} {time.time() * 1000 - row.due}\n")

    write = rows(session).writeStream.foreach(note).option("checkpointLocation", str(directory / "checkpoint"))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--warm-up", type=int, default=5)
    arguments = parser.parse_args()
    spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    mini = MiniSparkSession(spark)
    variants: dict[str, tuple[Callable[..., list[float]], Any, dict[str, str]]] = {
        "model, continuous": (noted_by_the_sink, mini, CONTINUOUS),
        "model, micro-batch": (noted_by_the_sink, mini, {}),
        "spark, continuous": (noted_by_the_projection, spark, CONTINUOUS),
        "spark, micro-batch": (noted_by_the_sink, spark, {}),
    }
    medians = {}
    print(f"{'':24}{'rows':>8}{'median':>10}{'99 %':>10}   (ms from the time a row was due)")
    for name, (noted, session, trigger) in variants.items():
        with tempfile.TemporaryDirectory() as directory:
            times = Times(arguments.warm_up, arguments.seconds)
            ages = sorted(noted(session, trigger, times, Path(directory)))
        medians[name] = statistics.median(ages)
        print(f"{name:24}{len(ages):8}{medians[name]:10.1f}{ages[int(len(ages) * 0.99)]:10.1f}", flush=True)
    spark.stop()
    factor = medians["model, micro-batch"] / medians["model, continuous"]
    holds = medians["model, continuous"] <= MEDIAN_BOUND_MS and factor >= TIMES_BELOW
    print(f"micro-batch / continuous of the model: {factor:.0f}; the bounds {'hold' if holds else 'do not hold'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
