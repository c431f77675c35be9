"""What Kafka has: which partitions there are, and where they begin and end.

Models: KafkaOffsetReaderAdmin, ConsumerStrategy (Source document, "Kafka").

1. The partitions are looked up each time, because topics and partitions may come and go while a query runs.
2. Kafka's Admin client says where a partition begins, where it ends, or which of its records is the first one at or after a
   given time.
3. Anything may fail for a moment (a broker restarts, a topic is being deleted). So there are three attempts
   (`fetchOffset.numRetries`), one second apart (`fetchOffset.retryIntervalMs`), each with a new client.

    clicks-0  [ 2 … 9 ]    earliest 2, latest 10
    clicks-1  [ ]          earliest 0, latest 0

The Admin client is that of kafka-clients, which comes with Spark's Kafka connector; it runs in the driver's JVM. `stop()` does
not interrupt a request; the request ends after `kafka.default.api.timeout.ms` at the latest.

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm.errors import JavaError, illegal_argument
from minispark_stream.engine.jvm.scala import JavaObject, java_class, java_map
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.extras.jvm.kafka import KafkaException
from minispark_stream.extras.kafka.offsets import EARLIEST, LATEST, PartitionOffsets, TopicPartition
from minispark_stream.extras.kafka.options import KafkaOptions, StartingOffsets

logger = logging.getLogger(__name__)


def kafka_error(session: SparkSession, condition: str, **parameters: str) -> KafkaException:
    """An error from the connector's own catalogue of conditions (KafkaExceptions)."""
    helper = java_class(session, EXTRAS["KafkaExceptionsHelper"])
    text = helper.errorClassesJsonReader().getErrorMessage(condition, java_map(session, parameters))
    return KafkaException(message=text, errorClass=condition, messageParameters=parameters)


def report_data_loss(session: SparkSession, fails: bool, condition: str, **parameters: str) -> None:
    """Data that is lost `fails` the query, or is only logged."""
    error = kafka_error(session, f"KAFKA_DATA_LOSS.{condition}", **parameters)
    if fails:
        raise error
    logger.warning("%s", error)


