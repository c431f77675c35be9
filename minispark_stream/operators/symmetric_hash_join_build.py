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

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, compress

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.columns import Columns, take
from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.operators.state_task import (
    OperatorWatermarks,
    StatefulOperatorStateInfo,
    Stopwatch,
    own_partition,
    record_batches,
)
from minispark_stream.operators.symmetric_hash_join_partners import NOBODY, Meetings
from minispark_stream.operators.symmetric_hash_join_rows import LEFT, RIGHT, Ints, Join, NewRows, PairNumbers, Pairs
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
        partition, rows = own_partition(batches)
        with open_sides(self.info, partition, self.join) as sides:
            emitted, done = self.run(sides, rows)
        self.metrics.add([(partition, done)])
        yield from record_batches(emitted, self.output)

    def run(self, sides: Sides, batches: Iterable[pa.RecordBatch]) -> tuple[Iterable[Columns], StateMetrics]:
        """One partition against its open stores: the columns to emit, and what happened."""
        clock = Stopwatch()
        emitted: list[Iterable[Columns]] = []
        rows, pairs = self.join.read(batches)
        joiner = None
        if rows is not None:
            joiner = Joiner(self.join, sides, rows, pairs, self.watermarks.late_ms)
            joiner.run()  # (1) to (3)
            emitted.append(map(self._joined, joiner.meetings.pairs()))
        updates_ms = clock.lap()
        evicted = 0
        for side in (LEFT, RIGHT):  # (4)
            gone = self._evict(side, sides[side], joiner.keys if joiner else [])
            evicted += len(gone)
            if self.join.is_outer(side):
                emitted.append([self._with_nulls(side, sides[side], gone)])
        removals_ms = clock.lap()
        for store in (*sides[LEFT].stores, *sides[RIGHT].stores):  # (5)
            store.commit()
        return chain.from_iterable(emitted), StateMetrics(
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

    def _joined(self, pairs: Pairs) -> Columns:
        """Left and right columns; of a semi join only the left ones are asked for."""
        return self._cast([*pairs.columns[LEFT], *pairs.columns[RIGHT]])

    def _with_nulls(self, side: int, state: JoinSideState, gone: list[Buffered]) -> Columns:
        """The rows of a side that were never matched, beside nulls."""
        never = [row.value for row in gone if not state.is_matched(row.value)]
        own = state.decode(never)
        other = [pa.nulls(len(never), t) for t in UnsafeRowCodec(self.join.sides[1 - side].row).arrow_types]
        return self._cast([*own, *other] if side == LEFT else [*other, *own])

    def _cast(self, columns: Columns) -> Columns:
        return [column.cast(f.type) for column, f in zip(columns, self.output)]


class Joiner:
    """(1) One walk over the new rows of a partition. `meetings`: what leaves."""

    def __init__(self, join: Join, sides: Sides, rows: NewRows, pairs: PairNumbers, late_ms: int):
        self.join, self.sides, self.rows = join, sides, rows
        self.keys = UnsafeRowCodec(join.keys).encode(rows.keys, len(rows.side))
        self.late = join.is_late(rows, late_ms)  # (2)
        self.dropped = int(self.late.sum())
        self.meetings = Meetings(rows, self.keys, sides)
        self.places = _by_row(pairs)
        self._find_partners()
        self.matched: tuple[dict[bytes, set[int]], ...] = ({}, {})  # of each side: the places that are marked already
        self.left_rows: dict[bytes, list[int]] = {}  # semi join: which left rows of a key are still there
        self.updated = self.removed = 0

    def _find_partners(self) -> None:
        """Whom each row may meet, as `Probe` has found it: the state before anything in it is changed."""
        first = self.join.order[0]
        for row in np.flatnonzero(self.rows.passes & ~self.late & (self.rows.side == first)).tolist():
            self.meetings.partners[first].add(self.keys[row], row)
        for row in self.places:
            self._partners(row)

    def _partners(self, row: int) -> Ints:
        """The positions of all rows of the other side under a row's key, by place."""
        return self.meetings.partners[1 - int(self.rows.side[row])].of(self.keys[row])

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
        is_matched = row in self.places
        if is_matched:
            self.meetings.add(row, self._partners(row)[self.places[row]])
            self._mark_matched(row, 1 - side)
        comes_first = side == self.join.order[0]  # the new rows of the other side find it in the state
        leaves_with_nulls = self.join.is_outer(side) and not is_matched
        if comes_first or stays or leaves_with_nulls:
            self.store(row, side, value, is_matched)

    def _mark_matched(self, row: int, side: int) -> None:
        """Mark the partners of a row, which are rows of `side`; those that this batch has marked already need no look."""
        matched = self.matched[side].setdefault(self.keys[row], set())
        for place in self.places[row].tolist():
            if place not in matched:
                self.sides[side].mark_matched(self.keys[row], place)
                matched.add(place)

    def emit_alone(self, row: int, side: int) -> None:
        """A row that can never match: an outer join need not wait."""
        if self.join.is_outer(side):
            self.meetings.add(row, NOBODY)

    def semi_join_right_row(self, row: int, value: bytes) -> None:
        """(3) Left rows that find their match have done their part: they leave the state."""
        key, left = self.keys[row], self.sides[LEFT]
        there = self.left_rows.setdefault(key, list(range(left.count(key))))
        met = set(there).intersection(self.places.get(row, NOBODY).tolist())
        for place in sorted(met):
            self.meetings.add(row, self._partners(row)[[place]])
        self.removed += sum(1 for _ in left.remove_where(key, there, met.__contains__))
        self.store(row, RIGHT, value, matched=bool(met))

    def semi_join_left_row(self, row: int, value: bytes, stays: bool) -> None:
        """(3) One match is enough."""
        if row in self.places:
            first = self.places[row][:1]
            self.sides[RIGHT].mark_matched(self.keys[row], int(first[0]))
            self.meetings.add(row, self._partners(row)[first])
        elif stays:
            self.store(row, LEFT, value, matched=False)

    def store(self, row: int, side: int, value: bytes, matched: bool) -> None:
        self.updated += 1
        self.sides[side].append(self.keys[row], value, matched)


def _by_row(pairs: PairNumbers) -> dict[int, Ints]:
    """The places of the partners of each row that has any."""
    if not len(pairs.row):
        return {}
    begins = np.concatenate([[0], np.flatnonzero(np.diff(pairs.row)) + 1])
    return dict(zip(pairs.row[begins].tolist(), np.split(pairs.partner, begins[1:])))
