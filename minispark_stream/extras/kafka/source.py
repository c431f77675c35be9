"""kafka: the records of Kafka topics. The batches contain each record once, although the query may restart at any time.

Models: KafkaSourceProvider, KafkaMicroBatchStream (Source document, "Kafka").

1. A new query decides where to begin (`startingOffsets`) and writes it into `sources/<i>/0`, before the first batch.
2. Each trigger asks where the partitions end. The batch reads up to there, or less because of `maxOffsetsPerTrigger`. There is
   no batch while fewer than `minOffsetsPerTrigger` records wait and `maxTriggerDelay` has not passed. A run with `availableNow`
   asks once.
3. A batch is a range [start, end) of each partition. A partition that is new since `start` is read from its beginning.
4. What contradicts the offset log is data loss: a partition is gone, ends before its start, or is new but does not begin at
   record 0. Data loss ends the query; with `failOnDataLoss` false, it is only logged.
5. The ranges are read by Spark's batch reader, in tasks. Kafka's own commits and consumer groups play no part.
6. In real-time mode, each partition is read by a task of its own until the batch is over, as in continuous_stream.py. The
   partitions are looked up again for each batch; limits of a batch are refused.

    offsets/0  {"clicks":{"0":5,"1":3}}
    offsets/1  {"clicks":{"0":9,"1":3,"2":4}}    batch 1 reads 5 … 8 of partition 0 and 0 … 3 of partition 2, which is new

Progress reports say how far the query is behind the ends of the partitions (`metrics`).

If partitions of a logged batch are gone when the batch is run again, it fails even with `failOnDataLoss` false, as in Spark.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import (
    ALL_AVAILABLE,
    CompositeReadLimit,
    Offset,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsRealTimeMode,
    SupportsTriggerAvailableNow,
)
from minispark_stream.extras.jvm.kafka import kafka_table
from minispark_stream.extras.kafka.continuous_stream import KafkaContinuousInputPartition, KafkaContinuousStream
from minispark_stream.extras.kafka.offset_reader import (
    KafkaOffsetReader,
    kafka_error,
    report_data_loss,
    scala_map,
    scala_set,
)
from minispark_stream.extras.kafka.offsets import (
    KafkaSourceInitialOffsetWriter,
    PartitionOffsets,
    TopicPartition,
    from_json,
    offsets_to_json,
    rate_limit,
)
from minispark_stream.extras.kafka.options import KafkaOptions, validated_schema

# Options that mean the same to a batch reader; `kafka.*` goes with them.
_OF_THE_READER = (
    "failondataloss", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix", "includeheaders",
    "kafkaconsumer.polltimeoutms", "maxrecordsperpartition", "minpartitions",
)

_POLL_MS = 20  # in real-time mode, a batch should not last much longer than it is told to


def kafka_relation(
    spark: SparkSession, schema: StructType | None, options: Mapping[str, str], clock: Clock
) -> StreamingRelation:
    """`readStream.format("kafka").options(options).load()`.

    Args:
        options: those of Spark's Kafka source, with names in lower case.

    Raises:
        AnalysisException: Spark runs without the Kafka connector.
        IllegalArgumentException: an option is missing, is not for streams, or has a value out of range.
    """
    return StreamingRelation(
        "kafka", validated_schema(spark, schema, options),
        lambda session, metadata_path: KafkaMicroBatchStream(session, options, metadata_path, clock),
        create_continuous=lambda session, metadata_path: KafkaContinuousStream(session, options),
    )


class KafkaMicroBatchStream(SupportsTriggerAvailableNow, SupportsRealTimeMode):
    """The source of one query.

    Args:
        metadata_path: the source's folder in the checkpoint.

    Raises:
        IllegalArgumentException: the value of an option cannot be understood.
        KafkaException: (from its methods) Kafka does not answer, or data is lost.
    """

    is_v1 = False

    def __init__(self, session: SparkSession, options: Mapping[str, str], metadata_path: str, clock: Clock):
        self._session = session
        self._given = options
        self._continuous: KafkaContinuousStream | None = None  # who reads in real-time mode
        self._options = KafkaOptions.of(session, options)
        self._clock = clock
        self._reader_options = {k: v for k, v in options.items() if k in _OF_THE_READER or k.startswith("kafka.")}
        params = {k.removeprefix("kafka."): v for k, v in options.items() if k.startswith("kafka.")}
        self._has_group_id = "group.id" in params
        self._reader = KafkaOffsetReader(session, params, self._options)
        self._initial_log = KafkaSourceInitialOffsetWriter(metadata_path)
        self._is_available_now = False
        self._available_now: PartitionOffsets | None = None
        self._latest: PartitionOffsets | None = None
        self._last_trigger_ms = 0
        self.description = f"KafkaV2[{self._options.strategy}]"

    # -- how far? -----------------------------------------------------------------------------------------

    def default_read_limit(self) -> ReadLimit:
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        limits = (
            *((ReadMinRows(least),) if least is not None else ()), *((ReadMaxRows(most),) if most is not None else ()),
        )
        return CompositeReadLimit(limits) if len(limits) > 1 else limits[0] if limits else ALL_AVAILABLE

    def prepare_for_trigger_available_now(self) -> None:
        self._is_available_now = True

    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:  # (2)
        begin = self._start(start)
        if self._available_now is None:
            self._latest = self._reader.fetch_latest(begin)
            if self._is_available_now:
                self._available_now = self._latest
        assert self._latest is not None
        return self._to_json(self._limited(begin, self._latest, limit))

    def report_latest_offset(self) -> Offset | None:
        return self._to_json(self._latest or {})

    def metrics(self, consumed: Offset | None) -> dict[str, str]:
        """The least, greatest and average number of records that waited in a partition when its end was last asked for."""
        if consumed is None or not self._latest:
            return {}
        read = from_json(self._session, consumed)
        behind = [offset - read.get(one, 0) for one, offset in self._latest.items()]
        average = Decimal(str(sum(behind) / len(behind))).quantize(Decimal("0.1"), ROUND_HALF_UP)
        return {
            "avgOffsetsBehindLatest": scala.java_class(self._session, "java.lang.Double").toString(float(average)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "minOffsetsBehindLatest": str(min(behind)),
        }

    def _limited(self, begin: PartitionOffsets, latest: PartitionOffsets, limit: ReadLimit) -> PartitionOffsets:
        limits = limit.limits if isinstance(limit, CompositeReadLimit) else (limit,)
        if any(isinstance(one, ReadAllAvailable) for one in limits):
            return latest
        for one in limits:
            if isinstance(one, ReadMinRows) and self._delay_batch(one.min_rows, begin, latest):
                return begin
        for one in limits:
            if isinstance(one, ReadMaxRows):
                new = [partition for partition in latest if partition not in begin]
                return rate_limit(one.max_rows, begin, latest, self._reader.fetch_earliest(new))
        return latest

    def _delay_batch(self, least: int, begin: PartitionOffsets, latest: PartitionOffsets) -> bool:
        now_ms = self._clock.get_time_millis()
        waiting = sum(offset - begin.get(one, 0) for one, offset in latest.items())
        if waiting < least and now_ms - self._last_trigger_ms < self._options.max_trigger_delay_ms:
            return True
        self._last_trigger_ms = now_ms
        return False

    # -- the batch ----------------------------------------------------------------------------------------

    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:  # (3)
        until = from_json(self._session, end)
        if self._available_now is not None:
            self._verify_available_now(self._available_now, until)
        ranges = {one: span for one, span in self._ranges(self._start(start), until).items() if span[0] < span[1]}
        if not ranges:
            schema = kafka_table(self._session, self._reader_options).schema()
            return plans.rdd_frame(self._session, plans.empty_rows(self._session), schema)
        assigned: dict[str, list[int]] = {}
        for one in ranges:
            assigned.setdefault(one.topic, []).append(one.partition)
        options = {  # (5)
            **self._reader_options,
            "assign": to_json(assigned),
            "startingoffsets": offsets_to_json(self._session, {one: first for one, (first, _) in ranges.items()}),
            "endingoffsets": offsets_to_json(self._session, {one: last for one, (_, last) in ranges.items()}),
        }
        return plans.of_rows(self._session, kafka_table(self._session, options))

    # -- real-time mode (6) ---------------------------------------------------------------------------------

    def plan_input_partitions(self, start: Offset | None) -> list[KafkaContinuousInputPartition]:
        """Raises UnsupportedOperationException: an option asks for a limit, which no task could keep."""
        limits = {
            "maxOffsetsPerTrigger": self._options.max_offsets_per_trigger is not None,
            "minOffsetsPerTrigger": self._options.min_offsets_per_trigger is not None,
            "minpartitions": "minpartitions" in self._given, "endingtimestamp": "endingtimestamp" in self._given,
        }
        if limit := next((name for name, is_given in limits.items() if is_given), None):
            raise UnsupportedOperationException(message=f"{limit} is not compatible with real time mode")
        self._continuous = self._continuous or KafkaContinuousStream(self._session, self._given, _POLL_MS)
        return self._continuous.plan_input_partitions(self._to_json(self._start(start)) or "{}")

    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        assert self._continuous is not None
        return self._continuous.merge_offsets(offsets)

    def stop_reading(self) -> None:
        if self._continuous is not None:
            self._continuous.stop_reading()

    def stop(self) -> None:
        self._reader.close()
        if self._continuous is not None:
            self._continuous.stop()

    def _ranges(self, begin: PartitionOffsets, until: PartitionOffsets) -> dict[TopicPartition, tuple[int, int]]:
        """What to read of each partition; data loss (4) is reported first."""
        new = [one for one in until if one not in begin]
        earliest = self._reader.fetch_earliest(new)
        if unknown := [one for one in new if one not in earliest]:
            self._report_data_loss("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", partitions=scala_set(unknown))
        for one, first in earliest.items():
            if first != 0:
                self._report_data_loss(
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", topicPartition=str(one), startOffset=str(first)
                )
        if deleted := [one for one in begin if one not in until]:
            if self._has_group_id:
                self._report_data_loss(
                    "PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT", partitions=scala_set(deleted), groupIdConfig="group.id"
                )
            self._report_data_loss("PARTITIONS_DELETED", partitions=scala_set(deleted))
        from_offsets = {**begin, **earliest}
        ranges = {one: (from_offsets[one], last) for one, last in until.items() if one in from_offsets}
        for one, (first, last) in ranges.items():
            if last < first:
                self._report_data_loss(
                    "PARTITION_OFFSET_CHANGED", topicPartition=str(one), prevOffset=str(first), newOffset=str(last)
                )
        return ranges

    def _report_data_loss(self, condition: str, **parameters: str) -> None:
        report_data_loss(self._session, self._options.fail_on_data_loss, condition, **parameters)

    def _verify_available_now(self, prefetched: PartitionOffsets, until: PartitionOffsets) -> None:
        """A run with `availableNow` must end where it said when it began, and the records up to there must still exist."""
        if prefetched.keys() != until.keys():
            raise kafka_error(
                self._session, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
                tpsForPrefetched=scala_set(prefetched), tpsForEndOffset=scala_set(until),
            )
        if any(until[one] > offset for one, offset in prefetched.items()):
            raise kafka_error(
                self._session, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
                prefetchedOffset=scala_map(prefetched), endOffset=scala_map(until),
            )
        latest = self._reader.fetch_latest(until)
        if not until.keys() <= latest.keys():
            raise kafka_error(
                self._session, "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
                tpsForLatestOffset=scala_set(latest), tpsForEndOffset=scala_set(until),
            )
        if any(offset > latest[one] for one, offset in until.items()):
            raise kafka_error(
                self._session, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
                latestOffset=scala_map(latest), endOffset=scala_map(until),
            )

    # -- where it begins ------------------------------------------------------------------------------------

    def _start(self, start: Offset | None) -> PartitionOffsets:
        return from_json(self._session, self._initial() if start is None else start)

    def _initial(self) -> Offset:  # (1)
        offset = self._initial_log.get(0)
        if offset is None:
            offset = offsets_to_json(self._session, self._reader.fetch_starting(self._options.starting))
            self._initial_log.add(0, offset)
        return offset

    def _to_json(self, offsets: PartitionOffsets) -> Offset | None:
        return offsets_to_json(self._session, offsets) if offsets else None
