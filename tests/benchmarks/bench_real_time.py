"""Real-time mode on the model and on real Spark, one after the other in one session: how old are rows, and how many go through?

    python tests/benchmarks/bench_real_time.py --batches 3 --trigger "8 seconds"

1. Rows go into a LowLatencyMemoryStream of one partition, one every 10 ms, and carry the time at which they were added. The
   query is a filter and a projection, which computes the age of each row by Java's clock; an observed metric has the percentiles
   of each batch. The first batch that has rows does not count: these have waited for the JVM and the workers to start.
2. The same for the model with `foreach` as its sink: the function notes the age of each row, so the way to the sink counts, too.
   Spark collects rows for such a function until there are many.
3. The border between two batches is what a trigger takes beyond the time of its batch: rows that arrive in it wait.
4. How many rows a second are as many as can be? A backlog in the stream, with `noop` as the sink.

One bound: the median of the model within the batches is at most 50 ms. Exit code 1 when it is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession

MEDIAN_BOUND_MS = 50
MODE = "spark.sql.streaming.realTimeMode"
AGE = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS long) - added AS age"


def at_100_rows_a_second(stream: LowLatencyMemoryStream, query: Any, batches: int) -> list[Any]:
    """Add rows until so many batches have had rows; returns their reports without the first one."""
    while len(with_rows := [report for report in query.recentProgress if report["numInputRows"]]) <= batches:
        assert query.isActive, query.exception()
        for _ in range(50):  # to ask Spark for its reports takes longer than a row may wait
            time.sleep(0.01)
            stream.add_data([(round(time.time() * 1000), 1)])
    query.stop()
    return with_rows[1:]


def ages(session: Any, batches: int, trigger: str) -> dict[str, Any]:  # (1), (3)
    stream = LowLatencyMemoryStream(session, "added long, v int")
    percentiles = F.percentile("age", F.array(F.lit(0.5), F.lit(0.99)))
    rows = stream.to_df().where("v > 0").selectExpr(AGE).observe("ages", percentiles.alias("of"), F.max("age").alias("max"))
    write: Any = rows.writeStream.outputMode("update").format("noop")
    reports = at_100_rows_a_second(stream, write.trigger(realTime=trigger).start(), batches)
    found = [report["observedMetrics"]["ages"] for report in reports]
    return {
        "p50_ms": statistics.median(one["of"][0] for one in found), "p99_ms": statistics.median(one["of"][1] for one in found),
        "max_ms": max(one["max"] for one in found), "border_ms": statistics.median(border_ms(report, trigger) for report in reports),
    }


def border_ms(report: Any, trigger: str) -> float:
    return float(report["durationMs"]["triggerExecution"] - 1000 * int(trigger.split()[0]))


def ages_at_the_sink(session: Any, batches: int, trigger: str) -> dict[str, Any]:  # (2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ages"

        def note(row: Any, path: str = str(path)) -> None:
            with open(path, "a") as file:
                file.write(f"{time.time() * 1000 - row.added}\n")

        stream = LowLatencyMemoryStream(session, "added long, v int")
        write: Any = stream.to_df().where("v > 0").writeStream.outputMode("update").foreach(note)
        reports = at_100_rows_a_second(stream, write.trigger(realTime=trigger).start(), batches)
        in_first_batch = json.loads(reports[0]["sources"][0]["startOffset"])["0"]
        seen = sorted(float(line) for line in path.read_text().splitlines()[in_first_batch:])
    return {"p50_ms": round(seen[len(seen) // 2], 1), "p99_ms": round(seen[int(0.99 * len(seen))], 1), "max_ms": round(seen[-1], 1)}


def rows_a_second(session: Any, number: int) -> dict[str, Any]:  # (4)
    stream = LowLatencyMemoryStream(session, "added long, v int")
    stream.add_data([(i, 1) for i in range(number)])
    write: Any = stream.to_df().where("v > 0").selectExpr("added * 2 AS twice").observe(
        "clock", F.expr("max(CAST(java_method('java.lang.System', 'currentTimeMillis') AS long))").alias("last"),
        F.expr("min(CAST(java_method('java.lang.System', 'currentTimeMillis') AS long))").alias("first"),
    ).writeStream.outputMode("update").format("noop")
    query = write.trigger(realTime="10 seconds").start()
    while not any(report["numInputRows"] for report in query.recentProgress):
        assert query.isActive, query.exception()
        time.sleep(0.1)
    query.stop()
    report = next(report for report in query.recentProgress if report["numInputRows"])
    clock = report["observedMetrics"]["clock"]
    return {"rows": report["numInputRows"], "rows_a_second": round(1000 * report["numInputRows"] / max(1, clock["last"] - clock["first"]))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--trigger", default="8 seconds")
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").config(f"{MODE}.allowlistCheck", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    engines = {"model": MiniSparkSession(spark), "spark": spark}
    found = {engine: ages(session, given.batches, given.trigger) for engine, session in engines.items()}
    found["model, at the sink"] = ages_at_the_sink(engines["model"], given.batches, given.trigger)
    for engine, session in engines.items():
        found[engine] |= rows_a_second(session, given.rows)
    for name, values in found.items():
        print(f"{name:20}", json.dumps(values))
    return int(found["model"]["p50_ms"] > MEDIAN_BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
