"""A stream-stream join in one partition: two tasks in a row, with Spark's filter between them.

Models: StreamingSymmetricHashJoinExec.processPartitions and OneSideHashJoiner (About state: SymmetricHashJoin).

`Probe` looks up who may join whom; nothing is changed:
1. Each new left row meets the right rows in the state; each new right row meets the left rows in the state and the new
   left rows. So each pair is found exactly once. (In a semi join it is the right rows that come first.)
2. New rows and pairs leave together, in the order in which Spark would meet them.

Between the two, Spark filters the pairs with the rest of the join condition.

`Build` changes the state with the pairs that remain:
3. Row by row in that order: mark the partners as matched, and store the row, too. Of the side that comes second, what this
   batch would evict at once is not stored, unless an outer join still has to send it out with nulls. A left row of a
   semi join that has a match leaves the state, or is not stored at all.
4. Evict what the state watermarks have passed. Of the side that an outer join keeps, rows that were never matched leave
   with nulls.
5. Commit the four stores; let the rows go.

    state     left a: (12:00)              batch    right a: (12:03)
    Probe     (12:00, 12:03)               Build    marks (12:00) as matched, stores (12:03)

A row that fails the part of the condition that is about its own side alone has no pairs and is not stored: an outer join
sends it out with nulls at once. Late rows are dropped before anything else, on each side by its own event time.

Differs from Spark: one pass over the pairs instead of nested iterators, because the condition is Spark's to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.columns import Columns, concat, not_after, take
from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.operators.state_task import Stopwatch
from minispark_stream.operators.symmetric_hash_join_state_manager import COUNTS, VALUES, Buffered, JoinSideState
from minispark_stream.state.loaded_providers import get_store
from minispark_stream.state.state_store import StateStore, StateStoreConf, StateStoreId

LEFT, RIGHT = 0, 1
SIDES = ("left", "right")
# Columns in front of the keys and the rows: a new row or a pair; the side of the row that came, its number, and whether it
# passes its own side's condition; the partner's number if it is new, else its index in the state.
TAGS = ("is_pair", "side", "passes", "row", "partner", "index")
_IS_PAIR, _SIDE, _PASSES, _ROW, _PARTNER, _INDEX = range(len(TAGS))


@dataclass(frozen=True)
class JoinSide:
    """What is known of one side: its row, its event time, and up to when its state may go (None: never).

    `evict_key_ms` is a bound on the event time in the join keys, `evict_value_ms` one on the event time in the row.
    """

    row: StructType
    event_time: tuple[int, bool] | None
    evict_key_ms: int | None
    evict_value_ms: int | None


@dataclass(frozen=True)
class JoinTask:
    """What both tasks need to know. `key_event_time`: position of the join key that carries a watermark."""

    state_dir: str
    operator_id: int
    version: int
    conf: StateStoreConf
    join_type: str
    keys: StructType
    key_event_time: tuple[int, bool] | None
    sides: tuple[JoinSide, JoinSide]
    late_ms: int
    eviction_ms: int

    @property
    def order(self) -> tuple[int, int]:
        """Which side's new rows come first: they meet the state; those of the other side meet them, too."""
        return (RIGHT, LEFT) if self.join_type == "LeftSemi" else (LEFT, RIGHT)

    def open_stores(self) -> dict[str, StateStore]:
        partition = TaskContext.get().partitionId()  # type: ignore[union-attr]
        return {
            f"{side}-{kind}": get_store(
                StateStoreId(self.state_dir, self.operator_id, partition, f"{side}-{kind}"), self.conf, self.version
            )
            for side in SIDES
            for kind in (COUNTS, VALUES)
        }

    def side_states(self, stores: dict[str, StateStore]) -> tuple[JoinSideState, JoinSideState]:
        left, right = (
            JoinSideState(self.keys, side.row, stores[f"{name}-{COUNTS}"], stores[f"{name}-{VALUES}"])
            for name, side in zip(SIDES, self.sides)
        )
        return left, right

    def keys_of(self, columns: Columns) -> Columns:
        return columns[len(TAGS) : len(TAGS) + len(self.keys.fields)]

    def row_of(self, columns: Columns, side: int) -> Columns:
        start = len(TAGS) + len(self.keys.fields) + side * len(self.sides[LEFT].row.fields)
        return columns[start : start + len(self.sides[side].row.fields)]

    def is_late(self, rows: Columns) -> np.ndarray[Any, Any]:
        late = np.zeros(len(rows[0]), np.bool_)
        for number, side in enumerate(self.sides):
            if side.event_time is not None:
                of_side = np.asarray(rows[_SIDE]) == number
                late |= of_side & not_after(self.row_of(rows, number), side.event_time, self.late_ms)
        return late


