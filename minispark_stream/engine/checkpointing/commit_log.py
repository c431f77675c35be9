"""The commit log: it records that a batch is done.

Models: CommitLog and CommitMetadata (Execution flow, step 10).

    commits/7      v1
                   {"nextBatchWatermarkMs":1700000000000}

    commits/7      v2      in checkpoint format 2
                   {"nextBatchWatermarkMs":1700000000000,"stateUniqueIds":{"0":[["21c3..."],["9f0e..."]]}}

An entry says that the sink has the rows of the batch. It contains the watermark of the next batch, because a restart could not
compute that again. A batch that has an entry in the offset log but none here is run again.

In checkpoint format 2, the name of each state file contains an id, and the entry lists, for each operator and partition, the
ids of the files that belong to the new version. The last entry decides in which format a restarted query writes, whatever the
conf says by then. In entries of version 3, which Spark writes for named sinks (`sinkMetadataMap`), only the watermark and the
ids are read.

Differs from Spark: the folder commits/ appears with its first entry; in Spark, it is there, and empty, when the query starts.
Shown by tests/spark/test_differences.py::test_the_commit_log_before_its_first_entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing import join_stores
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, json_object, number, to_json


@dataclass(frozen=True)
class CommitMetadata:
    """The watermark for the next batch, in milliseconds since the epoch.

    `state_unique_ids` has, for each operator, the list of its partitions, each with the ids of its stores; it is None in
    checkpoint format 1.
    """

    next_batch_watermark_ms: int = 0
    state_unique_ids: Mapping[str, Any] | None = field(default=None, hash=False)


def ids_by_store(of_operator: Any, partition: int) -> dict[str, str]:
    """The ids of a partition's stores, by the names of the stores, from an operator's entry in `state_unique_ids`.

    A partition has one store, or, in a stream-stream join, four. Without a list of ids, the result is empty.
    """
    ids = of_operator[partition] if isinstance(of_operator, list) and partition < len(of_operator) else None
    if not isinstance(ids, list):
        return {}
    return dict(zip(join_stores.STORES if len(ids) > 1 else ("default",), map(str, ids)))


class CommitLog(HDFSMetadataLog[CommitMetadata]):
    """The log in `<checkpoint>/commits`."""

    incomplete = "Incomplete log file in the offset commit log"
    max_version = 3

    def serialize(self, entry: CommitMetadata) -> bytes:
        values: dict[str, Any] = {"nextBatchWatermarkMs": entry.next_batch_watermark_ms}
        if entry.state_unique_ids is None:
            return f"v1\n{to_json(values)}".encode()
        return f"v2\n{to_json({**values, 'stateUniqueIds': entry.state_unique_ids})}".encode()

    def deserialize_lines(self, version: int, lines: list[str]) -> CommitMetadata:
        values = json_object(lines[0] if lines else "{}")
        unique_ids = values.get("stateUniqueIds") or ({} if version == 2 else None)
        if unique_ids is not None and not isinstance(unique_ids, dict):
            raise ValueError("stateUniqueIds must be an object")
        return CommitMetadata(number(values, "nextBatchWatermarkMs"), unique_ids)
