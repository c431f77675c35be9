"""Kafka offsets: what the offset log says, and how much of it one batch may read.

Models: KafkaSourceOffset, JsonUtils, KafkaSourceInitialOffsetWriter, and the rate limit of KafkaMicroBatchStream (Source
document, "Kafka").

An offset of the source is one number for each topic partition: the number of the *next* record to read. A batch reads
[start, end) of each partition.

1. An offset is written as JSON by topic and partition, in the order of the connector's own JSON writer, because offsets are
   compared as texts.
2. Where a new query begins is decided once and written into `sources/<i>/0`; the offset log only says where batches end.
3. `maxOffsetsPerTrigger` is divided in proportion to the records that wait in each partition. Each share is rounded down, but
   is at least one record.

    {"clicks":{"0":5,"1":3}}    records 0 … 4 of partition 0 and 0 … 2 of partition 1 have been read

    waiting 30, 10 and 1, limit 20:   20 * 30/41 = 14.6 -> 14    20 * 10/41 = 4.9 -> 4    20 * 1/41 = 0.5 -> 1

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, to_json, validate_version
from minispark_stream.engine.jvm.scala import java_class
from minispark_stream.extras.jvm.contract import EXTRAS

EARLIEST, LATEST = -2, -1  # in the option startingOffsets


class TopicPartition(NamedTuple):
    """A partition of a topic; as text `clicks-0`, as Kafka writes it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


PartitionOffsets = dict[TopicPartition, int]


def from_json(session: SparkSession, text: str) -> PartitionOffsets:
    """The offsets in a text such as `{"clicks":{"0":5}}`.

    Raises:
        IllegalArgumentException: the text is not of this form.
    """
    utils = java_class(session, EXTRAS["JsonUtils"])
    return _flat(utils.partitionOffsets(utils.partitionOffsets(text)))


def timestamps_from_json(session: SparkSession, text: str) -> PartitionOffsets:
    """What the option `startingOffsetsByTimestamp` says: for each partition, milliseconds since the epoch."""
    utils = java_class(session, EXTRAS["JsonUtils"])
    return _flat(utils.partitionTimestamps(utils.partitionTimestamps(text)))


def offsets_to_json(session: SparkSession, offsets: Mapping[TopicPartition, int]) -> str:  # (1)
    """The text of the offset log."""
    by_topic: dict[str, dict[str, int]] = {}
    for one in sorted(offsets):
        by_topic.setdefault(one.topic, {})[str(one.partition)] = offsets[one]
    utils = java_class(session, EXTRAS["JsonUtils"])
    return str(utils.partitionOffsets(utils.partitionOffsets(to_json(by_topic))))


def _flat(text: str) -> PartitionOffsets:
    by_topic = json.loads(text)
    return {TopicPartition(topic, int(p)): offset for topic, parts in by_topic.items() for p, offset in parts.items()}


def rate_limit(
    limit: int, start: PartitionOffsets, latest: PartitionOffsets, earliest_of_new: PartitionOffsets
) -> PartitionOffsets:  # (3)
    """Where a batch of about `limit` records ends.

    Args:
        start: where the batch begins.
        latest: where the partitions end.
        earliest_of_new: where the partitions begin that are not in `start`.
    """
    begins = {one: start.get(one, earliest_of_new.get(one)) for one in latest}
    sizes = {one: latest[one] - begin for one, begin in begins.items() if begin is not None and latest[one] > begin}
    total = float(sum(sizes.values()))
    if total < 1:
        return latest
    ends = dict(latest)
    for one, size in sizes.items():
        share = limit * (size / total)
        records = math.ceil(share) if share < 1 else math.floor(share)
        ends[one] = min(latest[one], latest[one] - size + records)
    return ends


class KafkaSourceInitialOffsetWriter(HDFSMetadataLog[str]):  # (2)
    """`sources/<i>/0`: a zero byte (Spark 2.1 wanted it), the version, and the JSON of the initial offsets."""

    def serialize(self, entry: str) -> bytes:
        return b"\0v1\n" + entry.encode()

    def deserialize(self, data: bytes) -> str:
        text = data[1:].decode("utf-8")
        if not text:
            raise ValueError("requirement failed")
        if text[0] != "v":  # Spark 2.1 wrote no version
            return text
        version, newline, offsets = text.partition("\n")
        if not newline:
            raise ValueError("Log file was malformed: failed to detect the log file version line.")
        return self.deserialize_lines(validate_version(version, self.max_version), [offsets])

    def deserialize_lines(self, version: int, lines: list[str]) -> str:
        return "\n".join(lines)
