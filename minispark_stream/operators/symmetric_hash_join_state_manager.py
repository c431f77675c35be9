"""The rows that one side of a stream-stream join has buffered, in two state stores.

Models: SymmetricHashJoinStateManager, state format 2 (About state: KeyToNumValuesStore, KeyWithIndexToValueStore).

    keyToNumValues           key          -> how many rows
    keyWithIndexToValue      key, index   -> the row, and whether it has ever been matched

1. `append` puts a row behind the last one of its key.
2. `mark_matched` sets the flag of a row that has none yet: an outer join must not send it out with nulls later.
3. `remove_by_key` removes all rows of a key; `remove_where` some of them, and moves the last row into each hole, so that
   the indexes of a key stay dense.

    key a: rows r0 r1 r2     remove r0  ->  (a,0) = r2, (a,2) removed, a -> 2

Every put and remove is Spark's, in Spark's order, because the delta file keeps them all.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from minispark_stream.checkpointing.unsafe_row import FixedField, UnsafeRowCodec, long_row
from minispark_stream.operators.state_task import StatefulOperatorStateInfo
from minispark_stream.operators.symmetric_hash_join_rows import LEFT, RIGHT, SIDES, Join
from minispark_stream.state.state_store import StateStore

T = TypeVar("T")
COUNTS, VALUES = "keyToNumValues", "keyWithIndexToValue"
COUNT_SCHEMA = StructType([StructField("value", LongType())])


class Buffered(NamedTuple):
    """A row in the buffer: its key, its place among the rows of the key, and the row with its flag at the end."""

    key: bytes
    place: int
    value: bytes


class JoinSideState:
    """One side of a join in one partition.

    Args:
        keys: the schema of the join keys.
        row: the schema of the side's rows.
        counts, values: its two stores, open at the version that the batch begins with.
    """

    def __init__(self, keys: StructType, row: StructType, counts: StateStore, values: StateStore):
        self._key_codec = UnsafeRowCodec(keys)
        self._indexed_codec = UnsafeRowCodec(indexed(keys))
        self._value_codec = UnsafeRowCodec(with_matched(row))
        self._index = FixedField(len(keys.fields), of=len(keys.fields) + 1)
        self._matched = FixedField(len(row.fields), of=len(row.fields) + 1)
        self._count = FixedField(0, of=1)
        self._counts = counts
        self._values = values
        self._indexed: dict[bytes, bytes] = {}  # key -> the row (key, index 0)

    @property
    def stores(self) -> tuple[StateStore, StateStore]:
        return self._counts, self._values

    @property
    def num_rows(self) -> int:
        return self._values.num_keys

    # -- rows as bytes ----------------------------------------------------------------------------------------

    def encode(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """Rows as they are stored, not matched yet."""
        size = len(columns[0])
        return self._value_codec.encode([*columns, pa.array([False] * size)], size)

    def decode(self, values: Sequence[bytes]) -> list[pa.Array]:
        return self._value_codec.decode(values)[:-1]

    def is_matched(self, value: bytes) -> bool:
        return self._matched.is_true(value)

    def prepare(self, keys: Iterable[bytes]) -> None:
        """Make the rows (key, index) of some keys, all at the same time; to be called before anything is asked of a key."""
        new = [key for key in dict.fromkeys(keys) if key not in self._indexed]
        if new:
            indexes = pa.array([0] * len(new), pa.int64())
            self._indexed.update(zip(new, self._indexed_codec.encode([*self._key_codec.decode(new), indexes], len(new))))

    def _at(self, key: bytes, index: int) -> bytes:
        return self._index.with_long(self._indexed[key], index)

    # -- the buffer ---------------------------------------------------------------------------------------------

    def count(self, key: bytes) -> int:
        found = self._counts.get(key)
        return 0 if found is None else self._count.long(found)

    def get(self, key: bytes, index: int) -> bytes:
        value = self._values.get(self._at(key, index))
        if value is None:
            raise ValueError(f"The state of a join has no row {index} of a key that has {self.count(key)} rows")
        return value

    def rows_of(self, key: bytes) -> list[Buffered]:
        return [Buffered(key, i, self.get(key, i)) for i in range(self.count(key))]

    def append(self, key: bytes, value: bytes, matched: bool) -> int:
        """(1) Returns the index that the row got."""
        index = self.count(key)
        self._values.put(self._at(key, index), self._matched.with_true(value) if matched else value)
        self._put_count(key, index + 1)
        return index

    def mark_matched(self, key: bytes, index: int) -> None:
        """(2)"""
        value = self.get(key, index)
        if not self.is_matched(value):
            self._values.put(self._at(key, index), self._matched.with_true(value))

    def keys(self) -> list[bytes]:
        return [key for key, _ in self._counts.items()]

    def remove_by_key(self, keys: Iterable[bytes]) -> Iterator[Buffered]:
        """(3) Removes every row of `keys`; gives what was removed."""
        for key in keys:
            rows = self.rows_of(key)
            self._counts.remove(key)
            for row in rows:
                self._values.remove(self._at(key, row.place))
                yield row

    def remove_where(self, key: bytes, rows: list[T], is_gone: Callable[[T], bool]) -> Iterator[Buffered]:
        """(3) Removes some rows of a key. `rows` is what the caller knows of each of them, kept in step with the indexes."""
        if not any(map(is_gone, rows)):
            return
        index = 0
        while index < len(rows):
            if not is_gone(rows[index]):
                index += 1
                continue
            yield Buffered(key, index, self.get(key, index))
            last = len(rows) - 1
            if index != last:
                self._values.put(self._at(key, index), self.get(key, last))
                rows[index] = rows[last]
            self._values.remove(self._at(key, last))
            rows.pop()
        if rows:
            self._put_count(key, len(rows))
        else:
            self._counts.remove(key)

    def _put_count(self, key: bytes, count: int) -> None:
        self._counts.put(key, long_row(count))


@contextmanager
def open_sides(info: StatefulOperatorStateInfo, partition: int, join: Join) -> Iterator[tuple[JoinSideState, JoinSideState]]:
    """The two sides of a partition; stores that are not committed when the block ends forget their changes."""
    names = [store_name(side, kind) for side in (LEFT, RIGHT) for kind in (COUNTS, VALUES)]
    with info.open_stores(partition, *names) as [left_counts, left_values, right_counts, right_values]:
        yield (
            JoinSideState(join.keys, join.sides[LEFT].row, left_counts, left_values),
            JoinSideState(join.keys, join.sides[RIGHT].row, right_counts, right_values),
        )


def store_name(side: int, kind: str) -> str:
    return f"{SIDES[side]}-{kind}"


def indexed(keys: StructType) -> StructType:
    """The key of keyWithIndexToValue."""
    return StructType([*keys.fields, StructField("index", LongType())])


def with_matched(row: StructType) -> StructType:
    """The value of keyWithIndexToValue."""
    return StructType([*row.fields, StructField("matched", BooleanType())])
