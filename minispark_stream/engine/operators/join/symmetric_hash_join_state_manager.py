"""The rows that one side of a stream-stream join has stored, in two state stores.

Models: SymmetricHashJoinStateManager, state format 2 (About state: KeyToNumValuesStore, KeyWithIndexToValueStore).

    keyToNumValues           key          -> how many rows
    keyWithIndexToValue      key, index   -> the row, and whether it has ever been matched

1. `append` puts a row after the last one of its key.
2. `mark_matched` sets the flag of a row if it is not set yet: an outer join must not emit this row with nulls later.
3. `remove_by_key` removes all rows of a key. `remove_where` removes some of them, and moves the last row into each hole, so
   that the indexes of a key have no gaps. For many keys at once, the steps are computed (symmetric_hash_join_removals.py).
4. In a damaged state, a row may be missing at an index below the number of rows of its key: a *null*. By default, this ends the
   query. With `skipNullsForStreamStreamJoins.enabled`, nulls are skipped, and counted each time. A null stays until rows are
   removed and it would be the last one of its key; then it goes, and is not counted.

    key a: rows r0 r1 r2     remove r0  ->  (a,0) = r2, (a,2) removed, a -> 2

Puts and removes are the same as in Spark, and in the same order, because all of them are in the delta file.

Differs from Spark: a new row of a semi join counts all nulls of its key. Spark does not count those that it does not come to,
because it has found a match for a left row, or has removed the rows that the right row matches.
Shown by tests/conformance/test_stream_stream_joins.py::test_rows_that_the_state_has_lost_are_skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from minispark_stream.engine.checkpointing.unsafe_row import FixedField, UnsafeRowCodec, chosen, long_row
from minispark_stream.engine.checkpointing.unsafe_row.columns import numbered
from minispark_stream.engine.operators.columns import BoolMask, Columns, take
from minispark_stream.engine.operators.join.symmetric_hash_join_removals import removals
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import (
    Ints,
    Join,
    KeyNumbers,
    NewValues,
    StoredRows,
    number_keys,
)
from minispark_stream.engine.state.state_store import StateStore

NULL = -1  # the position of a row that is missing
COUNT_SCHEMA = StructType([StructField("value", LongType())])


class JoinSideState:
    """One side of a join in one partition.

    Args:
        keys: the schema of the join keys.
        row: the schema of the side's rows.
        counts, values: its two stores, open at the version that the batch begins with.
        skips_nulls: whether rows that the state has lost are skipped, and not refused.
    """

    def __init__(
        self, keys: StructType, row: StructType, counts: StateStore, values: StateStore, skips_nulls: bool = False
    ):
        self._keys = keys
        self._at_codec = UnsafeRowCodec(indexed(keys))
        self._count_codec = UnsafeRowCodec(COUNT_SCHEMA)
        self._value_codec = UnsafeRowCodec(with_matched(row))
        self._flag = len(row.fields)
        self._matched = FixedField(self._flag, of=self._flag + 1)
        self._counts = counts
        self._values = values
        self._skips_nulls = skips_nulls
        self.num_evicted = self.num_skipped = 0

    @property
    def num_rows(self) -> int:
        return self._values.num_keys

    # -- reading ------------------------------------------------------------------------------------------------

    def keys(self, among: Sequence[bytes] | None = None) -> Sequence[bytes]:
        """The keys that have rows: all of them, or only those `among` some keys."""
        if among is None:
            return self._counts.rows()[0]
        return chosen(among, self._counts.get(among)[0])

    def counts(self, keys: Sequence[bytes]) -> Ints:
        """How many rows each key has."""
        has_rows, values = self._counts.get(keys)
        counts = np.zeros(len(keys), np.int64)
        counts[has_rows] = np.asarray(self._count_codec.decode(values)[0])
        most = np.iinfo(np.int64).max if self._skips_nulls else self.num_rows  # nulls are not among the rows
        if len(wrong := counts[(counts < 0) | (counts > most)]):
            raise ValueError(f"The state of a join has {self.num_rows} rows, but a key with {wrong[0]} of them")
        return counts

    def rows(self, among: Sequence[bytes] | None = None) -> StoredRows:
        """All rows, or those of some keys."""
        if among is not None:
            return self.rows_of(self.decode_keys(among), self.counts(among))
        return StoredRows(*self._values.rows())

    def rows_of(self, keys: Columns, counts: Ints) -> StoredRows:
        """The first rows of some keys, in order of the keys; `counts` says how many of each, together with skipped nulls."""
        there = self.are_there(keys, counts)
        key, places = np.repeat(np.arange(len(counts)), counts), numbered(counts)
        return self._rows_at(take(keys, key[there]), places[there])

    def are_there(self, keys: Columns, counts: Ints) -> BoolMask:
        """(4) Which of the first rows of some keys `rows_of` returns."""
        places = numbered(counts)
        if not self._skips_nulls:
            return np.ones(len(places), np.bool_)
        at = self._at(take(keys, np.repeat(np.arange(len(counts)), counts)), places)
        return np.asarray(self._values.get(at)[0], np.bool_)

    def _at(self, keys: Columns, places: Ints) -> Sequence[bytes]:
        return self._at_codec.encode_rows([*keys, pa.array(places, pa.int64())], len(places))

    def _rows_at(self, keys: Columns, places: Ints) -> StoredRows:
        at = self._at(keys, places)
        is_there, values = self._values.get(at)
        if not is_there.all():
            raise ValueError(f"Corrupt join state: row {places[~is_there][0]} of a key is missing, though its count is higher")
        return StoredRows(at, values)

    def order(self, key: Ints, stored: Sequence[bytes], columns: Columns, new: Ints) -> Ints:
        """The order in which rows are met: by key, and those of the same key in the order in which they came.

        `key` has the number of the key of each row: first of the rows that are `stored`, then of the new rows `new` in
        `columns`.
        """
        return np.argsort(key, kind="stable")

    def decode_keys(self, keys: Sequence[bytes]) -> Columns:
        return UnsafeRowCodec(self._keys).decode(keys)

    def decode(self, values: Sequence[bytes], only: Collection[int] | None = None) -> Columns:
        return self._value_codec.decode(values, only)[:-1]

    def is_matched(self, values: Sequence[bytes]) -> BoolMask:
        """Which of some stored rows have been matched."""
        return np.asarray(self._value_codec.decode(values, only=[self._flag])[self._flag])

    # -- changes ------------------------------------------------------------------------------------------------

    def append(self, keys: KeyNumbers, rows: Ints, columns: Columns, matched: BoolMask) -> None:
        """(1) Store the new rows with the numbers `rows`, in order; the other arguments belong to all new rows."""
        key = keys.of_row[rows]
        by_key = np.argsort(key, kind="stable")
        before = np.empty(len(rows), np.int64)  # how many of them with the same key come before each row
        before[by_key] = numbered(np.bincount(key, minlength=len(keys.keys)))
        places = self.counts(keys.keys)[key] + before
        values = [*take(columns, rows), pa.array(matched[rows])]
        at = self._at_codec.encode_rows([*take(keys.columns, key), pa.array(places)], len(rows))
        self._values.put(at, self._value_codec.encode_rows(values, len(rows)))
        self._counts.put(chosen(keys.keys, key), self._count_codec.encode_rows([pa.array(places + 1)]))

    def mark_matched(self, keys: Columns, places: Ints) -> None:
        """(2) Mark the rows at some places as matched; `keys` are their keys."""
        rows = self._rows_at(keys, places)
        new = rows.some(~self.is_matched(rows.values))
        self._values.put(new.at, self._matched.with_true(new.values))

    def evict(self, join: Join, side: int, among: Sequence[bytes] | None) -> Sequence[bytes]:
        """(3) Remove the rows that the state watermark of the side has passed, of all keys or only of those in `among`.

        Returns the removed rows.
        """
        bounds = join.sides[side]
        gone: Sequence[bytes] = []
        nulls = 0
        if bounds.evict_key_ms is not None:
            keys = self.keys(among)
            keys = chosen(keys, join.key_is_old(side, self.decode_keys(keys)))
            counted = int(self.counts(keys).sum()) if self._skips_nulls else 0
            gone = self.remove_by_key(keys)
            nulls = max(0, counted - len(gone))
        elif bounds.evict_value_ms is not None and bounds.event_time is not None:
            if self._skips_nulls:  # Spark looks at all keys
                nulls = int(self.counts(self.keys()).sum()) - self.num_rows
            rows = self.rows(among)
            columns = self.decode(rows.values, only=[bounds.event_time.position])
            gone = self.remove_rows(rows.some(join.value_is_old(side, columns)))
        self.num_evicted = len(gone)
        if bounds.evict_key_ms is not None and not join.is_outer(side):
            self.num_evicted += nulls  # Spark removes these rows without a look at them
        else:
            self.num_skipped += nulls
        return gone

    def remove_by_key(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """(3) Remove all rows of some keys; returns the removed rows."""
        rows = self.rows(keys)
        self._counts.remove(keys)
        self._values.remove(rows.at)
        return rows.values

    def remove_rows(self, rows: StoredRows) -> Sequence[bytes]:
        """(3) Remove some rows, whose keys may be in any order; returns the removed rows."""
        *columns, places = self._at_codec.decode(rows.at)
        keys = number_keys(self._keys, columns, len(rows.at))
        is_alone = self.counts(keys.keys)[keys.of_row] == 1  # often a key has only one row; then there is no hole to fill
        alone = rows.some(is_alone)
        self._values.remove(alone.at)
        self._counts.remove(chosen(keys.keys, keys.of_row[is_alone]))
        if is_alone.all():
            return alone.values
        if not self._skips_nulls:
            return chosen(rows.values, np.concatenate([np.flatnonzero(is_alone), self._remove_among(keys, ~is_alone, places)]))
        gone: dict[int, set[int]] = {}
        for number, place in zip(keys.of_row[~is_alone].tolist(), np.asarray(places)[~is_alone].tolist()):
            gone.setdefault(number, set()).add(place)
        return [*alone.values, *self.remove_where(keys, list(gone.items()))]

    def _remove_among(self, keys: KeyNumbers, which: BoolMask, places: pa.Array) -> Ints:
        """(3) Remove rows of keys that may have others; `which` chooses them. Returns them in the order in which they leave."""
        leaving = np.flatnonzero(which)
        leaving = leaving[np.lexsort((np.asarray(places)[leaving], keys.of_row[leaving]))]  # key by key, and by their places
        numbers = np.unique(keys.of_row[leaving])
        counts = np.zeros(len(keys.keys), np.int64)
        counts[numbers] = self.counts(chosen(keys.keys, numbers))
        rows, begins = self.rows_of(keys.columns, counts), np.cumsum(counts) - counts
        steps = removals(counts, begins[keys.of_row[leaving]] + np.asarray(places)[leaving])
        at, is_put = np.stack([steps.hole, steps.last], axis=1), np.zeros((len(leaving), 2), np.bool_)
        is_put[:, 0] = steps.last > steps.hole
        values = np.full(at.shape, None)
        values[is_put] = list(chosen(rows.values, steps.last[is_put[:, 0]]))
        is_put[:, 1] = True
        self._values.put(list(chosen(rows.at, at[is_put])), values[is_put].tolist())
        left = counts[numbers] - np.bincount(keys.of_row[leaving], minlength=len(counts))[numbers]
        self._counts.put(list(chosen(keys.keys, numbers)), [long_row(n) if n else None for n in left.tolist()])
        return leaving[steps.gone]

    def remove_where(self, keys: KeyNumbers, gone: list[tuple[int, set[int]]]) -> list[bytes]:
        """(3) Remove the rows at some places of some keys; returns the removed rows.

        Args:
            gone: pairs of the number of a key and the places of its rows, which are removed pair by pair. If a key has several
                pairs, the places in all of them are those before the first removal.
        """
        numbers = list(dict.fromkeys(number for number, _ in gone))
        counts = np.zeros(len(keys.keys), np.int64)
        counts[numbers] = self.counts(chosen(keys.keys, np.array(numbers, np.int64)))
        rows, begins = self.rows_of(keys.columns, counts), np.cumsum(counts) - counts
        is_there = self.are_there(keys.columns, counts)
        position = np.where(is_there, np.cumsum(is_there) - 1, NULL).tolist()
        there = {  # the positions in `rows` of the rows that are left, place by place
            number: position[begins[number] : begins[number] + counts[number]] for number in numbers
        }
        removed: list[bytes] = []
        changed, counted = NewValues([], []), NewValues([], [])
        for number, places in gone:
            begin, index = int(begins[number]), 0
            left, goes = there[number], {position[begin + place] for place in places}
            while index < len(left):
                if left[index] not in goes:
                    index += 1
                    continue
                removed.append(rows.values[left[index]])
                while left[-1] == NULL:  # (4)
                    left.pop()
                    self.num_skipped -= 1
                last = left.pop()
                if index < len(left):
                    left[index] = last
                    changed.add(rows.at[position[begin + index]], rows.values[last])
                changed.add(rows.at[position[begin + len(left)]], None)
            counted.add(keys.keys[number], long_row(len(left)) if left else None)
        self._values.put(*changed)
        self._counts.put(*counted)
        return removed


Sides = tuple[JoinSideState, JoinSideState]


def indexed(keys: StructType) -> StructType:
    """The schema of the keys in keyWithIndexToValue."""
    return StructType([*keys.fields, StructField("index", LongType())])


def with_matched(row: StructType) -> StructType:
    """The schema of the values in keyWithIndexToValue."""
    return StructType([*row.fields, StructField("matched", BooleanType())])
