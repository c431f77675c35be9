"""The two ends of a task in real-time mode: a reader that ends by the clock, and a writer that writes what arrives.

Models: LowLatencyReaderWrap, RealTimeStreamScanExec, SupportsRealTimeRead; DataWritingSparkTask.

1. The driver says where the batch begins and when it ends, in a local property of the job (low_latency_batch.py). Each reader
   looks at its own clock, and nobody tells it to stop.
2. Until then it passes rows on as soon as it has them (extras/continuous/queued_data_reader.py).
3. At the end it reports its offset, with the end of its task: the driver learns only now how far the batch has read.
4. The writer passes rows to the sink as they come. What the sink says at the end travels with the end of the task, too.
5. A task that Spark starts a second time refuses to run: its rows have perhaps been written.

    ends at 12:00:05     reader of partition 1   a@1  b@2 ......... (12:00:05)   PartitionEnd(source 0, partition 1, 2, 2 rows)
                         writer                   a    b            (12:00:05)   Written(partition 1, message, 2 rows)

A task that starts after the end of its batch, because there were too few task slots, reads nothing, as in Spark. Both ends read
all of their input: of a worker that does not, Spark makes no use in the next batch, and to start another one takes longer than
a row may wait.

Differs from Spark: nothing.
Shown by tests/unit/extras/real_time/test_low_latency_reader.py::test_a_reader_ends_by_the_clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql.types import StructType

from minispark_stream.engine.operators.worker_tuning import acknowledged, tune_worker, written_out
from minispark_stream.engine.sinks.base import BATCH_ID_KEY
from minispark_stream.engine.sources.base import ContinuousInputPartition
from minispark_stream.extras.continuous.continuous_write import rows_and_ends
from minispark_stream.extras.continuous.queued_data_reader import (
    ContinuousRows,
    Failure,
    QueuedDataReader,
    QueueEntry,
    push_rows,
    rows_of_data,
)
from minispark_stream.extras.real_time.first_rows import FirstRows
from minispark_stream.extras.real_time.low_latency_batch import LowLatencyBatch
from minispark_stream.extras.real_time.ways import MOST_WAYS, READ, Passed, noted, now

_QUEUE_SIZE = 1024  # rows that a reader has read ahead
_SHOWN = 60  # characters of a row
PUSHES = 2  # after rows; queued_data_reader.py
PUSHES_TO_AGGREGATION = PUSHES + 1  # if an aggregation is on their way: it emits a row when the next one has come


@dataclass(frozen=True)
class PartitionEnd:
    """How far a task has read its partition of a source."""

    source: int
    partition: int
    offset: Any
    rows: int


@dataclass(frozen=True)
class Written:
    """What the sink says of a task's rows."""

    partition: int
    message: Any
    rows: int


ReportsOfReaders = Accumulator[list[Any]]
AtEnd = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # the rows of a partition without what comes back


def first_attempt() -> TaskContext:  # (5)
    """The context of a task. Raises RuntimeError: Spark has started it a second time."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() != 0:
        raise RuntimeError("Real-time mode does not support task retry")
    return context


@dataclass(frozen=True)
class LowLatencyReaderTask:
    """The function that `mapInArrow` runs for each partition of a source; its input is the number of the partition.

    The offsets of `partitions` are those of the batch for which they were planned; where they begin, the job says.
    `schema` is that of the rows, with the column of PUSH at its end. If no PUSH can pass the plan, `pushes` is 0. If `follows`,
    rows are followed on their way (ways.py).
    """

    source: int
    partitions: tuple[ContinuousInputPartition, ...]
    schema: StructType
    reports: ReportsOfReaders
    pushes: int
    follows: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = first_attempt()
        tune_worker()
        of_batch = LowLatencyBatch.of_task(context)
        [number] = [one for batch in batches for one in batch.column(0).to_pylist()]
        partition = self.partitions[number]
        if str(self.source) in of_batch.start_offsets:
            partition = beginning_at(partition, of_batch.start_offsets[str(self.source)][number])
        pushes = push_rows(self.schema, self.pushes)
        offset, count, passed, first = partition.start_offset, 0, list[Passed](), FirstRows(self.source)
        reader = QueuedDataReader(partition, _QUEUE_SIZE)
        try:
            while (entries := reader.next_entries(of_batch.end_ms / 1000)) is not None:  # (1)
                tables = []
                for entry in entries:
                    if isinstance(entry, Failure):
                        raise entry.raised()
                    assert isinstance(entry, ContinuousRows)
                    tables.append(rows_of_data(entry.rows, pushes.schema, self.schema))
                    if self.follows:
                        first.note(tables[-1], len(self.schema) - 1)
                    offset, count = entry.offset, count + len(entry.rows)
                is_empty = reader.is_empty()
                if is_empty:
                    if self.follows and len(passed) < MOST_WAYS:
                        name = f"{self.source}.{number}.{len(passed)}"
                        passed.append(now(name, READ, number, _shown(entries)))
                        pushes = push_rows(self.schema, self.pushes, name)
                    tables.append(pushes)
                rows = pa.concat_tables(tables).combine_chunks().to_batches()
                yield from written_out(rows) if is_empty else rows  # (2)
        finally:
            reader.close()
        self.reports.add([PartitionEnd(self.source, number, offset, count), *([first] if self.follows else []), *passed])  # (3)


def beginning_at(partition: ContinuousInputPartition, offset: Any) -> ContinuousInputPartition:
    changed: Any = partition
    return cast(ContinuousInputPartition, replace(changed, start_offset=offset))


def _shown(entries: Sequence[QueueEntry]) -> str:
    """How many rows these are, and the last of them."""
    rows = [one.rows for one in entries if isinstance(one, ContinuousRows)]
    last = rows[-1].slice(len(rows[-1]) - 1).to_pylist()[0].values() if isinstance(rows[-1], pa.RecordBatch) else rows[-1][-1]
    others = sum(map(len, rows)) - 1
    return " ".join(map(str, last))[:_SHOWN] + (f" and {others} more" if others else "")


@dataclass(frozen=True)
class RealTimeWriterTask:
    """The function that `mapInArrow` runs over the rows of each partition; nothing comes out of it.

    It is the same in all batches of a run; the job says which batch it is.
    """

    write: Callable[[int, int, Iterator[pa.RecordBatch]], Any]
    reports: ReportsOfReaders
    of_state: AtEnd | None = None
    follows: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # (4)
        context = TaskContext.get()
        assert context is not None
        tune_worker()
        batch_id = int(context.getLocalProperty(BATCH_ID_KEY) or 0)
        count, partition, passed, first = 0, context.partitionId(), list[Passed](), FirstRows(None)
        batches = acknowledged(batches)
        if self.of_state is not None:
            batches = self.of_state(partition, batches)
        if self.follows:
            batches = noted(batches, partition, passed)

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in rows_and_ends(batches):
                if batch is not None:
                    count += batch.num_rows
                    if self.follows:
                        first.note(batch, batch.num_columns)
                    yield batch

        message = self.write(partition, batch_id, rows())
        self.reports.add([Written(partition, message, count), *([first] if self.follows else []), *passed])
        yield from ()
