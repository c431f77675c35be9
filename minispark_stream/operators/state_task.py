"""What the task halves of stateful operators have in common: one partition, one store, rows as Arrow columns.

Models: mapPartitionsWithStateStore and WatermarkSupport (About state; About watermark).

1. A `StateTask` opens version N of the partition's store, lets the operator work, reports what it did, and only then
   lets rows go. The operator commits version N+1; when it fails, nothing of its work remains.
2. `not_after` is the one question that a watermark asks: of a window it is the end that counts.

    not_after(window ends 12:05, 12:10;  watermark 12:05)   [true, false]

Because the store is committed before the first row leaves, a consumer that stops early cannot leave a store behind
without its version. Differs from Spark, which commits when the last row has been asked for.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.plan.aggregates import Columns
from minispark_stream.state.state_store import StateStore, StateStoreConf, StateStoreId, get_store


@dataclass(frozen=True)
class StateTask(ABC):
    """(1) The task half of an operator with one store; calling it runs one partition (for mapInArrow).

    The store is that of the operator and the partition below `state_dir`, at `version`. Rows leave under the schema `output`,
    and what happened goes to `metrics`.
    """

    state_dir: str
    operator_id: int
    version: int
    conf: StateStoreConf
    output: pa.Schema
    metrics: Accumulator[list[Report]]

    @abstractmethod
    def run(self, store: StateStore, batches: Iterable[pa.RecordBatch]) -> tuple[list[Columns], StateMetrics]:
        """The partition's rows against the open store; commits, and returns columns to emit and what happened."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        store = get_store(StateStoreId(self.state_dir, self.operator_id, partition), self.conf, self.version)
        try:
            emitted, done = self.run(store, batches)
        except BaseException:
            store.abort()
            raise
        self.metrics.add([(partition, done)])
        for columns in emitted:
            yield from pa.Table.from_arrays(columns, schema=self.output).to_batches(max_chunksize=10_000)


def not_after(columns: Columns, event_time: tuple[int, bool], watermark_ms: int) -> np.ndarray[Any, Any]:
    """(2) event time <= watermark; a null event time is never late. `event_time`: which column, is it a window."""
    position, is_window = event_time
    column = pc.struct_field(columns[position], "end") if is_window else columns[position]
    micros = column.cast(pa.int64())
    return np.asarray(pc.fill_null(pc.less_equal(micros, watermark_ms * 1000), False))


def concat(batches: Iterable[pa.RecordBatch]) -> Columns:
    """All record batches of a partition as one array per column; no columns when there are no rows."""
    table = [batch for batch in batches if batch.num_rows]
    if not table:
        return []
    if len(table) == 1:
        return list(table[0].columns)
    return list(pa.Table.from_batches(table).combine_chunks().to_batches()[0].columns)


def take(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    """Some rows of each column."""
    at = pa.array(rows)
    return [column.take(at) for column in columns]


class Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> int:
        """Milliseconds since the last lap."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return round(elapsed * 1000)
