"""The reader of a partition, which runs in a Python worker for as long as the query does.

Models: ContinuousQueuedDataReader, ContinuousDataSourceRDD (Continuous processing; executors: "one thread reads, one asks").

Two threads fill a queue, and the task empties it:

1. One thread reads the rows that the source has, and the offset after them. It waits when the queue is full
   (`spark.sql.streaming.continuous.executorQueueSize`, in rows).
2. The other asks the driver every `executorPollIntervalMs` which epoch it is, and puts a marker into the queue for each epoch
   that has ended since it last asked.
3. The task passes on everything in the queue: rows as Arrow batches, and a marker as a row of nulls with the number of the
   epoch in the last column. At a marker it reports to the coordinator which offset the partition has reached.
4. A task that Spark starts a second time refuses to run: it could not know where the first one stopped.
5. When the driver does not answer any more, the query has ended, and the task ends, too.

    queue      a@1  b@2  |  c@3                            offset 3 was read, the marker of epoch 0 came after b
    rows out   (a, null) (b, null) (null, "0") (c, null)   and the coordinator is told: epoch 0 ends at offset 2

The markers are rows, because the operators between reader and writer are Spark's, on one endless iterator; in Spark an epoch is
an iterator of its own.

How the rows get through Spark without waiting for each other is said in queued_data_reader.py.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.base import ContinuousInputPartition, StreamedRows
from minispark_stream.extras.continuous.epoch_coordinator import GetCurrentEpoch, ReportPartitionOffset
from minispark_stream.extras.continuous.queued_data_reader import (
    ContinuousRows,
    EpochMarker,
    Failure,
    QueuedDataReader,
    arrow_rows,
    push_rows,
    rows_of_data,
)
from minispark_stream.extras.rpc import RpcEndpointRef


@dataclass(frozen=True)
class ContinuousReaderTask:
    """The function that `mapInArrow` runs for each partition; its input is the number of the partition.

    `schema` is that of the rows, with the column of the markers at its end. `pushes`: how many rows with PUSH follow them.
    """

    partitions: tuple[ContinuousInputPartition, ...]
    schema: StructType
    coordinator: RpcEndpointRef
    start_epoch: int
    queue_size: int
    poll_interval_s: float
    pushes: int = 2

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() != 0:  # (4)
            raise RuntimeError("Continuous execution does not support task retry")
        partition_id = next(batches).column(0)[0].as_py()
        try:
            coordinator = self.coordinator.connect()
        except (OSError, EOFError):  # (5)
            return
        no_data = (None,) * (len(self.schema) - 1)
        pushes = push_rows(self.schema, self.pushes)
        reader = ContinuousQueuedDataReader(self, self.partitions[partition_id], coordinator)
        try:
            for rows, ended_epoch in reader.rows_and_epochs():  # (3)
                tables = [rows_of_data(some, pushes.schema, self.schema) for some in rows]
                if ended_epoch is not None:
                    coordinator.ask(ReportPartitionOffset(partition_id, ended_epoch, reader.offset))
                    tables.append(arrow_rows([(*no_data, str(ended_epoch))], self.schema))
                if reader.is_empty():
                    tables.append(pushes)
                yield from pa.concat_tables(tables).combine_chunks().to_batches()
        except (OSError, EOFError):  # (5)
            pass
        finally:
            reader.close()


class ContinuousQueuedDataReader(QueuedDataReader):
    """The queue with the thread that puts markers into it. `offset` is the one after the rows that were passed on."""

    def __init__(self, task: ContinuousReaderTask, partition: ContinuousInputPartition, coordinator: RpcEndpointRef):
        self._task, self._coordinator = task, coordinator
        self.offset = partition.start_offset
        super().__init__(partition, task.queue_size, self._generate_epoch_markers)  # (1)

    def close(self) -> None:
        self.stopped.set()
        self._coordinator.close()
        super().close()

    def rows_and_epochs(self) -> Iterator[tuple[list[StreamedRows], int | None]]:
        """Rows that were in the queue together, and the number of the epoch that ends after them, if one does."""
        epoch, rows = self._task.start_epoch, list[StreamedRows]()
        while (entries := self.next_entries()) is not None:
            for entry in entries:
                match entry:
                    case ContinuousRows(some, offset):
                        rows.append(some)
                        self.offset = offset
                    case EpochMarker():
                        yield rows, epoch
                        rows, epoch = [], epoch + 1
                    case Failure():
                        raise entry.raised()
            if rows:
                yield rows, None
                rows = []

    def _generate_epoch_markers(self) -> None:  # (2)
        current = self._task.start_epoch
        try:
            while not self.stopped.is_set():
                epoch = self._coordinator.ask(GetCurrentEpoch())
                for _ in range(current, epoch):
                    self.put(EpochMarker())
                current = epoch
                self.stopped.wait(self._task.poll_interval_s)
        except (OSError, EOFError, TypeError):  # (5); a TypeError, when `close` was quicker than this thread
            self.stopped.set()
