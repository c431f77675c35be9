"""The reader of a partition, which runs in a Python worker for as long as the query does.

Models: ContinuousQueuedDataReader, ContinuousDataSourceRDD (Continuous processing; executors: "one thread reads, one asks").

Two threads fill a queue, the task empties it:

1. One reads rows from the source, each with the offset after it; it waits when the queue is full
   (`spark.sql.streaming.continuous.executorQueueSize`).
2. One asks the driver every `executorPollIntervalMs` which epoch it is, and puts a marker into the queue for each epoch that
   has ended since it asked last.
3. The task hands on what is in the queue: rows, as Arrow batches, and markers, as a row of nulls with the number of the epoch
   in the last column. At a marker it tells the coordinator the offset that the partition has come to.
4. A task that Spark starts a second time refuses to run: it could not know where the first one stopped.
5. When the driver does not answer any more, the query has ended, and so does the task.

    queue      a@1  b@2  |  c@3                          offset 3 was read, the marker of epoch 0 came after b
    rows out   (a, null) (b, null) (null, 0) (c, null)   and the coordinator is told: epoch 0 ends at offset 2

Rows that wait together go on together. The markers are rows, because the operators between reader and writer are Spark's, on
one endless iterator; in Spark an epoch is an iterator of its own. Before Spark gives a row to a Python worker, it looks whether
there is another one, and waits for it. So whatever goes on is followed by rows with PUSH in the last column, which the writer
drops: one for the writer, and one for each operator with Python UDFs on the way.

Differs from Spark: nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.base import ContinuousInputPartition
from minispark_stream.extras.continuous.epoch_coordinator import GetCurrentEpoch, ReportPartitionOffset
from minispark_stream.extras.rpc import RpcEndpointRef

PUSH = -1  # in place of the number of an epoch
_LOOK_AGAIN_S = 0.1  # how long a thread waits before it looks whether the query has ended


@dataclass(frozen=True)
class EpochMarker:
    """Between the rows of two epochs."""


@dataclass(frozen=True)
class ContinuousRow:
    row: tuple[Any, ...]
    offset: Any


@dataclass(frozen=True)
class Failure:
    what: str
    error: BaseException


@dataclass(frozen=True)
class ContinuousReaderTask:
    """The function that `mapInArrow` runs for each partition; its input is the number of the partition.

    `schema` is that of the rows, with the column of the markers at its end. `pushes`: how many rows follow what goes on.
    """

    partitions: tuple[ContinuousInputPartition, ...]
    schema: StructType
    coordinator: RpcEndpointRef
    start_epoch: int
    queue_size: int
    poll_interval_s: float
    pushes: int = 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() != 0:  # (4)
            raise RuntimeError("Continuous execution does not support task retry")
        partition_id = next(batches).column(0)[0].as_py()
        try:
            coordinator = self.coordinator.connect()
        except (OSError, EOFError):  # (5)
            return
        reader = ContinuousQueuedDataReader(self, self.partitions[partition_id], coordinator)
        try:
            for rows, offset in reader.epochs_and_rows():  # (3)
                if (epoch := rows[0][-1]) is not None:
                    coordinator.ask(ReportPartitionOffset(partition_id, epoch, offset))
                yield from self._arrow(rows)
        except (OSError, EOFError):  # (5)
            pass
        finally:
            reader.close()

    def _arrow(self, rows: list[tuple[Any, ...]]) -> list[pa.RecordBatch]:
        push = (*(None,) * (len(self.schema) - 1), PUSH)
        return LocalDataToArrowConversion.convert([*rows, *[push] * self.pushes], self.schema, False).to_batches()


class ContinuousQueuedDataReader:
    """The queue of a partition and the two threads that fill it."""

    def __init__(self, task: ContinuousReaderTask, partition: ContinuousInputPartition, coordinator: RpcEndpointRef):
        self._task, self._partition, self._coordinator = task, partition, coordinator
        self._offset = partition.start_offset
        self._queue: queue.Queue[EpochMarker | ContinuousRow | Failure] = queue.Queue(task.queue_size)
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

    def epochs_and_rows(self) -> Iterator[tuple[list[tuple[Any, ...]], Any]]:
        """Rows that wait together, or the one row of a marker; and the offset that has been reached."""
        epoch, no_data = self._task.start_epoch, (None,) * (len(self._task.schema) - 1)
        while (entries := self._next_entries()) is not None:
            rows = []
            for entry in entries:
                match entry:
                    case ContinuousRow(row, offset):
                        rows.append((*row, None))
                        self._offset = offset
                    case EpochMarker():
                        if rows:
                            yield rows, self._offset
                        yield [(*no_data, epoch)], self._offset
                        rows, epoch = [], epoch + 1
                    case Failure(what, error):
                        raise RuntimeError(f"{what}: {type(error).__name__}: {error}") from error
            if rows:
                yield rows, self._offset

    def _next_entries(self) -> list[Any] | None:
        """All entries that wait, at least one; None at the end."""
        while not self._stopped.is_set():
            try:
                entries = [self._queue.get(timeout=_LOOK_AGAIN_S)]
            except queue.Empty:
                continue
            while True:
                try:
                    entries.append(self._queue.get_nowait())
                except queue.Empty:
                    return entries
        return None

    def _read_data(self) -> None:  # (1)
        try:
            for row, offset in self._partition.read(self._stopped):
                if not self._put(ContinuousRow(row, offset)):
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

    def _put(self, entry: EpochMarker | ContinuousRow | Failure) -> bool:
        """Wait for a place in the queue; False when the task has ended meanwhile."""
        while not self._stopped.is_set():
            try:
                self._queue.put(entry, timeout=_LOOK_AGAIN_S)
                return True
            except queue.Full:
                continue
        return False
