"""Kafka's own clients in the driver's JVM, for the continuous engine: one reads a partition, one writes rows to topics.

    reader = KafkaPartitionReader(session, params, group, ("clicks", 0), 5, False)    reads clicks-0 from record 5 on
    reader.poll(512)                                       what arrives within 512 ms, as an Arrow stream
    writer = KafkaRowWriters(session, options, schema).create(0)
    writer.write(stream)                                   sends the rows of an Arrow stream
    writer.commit()                                        waits until Kafka has them all

However many records there are, a poll or a write takes only a few calls from Python to the JVM: the connector's own functions
turn records into rows and rows into records, and Spark's own functions turn rows into Arrow and Arrow into rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions
from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.jvm.scala import JavaObject, as_scala, bytes_of, companion, java_class, java_map
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.extras.jvm.kafka import KafkaException, kafka_table

_MANY = 1 << 30  # rows, or bytes, in one batch of Arrow
_RECORDS_OF_A_POLL = "5000"  # at most, instead of Kafka's 500: the calls that a poll takes are then shared by more records


class KafkaPartitionReader:
    """A consumer of one partition.

    Args:
        params: the options `kafka.*` without this prefix.
        group: the prefix of the consumer group's name.
        partition: its topic and its number.
        offset: the offset of the first record to read.
        with_headers: whether the rows have the column `headers`.
    """

    def __init__(
        self, session: SparkSession, params: Mapping[str, str], group: str, partition: tuple[str, int], offset: int,
        with_headers: bool,
    ):
        self._session = session
        self.group = f"{group}-executor"
        self._partition = java_class(session, EXTRAS["TopicPartition"])(*partition)
        self._only = java_class(session, "java.util.Collections").singletonList(self._partition)
        provider = java_class(session, EXTRAS["KafkaSourceProvider"])
        given = java_map(session, {"max.poll.records": _RECORDS_OF_A_POLL, **params})
        of_a_task = provider.kafkaParamsForExecutors(given, group)
        self._consumer = java_class(session, EXTRAS["KafkaConsumer"])(of_a_task)
        self._consumer.assign(self._only)
        self.seek(offset)
        records = java_class(session, EXTRAS["KafkaRecordToRowConverter"])
        self._schema = records.kafkaSchema(with_headers)
        self._as_row = records().toInternalRowWithHeaders() if with_headers else records().toInternalRowWithoutHeaders()
        self._time_zone = str(session.conf.get("spark.sql.session.timeZone"))

    def seek(self, offset: int) -> None:
        self._consumer.seek(self._partition, offset)

    def poll(self, timeout_ms: int) -> bytes | None:
        """The records that arrive within this time, as an Arrow stream; None if there are none.

        Raises:
            OffsetOutOfRange: there is no record with this offset, and the next record will not have it either.
            KafkaException: anything else that Kafka reports.
        """
        try:
            duration = java_class(self._session, "java.time.Duration").ofMillis(timeout_ms)
            records = self._consumer.poll(duration)
        except JavaError as e:
            name = e.java_exception.getClass().getSimpleName()
            raise (OffsetOutOfRange if name == "OffsetOutOfRangeException" else KafkaException).of(e) from e
        if records.isEmpty():
            return None
        rows = as_scala(self._session, records.iterator()).map(self._as_row)
        arrow = companion(self._session, EXTRAS["ArrowConverters"])
        batches = arrow.toBatchWithSchemaIterator(rows, self._schema, _MANY, _MANY, self._time_zone, True, False)
        return bytes_of(self._session, batches)

    def offset(self) -> int:
        """The offset of the next record to read."""
        return int(self._consumer.position(self._partition))

    def available(self) -> tuple[int, int]:
        """Where the partition begins, and where it ends."""
        first, end = self._consumer.beginningOffsets(self._only), self._consumer.endOffsets(self._only)
        return int(first.get(self._partition)), int(end.get(self._partition))

    def wake_up(self) -> None:
        """End a poll in which another thread waits."""
        self._consumer.wakeup()

    def close(self) -> None:
        self._consumer.close()


class OffsetOutOfRange(KafkaException):
    """A record that Kafka does not have."""


class KafkaRowWriters:
    """Makes writers of rows for a table of Kafka's (`kafka_table`).

    Raises:
        AnalysisException, IllegalArgumentException: the columns or options are not what the connector requires.
    """

    def __init__(self, session: SparkSession, options: Mapping[str, str], schema: StructType):
        self._session = session
        info = java_class(session, EXTRAS["LogicalWriteInfoImpl"])(
            "", expressions.java_schema(session, schema), case_insensitive(session, options), _absent(session), _absent(session)
        )
        table = kafka_table(session, options).table()
        self._factory = table.newWriteBuilder(info).build().toBatch().createBatchWriterFactory(None)

    def create(self, partition_id: int) -> KafkaRowWriter:
        return KafkaRowWriter(self._session, self._factory.createWriter(partition_id, 0))


class KafkaRowWriter:
    """Sends rows to Kafka with the connector's KafkaDataWriter. `write` and `commit` raise KafkaException."""

    def __init__(self, session: SparkSession, writer: JavaObject):
        self._session, self._writer = session, writer

    def write(self, stream: bytes) -> None:
        """Send the rows of an Arrow stream, without waiting for Kafka's answers."""
        arrow = companion(self._session, EXTRAS["ArrowConverters"])
        rows = arrow.fromIPCStream(stream)._1()
        try:
            self._writer.writeAll(java_class(self._session, "scala.jdk.javaapi.CollectionConverters").asJava(rows))
        except JavaError as e:
            raise KafkaException.of(e) from e
        finally:
            rows.close()

    def commit(self) -> None:
        """Wait until Kafka has all rows."""
        try:
            self._writer.commit()
        except JavaError as e:
            raise KafkaException.of(e) from e

    def close(self) -> None:
        self._writer.close()


def _absent(session: SparkSession) -> JavaObject:
    return java_class(session, "java.util.Optional").empty()
