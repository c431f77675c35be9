"""Kafka in real-time mode: records from topic to topic, on both engines in turn."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.kafka_broker import Kafka


def test_records_go_from_topic_to_topic(spark: SparkSession, mini: MiniSparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """The model and Spark take turns; a new partition is found at the next batch, and each record is written once."""
    kafka.create({"now": 1, "then": 1})
    address = {"kafka.bootstrap.servers": kafka.address}

    def start(session: Any) -> Any:
        records = session.readStream.format("kafka").options(**address, subscribe="now", startingOffsets="earliest").load()
        upper = records.selectExpr("key", "upper(cast(value AS string)) AS value").where("value <> 'SKIPPED'")
        write: Any = upper.writeStream.outputMode("update").format("kafka").options(**address, topic="then")
        return write.option("checkpointLocation", str(tmp_path)).trigger(realTime="1 second").start()

    def read_up_to(query: Any, *reached: int) -> None:
        """Wait until the last entry of the offset log that is committed says so."""
        end = time.monotonic() + 60
        while True:
            done = [int(path.name) for path in (tmp_path / "commits").glob("[0-9]*")]
            if done and json.loads((tmp_path / f"offsets/{max(done)}").read_text().split("\n")[2])["now"] == {str(i): n for i, n in enumerate(reached)}:
                return
            assert query.isActive, query.exception()
            assert time.monotonic() < end, done
            time.sleep(0.05)

    with confs_set(spark, {"spark.sql.streaming.realTimeMode.minBatchDuration": "1000"}):
        query = start(mini)
        kafka.send("now", 0, "a", "skipped", "b")
        read_up_to(query, 3)
        kafka.grow("now", 2)
        kafka.send("now", 1, "new")
        read_up_to(query, 3, 1)
        query.stop()
        query = start(spark)
        kafka.send("now", 0, "c")
        read_up_to(query, 4, 1)
        query.stop()
        records = mini.readStream.format("kafka").options(**address, subscribe="now", maxOffsetsPerTrigger=5).load()
        writer: Any = records.select("value").writeStream.outputMode("update").format("console")
        with pytest.raises(StreamingQueryException, match="maxOffsetsPerTrigger is not compatible with real time mode"):
            writer.trigger(realTime="1 second").start().awaitTermination(60)
    assert (tmp_path / "sources/0/0").exists()
    written = spark.read.format("kafka").options(**address, subscribe="then").load()
    assert sorted(bytes(row.value).decode() for row in written.collect()) == ["A", "B", "C", "NEW"]
