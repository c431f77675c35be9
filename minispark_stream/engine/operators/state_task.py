"""What the task halves of stateful operators have in common: a partition, its stores, two watermarks.

Models: StatefulOperatorStateInfo, and mapPartitionsWithStateStore of StateStoreOps (About state).

1. The driver says which state a task works on (`StatefulOperatorStateInfo`); the first row says which partition it is.
2. The task opens its stores at `store_version`, which is the id of the batch: batch N reads version N and writes version N + 1.
   So a batch that runs again reads what it read before, and writes the same version once more.
3. The operator works (`run`). Most of them change their stores and commit version N + 1; those that come before another task of
   the same operator (restore, probe) only read. When an operator fails, its changes are forgotten.
4. Only then do the metrics and the rows leave.

    batch 7, partition 3     get_store(.../state/0/3, version=7)  ->  run  ->  commit: 8.delta  ->  rows

Because the stores are committed before the first row leaves, a consumer that stops early cannot leave a store behind
without its version.

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypedDict

import pyarrow as pa
from pyspark.accumulators import Accumulator

from minispark_stream.engine.checkpointing.commit_log import ids_by_store
from minispark_stream.engine.operators.metrics import Report, StateMetrics
from minispark_stream.engine.operators.told import MOST_TOLD, Told
from minispark_stream.engine.operators.worker_tuning import tune_worker
from minispark_stream.engine.state.loaded_providers import LOADED_PROVIDERS, get_store, this_worker
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStore, StateStoreConf, StateStoreId

ROWS_AT_A_TIME = 10_000


@dataclass(frozen=True)
class OperatorWatermarks:
    """The two watermarks of a stateful operator in one batch, in milliseconds.

    Rows not after `late_ms` are dropped; state not after `eviction_ms` is removed. They differ because the rows of a
    batch were let in under the watermark of the batch before. Where `eviction_ms` has not `moved` since that batch, the state
    that was there before has nothing to remove and need not be searched.
    """

    late_ms: int
    eviction_ms: int
    moved: bool


@dataclass(frozen=True)
class StatefulOperatorStateInfo:
    """(1) Which state an operator works on in one batch.

    Batch N reads version N of every store and writes version N + 1; `store_version` is N. `state_dir` is the `state` folder of
    the checkpoint, and `num_partitions` the number of partitions that this operator's state has. `unique_ids`: for each
    partition, in which files version N is, in checkpoint format 2. `tells`: what a task decides goes into its report
    (engine/operators/told.py).
    """

    state_dir: str
    operator_id: int
    store_version: int
    num_partitions: int
    conf: StateStoreConf
    unique_ids: Sequence[Sequence[str]] = ()
    tells: bool = False

    def store_id(self, partition: int, name: str) -> StateStoreId:
        return StateStoreId(self.state_dir, self.operator_id, partition, name)

    @contextmanager
    def open_stores(self, partition: int, *names: str) -> Iterator[list[StateStore]]:
        """(2) Some stores of a partition; (3) what is not committed at the end is aborted.

        Raises:
            RuntimeError: the rows came in more partitions than there are of the state, so that keys may be in two of them.
        """
        if partition >= self.num_partitions:
            there_are = f"operator {self.operator_id} has {self.num_partitions} state partitions"
            raise RuntimeError(f"Partition {partition} is out of range: {there_are}.")
        with ExitStack() as at_the_end:
            stores, ids = [], ids_by_store(self.unique_ids, partition)
            for name in names:
                stores.append(get_store(self.store_id(partition, name), self.conf, self.store_version, ids.get(name)))
                at_the_end.callback(stores[-1].abort)
            yield stores


class OfTask(TypedDict):
    """The arguments that every task takes: see StateTask."""

    info: StatefulOperatorStateInfo
    watermarks: OperatorWatermarks
    output: pa.Schema
    metrics: Accumulator[list[Report]]


@dataclass(frozen=True, kw_only=True)
class StateTask(ABC):
    """The task half of an operator; calling it runs one partition (for mapInArrow).

    Rows leave under the schema `output`, and what happened goes to `metrics`.
    """

    info: StatefulOperatorStateInfo
    watermarks: OperatorWatermarks
    output: pa.Schema
    metrics: Accumulator[list[Report]]

    @property
    def store_names(self) -> Sequence[str]:
        """The stores that `run` is given."""
        return (DEFAULT_STORE_NAME,)

    @abstractmethod
    def run(
        self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]
    ) -> tuple[Iterable[pa.RecordBatch], StateMetrics]:
        """The partition's rows against the open stores; commits, and returns the rows to emit and what happened."""

    def tell(self, decided: Callable[[], Iterable[Told]]) -> tuple[Told, ...] | None:
        """The first rows of what the task `decided`; None, and nothing computed, unless it is to tell."""
        if not self.info.tells:
            return None
        return tuple(one._replace(rows=one.rows.slice(0, MOST_TOLD)) for one in decided() if one.rows.num_rows)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        partition, rows = own_partition(batches)
        with self.info.open_stores(partition, *self.store_names) as stores:
            emitted, done = self.run(stores, rows)
            if self.info.tells:
                where = ((name, LOADED_PROVIDERS.where(self.info.store_id(partition, name))) for name in self.store_names)
                done = replace(done, worker=this_worker(), came={name: known for name, known in where if known is not None})
            self.metrics.add([(partition, done)])  # (4)
            for batch in emitted:
                yield from record_batches(batch, self.output)


def own_partition(batches: Iterable[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
    """(1) Returns (partition number, read from the first row; remaining rows). See engine/jvm/state_rdd.py."""
    batches = iter(batches)
    first = next(batches)
    rows = chain([first.slice(1)], batches)
    return first.column(0)[0].as_py() >> 33, (batch.select(range(1, batch.num_columns)) for batch in rows)


def record_batches(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as mapInArrow wants them."""
    typed = pa.RecordBatch.from_arrays(rows.columns, schema=schema) if rows.columns else rows
    for begin in range(0, rows.num_rows, ROWS_AT_A_TIME):
        yield typed.slice(begin, ROWS_AT_A_TIME)


class Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> int:
        """Milliseconds since the last lap."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return round(elapsed * 1000)
