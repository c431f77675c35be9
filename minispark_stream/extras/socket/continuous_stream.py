"""socket for the continuous engine: the lines are dealt out to the partitions in turn.

Models: TextSocketContinuousStream, TextSocketOffset (Continuous processing; Source document).

1. The connection is opened when the query starts. Line n goes to partition n mod numPartitions.
2. Tasks ask the driver for the lines (extras/continuous/records.py). The offset is the number of lines of each partition.
3. `commit` drops the lines of an epoch that is over.
4. Nothing can be read twice: after a restart, each partition begins with an empty buffer where the last run ended.

    lines a b c d, 2 partitions      0: a c     1: b d      the offset when c has not been read yet: [1,2]

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.sources.base import MOST_ROWS, ContinuousStream, Offset
from minispark_stream.extras.continuous.records import ContinuousRecordPartition, GetRecords
from minispark_stream.extras.rpc import RpcEndpoint
from minispark_stream.extras.socket.lines import SocketLines, SocketRow


class TextSocketContinuousStream(ContinuousStream):
    """The source of one query. Raises OSError if the connection cannot be opened."""

    def __init__(
        self, session: SparkSession, host: str, port: int, partitions: int, include_timestamp: bool, clock: Clock
    ):
        self.description = f"TextSocketV2[host: {host}, port: {port}]"
        self._lock = threading.Lock()
        self._lines: list[list[SocketRow]] = [[] for _ in range(partitions)]
        self._first = [0] * partitions  # the offset of the first line that is kept
        self._count = 0
        self._connection = SocketLines(host, port, include_timestamp, clock, self._add)  # (1)
        self._endpoint = RpcEndpoint(sessions.driver_host(session), self._get)

    def initial_offset(self) -> Offset:
        return json.dumps([0] * len(self._lines), separators=(",", ":"))

    def plan_input_partitions(self, start: Offset) -> list[ContinuousRecordPartition]:
        """Raises ValueError: `start` is not an offset of this stream."""
        offsets = json.loads(start)
        if not isinstance(offsets, list) or len(offsets) != len(self._lines):
            raise ValueError(f"Expected an array with the offsets of {len(self._lines)} partitions but got {start}")
        with self._lock:
            self._first = list(offsets)  # (4)
        return [ContinuousRecordPartition(i, offset, self._endpoint.ref) for i, offset in enumerate(offsets)]

    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        return json.dumps([offsets[i] for i in sorted(offsets)], separators=(",", ":"))

    def commit(self, end: Offset) -> None:  # (3)
        with self._lock:
            for i, offset in enumerate(json.loads(end)):
                del self._lines[i][: offset - self._first[i]]
                self._first[i] = offset

    def stop(self) -> None:
        self._endpoint.stop()
        self._connection.stop()

    def _add(self, row: SocketRow) -> None:
        with self._lock:
            self._lines[self._count % len(self._lines)].append(row)
            self._count += 1

    def _get(self, message: GetRecords) -> list[SocketRow]:  # (2)
        with self._lock:
            first = message.offset - self._first[message.partition_id]
            return self._lines[message.partition_id][first : first + MOST_ROWS]
