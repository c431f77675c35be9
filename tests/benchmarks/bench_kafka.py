"""How many rows a second go through one partition of a Kafka topic? Continuous processing and micro-batches, on both engines.

A broker is started on this machine, and a topic of one partition is filled. Each variant reads it from its beginning, with a filter
and a projection, into `noop` or into a second topic. Its rows a second are those between the first commit and the last. The
first line is Kafka's own client, called from Python, which reads the same topic without a query.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.engine.jvm.scala import jvm
from tests.conformance.kafka_broker import Broker, Kafka
from tests.connectors import KAFKA_BROKER, download, kafka_connector

IN, OUT = "numbers", "twice"
CONTINUOUS, BATCHES = {"continuous": "500 milliseconds"}, {"processingTime": "0 seconds"}


def fill(spark: SparkSession, address: str, rows: int) -> None:
    """Rows of some 40 bytes in the partition 0 of the topic."""
    made = spark.range(rows).selectExpr("CAST(id AS string) AS key", "concat('a reading of sensor ', id) AS value")
    made.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", IN).save()


def by_a_client(spark: SparkSession, address: str, rows: int) -> float:
    """Rows a second that a consumer of Kafka's reads."""
    java = jvm(spark)
    bytes_ = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    settings = {"bootstrap.servers": address, "key.deserializer": bytes_, "value.deserializer": bytes_}
    consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(java.java.util.HashMap(settings))
    partitions = java.java.util.Collections.singletonList(java.org.apache.kafka.common.TopicPartition(IN, 0))
    consumer.assign(partitions)
    consumer.seekToBeginning(partitions)
    began, read = time.monotonic(), 0
    while read < rows:
        read += consumer.poll(java.java.time.Duration.ofMillis(500)).count()
    consumer.close()
    return rows / (time.monotonic() - began)


def through_a_query(session: Any, address: str, trigger: dict[str, str], rows: int, into: str, directory: Path) -> float:
    source = session.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", IN)
    stream = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows // 8).load()
    stream = stream.where("offset % 10 <> 0").selectExpr("CAST(key AS string) AS key", "upper(CAST(value AS string)) AS value")
    write = stream.writeStream.format(into).option("checkpointLocation", str(directory)).trigger(**trigger)
    if into == "kafka":
        write = write.option("kafka.bootstrap.servers", address).option("topic", OUT)
    query = write.start()
    seen: list[tuple[float, int]] = []  # when a commit was written, and how far it reaches
    while not seen or seen[-1][1] < rows:
        query.awaitTermination(0.05)
        if commits := [int(p.name) for p in (directory / "commits").glob("*") if p.name.isdigit()]:
            newest = str(max(commits))
            offset = json.loads((directory / "offsets" / newest).read_text().split("\n")[-1])
            seen.append(((directory / "commits" / newest).stat().st_mtime, offset[IN]["0"]))
    query.stop()
    (began, before), (ended, after) = next(one for one in seen if one[1] > 0), seen[-1]
    return (after - before) / (ended - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000)
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").config("spark.jars", kafka_connector()).getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    engines: dict[str, Any] = {"model": MiniSparkSession(spark), "spark": spark}
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "kafka", download(KAFKA_BROKER))
        broker.start()
        kafka = Kafka(spark, broker)
        kafka.create({IN: 1, OUT: 1})
        fill(spark, broker.address, arguments.rows)
        print(f"{'':24}{'rows a second':>16}   (one partition)")
        print(f"{'Kafka client':24}{by_a_client(spark, broker.address, arguments.rows):16,.0f}", flush=True)
        for into in ("noop", "kafka"):
            for name, session in engines.items():
                for kind, trigger in (("continuous", CONTINUOUS), ("micro-batch", BATCHES)):
                    checkpoint = Path(folder) / f"{into}-{name}-{kind}"
                    rate = through_a_query(session, broker.address, trigger, arguments.rows, into, checkpoint)
                    print(f"{f'{name}, {kind}, {into}':24}{rate:16,.0f}", flush=True)
        kafka.close()
        broker.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
