"""A function that asks for the first rows of a batch: what is above the state reads all of its partition, so the state is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession

KEYS = 30_000  # more than a task hands out at once
QUERIES = {
    "a count": lambda rows: rows.groupBy("k").count(),
    "a count by session": lambda rows: rows.withWatermark("ts", "1 minute").groupBy(F.session_window("ts", "5 seconds"), "k").count(),
}


@pytest.mark.parametrize("name, mode", [("a count", "update"), ("a count", "complete"), ("a count by session", "complete")])
def test_the_next_batch_goes_on_with_all_keys(spark: SparkSession, tmp_path: Path, name: str, mode: str) -> None:
    seen: dict[str, list[Any]] = {}
    for engine, session in (("spark", spark), ("model", MiniSparkSession(spark))):
        into = tmp_path / engine / "in"
        found = seen.setdefault(engine, [])

        def ask(batch: DataFrame, batch_id: int, found: list[Any] = found) -> None:
            found.append(len(batch.take(1)) if batch_id == 0 else [tuple(row) for row in batch.groupBy("count").count().collect()])

        for _ in range(2):
            spark.range(0, KEYS, 1, 1).selectExpr("id AS k", "timestamp_seconds(0) AS ts").write.mode("append").parquet(str(into))
            counts = QUERIES[name](session.readStream.schema("k long, ts timestamp").parquet(str(into)))
            writer = counts.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / engine / "checkpoint"))
            spark.conf.set("spark.sql.shuffle.partitions", 1)
            try:
                query = writer.foreachBatch(ask).trigger(availableNow=True).start()
            finally:
                spark.conf.set("spark.sql.shuffle.partitions", 2)
            query.awaitTermination()
            query.stop()
    assert seen["model"] == seen["spark"] == [1, [(2, KEYS)]]
