"""What the task halves of stateful operators have in common: one partition, one store.

Models: mapPartitionsWithStateStore (About state).

A `StateTask` opens version N of the partition's store, lets the operator work, reports what it did, and only then
lets rows go. The operator commits version N+1; when it fails, nothing of its work remains.

Because the store is committed before the first row leaves, a consumer that stops early cannot leave a store behind
without its version. Differs from Spark, which commits when the last row has been asked for.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from minispark_stream.operators.columns import Columns
from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.state.loaded_providers import get_store
from minispark_stream.state.state_store import StateStore, StateStoreConf, StateStoreId


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


class Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> int:
        """Milliseconds since the last lap."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return round(elapsed * 1000)
