"""What it costs to plan a batch, on both engines: `python -m tests.benchmarks.bench_planning`.

`queryPlanning` of a progress report is the time from the new rows of the sources to a plan that can be executed; what runs it counts as
`addBatch`, which is beside it. Three small queries: a filter and a projection, a windowed count, and a stream joined with a table, which is
planned from its analysed plan in every batch. The engines take turns, a run of 40 triggers each; the first ten do not count.
`... bench_planning table` measures one of them (stateless, windows, table).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.benchmarks.workloads import Workload, events, reports_with_data, spark_session

ROWS, TRIGGERS, WARM_UP = 100, 40, 10


def small(name: str, query: Any) -> Workload:
    return Workload(name, "", ROWS, lambda n, rows, rng: events(n, rows, rng, keys=10), query, goal=1.0, triggers=TRIGGERS)


def stateless(of: Mapping[str, DataFrame]) -> DataFrame:
    return of["events"].where("value > 10").select("key", F.col("value") * 2)


def windows(of: Mapping[str, DataFrame]) -> DataFrame:
    return of["events"].withWatermark("time", "10 minutes").groupBy(F.window("time", "5 minutes"), "key").count()


def with_table(spark: SparkSession, folder: Path) -> Any:
    """The name of each key, from a table of ten rows."""
    spark.range(10).selectExpr("id AS key", "CAST(id AS STRING) AS name").write.parquet(str(folder))
    return lambda of: of["events"].join(spark.read.parquet(str(folder)), "key")


def phases(workload: Workload, session: Any, folder: Path, checkpoint: str) -> tuple[list[int], list[int]]:
    """queryPlanning and addBatch of each warm batch, in milliseconds."""
    query = workload.start(session, folder / "in", folder / checkpoint, availableNow=True)
    query.awaitTermination()
    reports = [one["durationMs"] for one in reports_with_data(query)][WARM_UP:]
    assert len(reports) == TRIGGERS - WARM_UP, len(reports)
    return [one["queryPlanning"] for one in reports], [one["addBatch"] for one in reports]


def main(*names: str) -> None:
    spark = spark_session()
    engines = {"Spark": spark, "the model": MiniSparkSession(spark, trace="off")}
    print(f"{'':10}{'':12}{'queryPlanning':>15}{'addBatch':>10}   (ms, medians of {TRIGGERS - WARM_UP} warm batches)")
    with tempfile.TemporaryDirectory() as scratch:
        table = with_table(spark, Path(scratch, "table"))
        for workload in (small("stateless", stateless), small("windows", windows), small("table", table)):
            if names and workload.name not in names:
                continue
            folder = Path(scratch, workload.name)
            workload.write(folder / "in")
            for turn in range(2):  # the first turn is there for the JVM to compile its code
                found = {name: phases(workload, session, folder, f"{name}-{turn}") for name, session in engines.items()}
            for name, (planning, adding) in found.items():
                print(f"{workload.name:10}{name:12}{statistics.median(planning):15,.0f}{statistics.median(adding):10,.0f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
