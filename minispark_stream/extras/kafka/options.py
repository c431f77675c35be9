"""The options of the Kafka source: which partitions it reads, from where, and how much at a time.

Models: KafkaSourceProvider, ConsumerStrategy, KafkaOffsetRangeLimit (Source document, "Kafka").

1. When the stream is defined (`load`), Spark's own provider checks the options, and the user sees its errors.
2. When the query starts, the values are parsed. A wrong one ends the query.
3. The first of these options that is given says where a new query begins: `startingTimestamp` (one time for all partitions),
   `startingOffsetsByTimestamp` (a time for each), `startingOffsets` (earliest, latest, or a number for each; -2 is earliest,
   -1 latest). If none is given, it begins with the latest.

    subscribe "a, b"        -> Subscribe[a, b]       all partitions of these topics, also those that come later
    subscribePattern "a.*"  -> SubscribePattern[a.*] all topics with such a name, also those that come later
    assign {"a":[0,1]}      -> Assign[a-0, a-1]      these partitions only

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm.builders import case_insensitive
from minispark_stream.engine.jvm.errors import illegal_argument, to_boolean
from minispark_stream.engine.jvm.scala import java_class
from minispark_stream.engine.jvm.sessions import time_string_as_ms
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.extras.kafka.offsets import PartitionOffsets, TopicPartition, from_json, timestamps_from_json


@dataclass(frozen=True)
class Strategy:
    """Which partitions a query reads: those of `topics`, those of topics that match `pattern`, or only `partitions`."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] | None = None

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"SubscribePattern[{self.pattern}]"
        if self.partitions is not None:
            return f"Assign[{', '.join(map(str, self.partitions))}]"
        return f"Subscribe[{', '.join(self.topics)}]"


@dataclass(frozen=True)
class StartingOffsets:
    """Where a new query begins; one of the fields is set. Times in ms since the epoch."""

    everywhere: str | None = None
    offsets: PartitionOffsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: PartitionOffsets | None = None
    latest_if_no_match: bool = False


@dataclass(frozen=True)
class KafkaOptions:
    """The options as values. Times in ms."""

    strategy: Strategy
    starting: StartingOffsets
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    fetch_attempts: int
    retry_interval_ms: int

    @staticmethod
    def of(session: SparkSession, options: Mapping[str, str]) -> KafkaOptions:  # (2)
        """Parse the options (names in lower case).

        Raises:
            IllegalArgumentException: a value cannot be understood (for a number, NumberFormatException).
        """
        given = case_insensitive(session, options)
        given.getLong("kafkaConsumer.pollTimeoutMs", 0)  # used by the tasks; a wrong one is found here

        def count(name: str) -> int | None:
            return given.getLong(name, 0) if name in options else None

        return KafkaOptions(
            strategy=_strategy(session, options),
            starting=_starting(session, options),
            fail_on_data_loss=to_boolean(options.get("failondataloss", "true")),
            max_offsets_per_trigger=count("maxoffsetspertrigger"),
            min_offsets_per_trigger=count("minoffsetspertrigger"),
            max_trigger_delay_ms=time_string_as_ms(session, options.get("maxtriggerdelay", "15m")),
            fetch_attempts=given.getInt("fetchOffset.numRetries", 3),
            retry_interval_ms=given.getLong("fetchOffset.retryIntervalMs", 1000),
        )


def validated_schema(spark: SparkSession, schema: StructType | None, options: Mapping[str, str]) -> StructType:  # (1)
    """The schema of the stream, if the connector is there and accepts the options.

    Raises:
        AnalysisException: Spark runs without the Kafka connector.
        IllegalArgumentException: what Spark refuses when a stream is defined.
    """
    reader = DataStreamReader(spark).format("kafka").options(**options)  # Spark's own, also of a session of the model
    return (reader if schema is None else reader.schema(schema)).load().schema


def _strategy(session: SparkSession, options: Mapping[str, str]) -> Strategy:
    if "assign" in options:
        utils = java_class(session, EXTRAS["JsonUtils"])
        partitions = tuple(TopicPartition(p.topic(), p.partition()) for p in utils.partitions(options["assign"]))
        return Strategy(topics=tuple(dict.fromkeys(p.topic for p in partitions)), partitions=partitions)
    if "subscribe" in options:
        return Strategy(topics=tuple(name.strip() for name in options["subscribe"].split(",") if name.strip()))
    return Strategy(pattern=options["subscribepattern"].strip())


def _starting(session: SparkSession, options: Mapping[str, str]) -> StartingOffsets:  # (3)
    no_match = options.get("startingoffsetsbytimestampstrategy", "error").upper()
    if no_match not in ("ERROR", "LATEST"):
        raise illegal_argument(f"No value found for '{no_match}'")
    latest = no_match == "LATEST"
    if "startingtimestamp" in options:
        text = options["startingtimestamp"].strip()
        try:
            time_ms = java_class(session, "java.lang.Long").parseLong(text)
        except Exception:
            raise illegal_argument(f"Expected a single long value, got {text}") from None
        return StartingOffsets(timestamp_ms=time_ms, latest_if_no_match=latest)
    if "startingoffsetsbytimestamp" in options:
        times_ms = timestamps_from_json(session, options["startingoffsetsbytimestamp"].strip())
        return StartingOffsets(timestamps_ms=times_ms, latest_if_no_match=latest)
    text = options.get("startingoffsets", "latest").strip()
    if text.lower() in ("earliest", "latest"):
        return StartingOffsets(everywhere=text.lower())
    return StartingOffsets(offsets=from_json(session, text))
