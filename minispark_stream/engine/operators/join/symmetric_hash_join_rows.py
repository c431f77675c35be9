"""A stream-stream join as its two tasks see it: sides, new rows, pairs, and how rows and pairs get from one task to the other.

Models: JoinStateWatermarkPredicates, and the rows that OneSideHashJoiner joins (About state: SymmetricHashJoin).

1. The new rows of both sides come in one table. In each row, the columns of its own side are filled, and those of the other
   side are null.
2. A pair is a new row and its *partner*, a row of the other side with the same key. The partner is identified by its *place*:
   how many rows with this key the state has before it when the new row is joined. A partner may also be a new row, because
   those of the side that comes first are in the state by then.
3. `Join.write` and `write_pairs` make the parts of one table, the new rows first, so that Spark can filter the pairs.
   `Join.read` takes this table apart again. Of each pair it keeps only the two numbers, because all else is in the rows. So a
   pair only has the columns that Spark's filter reads.
4. Many new rows are put aside, and the table has one row that says where (symmetric_hash_join_aside.py).

    columns          side    passes   row    partner   keys   left row   right row
    a new row        right   true     null   null      a      null       12:03
    a pair           null    null     0      0         null   12:00      12:03          new row 0 meets left row 0 of its key
    put aside        ASIDE   null     71     null      null   null       null           new rows under the number 71

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import IllegalArgumentException
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT, SIDES
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, chosen
from minispark_stream.engine.operators.columns import (
    BoolMask,
    Columns,
    EventTime,
    Ints,
    concat,
    distinct,
    not_after,
    record_batch,
    take,
)
from minispark_stream.engine.operators.join.symmetric_hash_join_aside import take_back

# The columns before the keys and the rows. A new row has its side, and whether it fulfils the condition of its own side; a pair
# has the number of its new row, and the place of the partner.
TAGS = StructType(
    [
        StructField("side", LongType()),
        StructField("passes", BooleanType()),
        StructField("row", LongType()),
        StructField("partner", LongType()),
    ]
)


ASIDE = 2  # the side of the row that says where the new rows are


class JoinSide(NamedTuple):
    """What the tasks know of one side: the schema of its rows, its event time, and its state watermark (None: it has none).

    `evict_key_ms` is compared with the event time in the join keys, `evict_value_ms` with the event time in the row.
    """

    row: StructType
    event_time: EventTime | None
    evict_key_ms: int | None
    evict_value_ms: int | None


class NewRows(NamedTuple):  # (1)
    """The n new rows of a partition: their sides, whether they fulfil the condition of their own side, keys, and columns."""

    side: Ints  # n
    passes: BoolMask  # n
    keys: Columns  # of n rows each
    columns: tuple[Columns, Columns]  # of n rows each; those of the other side are null


class KeyNumbers(NamedTuple):
    """The k different keys of n rows have numbers: the keys in this order, as bytes and as columns, and each row's number."""

    keys: Sequence[bytes]  # k
    columns: Columns  # of k rows each
    of_row: Ints  # n, below k


def number_keys(schema: StructType, columns: Columns, num_rows: int) -> KeyNumbers:
    """Number the keys in the order in which they first occur; equal keys have the same number."""
    keys, first, of_row = distinct(UnsafeRowCodec(schema).encode_rows(columns, num_rows))
    return KeyNumbers(keys, take(columns, first), of_row)


class StoredRows(NamedTuple):
    """Stored rows: their keys in keyWithIndexToValue, and the rows themselves, with the flag as their last column."""

    at: Sequence[bytes]
    values: Sequence[bytes]

    def some(self, mask: BoolMask) -> StoredRows:
        return StoredRows(chosen(self.at, mask), chosen(self.values, mask))


class NewValues(NamedTuple):
    """Keys with their new values, in order; None removes the key."""

    keys: list[bytes]
    values: list[bytes | None]

    def add(self, key: bytes, value: bytes | None) -> None:
        self.keys.append(key)
        self.values.append(value)


class PairNumbers(NamedTuple):  # (2)
    """p pairs: the number of the new row and the place of the partner. All pairs of a row are together."""

    row: Ints  # p, below n
    partner: Ints  # p, below the number of rows that the key of the new row has on the other side

    def some(self, which: Any) -> PairNumbers:
        """The pairs that a mask, a slice or positions choose."""
        return PairNumbers(self.row[which], self.partner[which])


class Pairs(NamedTuple):
    """p pairs with their left and right columns; those that nobody asked for are None."""

    row: Ints  # p
    partner: Ints  # p
    columns: tuple[Columns, Columns]  # of p rows each


def check_join_type(join_type: str, output_mode: str) -> None:
    """Raises IllegalArgumentException if Spark's operator does not support such a join (`crossJoin`), or not in update mode."""
    at_once = ("Inner", "LeftSemi")  # joins that never emit a row only because time has passed
    if join_type not in (*at_once, "LeftOuter", "RightOuter", "FullOuter"):
        name = "StreamingSymmetricHashJoinExec"
        raise IllegalArgumentException(f"requirement failed: {name} should not take {join_type} as the JoinType")
    if output_mode == "update" and join_type not in at_once:
        kind = f"stream-stream {join_type} join"
        raise IllegalArgumentException(f"requirement failed: Update output mode is not supported for {kind}")


