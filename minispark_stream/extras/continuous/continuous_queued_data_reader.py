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

Rows that are in the queue at the same time are passed on together, and a single row waits for no other. But Spark collects
rows for a Python worker until their batch has `BATCH_BYTES`, or until it sees that there are no more rows, for which it waits.
So the rows are followed by rows with PUSH in the last column, a text as long as such a batch. They make Spark pass on what it
has collected, and the writer drops them. One PUSH fills the writer's batch, and the next one shows that there are more rows.
(In a query with Python UDFs each row is a batch, and one PUSH shows the writer, and each operator with UDFs, that there are
more rows.) While more rows wait in the queue, no PUSH is needed.

Differs from Spark: nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.base import ContinuousInputPartition, Rows
from minispark_stream.extras.continuous.epoch_coordinator import GetCurrentEpoch, ReportPartitionOffset
from minispark_stream.extras.rpc import RpcEndpointRef

BATCH_BYTES = 32 * 1024
PUSH = "-" * BATCH_BYTES  # in place of the number of an epoch
_LOOK_AGAIN_S = 0.1  # how long a thread waits before it looks whether the query has ended


@dataclass(frozen=True)
class EpochMarker:
    """Between the rows of two epochs."""


@dataclass(frozen=True)
class ContinuousRows:
    rows: Rows
    offset: Any


@dataclass(frozen=True)
class Failure:
    what: str
    error: BaseException


Entry = EpochMarker | ContinuousRows | Failure


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
        pushes = self._arrow([(*no_data, PUSH)] * self.pushes)
        reader = ContinuousQueuedDataReader(self, self.partitions[partition_id], coordinator)
        try:
            for rows, ended_epoch in reader.rows_and_epochs():  # (3)
                tables = [self._with_markers(some, pushes.schema) for some in rows]
                if ended_epoch is not None:
                    coordinator.ask(ReportPartitionOffset(partition_id, ended_epoch, reader.offset))
                    tables.append(self._arrow([(*no_data, str(ended_epoch))]))
                if reader.is_empty():
                    tables.append(pushes)
                yield from pa.concat_tables(tables).combine_chunks().to_batches()
        except (OSError, EOFError):  # (5)
            pass
        finally:
            reader.close()

    def _with_markers(self, rows: Rows, schema: pa.Schema) -> pa.Table:
        """Rows of data, with the column of the markers."""
        if isinstance(rows, pa.RecordBatch):
            columns = [*rows.columns, pa.nulls(rows.num_rows, pa.string())]
            return pa.Table.from_arrays(columns, schema.names).cast(schema)
        return self._arrow([(*row, None) for row in rows])

    def _arrow(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        return LocalDataToArrowConversion.convert(rows, self.schema, False)


class ContinuousQueuedDataReader:
    """The queue of a partition and the two threads that fill it. `offset` is the one after the rows that were passed on."""

    def __init__(self, task: ContinuousReaderTask, partition: ContinuousInputPartition, coordinator: RpcEndpointRef):
        self._task, self._partition, self._coordinator = task, partition, coordinator
        self.offset = partition.start_offset
        self._queue: list[Entry] = []
        self._size = 0  # of the queue, in rows
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._read_data, self._generate_epoch_markers)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._coordinator.close()
        for thread in self._threads:
            thread.join()

    def is_empty(self) -> bool:
        """Whether nothing waits in the queue."""
        return not self._queue

    def rows_and_epochs(self) -> Iterator[tuple[list[Rows], int | None]]:
        """Rows that were in the queue together, and the number of the epoch that ends after them, if one does."""
        epoch, rows = self._task.start_epoch, list[Rows]()
        while (entries := self._next_entries()) is not None:
            for entry in entries:
                match entry:
                    case ContinuousRows(some, offset):
                        rows.append(some)
                        self.offset = offset
                    case EpochMarker():
                        yield rows, epoch
                        rows, epoch = [], epoch + 1
                    case Failure(what, error):
                        raise RuntimeError(f"{what}: {type(error).__name__}: {error}") from error
            if rows:
                yield rows, None
                rows = []

    def _next_entries(self) -> list[Entry] | None:
        """All entries that wait, at least one; None at the end."""
        with self._changed:
            while not self._queue:
                if self._stopped.is_set():
                    return None
                self._changed.wait(_LOOK_AGAIN_S)
            entries, self._queue, self._size = self._queue, [], 0
            self._changed.notify_all()
        return entries

    def _read_data(self) -> None:  # (1)
        try:
            for rows, offset in self._partition.read(self._stopped):
                if not self._put(ContinuousRows(rows, offset), len(rows)):
                    return
            if not self._stopped.is_set():
                raise RuntimeError("Continuous reader reported no elements! Reader should have blocked waiting.")
        except Exception as e:
            self._put(Failure("Data read failed", e))

    def _generate_epoch_markers(self) -> None:  # (2)
        current = self._task.start_epoch
        try:
            while not self._stopped.is_set():
                epoch = self._coordinator.ask(GetCurrentEpoch())
                for _ in range(current, epoch):
                    self._put(EpochMarker())
                current = epoch
                self._stopped.wait(self._task.poll_interval_s)
        except (OSError, EOFError, TypeError):  # (5); a TypeError, when `close` was quicker than this thread
            self._stopped.set()

    def _put(self, entry: Entry, rows: int = 1) -> bool:
        """Wait until there is room in the queue; False when the task has ended meanwhile."""
        with self._changed:
            while self._queue and self._size + rows > self._task.queue_size:
                if self._stopped.is_set():
                    return False
                self._changed.wait(_LOOK_AGAIN_S)
            self._queue.append(entry)
            self._size += rows
            self._changed.notify_all()
        return True
