"""The rows that one side of a stream-stream join has buffered, by key and event time.

Models: SymmetricHashJoinStateManagerV4, state format 4 (About state: RocksDB), with TimestampAsPostfixKeyStateEncoder and
TimestampAsPrefixKeyStateEncoder.

    keyWithTsToValues    key, time  -> a list: the rows, and whether each has ever been matched
    tsWithKey            time, key  -> a list of the same length, whose elements are empty

1. The time is the one in the key, if a join key carries a watermark, and otherwise the event time of the row, in microseconds.
   It is written big-endian with its sign bit inverted, so that bytes sort as times do. A null is time 0.
2. `append` makes both lists longer.
3. Rows are joined in the order of their times, and those of the same time in the order in which they arrived.
4. Only a side whose unmatched rows an outer join emits needs to know whether a row has been matched, so only there it is noted.
5. `evict` finds the times that the state watermark has passed in tsWithKey. It begins after those that it had passed in the
   batch before. Only rows without an event time can be before that; they stay.
6. In a semi join, left rows that have been matched are removed from their list, but the list in tsWithKey keeps its length
   until all rows of this key and time are gone. This length is what is counted as removed.
7. Without an event time, nothing is ever evicted, and tsWithKey is empty.

    a at 12:00 -> [r0, r1]; 12:00, a -> [., .]      watermark 12:10    both lists are removed

Differs from Spark: without an event time, Spark puts each row under a random number below 1024 in place of a time; here, all
rows of a key are under one number.
Shown by tests/conformance/test_joins_in_families.py::test_rows_without_an_event_time_go_under_any_number.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, ROWS, TIMES, store_name
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import BoolMask, Columns, EventTime, event_time_micros, take
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Ints, Join, KeyNumbers, StoredRows
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import JoinSideState, Sides
from minispark_stream.engine.state.state_store import StateStore, each
from minispark_stream.extras.join_in_families.column_family import ColumnFamily, OneStore, keys_of
from minispark_stream.extras.rocksdb.changes import Grown, elements, list_of
from minispark_stream.extras.rocksdb.family_numbers import SIZE, FamilyNumbers
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW

TIME_SIZE = 8  # bytes
DELIMITER = b""  # between the elements of a list; Spark refuses another one here
_NOTHING = UNSAFE_ROW + struct.pack("<qq", 1, 0)  # a row of one null


class RowsAtTime(NamedTuple):
    """The rows of a key at a time."""

    stored_key: bytes
    rows: list[bytes]


class JoinSideByTime(JoinSideState):
    """One side of a join in one partition. `after_ms`: see (5); if None, all that the state watermark has passed is evicted."""

    def __init__(self, join: Join, side: int, store: StateStore, numbers: FamilyNumbers, after_ms: int | None):
        rows, times = (numbers.prefix(store_name(side, kind)) for kind in (ROWS, TIMES))
        super().__init__(join.keys, join.sides[side].row, ColumnFamily(store, times), ColumnFamily(store, rows))
        self._join, self._side, self._store, self._after_ms = join, side, store, after_ms
        self._rows, self._times = rows + UNSAFE_ROW, times
        self._event_time = join.sides[side].event_time
        self._key_codec = UnsafeRowCodec(join.keys)

    # -- what there is ------------------------------------------------------------------------------------------

    def counts(self, keys: Sequence[bytes]) -> Ints:
        return np.array([sum(len(one.rows) for one in lists) for lists in self._lists(keys)], np.int64)

    def rows_of(self, keys: Columns, counts: Ints) -> StoredRows:
        asked = np.flatnonzero(counts)
        lists = self._lists(self._key_codec.encode_rows(take(keys, asked), len(asked)))
        return StoredRows([], [row for of_key in lists for one in of_key for row in one.rows])

    def order(self, key: Ints, stored: Sequence[bytes], columns: Columns, new: Ints) -> Ints:  # (3)
        if self._join.key_event_time is not None or self._event_time is None:
            return super().order(key, stored, columns, new)
        there = self.decode(stored, only=[self._event_time.position])
        times = [_micros(there, self._event_time), _micros(columns, self._event_time)[new]]
        return np.lexsort((np.concatenate(times), key))

    def _lists(self, keys: Sequence[bytes]) -> list[list[RowsAtTime]]:
        """The rows of each key, in the order of time."""
        place = {self._rows + key: i for i, key in enumerate(keys)}
        found: list[list[RowsAtTime]] = [[] for _ in keys]
        there = self._store.prefix_scan(list(place), _without_time)
        for i, key, value in sorted(zip(there.positions.tolist(), there.keys, there.values)):
            found[i].append(RowsAtTime(key, rows_in(value)))
        return found

    # -- changes ------------------------------------------------------------------------------------------------

    def append(self, keys: KeyNumbers, rows: Ints, columns: Columns, matched: BoolMask) -> None:  # (2)
        values = self._value_codec.encode_rows([*take(columns, rows), pa.array(matched[rows])], len(rows))
        numbers = keys.of_row[rows]
        added: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for number, time, value in zip(numbers.tolist(), self._times_of(keys, columns, rows), values):
            added[self._rows + keys.keys[number] + time].append(value)
        self._grow(added)
        if self._has_event_time:
            self._grow({self._at_time(key): [_NOTHING[1:]] * len(of_key) for key, of_key in added.items()})

    def mark_matched(self, keys: Columns, places: Ints) -> None:  # (4)
        if not self._join.is_outer(self._side) or not len(places):
            return
        met = self._at_places(self._key_codec.encode_rows(keys, len(places)), places.tolist())
        are_marked = self.is_matched([one.rows[i] for one, i in met])
        new = [found for found, is_marked in zip(met, are_marked) if not is_marked]
        for (one, i), marked in zip(new, self._matched.with_true([one.rows[i] for one, i in new])):
            one.rows[i] = marked
        self._put({one.stored_key: one.rows for one, _ in new})

    def remove_where(self, keys: KeyNumbers, gone: list[tuple[int, set[int]]]) -> list[bytes]:  # (6)
        of_pairs = [(keys.keys[number], place) for number, places in gone for place in places]
        met = self._at_places([key for key, _ in of_pairs], [place for _, place in of_pairs])
        chosen_rows = {(one.stored_key, i) for one, i in met}
        left = {
            one.stored_key: [row for i, row in enumerate(one.rows) if (one.stored_key, i) not in chosen_rows] for one, _ in met
        }
        self._put({key: rows for key, rows in left.items() if rows})
        empty = [key for key, rows in left.items() if not rows]
        self._store.remove(empty)
        self._store.remove(list(map(self._at_time, empty)))
        return [one.rows[i] for one, i in met]

    def evict(self, join: Join, side: int, among: Sequence[bytes] | None) -> Sequence[bytes]:  # (5)
        bounds = join.sides[side]
        until_ms = bounds.evict_value_ms if bounds.evict_key_ms is None else bounds.evict_key_ms
        if until_ms is None or not self._has_event_time:
            return []
        after = _time(self._after_ms * 1000) if self._after_ms is not None else b""
        until = _time(until_ms * 1000)
        old = sorted(key for key in keys_of(self._store, self._times) if after < key[SIZE : SIZE + TIME_SIZE] <= until)
        keys = [self._rows + key[SIZE + TIME_SIZE + len(UNSAFE_ROW) :] + key[SIZE : SIZE + TIME_SIZE] for key in old]
        gone = [row for value in each(self._store.get(keys)) for row in rows_in(value or b"")]
        counted = len(gone) if join.is_outer(side) else sum(len(rows_in(value)) for value in self._store.get(old)[1])
        self._store.remove(keys)
        self._store.remove(old)
        self.num_evicted = counted
        return gone

    # -- keys and times -----------------------------------------------------------------------------------------

    @property
    def _has_event_time(self) -> bool:  # (7)
        return self._join.key_event_time is not None or self._event_time is not None

    def _times_of(self, keys: KeyNumbers, columns: Columns, rows: Ints) -> list[bytes]:  # (1)
        if self._join.key_event_time is not None:
            micros = _micros(keys.columns, self._join.key_event_time)[keys.of_row[rows]]
        elif self._event_time is not None:
            micros = _micros(columns, self._event_time)[rows]
        else:
            micros = np.zeros(len(rows), np.int64)
        return [_time(one) for one in micros.tolist()]

    def _at_time(self, stored_key: bytes) -> bytes:
        """The key in tsWithKey."""
        return self._times + stored_key[-TIME_SIZE:] + UNSAFE_ROW + stored_key[len(self._rows) : -TIME_SIZE]

    def _grow(self, added: dict[bytes, list[bytes]]) -> None:
        before = each(self._store.get(list(added)))
        self._store.put(
            list(added), [Grown(old, _list_of(rows), DELIMITER) for old, rows in zip(before, added.values())]
        )

    def _put(self, lists: Mapping[bytes, Sequence[bytes]]) -> None:
        self._store.put(list(lists), list(map(_list_of, lists.values())))

    def _at_places(self, keys: Sequence[bytes], places: Sequence[int]) -> list[tuple[RowsAtTime, int]]:
        """The rows at some places of their keys: the list that contains each, and its place there. No row comes twice."""
        asked: defaultdict[bytes, set[int]] = defaultdict(set)
        for key, place in zip(keys, places):
            asked[key].add(place)
        found: list[tuple[RowsAtTime, int]] = []
        for lists, of_key in zip(self._lists(list(asked)), asked.values()):
            every = [(one, i) for one in lists for i in range(len(one.rows))]
            found += [every[place] for place in sorted(of_key)]
        return found


@dataclass(frozen=True)
class TimedFamilies(OneStore):
    """State format 4. `after_ms`: of each side, see JoinSideByTime."""

    families: Sequence[tuple[str, bool]] = tuple(
        (store_name(side, kind), kind == TIMES) for side in (LEFT, RIGHT) for kind in (ROWS, TIMES)
    )
    after_ms: tuple[int | None, int | None] = (None, None)

    def sides(self, join: Join, stores: Sequence[StateStore], skips_nulls: bool = False) -> Sides:
        """`skips_nulls` has no effect: the rows of a key are lists, in which none can be missing."""
        [store] = stores
        numbers = self.numbers(store)
        left, right = (JoinSideByTime(join, side, store, numbers, self.after_ms[side]) for side in (LEFT, RIGHT))
        return left, right


def _time(micros: int) -> bytes:
    return (micros + (1 << 63)).to_bytes(TIME_SIZE, "big")


def micros_of(time: bytes) -> int:
    return int.from_bytes(time, "big") - (1 << 63)


def _without_time(keys: Sequence[bytes]) -> Sequence[bytes]:
    return [key[:-TIME_SIZE] for key in keys]


def _micros(columns: Columns, event_time: EventTime) -> Ints:
    return np.asarray(event_time_micros(columns, event_time).fill_null(0)).astype(np.int64)


def rows_in(value: bytes) -> list[bytes]:
    """The rows of a list, in which the length and a zero come before each row."""
    return [element[4 + len(UNSAFE_ROW) :] for element in elements(value, DELIMITER)]


def _list_of(rows: Sequence[bytes]) -> bytes:
    return list_of((UNSAFE_ROW + row for row in rows), DELIMITER)
