"""What both tasks of a stream-stream join have in common: the stores in which its rows wait.

Models: OneSideHashJoinerManager, and the stores that StreamingSymmetricHashJoinExec opens (About state: SymmetricHashJoin).

1. By default, each side has two stores of its own (symmetric_hash_join_state_manager.py).
2. A join may also keep its rows in another way (extras/join_in_families). Then it has other `Buffers`, and instead of
   `JoinSideState` a class with the same methods.
3. Stores with many rows are committed at the same time: while one waits until the disk has its file, others are written.

    a partition     left-keyToNumValues, left-keyWithIndexToValue, right-keyToNumValues, right-keyWithIndexToValue

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, STORES
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import JoinSideState, Sides
from minispark_stream.engine.operators.state_task import StateTask
from minispark_stream.engine.state.state_store import StateStore, StateStoreMetrics

MANY_ROWS = 10_000


class Buffers(Protocol):
    """(2) Where a join keeps its rows: in which stores, and in which form."""

    @property
    def store_names(self) -> Sequence[str]: ...

    def sides(self, join: Join, stores: Sequence[StateStore], skips_nulls: bool = False) -> Sides:
        """The two sides of a partition, in its open stores."""

    def commit(self, stores: Sequence[StateStore]) -> Sequence[StateStoreMetrics]:
        """Commit all stores; returns their metrics."""


@dataclass(frozen=True)
class FourStores:
    """(1) State format 2: each side has two stores of its own."""

    @property
    def store_names(self) -> Sequence[str]:
        return STORES

    def sides(self, join: Join, stores: Sequence[StateStore], skips_nulls: bool = False) -> Sides:
        left_counts, left_values, right_counts, right_values = stores
        return (
            JoinSideState(join.keys, join.sides[LEFT].row, left_counts, left_values, skips_nulls),
            JoinSideState(join.keys, join.sides[RIGHT].row, right_counts, right_values, skips_nulls),
        )

    def commit(self, stores: Sequence[StateStore]) -> Sequence[StateStoreMetrics]:  # (3)
        if sum(store.num_keys for store in stores) > MANY_ROWS:
            with ThreadPoolExecutor(len(stores)) as threads:
                list(threads.map(lambda store: store.commit(), stores))
        else:
            for store in stores:
                store.commit()
        return [store.metrics() for store in stores]


@dataclass(frozen=True, kw_only=True)
class JoinTask(StateTask):
    """One of the two tasks of a join."""

    join: Join
    buffers: Buffers = FourStores()

    @property
    def store_names(self) -> Sequence[str]:
        return self.buffers.store_names

    def sides(self, stores: Sequence[StateStore]) -> Sides:
        """The two sides of the partition, in its open stores."""
        return self.buffers.sides(self.join, stores, self.info.conf.skip_nulls_for_stream_stream_joins)

    def skipped(self, number: int) -> dict[str, int]:
        """The custom metrics of a task that has skipped some nulls."""
        return {"skippedNullValueCount": number} if self.info.conf.skip_nulls_for_stream_stream_joins else {}
