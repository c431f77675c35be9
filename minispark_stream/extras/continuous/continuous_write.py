"""The writer of a partition, which runs in a Python worker for as long as the query does.

Models: ContinuousWriteRDD, WriteToContinuousDataSourceExec (Continuous processing).

1. The rows up to a marker are those of an epoch. The sink is given them one by one, as they come.
2. At the marker the sink has written the epoch, and the coordinator is told so, with what the sink has to say.
3. Then the next epoch begins.

    rows in    (a, null) (b, null) (null, 0) (c, null) ...
    the sink   write(partition, 0, [a, b])   CommitPartitionEpoch(partition, 0, ...)   write(partition, 1, [c, ...

An epoch that the end of the query has cut off is not told to the coordinator, which would not listen.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from minispark_stream.extras.continuous.continuous_queued_data_reader import PUSH
from minispark_stream.extras.continuous.epoch_coordinator import CommitPartitionEpoch
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
        for epoch in count(self.start_epoch):  # (3)
            rows = EpochRows(batches)
            message = self.write(partition_id, epoch, rows)
            if not rows.ended_with_marker:
                break
            try:
                coordinator = coordinator or self.coordinator.connect()
                coordinator.ask(CommitPartitionEpoch(partition_id, epoch, message))  # (2)
            except (OSError, EOFError):  # the driver has stopped the query, and the reader ends by itself
                for _ in batches:
                    pass
                break
        if coordinator is not None:
            coordinator.close()
        yield from ()


class EpochRows:
    """The rows up to the next marker, without the column of the markers."""

    def __init__(self, batches: Iterator[pa.RecordBatch]):
        self._batches = batches
        self.ended_with_marker = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:  # (1)
        while not self.ended_with_marker:
            batch = next(self._batches)
            last = batch.num_columns - 1
            epoch = batch.column(last)[0].as_py()
            if epoch is None:
                return batch.remove_column(last) if last else batch
            self.ended_with_marker = epoch != PUSH
        raise StopIteration
