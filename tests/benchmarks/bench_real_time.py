"""Real-time mode on the model and on real Spark, one after the other in one session: how old are rows, and how many go through?

    python tests/benchmarks/bench_real_time.py --batches 3 --trigger "8 seconds"

1. Rows go into a LowLatencyMemoryStream of one partition, one every 10 ms, and carry the time at which they were added. One
   query is a filter and a projection, the other counts by 10 keys. Both compute the age of each row by Java's clock; an observed
   metric has the percentiles of each batch. The first batch that has rows does not count: these have waited for the JVM and the
   workers to start. Rows that were added before a batch had run for 0.25 s are those of the *border*, all others are *within*.
2. The same for the model with `foreach` as its sink: the function notes the age of each row, so the way to the sink counts, too.
   Spark collects rows for such a function until there are many.
3. The border between two batches is what a trigger takes beyond the time of its batch: rows that arrive in it wait.
4. How many rows a second are as many as can be? A backlog in the stream, with `noop` as the sink: no state, a count by 1000
   keys, and a count by one key.

One bound: the median of the model is at most 50 ms. Exit code 1 when it is broken.
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
NOW = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS long)"
SINCE = "added - unix_millis(current_timestamp()) AS since"  # the beginning of the batch
OF_BORDER_MS = 250


def at_100_rows_a_second(stream: LowLatencyMemoryStream, query: Any, batches: int) -> list[Any]:
    """Add rows until so many batches have had rows; returns their reports without the first one."""
    while len(with_rows := [report for report in query.recentProgress if report["numInputRows"]]) <= batches:
        assert query.isActive, query.exception()
        for _ in range(50):  # to ask Spark for its reports takes longer than a row may wait
            time.sleep(0.01)
            stream.add_data([(round(time.time() * 1000), 1)])
    query.stop()
    return with_rows[1:]


def ages(session: Any, batches: int, trigger: str, counts: bool) -> dict[str, Any]:  # (1), (3)
    stream = LowLatencyMemoryStream(session, "added long, v int")
    rows = stream.to_df().where("v > 0")
    if counts:
        rows = rows.groupBy(F.expr("added % 10").alias("k")).agg(F.count("*").alias("n"), F.max("added").alias("added"))
    within = f"CASE WHEN since >= {OF_BORDER_MS} THEN age END"  # observed metrics take no FILTER
    metrics = [f"percentile({of}, array(0.5, 0.99)) AS {name}" for name, of in (("whole", "age"), ("within", within))]
    metrics += ["max(age) AS max", f"max({within}) AS max_within"]
    rows = rows.selectExpr(f"{NOW} - added AS age", SINCE).observe("ages", *map(F.expr, metrics))
    write: Any = rows.writeStream.outputMode("update").format("noop")
    reports = at_100_rows_a_second(stream, write.trigger(realTime=trigger).start(), batches)
    found = [report["observedMetrics"]["ages"] for report in reports]
    return {
        "p50_ms": statistics.median(one["whole"][0] for one in found), "p99_ms": statistics.median(one["whole"][1] for one in found),
        "max_ms": max(one["max"] for one in found), "within_p50_ms": statistics.median(one["within"][0] for one in found),
        "within_p99_ms": statistics.median(one["within"][1] for one in found), "within_max_ms": max(one["max_within"] for one in found),
        "border_ms": statistics.median(border_ms(report, trigger) for report in reports),
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


def rows_a_second(session: Any, number: int, keys: int = 0) -> float:  # (4)
    stream = LowLatencyMemoryStream(session, "added long, v int")
    stream.add_data([(i, 1) for i in range(number)])
    rows = stream.to_df().where("v > 0")
    rows = rows.groupBy(F.expr(f"added % {keys}").alias("k")).count() if keys else rows.selectExpr("added * 2 AS twice")
    rows = rows.observe("clock", F.expr(f"max({NOW})").alias("last"), F.expr(f"min({NOW})").alias("first"))
    write: Any = rows.writeStream.outputMode("update").format("noop")
    query = write.trigger(realTime="10 seconds").start()
    while not any(report["numInputRows"] for report in query.recentProgress):
        assert query.isActive, query.exception()
        time.sleep(0.1)
    query.stop()
    report = next(report for report in query.recentProgress if report["numInputRows"])
    clock = report["observedMetrics"]["clock"]
    return round(1000 * report["numInputRows"] / max(1, clock["last"] - clock["first"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--trigger", default="8 seconds")
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
    spark = builder.config(f"{MODE}.allowlistCheck", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    engines = {"model": MiniSparkSession(spark), "spark": spark}
    found = {engine: ages(session, given.batches, given.trigger, counts=False) for engine, session in engines.items()}
    found |= {f"{engine}, count": ages(session, given.batches, given.trigger, counts=True) for engine, session in engines.items()}
    found["model, at the sink"] = ages_at_the_sink(engines["model"], given.batches, given.trigger)
    for engine, session in engines.items():
        found[engine]["rows_a_second"] = rows_a_second(session, given.rows)
        found[f"{engine}, count"] |= {f"rows_a_second_{keys}_keys": rows_a_second(session, given.rows, keys) for keys in (1000, 1)}
    for name, values in found.items():
        print(f"{name:20}", json.dumps(values))
    return int(found["model"]["p50_ms"] > MEDIAN_BOUND_MS)


if __name__ == "__main__":
    sys.exit(main())
