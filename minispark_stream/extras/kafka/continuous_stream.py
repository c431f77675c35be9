"""kafka for the continuous engine: each partition of a topic is read by a task of its own, without an end.

Models: KafkaContinuousStream, KafkaContinuousPartitionReader (Continuous processing; Source document, "Kafka").

1. A new query reads each partition from where `startingOffsets` says. Nothing is written into `sources/`: the first entry of
   the offset log is that of an epoch that has been read.
2. A partition that a restart does not find in the log is new, and is read from its beginning. One that is gone is data loss.
3. A task asks the driver for records. The driver has a Kafka consumer for each partition, which waits for records for at most
   `kafkaConsumer.pollTimeoutMs`.
4. The offset after a record is its number plus one. The offset of the stream has the same form as in micro-batches.
5. When Kafka does not have a record any more, the query fails. With `failOnDataLoss` false, it continues with the first record
   that exists.
6. Topics and partitions are looked up again for each epoch. When they have changed, the job is restarted.

    clicks-0   a@0 b@1 ┊ c@2       offsets/0 {"clicks":{"0":2,"1":1}}
    clicks-1   d@0 ┊               offsets/1 {"clicks":{"0":3,"1":1}}

The limits of a batch (`maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `minPartitions`) are ignored, as in Spark.

Differs from Spark: the consumers are in the driver's JVM, where Kafka's client is, and the records go from there to the
tasks; Spark's tasks run in a JVM, and read the records themselves.
Shown by tests/conformance/test_kafka.py::test_epochs_from_topic_to_topic.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.sources.base import MOST_ROWS, ContinuousInputPartition, ContinuousStream, Offset
from minispark_stream.extras.jvm.kafka_clients import KafkaPartitionReader, OffsetOutOfRange
from minispark_stream.extras.kafka.offset_reader import KafkaOffsetReader, report_data_loss, scala_set
from minispark_stream.extras.kafka.offsets import TopicPartition, from_json, offsets_to_json
from minispark_stream.extras.kafka.options import KafkaOptions
from minispark_stream.extras.rpc import RpcEndpoint, RpcEndpointRef

_LOOK_AGAIN_S = 0.1  # before another look for a record that is still to come
_NO_END = 2**63 - 1
_OF_BATCHES = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")


@dataclass(frozen=True)
class KafkaContinuousInputPartition(ContinuousInputPartition):
    """`start_offset` is the number of the first record to read; `endpoint` is that of the partition's consumer."""

    start_offset: int
    endpoint: RpcEndpointRef

    def read(self, stopped: threading.Event) -> Iterator[tuple[pa.RecordBatch, Any]]:  # (3), (4)
        try:
            endpoint = self.endpoint.connect()
            while not stopped.is_set():
                records = endpoint.ask("poll")
                if records is not None:
                    for batch in pa.ipc.open_stream(records).read_all().to_batches(MOST_ROWS):
                        yield batch, batch.column("offset")[-1].as_py() + 1
        except (OSError, EOFError):  # the driver has stopped the stream
            stopped.set()


