"""The code that ran, of a query whose tasks run in Python workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession


def test_the_step_of_an_operator_has_what_its_tasks_ran(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"ts": "2026-03-01 12:02:00"}\n')
    events = MiniSparkSession(spark, trace="code").readStream.schema("ts timestamp").json(str(tmp_path / "in"))
    counts = events.withWatermark("ts", "10 minutes").groupBy(F.window("ts", "5 minutes")).count()
    before = set(_accumulatorRegistry)
    writer = counts.writeStream.outputMode("update").format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query: Any = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    operator, planning = (str(query.trace.code(batch=0, step=step)) for step in ("stateOperator", "queryPlanning"))
    assert operator.index("old_rows(self, store") < operator.index("def put(self") < operator.index("def commit(self")
    assert "def plan_batch(self" in planning and "def old_rows" not in planning
    assert set(_accumulatorRegistry) <= before
