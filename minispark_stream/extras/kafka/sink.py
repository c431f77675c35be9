"""kafka: each row becomes a record of a Kafka topic.

Models: KafkaWrite, KafkaStreamingWrite, KafkaDataWriter, KafkaWriteTask (Sink document, "Kafka"; Continuous processing).

1. The columns have fixed names: `value` (string or binary) is required; `key`, `headers`, `partition` are optional. The topic
   is the option `topic`, or else the column `topic`.
2. The tasks send their rows and wait for the answers. Nothing marks a batch as written: a batch that is run again is sent
   again, so the guarantee is *at least once*.
3. In continuous mode a row is sent as soon as it arrives. At the end of an epoch the task waits until Kafka has all its rows.

    key  value  topic                      option topic not set
    a    1      counts     ->   counts     record (a, 1)
    b    2      other      ->   other      record (b, 2)

In every output mode rows are only added: update sends the groups of which the batch had a row, complete sends all rows again
in each batch.

Differs from Spark: in continuous mode, the rows go from the tasks to the driver's JVM, where Kafka's client is, and are sent
from there; Spark's tasks are in the JVM, and send the rows themselves.
Shown by tests/conformance/test_kafka.py::test_epochs_from_topic_to_topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.builders import short_name
from minispark_stream.engine.sinks.base import Sink, StreamingWrite
from minispark_stream.engine.sinks.packed_rows import packed
from minispark_stream.extras.jvm.kafka import append, kafka_table
from minispark_stream.extras.jvm.kafka_clients import KafkaRowWriter, KafkaRowWriters
from minispark_stream.extras.rpc import RpcEndpoint, RpcEndpointRef


class KafkaSink(Sink):
    """`writeStream.format("kafka").options(options)`; names in lower case.

    Raises:
        AnalysisException: Spark runs without the Kafka connector.
        PySparkException: (from `add_batch` and `streaming_write`) an option or the columns are not what Spark requires, or
            (from `add_batch`) Kafka does not accept a row.
    """

    supports_continuous = True
    writer = "KafkaStreamingWrite"

    def __init__(self, session: SparkSession, options: Mapping[str, str]):
        short_name(session, "kafka")  # without the connector, there is no such data source
        self._options = dict(options)
        self.description = str(kafka_table(session, options).table().toString())

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        return append(data.sparkSession, kafka_table(data.sparkSession, self._options), data)  # (2)

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        writers = _Writers(KafkaRowWriters(session, self._options, schema))  # (1)
        endpoint = RpcEndpoint(sessions.driver_host(session), writers.receive)

        def stop() -> None:
            endpoint.stop()
            writers.close()

        return StreamingWrite(_EpochWriter(endpoint.ref), stop=stop)


@dataclass(frozen=True)
class SendRows:
    """Rows for Kafka, as an Arrow stream."""

    partition_id: int
    rows: bytes


@dataclass(frozen=True)
class FlushRows:
    """The epoch of a partition ends; the answer comes when Kafka has its rows."""

    partition_id: int


@dataclass
class _EpochWriter:
    """What a task does with the rows of an epoch; it has one connection to the driver for all of them."""

    endpoint: RpcEndpointRef
    connected: RpcEndpointRef | None = None

    def __call__(self, partition_id: int, epoch_id: int, batches: Iterator[pa.RecordBatch]) -> None:  # (3)
        self.connected = self.connected or self.endpoint.connect()
        for batch in batches:
            self.connected.ask(SendRows(partition_id, packed([batch])))
        self.connected.ask(FlushRows(partition_id))


class _Writers:
    """What the driver keeps: a writer for each partition that has sent rows in its epoch."""

    def __init__(self, writers: KafkaRowWriters):
        self._create = writers.create
        self._open: dict[int, KafkaRowWriter] = {}

    def receive(self, message: SendRows | FlushRows) -> None:
        match message:
            case SendRows(partition, rows):
                if partition not in self._open:
                    self._open[partition] = self._create(partition)
                self._open[partition].write(rows)
            case FlushRows(partition) if partition in self._open:
                self._open[partition].commit()
                self._open.pop(partition).close()

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()
