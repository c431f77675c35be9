"""The second task of a stream-stream join: it emits the pairs, and stores the new rows in the state.

symmetric_hash_join_row_by_row.py does the same a row at a time, and is easier to read.

Models: OneSideHashJoiner.storeAndJoinWithOtherSide and the eviction in StreamingSymmetricHashJoinExec (About state:
SymmetricHashJoin). The input consists of the new rows, and of those pairs from `Probe` that fulfil the join condition.

1. First the new rows of the side that comes first, then those of the other side (`Joiner`): their partners are marked as
   matched, their pairs are emitted, and the rows are stored. A right row that this batch would evict at once is not stored,
   unless an outer join must still emit it with nulls.
2. Late rows are dropped before anything else. A row that fails the condition of its own side has no partners and is not stored:
   an outer join emits it with nulls at once.
3. In a semi join, a left row is emitted once, without its partner, when its first match is found. Then it is removed from the
   state, or not stored at all.
4. Evict the rows that the state watermarks have passed. Of a side that is outer, rows that were never matched are emitted with
   nulls.
5. Commit the stores; emit the rows.

    state     left a: (12:00)      pair     (12:00, 12:03)
    Build     marks (12:00) as matched, stores right a: (12:03), emits (12:00, 12:03)

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, chosen
from minispark_stream.engine.operators.columns import BoolMask, record_batch, take
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import JoinTask
from minispark_stream.engine.operators.join.symmetric_hash_join_partners import NOBODY, Meetings, chunks
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join, NewRows, PairNumbers, Pairs, number_keys
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import JoinSideState, Sides
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import Stopwatch
from minispark_stream.engine.operators.told import EMITTED, KEPT, LATE, MATCHED, MOST_TOLD, OLD, PASSED, REMOVED, UNFIT, Told
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class Build(JoinTask):
    """Receives new rows and pairs, emits the rows of the join; calling it runs one partition (for mapInArrow)."""

    def run(
        self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]
    ) -> tuple[Iterable[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open stores; returns the rows to emit and what happened."""
        clock = Stopwatch()
        sides = self.sides(stores)
        emitted: list[Iterable[pa.RecordBatch]] = []
        gone: list[Sequence[bytes]] = []
        rows, pairs = self.join.read(batches)
        joiner = None
        if rows is not None:
            joiner = Joiner(self.join, sides, rows, pairs, self.watermarks.late_ms)
            emitted.append(map(self._joined, joiner.meetings.pairs(chunks(joiner.run()))))  # (1) to (3)
        updates_ms = clock.lap()
        for side in (LEFT, RIGHT):  # (4)
            new = joiner.keys.keys if joiner else []  # if the watermark has not moved, only these keys may have old rows
            gone.append(sides[side].evict(self.join, side, None if self.watermarks.moved else new))
            if self.join.is_outer(side):
                emitted.append([self._with_nulls(side, sides[side], gone[side])])
        removals_ms = clock.lap()
        committed = self.buffers.commit(stores)  # (5)
        told, both = self._told(joiner, sides, gone, chain.from_iterable(emitted))
        return map(self._asked_for, both), StateMetrics(
            num_rows_updated=joiner.updated if joiner else 0,
            num_rows_removed=sum(side.num_evicted for side in sides) + (len(joiner.gone) if joiner else 0),
            num_rows_dropped_by_watermark=joiner.dropped if joiner else 0,
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores=dict(zip(self.store_names, committed)),
            num_rows_total=sides[LEFT].num_rows + sides[RIGHT].num_rows,
            custom=self.skipped(sides[LEFT].num_skipped + sides[RIGHT].num_skipped),
            told=told,
        )

    def _told(
        self, joiner: Joiner | None, sides: Sides, gone: Sequence[Sequence[bytes]], emitted: Iterator[pa.RecordBatch]
    ) -> tuple[tuple[Told, ...] | None, Iterator[pa.RecordBatch]]:
        """What the task decided, if the driver asks for it; and the rows to emit, whose first batches were read for this."""
        first, looked = list[pa.RecordBatch](), 0
        while self.info.wants_told and looked < MOST_TOLD and (batch := next(emitted, None)) is not None:
            first.append(batch)
            looked += batch.num_rows

        def removed(side: int) -> pa.RecordBatch:
            values = [*gone[side], *(joiner.gone if joiner and side == LEFT else ())]
            return record_batch(sides[side].decode(values), len(values))

        told = self.tell(lambda: (
            *(joiner.told() if joiner else ()),
            *(Told(REMOVED, removed(side), side) for side in (LEFT, RIGHT)),
            *(Told(EMITTED, batch) for batch in first),
        ))
        return told, chain(first, emitted)

    def _joined(self, pairs: Pairs) -> pa.RecordBatch:
        """Pairs as rows of left and right columns."""
        return record_batch([*pairs.columns[LEFT], *pairs.columns[RIGHT]], len(pairs.row))

    def _asked_for(self, joined: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the output; a semi join has only the left ones."""
        return record_batch(joined.columns[: len(self.output)], joined.num_rows)

    def _with_nulls(self, side: int, state: JoinSideState, gone: Sequence[bytes]) -> pa.RecordBatch:
        """The rows of a side that were never matched, beside nulls."""
        never = chosen(gone, ~state.is_matched(gone))
        own = state.decode(never)
        other = [pa.nulls(len(never), t) for t in UnsafeRowCodec(self.join.sides[1 - side].row).arrow_types]
        return record_batch([*own, *other] if side == LEFT else [*other, *own], len(never))


class Joiner:
    """(1) Joins the new rows of a partition, one side after the other. `meetings` knows their possible partners."""

    def __init__(self, join: Join, sides: Sides, rows: NewRows, pairs: PairNumbers, late_ms: int):
        self.join, self.sides, self.rows, self.found = join, sides, rows, pairs
        self.keys = number_keys(join.keys, rows.keys, len(rows.side))
        self.late = join.is_late(rows, late_ms)  # (2)
        self.dropped = int(self.late.sum())
        self.joins = rows.passes & ~self.late
        new = np.flatnonzero(join.is_found(rows, self.joins))
        self.meetings = Meetings(rows, self.keys, sides, asking=pairs.row, new=new)
        self.updated = 0
        self.gone: Sequence[bytes] = []  # left rows that a semi join has removed from the state
        self.stored = np.zeros(len(rows.side), np.bool_)

    def run(self) -> PairNumbers:
        """Join and store all new rows that are not late; returns the pairs to emit."""
        emitted = []
        for side in self.join.order:
            pairs = self.found.some(self.rows.side[self.found.row] == side)
            if self.join.join_type != "LeftSemi":
                emitted.append(self.join_rows(side, pairs))
            elif side == RIGHT:
                emitted.append(self.semi_join_right_rows(pairs))
            else:
                emitted.append(self.semi_join_left_rows(pairs))
        return PairNumbers(*map(np.concatenate, zip(*emitted)))

    def join_rows(self, side: int, pairs: PairNumbers) -> PairNumbers:
        """The new rows of a side of an inner or outer join: their pairs are emitted, and they wait for partners to come."""
        self.mark_matched(1 - side, pairs)
        matched = self.is_matched(pairs)
        waits = self.is_of(side) & self.joins
        if side == RIGHT:  # left rows are always stored, because the new right rows look for them in the state
            leaves_with_nulls = self.join.is_outer(side) & ~matched
            waits &= ~self.is_old(side) | leaves_with_nulls
        self.store(side, waits, matched)
        return self.with_those_alone(side, pairs) if self.join.is_outer(side) else pairs

    def with_those_alone(self, side: int, pairs: PairNumbers) -> PairNumbers:
        """(2) Some pairs, and the rows that can never have a partner: an outer join emits these without waiting."""
        alone = np.flatnonzero(self.is_of(side) & ~self.rows.passes & ~self.late)
        if not len(alone):
            return pairs
        row = np.concatenate([pairs.row, alone])
        both = PairNumbers(row, np.concatenate([pairs.partner, np.full(len(alone), NOBODY)]))
        return both.some(np.argsort(row, kind="stable"))

    def semi_join_right_rows(self, pairs: PairNumbers) -> PairNumbers:
        """(3) The new right rows of a semi join: left rows that they match are emitted and removed from the state."""
        pairs = pairs.some(self.meetings.first_of_each_partner(pairs))
        begins = np.flatnonzero(np.diff(pairs.row, prepend=-1))
        rows, places = pairs.row[begins], np.split(pairs.partner, begins[1:])
        gone = [(number, set(met.tolist())) for number, met in zip(self.keys.of_row[rows].tolist(), places)]
        self.gone = self.sides[LEFT].remove_where(self.keys, gone)
        self.store(RIGHT, self.is_of(RIGHT) & self.joins & ~self.is_old(RIGHT), self.is_matched(pairs))
        return pairs

    def semi_join_left_rows(self, pairs: PairNumbers) -> PairNumbers:
        """(3) The new left rows of a semi join: those that have a match are emitted, and only the others are stored."""
        pairs = pairs.some(np.flatnonzero(np.diff(pairs.row, prepend=-1)))
        self.mark_matched(RIGHT, pairs)
        never = np.zeros(len(self.joins), np.bool_)
        self.store(LEFT, self.is_of(LEFT) & self.joins & ~self.is_matched(pairs), matched=never)
        return pairs

    def mark_matched(self, side: int, pairs: PairNumbers) -> None:
        """Mark the partners in some pairs, which are rows of `side`, as matched."""
        pairs = pairs.some(self.meetings.first_of_each_partner(pairs))
        self.sides[side].mark_matched(take(self.rows.keys, pairs.row), pairs.partner)

    def store(self, side: int, which: BoolMask, matched: BoolMask) -> None:
        rows = np.flatnonzero(which)
        self.stored |= which
        self.updated += len(rows)
        self.sides[side].append(self.keys, rows, self.rows.columns[side], matched)

    def told(self) -> Iterator[Told]:
        """What became of the new rows of each side: they were late, or stored, or not stored for some reason."""
        for side in (LEFT, RIGHT):
            passed = self.joins & ~self.stored
            is_old = self.is_old(side) if side == RIGHT else np.zeros(len(passed), np.bool_)
            for what, why, which in (
                (LATE, "", self.late), (KEPT, "", self.stored), (PASSED, UNFIT, ~self.rows.passes & ~self.late),
                (PASSED, OLD, passed & is_old), (PASSED, MATCHED, passed & ~is_old),
            ):
                rows = np.flatnonzero(which & self.is_of(side))
                yield Told(what, record_batch(take(self.rows.columns[side], rows), len(rows)), side, why)

    # -- which rows ---------------------------------------------------------------------------------------------

    def is_of(self, side: int) -> BoolMask:
        return self.rows.side == side

    def is_old(self, side: int) -> BoolMask:
        """Which rows this batch would evict at once, if they are of this side."""
        return self.join.is_old(side, self.rows)

    def is_matched(self, pairs: PairNumbers) -> BoolMask:
        matched = np.zeros(len(self.rows.side), np.bool_)
        matched[pairs.row] = True
        return matched
