"""The queue between a thread that reads a partition and the task that passes its rows on.

Models: the queue of ContinuousQueuedDataReader and its DataReaderThread (Continuous processing).

1. A thread puts what the source has into the queue, with the offset after it. It waits when the queue is full. Of an Arrow
   batch with long rows, each `BATCH_BYTES` count as a row.
2. The task takes everything that is in the queue, and waits while it is empty.

    source  a@1 b@2 c@3     queue  [a@1 b@2]     the task takes a and b together, and has reached offset 2

What a thread cannot do becomes an entry, too: the task that takes it raises the error.

Rows that are in the queue at the same time are passed on together, and a single row waits for no other. But Spark collects
rows for a Python worker until their batch has `BATCH_BYTES`, or until it sees that there are no more rows, for which it waits.
So the rows are followed by rows with PUSH in the last column, a text as long as such a batch. They make Spark pass on what it
has collected, and the writer drops them. One PUSH fills the writer's batch, and the next one shows that there are more rows.
(In a query with Python UDFs each row is a batch, and one PUSH shows the writer, and each operator with UDFs, that there are
more rows.) While more rows wait in the queue, no PUSH is needed. A PUSH may have a name after it, by which tasks tell where it
has passed (extras/real_time/ways.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.sources.base import ContinuousInputPartition, StreamedRows

BATCH_BYTES = 32 * 1024
PUSH = "-" * BATCH_BYTES  # in the last column of a row that pushes others forward
# Confs of such a query: a PUSH makes Spark pass on what it has collected, and no buffer of a worker waits until it is full.
AT_ONCE = {sessions.ARROW_BYTES: str(BATCH_BYTES), "spark.sql.execution.pandas.udf.buffer.size": "4"}
_LOOK_AGAIN_S = 0.1  # how long a thread waits before it looks whether the query has ended


@dataclass(frozen=True)
class EpochMarker:
    """Between the rows of two epochs."""


@dataclass(frozen=True)
class ContinuousRows:
    rows: StreamedRows
    offset: Any


@dataclass(frozen=True)
class Failure:
    what: str
    error: BaseException

    def raised(self) -> RuntimeError:
        raised = RuntimeError(f"{self.what}: {type(self.error).__name__}: {self.error}")
        raised.__cause__ = self.error
        return raised


QueueEntry = EpochMarker | ContinuousRows | Failure


class QueuedDataReader:
    """The queue of a partition, and the thread that reads.

    Args:
        queue_size: how many rows may wait.
        more: what other threads do that put something into the queue.
    """

    def __init__(self, partition: ContinuousInputPartition, queue_size: int, *more: Callable[[], None]):
        self._partition, self._queue_size = partition, queue_size
        self._queue: list[QueueEntry] = []
        self._size = 0  # of the queue, in rows
        self._changed = threading.Condition()
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._read_data, *more)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()

    def is_empty(self) -> bool:
        """Whether nothing waits in the queue."""
        return not self._queue

    def next_entries(self, until_s: float | None = None) -> list[QueueEntry] | None:  # (2)
        """All entries that wait, at least one; None at the end, which is also when the clock shows `until_s`."""
        with self._changed:
            while True:
                left_s = _LOOK_AGAIN_S if until_s is None else min(_LOOK_AGAIN_S, until_s - time.time())
                if left_s <= 0 or not self._queue and self.stopped.is_set():
                    return None
                if self._queue:
                    entries, self._queue, self._size = self._queue, [], 0
                    self._changed.notify_all()
                    return entries
                self._changed.wait(left_s)

    def put(self, entry: QueueEntry, rows: int = 1) -> bool:
        """Wait until there is room in the queue; False when the task has ended meanwhile."""
        with self._changed:
            while self._queue and self._size + rows > self._queue_size:
                if self.stopped.is_set():
                    return False
                self._changed.wait(_LOOK_AGAIN_S)
            self._queue.append(entry)
            self._size += rows
            self._changed.notify_all()
        return True

    def _read_data(self) -> None:  # (1)
        try:
            for rows, offset in self._partition.read(self.stopped):
                size = rows.nbytes // BATCH_BYTES if isinstance(rows, pa.RecordBatch) else 0
                if not self.put(ContinuousRows(rows, offset), max(len(rows), size)):
                    return
            if not self.stopped.is_set():
                raise RuntimeError("Continuous reader reported no elements! Reader should have blocked waiting.")
        except Exception as e:
            self.put(Failure("Data read failed", e))


def push_rows(schema: StructType, number: int, name: str = "") -> pa.Table:
    """Rows that only push others forward; the last column of `schema` is that of PUSH."""
    return arrow_rows([(*(None,) * (len(schema) - 1), PUSH + name)] * max(number, 1), schema).slice(0, number)


def rows_of_data(rows: StreamedRows, schema: pa.Schema, python_schema: StructType) -> pa.Table:
    """Rows of a source, with nothing in the column of PUSH, which is the last one."""
    if isinstance(rows, pa.RecordBatch):
        columns = [*rows.columns, pa.nulls(rows.num_rows, pa.string())]
        return pa.Table.from_arrays(columns, schema.names).cast(schema)
    return arrow_rows([(*row, None) for row in rows], python_schema)


def arrow_rows(rows: list[tuple[Any, ...]], schema: StructType) -> pa.Table:
    return LocalDataToArrowConversion.convert(rows, schema, False)