class KafkaOffsetReader:
    """Asks Kafka on behalf of one query. `kafka_params` are the options `kafka.*` without this prefix.

    All methods raise KafkaException when Kafka does not answer or does not know a topic.
    """

    def __init__(self, session: SparkSession, kafka_params: dict[str, str], options: KafkaOptions):
        self._session = session
        self._strategy = options.strategy
        self._attempts = options.fetch_attempts
        self._interval_ms = options.retry_interval_ms
        if options.strategy.pattern is not None:
            self._pattern = java_class(session, "java.util.regex.Pattern").compile(options.strategy.pattern)
        # The connector's own defaults, and delegation tokens where the cluster asks for them.
        self.params = java_class(session, EXTRAS["KafkaSourceProvider"]).kafkaParamsForDriver(
            java_map(session, kafka_params)
        )
        self._isolation = kafka_params.get("isolation.level", "read_uncommitted").upper()
        self._admin: JavaObject | None = None
        self._java_partitions: dict[TopicPartition, JavaObject] = {}

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # -- what is asked ----------------------------------------------------------------------------------

    def fetch_starting(self, starting: StartingOffsets) -> PartitionOffsets:
        """Where a new query begins.

        Raises:
            AssertionError: offsets are given, but not for exactly the partitions that exist.
            KafkaException: timestamps are given, but not for exactly the partitions that exist.
            IllegalArgumentException: there is no record at or after a timestamp.
        """
        if starting.everywhere is not None:
            spec = EARLIEST if starting.everywhere == "earliest" else LATEST
            return self._with_retries(lambda there: self._list(dict.fromkeys(there, spec)))
        return self._with_retries(lambda there: self._resolve(self._specific(starting, there)))

    def fetch_latest(self, known: PartitionOffsets) -> PartitionOffsets:
        """Where the partitions end. If an answer is before what is `known`, Kafka is asked again."""

        def ask(there: Collection[TopicPartition]) -> PartitionOffsets:
            latest: PartitionOffsets = {}
            for attempt in range(self._attempts):
                latest = self._list(dict.fromkeys(there, LATEST))
                wrong = [str(one) for one, offset in latest.items() if known.get(one, offset) > offset]
                if not wrong:
                    break
                logger.warning("Found incorrect offsets in some partitions: %s", ", ".join(wrong))
                if attempt + 1 < self._attempts:
                    self._pause()
            return latest

        return self._with_retries(ask)

    def fetch_partitions(self) -> set[TopicPartition]:
        """The partitions that exist."""
        return set(self._with_retries(lambda there: dict.fromkeys(there, LATEST)))

    def fetch_earliest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Where some partitions begin; those that are gone are left out."""
        if not partitions:
            return {}
        return self._with_retries(lambda there: self._list({one: EARLIEST for one in partitions if one in there}))

    # -- how ----------------------------------------------------------------------------------------------

    def _partitions(self) -> list[TopicPartition]:  # (1)
        admin = self._connected()
        topics: Iterable[str] = self._strategy.topics
        if self._strategy.pattern is not None:
            listings = java_class(self._session, "java.util.ArrayList")(admin.listTopics().listings().get())
            names = [listing.name() for listing in listings]
            topics = [name for name in names if self._pattern.matcher(name).find()]
        described = admin.describeTopics(list(topics)).allTopicNames().get()
        found = [
            TopicPartition(topic, info.partition())
            for topic, description in described.items()
            if not description.isInternal()
            for info in description.partitions()
        ]
        chosen = self._strategy.partitions
        return sorted(one for one in found if chosen is None or one in chosen)

    def _list(self, asked: PartitionOffsets, by_time: bool = False) -> PartitionOffsets:  # (2)
        """Offsets by Kafka's `listOffsets`; `asked` says EARLIEST or LATEST, or with `by_time` the times in ms."""
        if not asked:
            return {}
        specs = java_class(self._session, EXTRAS["OffsetSpec"])
        wanted = java_class(self._session, "java.util.HashMap")()
        for one, value in asked.items():
            spec = specs.forTimestamp(value) if by_time else specs.latest() if value == LATEST else specs.earliest()
            wanted.put(self._java(one), spec)
        level = java_class(self._session, EXTRAS["IsolationLevel"]).valueOf(self._isolation)
        options = java_class(self._session, EXTRAS["ListOffsetsOptions"])(level)
        answer = self._connected().listOffsets(wanted, options)
        answer.all().get()
        return {one: answer.partitionResult(self._java(one)).get().offset() for one in asked}

    def _specific(self, starting: StartingOffsets, there: Collection[TopicPartition]) -> PartitionOffsets:
        """What `starting` says for each partition: an offset, LATEST or EARLIEST."""
        if starting.offsets is not None:
            if set(there) != set(starting.offsets):
                raise AssertionError(
                    "assertion failed: If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
                    "Use -1 for latest, -2 for earliest, if you don't care.\n"
                    f"Specified: {scala_set(starting.offsets)} Assigned: {scala_set(there)}"
                )
            return starting.offsets
        times_ms = starting.timestamps_ms
        if times_ms is None:
            assert starting.timestamp_ms is not None
            times_ms = dict.fromkeys(there, starting.timestamp_ms)
        elif set(there) != set(times_ms):
            raise kafka_error(
                self._session, "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED", position="start",
                specifiedPartitions=scala_set(times_ms), assignedPartitions=scala_set(there),
            )
        found = self._list(times_ms, by_time=True)
        for one, offset in found.items():
            if offset == -1 and not starting.latest_if_no_match:
                raise illegal_argument(
                    f"No offset matched from request of topic-partition {one} and timestamp {times_ms[one]}."
                )
        return found  # -1, "no record that late", is LATEST at the same time

    def _resolve(self, offsets: PartitionOffsets) -> PartitionOffsets:
        return {**offsets, **self._list({one: o for one, o in offsets.items() if o in (EARLIEST, LATEST)})}

    def _with_retries(self, ask: Callable[[Collection[TopicPartition]], PartitionOffsets]) -> PartitionOffsets:  # (3)
        error: Exception = RuntimeError("fetchOffset.numRetries allows no attempt")
        for _ in range(self._attempts):
            try:
                return ask(self._partitions())
            except JavaError as e:
                error = KafkaException.of(e)
            except Exception as e:
                error = e
            logger.warning("Error in an attempt to get Kafka offsets: %s", error)
            self._pause()
            self.close()
        raise error

    def _pause(self) -> None:
        time.sleep(self._interval_ms / 1000)  # not the engine's clock: the broker needs real time

    def _connected(self) -> Any:
        if self._admin is None:
            self._admin = java_class(self._session, EXTRAS["Admin"]).create(self.params)
        return self._admin

    def _java(self, one: TopicPartition) -> JavaObject:
        if one not in self._java_partitions:
            self._java_partitions[one] = java_class(self._session, EXTRAS["TopicPartition"])(*one)
        return self._java_partitions[one]


def scala_set(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Spark's messages show a set of them."""
    names = [str(one) for one in sorted(partitions)]
    return f"{'Set' if len(names) < 5 else 'HashSet'}({', '.join(names)})"


def scala_map(offsets: PartitionOffsets) -> str:
    """Offsets as Spark's messages show a map of them."""
    entries = [f"{one} -> {offset}" for one, offset in sorted(offsets.items())]
    return f"{'Map' if len(entries) < 5 else 'HashMap'}({', '.join(entries)})"
