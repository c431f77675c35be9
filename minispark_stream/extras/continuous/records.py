"""Rows on the driver that the tasks read: what the memory stream and the socket stream have in common.

Models: ContinuousRecordEndpoint, ContinuousRecordPartitionOffset (Continuous processing).

Each partition has a list of rows; an offset is the number of rows before it. A task asks the driver for the rows from its
offset on. If there are none, it waits a little and asks again.

    partition 0   a c e      a task at offset 1 asks, and receives c and e

The answer contains all rows that have arrived, but at most `MOST_ROWS`.

Differs from Spark: nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.sources.base import ContinuousInputPartition, StreamedRows
from minispark_stream.extras.rpc import RpcEndpointRef

_POLL_INTERVAL_S = 0.005


@dataclass(frozen=True)
class GetRecords:
    """The rows of a partition from an offset on."""

    partition_id: int
    offset: int


@dataclass(frozen=True)
class ContinuousRecordPartition(ContinuousInputPartition):
    partition_id: int
    start_offset: int
    endpoint: RpcEndpointRef

    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        offset = self.start_offset
        try:
            endpoint = self.endpoint.connect()
            while not stopped.is_set():
                rows = endpoint.ask(GetRecords(self.partition_id, offset))
                if rows:
                    offset += len(rows)
                    yield rows, offset
                else:
                    stopped.wait(_POLL_INTERVAL_S)
        except (OSError, EOFError):  # the driver has stopped the stream
            stopped.set()
