"""The second task of a stream-stream join: pairs become rows, and rows become state.

Models: OneSideHashJoiner.storeAndJoinWithOtherSide and the eviction in StreamingSymmetricHashJoinExec (About state:
SymmetricHashJoin). What comes in are new rows, and those of the pairs that `Probe` found which pass the join condition.

1. Row by row, those of the side that comes first before the others (`Joiner`): each partner is marked as matched, each pair
   leaves, and the row is stored, too. Of the side that comes second, what this batch would evict at once is not stored,
   unless an outer join still has to send it out with nulls.
2. Late rows are dropped before anything else. A row that fails the condition of its own side has no partners and is not stored:
   an outer join sends it out with nulls at once.
3. In a semi join a left row leaves with its first match, and is gone from the state, or is not stored at all.
4. Evict what the state watermarks have passed. Of a side that an outer join keeps, rows that were never matched leave with
   nulls.
5. Commit the four stores; let the rows go.

    state     left a: (12:00)      pair     (12:00, 12:03)
    Build     marks (12:00) as matched, stores right a: (12:03), emits (12:00, 12:03)

Differs from Spark: one pass over the pairs instead of nested iterators, because the condition is Spark's to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.columns import Columns, concat, take
from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.operators.state_task import (
    OperatorWatermarks,
    StatefulOperatorStateInfo,
    Stopwatch,
    partition_id,
    record_batches,
)
from minispark_stream.operators.symmetric_hash_join_rows import LEFT, RIGHT, Join, NewRows, Pairs
from minispark_stream.operators.symmetric_hash_join_state_manager import (
    COUNTS,
    VALUES,
    Buffered,
    JoinSideState,
    open_sides,
    store_name,
)

Sides = tuple[JoinSideState, JoinSideState]


@dataclass(frozen=True, kw_only=True)
class Build:
    """New rows and pairs in, the rows of the join out; calling it runs one partition (for mapInArrow)."""

    info: StatefulOperatorStateInfo
    watermarks: OperatorWatermarks
    output: pa.Schema
    metrics: Accumulator[list[Report]]
    join: Join

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open_sides(self.info, self.join) as sides:
            emitted, done = self.run(sides, concat(batches))
        self.metrics.add([(partition_id(), done)])
        yield from record_batches(emitted, self.output)

    def run(self, sides: Sides, table: Columns) -> tuple[list[Columns], StateMetrics]:
        """One partition against its open stores: the columns to emit, and what happened."""
        clock = Stopwatch()
        emitted: list[Columns] = []
        joiner = None
        if table:
            joiner = Joiner(self.join, sides, *self.join.read(table), self.watermarks.late_ms)
            joiner.run()  # (1) to (3)
            emitted.append(self._joined(take(table, np.array(joiner.emitted, np.int64))))
        updates_ms = clock.lap()
        evicted = 0
        for side in (LEFT, RIGHT):  # (4)
            gone = self._evict(side, sides[side], joiner.keys if joiner else [])
            evicted += len(gone)
            if self.join.is_outer(side):
                emitted.append(self._with_nulls(side, sides[side], gone))
        removals_ms = clock.lap()
        for store in (*sides[LEFT].stores, *sides[RIGHT].stores):  # (5)
            store.commit()
        return emitted, StateMetrics(
            num_rows_updated=joiner.updated if joiner else 0,
            num_rows_removed=evicted + (joiner.removed if joiner else 0),
            num_rows_dropped_by_watermark=joiner.dropped if joiner else 0,
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores={
                store_name(side, kind): store.metrics()
                for side in (LEFT, RIGHT)
                for kind, store in zip((COUNTS, VALUES), sides[side].stores)
            },
            num_rows_total=sides[LEFT].num_rows + sides[RIGHT].num_rows,
        )

    def _evict(self, side: int, state: JoinSideState, new_keys: list[bytes]) -> list[Buffered]:
        """Remove what the state watermark of a side has passed. An unmoved watermark can only concern new rows."""
        of_keys, of_rows = self.join.sides[side].evict_key_ms, self.join.sides[side].evict_value_ms
        if of_keys is None and of_rows is None:
            return []
        keys = state.keys() if self.watermarks.moved else [key for key in dict.fromkeys(new_keys) if state.count(key)]
        state.prepare(keys)
        if of_keys is not None:
            return list(state.remove_by_key(compress(keys, self.join.key_is_old(side, keys))))
        rows = [row for key in keys for row in state.rows_of(key)]
        is_old: dict[bytes, list[bool]] = {}
        for row, old in zip(rows, self.join.value_is_old(side, state.decode([row.value for row in rows])).tolist()):
            is_old.setdefault(row.key, []).append(old)
        return [gone for key, flags in is_old.items() for gone in state.remove_where(key, flags, bool)]

    def _joined(self, pairs: Columns) -> Columns:
        """Left and right columns; of a semi join only the left ones are asked for."""
        left, right = self.join.halves(pairs)
        return self._cast([*left, *right])

    def _with_nulls(self, side: int, state: JoinSideState, gone: list[Buffered]) -> Columns:
        """The rows of a side that were never matched, beside nulls."""
        never = [row.value for row in gone if not state.is_matched(row.value)]
        own = state.decode(never)
        other = [pa.nulls(len(never), t) for t in UnsafeRowCodec(self.join.sides[1 - side].row).arrow_types]
        return self._cast([*own, *other] if side == LEFT else [*other, *own])

    def _cast(self, columns: Columns) -> Columns:
        return [column.cast(f.type) for column, f in zip(columns, self.output)]


class Partner(NamedTuple):
    """A partner of a new row: its place among the stored rows of the key, and where the pair is in the table."""

    place: int
    position: int


class Joiner:
    """(1) One walk over the new rows of a partition. `emitted`: what leaves, as positions in the table that came in."""

    def __init__(self, join: Join, sides: Sides, rows: NewRows, pairs: Pairs, late_ms: int):
        self.join, self.sides, self.rows = join, sides, rows
        size = len(rows.side)
        self.keys = UnsafeRowCodec(join.keys).encode(rows.keys, size)
        for side in sides:
            side.prepare(self.keys)
        self.partners: dict[int, list[Partner]] = {}
        for position, (row, place) in enumerate(zip(pairs.row.tolist(), pairs.partner.tolist()), start=size):
            self.partners.setdefault(row, []).append(Partner(place, position))
        self.late = join.is_late(rows, late_ms)  # (2)
        self.dropped = int(self.late.sum())
        self.left_rows: dict[bytes, list[int]] = {}  # semi join: which left rows of a key are still there
        self.emitted: list[int] = []
        self.updated = self.removed = 0

    def run(self) -> None:
        """Join and store all new rows that are not late."""
        for side in self.join.order:
            mine = np.flatnonzero((self.rows.side == side) & ~self.late)
            values = self.sides[side].encode(take(self.rows.columns[side], mine))
            is_old = self.join.key_is_old(side, self.keys) | self.join.value_is_old(side, self.rows.columns[side])
            for row, value in zip(mine.tolist(), values):
                if not self.rows.passes[row]:
                    self.emit_alone(row, side)
                elif self.join.join_type != "LeftSemi":
                    self.join_row(row, side, value, stays=not is_old[row])
                elif side == RIGHT:
                    self.semi_join_right_row(row, value)
                else:
                    self.semi_join_left_row(row, value, stays=not is_old[row])

    def join_row(self, row: int, side: int, value: bytes, stays: bool) -> None:
        """A new row of an inner or outer join: its pairs leave, and it waits in the state for partners to come.

        `value` is the row as it is stored; `stays` says that this batch would not evict it at once.
        """
        partners = self.partners.get(row, [])
        for partner in partners:
            self.sides[1 - side].mark_matched(self.keys[row], partner.place)
            self.emitted.append(partner.position)
        comes_first = side == self.join.order[0]  # the new rows of the other side find it in the state
        leaves_with_nulls = self.join.is_outer(side) and not partners
        if comes_first or stays or leaves_with_nulls:
            self.store(row, side, value, matched=bool(partners))

    def emit_alone(self, row: int, side: int) -> None:
        """A row that can never match: an outer join need not wait."""
        if self.join.is_outer(side):
            self.emitted.append(row)

    def semi_join_right_row(self, row: int, value: bytes) -> None:
        """(3) Left rows that find their match have done their part: they leave the state."""
        key, left = self.keys[row], self.sides[LEFT]
        there = self.left_rows.setdefault(key, list(range(left.count(key))))
        met = {partner.place: partner.position for partner in self.partners.get(row, []) if partner.place in there}
        self.emitted += met.values()
        self.removed += sum(1 for _ in left.remove_where(key, there, met.__contains__))
        self.store(row, RIGHT, value, matched=bool(met))

    def semi_join_left_row(self, row: int, value: bytes, stays: bool) -> None:
        """(3) One match is enough."""
        for partner in self.partners.get(row, [])[:1]:
            self.sides[RIGHT].mark_matched(self.keys[row], partner.place)
            self.emitted.append(partner.position)
            return
        if stays:
            self.store(row, LEFT, value, matched=False)

    def store(self, row: int, side: int, value: bytes, matched: bool) -> None:
        self.updated += 1
        self.sides[side].append(self.keys[row], value, matched)
