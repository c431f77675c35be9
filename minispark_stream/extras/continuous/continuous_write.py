"""The writer of a partition, which runs in a Python worker for as long as the query does.

Models: ContinuousWriteRDD, WriteToContinuousDataSourceExec (Continuous processing).

1. Rows and markers come in batches, which are cut at the markers. Rows that only push others forward (PUSH) are dropped.
2. The rows up to a marker are those of an epoch. The sink receives them as they come.
3. When the sink has written the rows up to the marker, the task reports this to the coordinator, with the sink's message.
4. Then the next epoch begins.

    batches in   (a, null) (b, null) (null, "0") (c, null) (null, PUSH)   (null, PUSH) (d, null) ...
    the sink     write(partition, 0, [a b])   CommitPartitionEpoch(partition, 0, ...)   write(partition, 1, [c] [d ...

An epoch that is cut off by the end of the query is not reported to the coordinator, which would ignore it.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from minispark_stream.extras.continuous.epoch_coordinator import CommitPartitionEpoch
from minispark_stream.extras.continuous.queued_data_reader import PUSH
from minispark_stream.extras.rpc import RpcEndpointRef


@dataclass(frozen=True)
class ContinuousWriterTask:
    """The function that `mapInArrow` runs over the rows and markers of each partition; nothing comes out of it."""

    write: Callable[[int, int, Iterator[pa.RecordBatch]], Any]
    coordinator: RpcEndpointRef
    start_epoch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition_id = context.partitionId()
        coordinator: RpcEndpointRef | None = None
        pieces = rows_and_ends(batches)
        for epoch in count(self.start_epoch):  # (4)
            rows = EpochRows(pieces)
            message = self.write(partition_id, epoch, rows)
            if not rows.ended_with_marker:
                break
            try:
                coordinator = coordinator or self.coordinator.connect()
                coordinator.ask(CommitPartitionEpoch(partition_id, epoch, message))  # (3)
            except (OSError, EOFError):  # the driver has stopped the query, and the reader ends by itself
                for _ in batches:
                    pass
                break
        if coordinator is not None:
            coordinator.close()
        yield from ()


def rows_and_ends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | None]:  # (1)
    """The rows of data, without the column of the markers, and None at the end of each epoch."""
    for batch in batches:
        last, begin = batch.num_columns - 1, 0
        markers = batch.column(last)
        rows = batch.remove_column(last) if last else batch
        for at in pc.indices_nonzero(markers.is_valid()).to_pylist():
            if begin < at:
                yield rows.slice(begin, at - begin)
            if not markers[at].as_py().startswith(PUSH):
                yield None
            begin = at + 1
        if begin < batch.num_rows:
            yield rows.slice(begin)


class EpochRows:
    """The rows up to the end of the epoch, as batches."""

    def __init__(self, pieces: Iterator[pa.RecordBatch | None]):
        self._pieces = pieces
        self.ended_with_marker = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:  # (2)
        if not self.ended_with_marker:
            piece = next(self._pieces)
            if piece is not None:
                return piece
            self.ended_with_marker = True
        raise StopIteration