class KafkaContinuousStream(ContinuousStream):
    """The source of one query.

    Args:
        longest_poll_ms: a task that is told to end may have to wait for so long.

    Raises:
        IllegalArgumentException: the value of an option cannot be understood.
        KafkaException: (from its methods) Kafka does not answer, or data is lost.
    """

    def __init__(self, session: SparkSession, options: Mapping[str, str], longest_poll_ms: int = 2**31 - 1):
        self._session = session
        self._options = KafkaOptions.of(session, {k: v for k, v in options.items() if k not in _OF_BATCHES})
        given = case_insensitive(session, options)
        self._poll_timeout_ms = min(given.getLong("kafkaConsumer.pollTimeoutMs", 512), longest_poll_ms)
        self._with_headers = given.getBoolean("includeHeaders", False)
        self._params = {k.removeprefix("kafka."): v for k, v in options.items() if k.startswith("kafka.")}
        self._group = f"{options.get('groupidprefix', 'spark-kafka-source')}-{uuid.uuid4()}"
        self._offsets = KafkaOffsetReader(session, self._params, self._options)
        self._consumers: dict[TopicPartition, _Consumer] = {}  # in the order of the tasks
        self.description = f"KafkaSource[{self._options.strategy}]"

    def initial_offset(self) -> Offset:  # (1)
        return offsets_to_json(self._session, self._offsets.fetch_starting(self._options.starting))

    def plan_input_partitions(self, start: Offset) -> list[KafkaContinuousInputPartition]:  # (2)
        self._close_consumers()
        offsets = from_json(self._session, start)
        there = self._offsets.fetch_partitions()
        if deleted := [one for one in offsets if one not in there]:
            self._report_deleted(deleted)
        earliest = self._offsets.fetch_earliest([one for one in there if one not in offsets])
        begins = {one: offset for one, offset in sorted({**offsets, **earliest}.items()) if one not in deleted}
        self._consumers = {one: self._consumer(one, offset) for one, offset in begins.items()}
        return [KafkaContinuousInputPartition(begins[one], consumer.ref) for one, consumer in self._consumers.items()]

    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        return offsets_to_json(self._session, {one: offsets[i] for i, one in enumerate(self._consumers)})

    def needs_reconfiguration(self) -> bool:  # (6)
        return self._offsets.fetch_partitions() != self._consumers.keys()

    def stop_reading(self) -> None:
        """Let the tasks that read end, while the query still runs on another thread."""
        for consumer in list(self._consumers.values()):
            consumer.stop()

    def stop(self) -> None:
        self._close_consumers()
        self._offsets.close()

    def _consumer(self, partition: TopicPartition, offset: int) -> _Consumer:
        reader = KafkaPartitionReader(self._session, self._params, self._group, partition, offset, self._with_headers)
        return _Consumer(self._session, partition, reader, self._poll_timeout_ms, self._options.fail_on_data_loss)

    def _close_consumers(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def _report_deleted(self, deleted: list[TopicPartition]) -> None:
        condition, parameters = "PARTITIONS_DELETED", {"partitions": scala_set(deleted)}
        if "group.id" in self._params:
            condition += "_AND_GROUP_ID_CONFIG_PRESENT"
            parameters["groupIdConfig"] = "group.id"
        report_data_loss(self._session, self._options.fail_on_data_loss, condition, **parameters)


class _Consumer:
    """What the driver keeps for one partition: a consumer, and the endpoint at which its task asks for records."""

    def __init__(
        self, session: SparkSession, partition: TopicPartition, reader: KafkaPartitionReader, timeout_ms: int, fails: bool
    ):
        self._session, self._partition, self._reader = session, partition, reader
        self._timeout_ms, self._fail_on_data_loss = timeout_ms, fails
        self._closing = threading.Event()
        self._endpoint = RpcEndpoint(sessions.driver_host(session), self._poll)
        self.ref = self._endpoint.ref

    def stop(self) -> None:
        """Do not answer any more."""
        self._closing.set()
        self._reader.wake_up()
        self._endpoint.stop()

    def close(self) -> None:
        self.stop()
        self._reader.close()

    def _poll(self, message: str) -> bytes | None:
        try:
            return self._reader.poll(self._timeout_ms)
        except OffsetOutOfRange:  # (5)
            wanted, (first, end) = self._reader.offset(), self._reader.available()
            if not first <= wanted <= end:
                report_data_loss(
                    self._session, self._fail_on_data_loss, "COULD_NOT_READ_OFFSET_RANGE", startOffset=str(wanted),
                    endOffset=str(_NO_END), topicPartition=str(self._partition), groupId=self._reader.group,
                )
                if wanted < first:
                    self._reader.seek(first)
                else:
                    self._closing.wait(_LOOK_AGAIN_S)
            return None