@dataclass(frozen=True)
class Join:
    """What both tasks know of the join. `key_event_time` is the join key that has a watermark."""

    join_type: str
    keys: StructType
    key_event_time: EventTime | None
    sides: tuple[JoinSide, JoinSide]

    @property
    def order(self) -> tuple[int, int]:
        """The side whose new rows come first, and meet only the state; then the other, whose new rows also meet those."""
        return (RIGHT, LEFT) if self.join_type == "LeftSemi" else (LEFT, RIGHT)

    def is_outer(self, side: int) -> bool:
        """Whether rows of a side that never find a partner are emitted with nulls."""
        return self.join_type in (f"{SIDES[side].capitalize()}Outer", "FullOuter")

    def is_late(self, rows: NewRows, late_ms: int) -> BoolMask:
        """Which rows are late, by the event time of their own side."""
        late = np.zeros(len(rows.side), np.bool_)
        for number, side in enumerate(self.sides):
            if side.event_time is not None:
                late |= (rows.side == number) & not_after(rows.columns[number], side.event_time, late_ms)
        return late

    def key_is_old(self, side: int, keys: Columns) -> BoolMask:
        """Which keys the state watermark of a side has passed."""
        bound_ms = self.sides[side].evict_key_ms
        if self.key_event_time is None or bound_ms is None:
            return np.zeros(len(keys[0]), np.bool_)
        return not_after(keys, self.key_event_time, bound_ms)

    def value_is_old(self, side: int, rows: Columns) -> BoolMask:
        """Which rows the state watermark of a side has passed."""
        event_time, bound_ms = self.sides[side].event_time, self.sides[side].evict_value_ms
        if event_time is None or bound_ms is None:
            return np.zeros(len(rows[0]), np.bool_)
        return not_after(rows, event_time, bound_ms)

    def is_old(self, side: int, rows: NewRows) -> BoolMask:
        """Which new rows the batch would evict at once, if they are of this side."""
        return self.key_is_old(side, rows.keys) | self.value_is_old(side, rows.columns[side])

    def is_found(self, rows: NewRows, joins: BoolMask) -> BoolMask:
        """Which of the new rows that join are found by those of the other side: those that come first and are stored."""
        first = joins & (rows.side == self.order[0])
        return first & ~self.is_old(RIGHT, rows) if self.order[0] == RIGHT else first

    # -- (3) the table between the tasks -------------------------------------------------------------------------

    def write(self, rows: NewRows) -> pa.RecordBatch:
        """New rows as a part of the table."""
        nothing = pa.nulls(len(rows.side), pa.int64())
        tags = [pa.array(rows.side, pa.int64()), pa.array(rows.passes, pa.bool_()), nothing, nothing]
        return record_batch([*tags, *rows.keys, *rows.columns[LEFT], *rows.columns[RIGHT]], len(rows.side))

    def write_pairs(self, pairs: Pairs) -> pa.RecordBatch:
        """Pairs as a part of the table, to come after all new rows."""
        numbers = [pa.array(pairs.row, pa.int64()), pa.array(pairs.partner, pa.int64())]
        return self._table([None, None, *numbers], [*pairs.columns[LEFT], *pairs.columns[RIGHT]], len(pairs.row))

    def write_aside(self, number: int) -> pa.RecordBatch:
        """(4) The number of new rows that were put aside, as a part of the table instead of them."""
        nothing = [None] * sum(len(side.row) for side in self.sides)
        return self._table([pa.array([ASIDE]), None, pa.array([number]), None], nothing, 1)

    def _table(self, tags: Columns, rows: Columns, n: int) -> pa.RecordBatch:
        """A part of the table without keys, and with nulls for columns that are None."""
        schemas = TAGS, self.keys, *(side.row for side in self.sides)
        types = [kind for schema in schemas for kind in UnsafeRowCodec(schema).arrow_types]
        columns = [*tags, *[None] * len(self.keys), *rows]
        return record_batch([pa.nulls(n, kind) if column is None else column for column, kind in zip(columns, types)], n)

    def read(self, batches: Iterable[pa.RecordBatch]) -> tuple[NewRows | None, PairNumbers]:
        """The new rows of a table (None if there are none), and the pairs that the filter has left."""
        of_rows, row, partner = [], [np.array([], np.int32)], [np.array([], np.int32)]
        for batch in batches:
            n = batch.num_rows - batch.column(0).null_count
            if n:
                of_rows.append(batch.slice(0, n))
            row.append(np.asarray(batch.column(2)[n:]).astype(np.int32))  # a copy, so that the batch can go
            partner.append(np.asarray(batch.column(3)[n:]).astype(np.int32))
        pairs = PairNumbers(np.concatenate(row), np.concatenate(partner))
        if not of_rows:
            return None, pairs
        new = concat(of_rows)
        if new.column(0)[0].as_py() == ASIDE:  # (4)
            new = take_back(new.column(2)[0].as_py())
        table = new.columns
        side, passes = (np.asarray(column) for column in table[:2])
        keys = table[len(TAGS) : len(TAGS) + len(self.keys)]
        return NewRows(side, passes, keys, self.halves(table)), pairs

    def halves(self, table: Columns) -> tuple[Columns, Columns]:
        """The left and the right columns of a table."""
        left = len(TAGS) + len(self.keys)
        right = left + len(self.sides[LEFT].row)
        return table[left:right], table[right:]