@dataclass(frozen=True)
class Probe:
    """(1) and (2): new rows in, new rows and candidate pairs out."""

    task: JoinTask
    output: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = concat(batches)
        if not rows:
            return
        with ExitStack() as closing:
            stores = self.task.open_stores()
            for store in stores.values():
                closing.callback(store.abort)
            columns = self._with_pairs(rows, self.task.side_states(stores))
        yield from pa.Table.from_arrays(columns, schema=self.output).to_batches(max_chunksize=10_000)

    def _with_pairs(self, rows: Columns, states: tuple[JoinSideState, JoinSideState]) -> Columns:
        size = len(rows[0])
        side = np.asarray(rows[_SIDE])
        keys = UnsafeRowCodec(self.task.keys).encode(self.task.keys_of(rows), size)
        joins = np.asarray(rows[_PASSES]) & ~self.task.is_late(rows)
        for state in states:
            state.know(keys)
        new: dict[bytes, list[int]] = {}  # the new rows of the side that comes first
        stored: tuple[list[Buffered], list[Buffered]] = [], []  # partners from the state: left rows, right rows
        pairs: list[tuple[int, int, int, int]] = []  # row, partner or -1, index or -1, position in `stored` or -1
        first, second = self.task.order
        for i in np.flatnonzero(joins & (side == first)).tolist():
            pairs += _stored_partners(i, states[second].rows_of(keys[i]), stored[second])
            new.setdefault(keys[i], []).append(i)
        for i in np.flatnonzero(joins & (side == second)).tolist():
            pairs += _stored_partners(i, states[first].rows_of(keys[i]), stored[first])
            pairs += [(i, partner, -1, -1) for partner in new.get(keys[i], ())]
        row, partner, index, position = (np.array([p[n] for p in pairs], np.int64) for n in range(4))
        tags = [
            np.concatenate([np.zeros(size, np.bool_), np.ones(len(pairs), np.bool_)]),
            np.concatenate([side, side[row]]),
            np.concatenate([np.asarray(rows[_PASSES]), np.ones(len(pairs), np.bool_)]),
            np.concatenate([np.arange(size), row]),
            np.concatenate([np.full(size, -1), partner]),
            np.concatenate([np.full(size, -1), index]),
        ]
        chosen = [
            _chosen(self.task.row_of(rows, number), states[number].decode([b.value for b in stored[number]]), [
                *range(size), *np.where(side[row] == number, row, np.where(partner >= 0, partner, size + position)),
            ])
            for number in (LEFT, RIGHT)
        ]
        keys_out = [pa.concat_arrays([key, pa.nulls(len(pairs), key.type)]) for key in self.task.keys_of(rows)]
        return [*(pa.array(tag).cast(f.type) for tag, f in zip(tags, self.output)), *keys_out, *chosen[LEFT], *chosen[RIGHT]]


def _stored_partners(row: int, found: list[Buffered], stored: list[Buffered]) -> list[tuple[int, int, int, int]]:
    first = len(stored)
    stored += found
    return [(row, -1, one.place, first + n) for n, one in enumerate(found)]


def _chosen(new: Columns, stored: Columns, positions: Sequence[int]) -> Columns:
    """Rows out of the new ones followed by those from the state."""
    at = pa.array(positions, pa.int64())
    return [pa.concat_arrays([n, s.cast(n.type)]).take(at) for n, s in zip(new, stored)]


