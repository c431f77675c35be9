"""What the task halves of stateful operators have in common: a partition, its store, two watermarks.

Models: StatefulOperatorStateInfo, and mapPartitionsWithStateStore of StateStoreOps (About state).

1. The driver says which state a task works on (`StatefulOperatorStateInfo`); the first row says which partition it is.
2. The task opens its store at `store_version`, which is the id of the batch: batch N reads version N and writes version N + 1.
   So a batch that runs again reads what it read before, and writes the same version once more.
3. The operator works (`run`) and commits version N + 1. When it fails, its changes are forgotten.
4. Only then do the metrics and the rows leave.

    batch 7, partition 3     get_store(.../state/0/3, version=7)  ->  run  ->  commit: 8.delta  ->  rows

Because the store is committed before the first row leaves, a consumer that stops early cannot leave a store behind
without its version.

Differs from Spark: nothing.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import pyarrow as pa
from pyspark.accumulators import Accumulator

from minispark_stream.engine.operators.columns import Columns
from minispark_stream.engine.operators.metrics import Report, StateMetrics
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStore, StateStoreConf, StateStoreId

_OPEN_FILES = "/proc/self/fd"


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
    the checkpoint, and `num_partitions` the number of partitions that this operator's state has.
    """

    state_dir: str
    operator_id: int
    store_version: int
    num_partitions: int
    conf: StateStoreConf

    @contextmanager
    def open_stores(self, partition: int, *names: str) -> Iterator[list[StateStore]]:
        """(2) Some stores of a partition; (3) what is not committed at the end is aborted.

        Raises:
            RuntimeError: the rows came in more partitions than there are of the state, so that keys may be in two of them.
        """
        if partition >= self.num_partitions:
            raise RuntimeError(f"Operator {self.operator_id} has {self.num_partitions} partitions, no number {partition}.")
        with ExitStack() as at_the_end:
            stores = []
            for name in names:
                store_id = StateStoreId(self.state_dir, self.operator_id, partition, name)
                stores.append(get_store(store_id, self.conf, version=self.store_version))
                at_the_end.callback(stores[-1].abort)
            yield stores


@dataclass(frozen=True, kw_only=True)
class StateTask(ABC):
    """The task half of an operator with one store; calling it runs one partition (for mapInArrow).

    Rows leave under the schema `output`, and what happened goes to `metrics`.
    """

    info: StatefulOperatorStateInfo
    watermarks: OperatorWatermarks
    output: pa.Schema
    metrics: Accumulator[list[Report]]

    @abstractmethod
    def run(self, store: StateStore, batches: Iterable[pa.RecordBatch]) -> tuple[list[Columns], StateMetrics]:
        """The partition's rows against the open store; commits, and returns columns to emit and what happened."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, rows = own_partition(batches)
        with self.info.open_stores(partition, DEFAULT_STORE_NAME) as [store]:
            emitted, done = self.run(store, rows)
        self.metrics.add([(partition, done)])  # (4)
        yield from record_batches(emitted, self.output)


def own_partition(batches: Iterable[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
    """(1) The number of the partition, which that of its first row says (engine/jvm/state_rdd.py), and its rows."""
    spare_what_is_imported(len(sys.modules))
    acknowledge_at_once()
    batches = iter(batches)
    first = next(batches)
    rows = chain([first.slice(1)], batches)
    return first.column(0)[0].as_py() >> 33, (batch.select(range(1, batch.num_columns)) for batch in rows)


def acknowledge_at_once() -> None:
    """Tell Spark at once that the beginning of its rows has come.

    Over TCP, Spark keeps the end of what it sends back until then, and Linux takes 40 ms to say so unless it is asked. Which
    socket is the worker's, PySpark does not tell, so all of them are asked; a Unix socket refuses, which is fine.
    """
    if not hasattr(socket, "TCP_QUICKACK") or not os.path.isdir(_OPEN_FILES):
        return
    for descriptor in map(int, os.listdir(_OPEN_FILES)):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


@lru_cache(maxsize=1)
def spare_what_is_imported(modules: int) -> None:
    """Whenever there are more `modules` than before: what they have brought is no garbage, and need not be searched for any.

    After each task, PySpark's worker collects garbage. Among all that pandas, pyarrow and Spark have brought, half of it while
    the first task ran, that takes 30 ms of CPU, more than a small task. While a task runs, Python would look for garbage after
    each 700 new objects, among the rows of the state, too; with 200,000, a task over many rows takes a tenth less.
    """
    gc.freeze()
    gc.set_threshold(200_000)


def record_batches(emitted: Iterable[Columns], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Columns as mapInArrow wants them."""
    for columns in emitted:
        yield from pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=10_000)


class Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> int:
        """Milliseconds since the last lap."""
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return round(elapsed * 1000)
