"""foreach: pass every row to a user's function or writer object, on the executor that has the row.

Models: ForeachWriterTable, ForeachDataWriter, PythonForeachWriter (Sink document). For each partition of each batch, PySpark's
own function (`DataStreamWriter._construct_foreach_function`) calls:

- `open(partition_id, epoch_id)`, if the object has it. The epoch id is the batch id, which the task finds in the local
  property `streaming.sql.batchId`. It returns False if this partition of this epoch has been written already; then its rows are
  skipped.
- `process(row)` for each row.
- `close(error)` in any case, with None or the error that `process` raised, which then ends the query.

    batch 7, 2 partitions     open(0, 7) process(a) process(b) close(None)
                              open(1, 7) process(c) close(None)

A failed batch is run again with the same id. So a writer can recognise it by (partition_id, epoch_id), as long as the batch has
the same partitions again. Each task works on its own copy of the object.

A plain function is only a `process`. A batch without partitions is opened once, as partition 0.
The continuous engine does the same for each epoch: a task keeps its copy of the object, and each epoch of a partition has its
own `open` and `close`, even the epoch that `stop()` cuts off.

Differs from Spark: the description in the progress report does not contain the ids of Spark's objects, because there are no
such objects here. In continuous mode, Spark 4.3 fails at `open`, or without an `open` in the second epoch of a partition.
Shown by tests/spark/test_differences.py::test_sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from minispark_stream.engine.sinks.base import BATCH_ID_KEY, Sink, StreamingWrite

PartitionWriter = Callable[[Any, Iterator[Any]], Iterator[Any]]


class ForeachSink(Sink):
    """`write` is the function that `_construct_foreach_function` made of the user's function or object."""

    description = "ForeachWriterTable"
    writer = "ForeachWrite"
    supports_continuous = True

    def __init__(self, write: PartitionWriter):
        self._write = write

    def add_batch(self, batch_id: int, data: DataFrame) -> int:
        context = data.sparkSession.sparkContext
        rows: Any = data.rdd
        if rows.getNumPartitions() == 0:
            rows = context.parallelize([], 1)
        return sum(rows.mapPartitionsWithIndex(partial(_write_partition, self._write)).collect())

    def streaming_write(self, session: SparkSession, schema: StructType) -> StreamingWrite:
        return StreamingWrite(partial(_write_epoch, self._write, schema))


def _write_epoch(
    write: PartitionWriter, schema: StructType, partition_id: int, epoch_id: int, batches: Iterator[pa.RecordBatch]
) -> None:
    """Write an epoch of a partition; runs in a Python worker."""
    context = TaskContext.get()
    assert context is not None and context._localProperties is not None
    context._localProperties[BATCH_ID_KEY] = str(epoch_id)

    def rows() -> Iterator[Any]:
        for batch in batches:
            yield from ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)

    iterator = rows()
    write(partition_id, iterator)
    for _ in iterator:  # if `open` has returned False, the rows are still unread
        pass


def _write_partition(write: PartitionWriter, partition_id: int, rows: Iterator[Any]) -> Iterator[int]:
    """Write a partition; runs in a Python worker. Yields the number of rows, including skipped ones, as Spark counts them."""
    count = 0

    def counted() -> Iterator[Any]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    iterator = counted()
    write(partition_id, iterator)
    for _ in iterator:
        pass
    yield count