@dataclass(frozen=True)
class Build:
    """(3) to (5): new rows and joined pairs in, the rows of the join out."""

    task: JoinTask
    output: pa.Schema
    metrics: Accumulator[list[Report]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = self.task.open_stores()
        try:
            emitted, done = self._run(stores, concat(batches))
        except BaseException:
            for store in stores.values():
                store.abort()
            raise
        self.metrics.add([(TaskContext.get().partitionId(), done)])  # type: ignore[union-attr]
        for columns in emitted:
            yield from pa.Table.from_arrays(columns, schema=self.output).to_batches(max_chunksize=10_000)

    def _run(self, stores: dict[str, StateStore], columns: Columns) -> tuple[list[Columns], StateMetrics]:
        clock = Stopwatch()
        states = self.task.side_states(stores)
        emitted: list[Columns] = []
        updated = dropped = removed = 0
        touched: list[bytes] = []
        if columns:
            join = _Join(self.task, states, columns)
            join.run()  # (3)
            emitted.append(self._shaped(take(columns, np.array(join.emitted, np.int64))))
            updated, removed, dropped, touched = join.updated, join.removed, join.dropped, join.keys
        updates_ms = clock.lap()
        for number in (LEFT, RIGHT):  # (4)
            gone = list(self._evicted(number, states[number], touched))
            removed += len(gone)
            if self.task.join_type in (f"{SIDES[number].capitalize()}Outer", "FullOuter"):
                emitted.append(self._with_nulls(number, states[number], gone))
        removals_ms = clock.lap()
        for store in stores.values():  # (5)
            store.commit()
        return emitted, StateMetrics(
            num_rows_updated=updated,
            num_rows_removed=removed,
            num_rows_dropped_by_watermark=dropped,
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores={name: store.metrics() for name, store in stores.items()},
            num_rows_total=sum(store.num_keys for name, store in stores.items() if name.endswith(VALUES)),
        )

    def _evicted(self, number: int, state: JoinSideState, touched: list[bytes]) -> Iterator[Buffered]:
        """What the state watermark of a side has passed, removed. An unmoved watermark can only concern new rows."""
        side = self.task.sides[number]
        if side.evict_key_ms is None and side.evict_value_ms is None:
            return iter(())
        moved = self.task.eviction_ms != self.task.late_ms
        keys = state.keys() if moved else [key for key in dict.fromkeys(touched) if state.count(key)]
        state.know(keys)
        if side.evict_key_ms is not None:
            passed = key_is_old(self.task, keys, side.evict_key_ms)
            return state.remove_by_key([key for key, is_old in zip(keys, passed) if is_old])
        rows = [row for key in keys for row in state.rows_of(key)]
        old: dict[bytes, list[bool]] = {}
        for row, is_old in zip(rows, value_is_old(side, state.decode([row.value for row in rows]))):
            old.setdefault(row.key, []).append(bool(is_old))
        return chain.from_iterable(state.remove_where(key, flags, bool) for key, flags in old.items())

    def _with_nulls(self, number: int, state: JoinSideState, gone: list[Buffered]) -> Columns:
        never = [row.value for row in gone if not state.is_matched(row.value)]
        other = self.task.sides[1 - number].row
        types = UnsafeRowCodec(other).arrow_types
        halves = [state.decode(never), [pa.nulls(len(never), t) for t in types]]
        return _cast([*halves[number], *halves[1 - number]], self.output)

    def _shaped(self, columns: Columns) -> Columns:
        both = [*self.task.row_of(columns, LEFT), *self.task.row_of(columns, RIGHT)]
        return _cast(both[: len(self.output)], self.output)


def _cast(columns: Columns, schema: pa.Schema) -> Columns:
    return [column.cast(f.type) for column, f in zip(columns, schema)]


def key_is_old(task: JoinTask, keys: Sequence[bytes], bound_ms: int) -> np.ndarray[Any, Any]:
    if not keys:
        return np.zeros(0, np.bool_)
    return not_after(UnsafeRowCodec(task.keys).decode(keys), task.key_event_time or (0, False), bound_ms)


def value_is_old(side: JoinSide, rows: Columns) -> np.ndarray[Any, Any]:
    if side.event_time is None or side.evict_value_ms is None:
        return np.zeros(len(rows[0]) if rows else 0, np.bool_)
    return not_after(rows, side.event_time, side.evict_value_ms)


class _Join:
    """(3) One walk over the new rows of a partition; `emitted` are positions in the input."""

    def __init__(self, task: JoinTask, states: tuple[JoinSideState, JoinSideState], columns: Columns):
        self._task = task
        self._states = states
        self._type = task.join_type
        is_pair = np.asarray(columns[_IS_PAIR])
        self._at = np.flatnonzero(~is_pair)  # row number -> position in the input
        rows = take(columns, self._at)
        self._rows = rows
        late = task.is_late(rows)
        self.dropped = int(late.sum())
        side = np.asarray(rows[_SIDE])
        self._order = [np.flatnonzero((side == number) & ~late).tolist() for number in (LEFT, RIGHT)]
        self._passes = np.asarray(rows[_PASSES])
        self.keys = UnsafeRowCodec(task.keys).encode(task.keys_of(rows), len(self._at))
        for state in states:
            state.know(self.keys)
        self._pairs: dict[int, list[tuple[int, int, int]]] = {}
        at = np.flatnonzero(is_pair)
        found = [np.asarray(columns[tag])[at].tolist() for tag in (_ROW, _PARTNER, _INDEX)]
        for position, row, partner, index in zip(at.tolist(), *found):
            self._pairs.setdefault(row, []).append((position, partner, index))
        self._index_of: dict[int, int] = {}  # new row of the side that comes first -> its index in the state
        self._left_rows: dict[bytes, list[int]] = {}  # semi join: which left rows of a key are still there
        self.emitted: list[int] = []
        self.updated = self.removed = 0

    def run(self) -> None:
        meet = (self._left_semi, self._right_semi) if self._type == "LeftSemi" else (self._left, self._right)
        for number in self._task.order:
            values = self._encoded(number)
            stays = self._stays(number)
            for row in self._order[number]:
                meet[number](row, values[row], bool(stays[row]))

    def _left(self, row: int, value: bytes, stays: bool) -> None:
        if not self._passes[row]:
            self._emit_alone(row, "LeftOuter")
            return
        partners = self._pairs.get(row, [])
        for position, _, index in partners:
            self._states[RIGHT].mark_matched(self.keys[row], index)
            self.emitted.append(position)
        self._index_of[row] = self._store(LEFT, row, value, bool(partners))

    def _right(self, row: int, value: bytes, stays: bool) -> None:
        if not self._passes[row]:
            self._emit_alone(row, "RightOuter")
            return
        partners = self._pairs.get(row, [])
        for position, partner, index in partners:
            self._states[LEFT].mark_matched(self.keys[row], index if partner < 0 else self._index_of[partner])
            self.emitted.append(position)
        if stays or not partners and self._type in ("RightOuter", "FullOuter"):
            self._store(RIGHT, row, value, bool(partners))

    def _right_semi(self, row: int, value: bytes, stays: bool) -> None:
        """A left row that finds its match has done its part: it leaves the state."""
        if not self._passes[row]:
            return
        key, left = self.keys[row], self._states[LEFT]
        there = self._left_rows.setdefault(key, list(range(left.count(key))))
        met = {index: position for position, _, index in self._pairs.get(row, []) if index in there}
        self.emitted += met.values()
        self.removed += sum(1 for _ in left.remove_where(key, there, met.__contains__))
        self._index_of[row] = self._store(RIGHT, row, value, bool(met))

    def _left_semi(self, row: int, value: bytes, stays: bool) -> None:
        if not self._passes[row]:
            return
        for position, partner, index in self._pairs.get(row, [])[:1]:  # one match is enough
            self._states[RIGHT].mark_matched(self.keys[row], index if partner < 0 else self._index_of[partner])
            self.emitted.append(position)
            return
        if stays:
            self._store(LEFT, row, value, False)

    def _store(self, number: int, row: int, value: bytes, matched: bool) -> int:
        self.updated += 1
        return self._states[number].append(self.keys[row], value, matched)

    def _emit_alone(self, row: int, outer: str) -> None:
        """A row that can never match: an outer join need not wait."""
        if self._type in (outer, "FullOuter"):
            self.emitted.append(int(self._at[row]))

    def _encoded(self, number: int) -> dict[int, bytes]:
        order = self._order[number]
        if not order:
            return {}
        rows = take(self._task.row_of(self._rows, number), np.array(order))
        return dict(zip(order, self._states[number].encode(rows)))

    def _stays(self, number: int) -> np.ndarray[Any, Any]:
        """Which rows of a side this batch would not evict at once."""
        side = self._task.sides[number]
        if side.evict_key_ms is not None:
            return ~key_is_old(self._task, self.keys, side.evict_key_ms)
        if side.evict_value_ms is not None:
            return ~value_is_old(side, self._task.row_of(self._rows, number))
        return np.ones(len(self._at), np.bool_)
