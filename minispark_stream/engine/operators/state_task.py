"""What the task halves of stateful operators have in common: a partition, its stores, two watermarks.

Models: StatefulOperatorStateInfo, and mapPartitionsWithStateStore of StateStoreOps (About state).

1. The driver says which state a task works on (`StatefulOperatorStateInfo`); the first row says which partition it is.
2. The task opens its stores at `store_version`, which is the id of the batch: batch N reads version N and writes version N + 1.
   So a batch that runs again reads what it read before, and writes the same version once more.
3. The operator works (`run`). Most tasks change their stores and commit version N + 1; a task that comes before another task of
   the same operator (restore, probe) only reads. If a task fails, its changes are forgotten.
4. Only then do the metrics and the rows leave the task.

    batch 7, partition 3     get_store(.../state/0/3, version=7)  ->  run  ->  commit: 8.delta  ->  rows

Because the stores are committed before the first row leaves, the new version is there even if a consumer stops reading early.

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.commit_log import ids_by_store
from minispark_stream.engine.operators.metrics import Report, StateMetrics
from minispark_stream.engine.operators.told import MOST_TOLD, Told
from minispark_stream.engine.operators.worker_tuning import tune_worker
from minispark_stream.engine.state.loaded_providers import LOADED_PROVIDERS, get_store, this_worker
from minispark_stream.engine.state.row_format import RowFormat
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStore, StateStoreConf, StateStoreId

ROWS_AT_A_TIME = 10_000
OF_A_BATCH: Any = None  # a field of a task that only has a value in the task of a batch (StatefulOperator.of_batch)


@dataclass(frozen=True)
class OperatorWatermarks:
    """The two watermarks of a stateful operator in one batch, in milliseconds.

    Rows that are not after `late_ms` are dropped; state that is not after `eviction_ms` is removed. They differ because what is
    still in the state when a batch begins was decided by the watermark of the batch before. If `eviction_ms` has not `moved`
    since that batch, the state from before has nothing to remove, and need not be searched. What the operator emits is not
    older than `output_ms`, and this is what the operator above it gets as its watermark; None if it promises nothing.
    """

    late_ms: int
    eviction_ms: int
    moved: bool
    output_ms: int | None = None


@dataclass(frozen=True)
class StatefulOperatorStateInfo:
    """(1) The state that an operator works on in one batch.

    Attributes:
        state_dir: the `state` folder of the checkpoint.
        store_version: N; the batch reads version N of every store and writes version N + 1.
        num_partitions: how many partitions this operator's state has.
        unique_ids: in checkpoint format 2, the ids of version N's files, for each partition.
        schemas: the name, key schema and value schema of the stores whose first rows are checked (engine/state/row_format.py).
        checks_values: whether not only the keys of these rows are checked.
        wants_told: whether a task reports what it decides about rows (engine/operators/told.py).
    """

    state_dir: str
    operator_id: int
    store_version: int
    num_partitions: int
    conf: StateStoreConf
    unique_ids: Sequence[Sequence[str]] = ()
    schemas: Sequence[tuple[str, StructType, StructType]] = ()
    checks_values: bool = True
    wants_told: bool = False

    def store_id(self, partition: int, name: str) -> StateStoreId:
        return StateStoreId(self.state_dir, self.operator_id, partition, name)

    @contextmanager
    def open_stores(self, partition: int, *names: str) -> Iterator[list[StateStore]]:
        """(2) Some stores of a partition; (3) if they have not been committed at the end, their changes are forgotten.

        Raises:
            RuntimeError: the rows have more partitions than the state, so the same key might be in two of them.
        """
        if partition >= self.num_partitions:
            there_are = f"operator {self.operator_id} has {self.num_partitions} state partitions"
            raise RuntimeError(f"Partition {partition} is out of range: {there_are}.")
        with ExitStack() as at_the_end:
            stores, ids = [], ids_by_store(self.unique_ids, partition) if self.unique_ids else {}
            formats = {name: RowFormat(key, value if self.checks_values else None) for name, key, value in self.schemas}
            for name in names:
                store_id = self.store_id(partition, name)
                stores.append(get_store(store_id, self.conf, self.store_version, ids.get(name), formats.get(name)))
                at_the_end.callback(stores[-1].abort)
            yield stores


@dataclass(frozen=True, kw_only=True)
class StateTask(ABC):
    """The task half of an operator; calling it runs one partition (for mapInArrow).

    The driver half holds the task without what is of a batch. Rows leave under the schema `output`, and what happened goes to
    `metrics`.
    """

    info: StatefulOperatorStateInfo = OF_A_BATCH
    watermarks: OperatorWatermarks = OF_A_BATCH
    output: pa.Schema = OF_A_BATCH
    metrics: Accumulator[list[Report]] = OF_A_BATCH

    @property
    def store_names(self) -> Sequence[str]:
        """The names of the stores that `run` is given."""
        return (DEFAULT_STORE_NAME,)

    @abstractmethod
    def run(
        self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]
    ) -> tuple[Iterable[pa.RecordBatch], StateMetrics]:
        """Process the partition's rows with the open stores, and commit; returns the rows to emit and what happened."""

    def committed(
        self, clock: Stopwatch, stores: Sequence[StateStore], decided: Callable[[], Iterable[Told]] | None, **counted: Any
    ) -> StateMetrics:
        """(3) Commit the stores; returns what has happened: what the task has `counted` (see StateMetrics) and `decided`."""
        for store in stores:
            store.commit()
        return StateMetrics(
            commit_time_ms=clock.lap(),
            stores=dict(zip(self.store_names, (store.metrics() for store in stores))),
            told=None if decided is None else self.tell(decided),
            **counted,
        )

    def tell(self, decided: Callable[[], Iterable[Told]]) -> tuple[Told, ...] | None:
        """The first rows of what the task `decided`; None, without computing anything, if the driver has not asked for it."""
        if not self.info.wants_told:
            return None
        return tuple(one._replace(rows=one.rows.slice(0, MOST_TOLD)) for one in decided() if one.rows.num_rows)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        partition, rows = own_partition(batches)
        with self.info.open_stores(partition, *self.store_names) as stores:
            emitted, done = self.run(stores, rows)
            if self.info.wants_told:
                where = ((name, LOADED_PROVIDERS.where(self.info.store_id(partition, name))) for name in self.store_names)
                loaded_from = {name: known for name, known in where if known is not None}
                done = replace(done, worker=this_worker(), loaded_from=loaded_from)
            self.metrics.add([(partition, done)])  # (4)
            for batch in emitted:
                yield from record_batches(batch, self.output)


def own_partition(batches: Iterable[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
    """(1) The number of the partition, which the first row says (engine/jvm/state_rdd.py), and the other rows."""
    batches = iter(batches)
    first = next(batches)
    rows = chain([first.slice(1)], batches)
    return first.column(0)[0].as_py() >> 33, (batch.select(range(1, batch.num_columns)) for batch in rows)


def record_batches(rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as mapInArrow needs them: with the names and types of `schema`, ROWS_AT_A_TIME at a time."""
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
