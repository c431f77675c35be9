"""What the tasks of a query in real-time mode read of its sources: planned once, and again when the partitions change.

Models: RealTimeStreamScanExec (in no document: it is newer).

    batch 7    partitions 0@5 1@2       planned: two tasks
    batch 8    partitions 0@9 1@4       the same plan; where the partitions begin, the job says (low_latency_batch.py)
    batch 9    partitions 0@9 1@4 2@0   planned anew

Differs from Spark: nothing.
Shown by tests/unit/extras/real_time/test_planned_ahead.py::test_partitions_that_only_begin_later_are_the_same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.jvm import expressions
from minispark_stream.engine.sources.base import ContinuousInputPartition
from minispark_stream.extras.jvm.pipelined_stages import rows_of_task
from minispark_stream.extras.real_time.low_latency_reader import LowLatencyReaderTask, beginning_at


class LowLatencyScan:
    """The rows of one source, which `reader` reads. `start_offsets` are those of the partitions in the current batch."""

    def __init__(self, session: SparkSession, reader: LowLatencyReaderTask):
        self._session, self._reader = session, reader
        self._rows: DataFrame | None = None
        self.start_offsets: list[Any] = []

    def of(self, partitions: tuple[ContinuousInputPartition, ...]) -> DataFrame:
        """The rows of a batch that reads these partitions; if no control row can pass the plan, without their column."""
        self.start_offsets = [one.start_offset for one in partitions]
        if self._rows is None or not differ_in_offsets(self._reader.partitions, partitions):
            self._reader = replace(self._reader, partitions=partitions)
            rows = rows_of_task(self._session, self._reader.schema, self._reader, len(partitions))
            self._rows = rows if self._reader.pushes else rows.drop(self._reader.schema.names[-1])
        return self._rows


def with_control(schema: StructType) -> StructType:
    """The columns of a source by their positions, and that of the control rows."""
    return expressions.positional(schema, StructType().add("control", StringType()))


def differ_in_offsets(planned: Sequence[ContinuousInputPartition], partitions: Sequence[ContinuousInputPartition]) -> bool:
    """Whether these are the same partitions, which may only begin elsewhere."""
    return len(planned) == len(partitions) and all(
        beginning_at(before, now.start_offset) == now for before, now in zip(planned, partitions)
    )
