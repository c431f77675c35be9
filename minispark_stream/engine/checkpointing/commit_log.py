"""The commit log: a batch is done.

Models: CommitLog and CommitMetadata (Execution flow, step 10).

    commits/7      v1
                   {"nextBatchWatermarkMs":1700000000000}

An entry says that the sink has the rows of the batch, and carries the watermark that the batch arrived at, because a
restart could not compute it again. A batch that has an entry in the offset log but none here is run again.

Of version 2, which Spark writes for state in RocksDB only, the watermark is read, and `stateUniqueIds`: of each operator, for
each partition, which of the files of its new version count. Of version 3, for named sinks (`sinkMetadataMap`), the watermark is
read.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, json_object, number, to_json


@dataclass(frozen=True)
class CommitMetadata:
    """The watermark for the next batch, in milliseconds since the epoch.

    `state_unique_ids`: operator -> for each partition, the unique ids of its stores.
    """

    next_batch_watermark_ms: int = 0
    state_unique_ids: Mapping[str, Any] = field(default_factory=dict, hash=False)


class CommitLog(HDFSMetadataLog[CommitMetadata]):
    """The log in `<checkpoint>/commits`."""

    incomplete = "Incomplete log file in the offset commit log"
    max_version = 3

    def serialize(self, entry: CommitMetadata) -> bytes:
        return ("v1\n" + to_json({"nextBatchWatermarkMs": entry.next_batch_watermark_ms})).encode()

    def deserialize_lines(self, version: int, lines: list[str]) -> CommitMetadata:
        values = json_object(lines[0] if lines else "{}")
        unique_ids = values.get("stateUniqueIds") or {}
        if not isinstance(unique_ids, dict):
            raise ValueError("stateUniqueIds must be an object")
        return CommitMetadata(number(values, "nextBatchWatermarkMs"), unique_ids)
