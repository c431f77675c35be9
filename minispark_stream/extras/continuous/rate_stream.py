"""rate for the continuous engine: each partition counts by itself.

Models: RateStreamContinuousStream, RateStreamContinuousPartitionReader (Continuous processing; Source document).

1. Partition i of n has the values i, i + n, i + 2n, ...; one is due every n / rowsPerSecond seconds, rounded down to whole
   milliseconds. Values that are already due are made together. Above 1000 n rows per second, a value is due at once.
2. A partition's offset is its last value, and the time at which that value was due. A restart continues from there, so the
   values that were due in the meantime are made at once.
3. In a new query, the offset of each partition is the value before the first one, and the time at which the query started.

    rowsPerSecond 10, 2 partitions, started at 1000 ms      0: -2 at 1000, 0 at 1200, 2 at 1400     1: -1 at 1000, 1 at 1200
    the offset {"0":{"value":2,"runTimeMs":1400},"1":{"value":1,"runTimeMs":1200}}

As in Spark, the option rampUpTime is ignored.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.plan.streaming_relation import StreamingRelation
from minispark_stream.engine.sources.base import MOST_ROWS, ContinuousInputPartition, ContinuousStream, Offset
from minispark_stream.engine.sources.rate import RateOptions
from minispark_stream.engine.sources.rate import rate_relation as micro_batches_of_rate


def rate_relation(
    spark: SparkSession, schema: StructType | None, options: Mapping[str, str], clock: Clock
) -> StreamingRelation:
    """`readStream.format("rate").options(options).load()` for both engines; raises as RateOptions.of does."""
    rate = RateOptions.of(spark, schema, options)
    return replace(
        micro_batches_of_rate(spark, schema, options, clock),
        create_continuous=lambda session, metadata_path: RateStreamContinuousStream(
            rate.rows_per_second, rate.partitions, rate.description, clock.get_time_millis()
        ),
    )


@dataclass(frozen=True)
class RateStreamContinuousInputPartition(ContinuousInputPartition):
    """`start_offset` is {"value": ..., "runTimeMs": ...}; `increment` is the number of partitions."""

    start_offset: Mapping[str, int]
    increment: int
    ms_per_row: int

    def read(self, stopped: threading.Event) -> Iterator[tuple[pa.RecordBatch, Any]]:  # (1)
        value, due_ms = self.start_offset["value"], self.start_offset["runTimeMs"]
        while True:
            if stopped.wait(max(0.0, (due_ms + self.ms_per_row) / 1000 - time.time())):
                return
            number = self._due(due_ms)
            times_us = [1000 * (due_ms + i * self.ms_per_row) for i in range(1, number + 1)]
            values = [value + i * self.increment for i in range(1, number + 1)]
            columns = [pa.array(times_us, pa.timestamp("us", "UTC")), pa.array(values, pa.int64())]
            value, due_ms = values[-1], times_us[-1] // 1000
            yield pa.RecordBatch.from_arrays(columns, ["timestamp", "value"]), {"value": value, "runTimeMs": due_ms}  # (2)

    def _due(self, last_due_ms: int) -> int:
        """How many rows are due now, at least one."""
        if self.ms_per_row == 0:
            return MOST_ROWS
        return max(1, min(MOST_ROWS, int(time.time() * 1000 - last_due_ms) // self.ms_per_row))


class RateStreamContinuousStream(ContinuousStream):
    """The source of one query. `created_ms`: when it was made, in ms since the epoch."""

    def __init__(self, rows_per_second: int, partitions: int, description: str, created_ms: int):
        self.description = description
        self._partitions = partitions
        self._ms_per_row = int(1000 / (rows_per_second / partitions))
        self._created_ms = created_ms

    def initial_offset(self) -> Offset:  # (3)
        return self.merge_offsets({
            i: {"value": i - self._partitions, "runTimeMs": self._created_ms} for i in range(self._partitions)
        })

    def plan_input_partitions(self, start: Offset) -> list[RateStreamContinuousInputPartition]:
        """Raises ValueError if `start` was written in micro-batches, IllegalArgumentException if numPartitions has changed."""
        offsets = json.loads(start)
        if not isinstance(offsets, dict):
            raise ValueError(f"Expected an object with the offset of each partition but got {start}")
        if len(offsets) != self._partitions:
            raise illegal_argument(
                f"The previous run contained {len(offsets)} partitions, but {self._partitions} partitions are currently "
                "configured. The numPartitions option cannot be changed."
            )
        return [
            RateStreamContinuousInputPartition(offsets[str(i)], self._partitions, self._ms_per_row)
            for i in range(self._partitions)
        ]
