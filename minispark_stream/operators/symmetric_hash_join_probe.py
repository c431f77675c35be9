"""The first task of a stream-stream join: who may join whom? Nothing is changed.

Models: StreamingSymmetricHashJoinExec.processPartitions (About state: SymmetricHashJoin).

1. Late rows, and rows that fail the part of the condition that is about their own side alone, meet nobody.
2. Each new row of the side that comes first meets the other side's rows in the state.
3. Each new row of the other side meets the first side's rows in the state, then the new ones of (2). So each pair is found
   once.
4. New rows and pairs leave together, the pairs in the order in which Spark would meet them. Spark filters the pairs with the
   rest of the join condition, and hands what remains to `Build`.

    state     left a: (12:00)
    batch     left a: (12:01), right a: (12:03)      pairs     (12:00, 12:03), (12:01, 12:03)

The left side comes first, in a semi join the right side.
Differs from Spark: pairs are found for the whole partition at once, because the condition is Spark's to evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.columns import Columns, concat, take
from minispark_stream.operators.state_task import OperatorWatermarks, StatefulOperatorStateInfo, own_partition, record_batches
from minispark_stream.operators.symmetric_hash_join_rows import LEFT, RIGHT, Join, NewRows, Pairs
from minispark_stream.operators.symmetric_hash_join_state_manager import JoinSideState, open_sides


@dataclass(frozen=True, kw_only=True)
class Probe:
    """New rows in, new rows and pairs out; calling it runs one partition (for mapInArrow)."""

    info: StatefulOperatorStateInfo
    watermarks: OperatorWatermarks
    output: pa.Schema
    join: Join

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, new = own_partition(batches)
        table = concat(new)
        if not table:
            return
        rows, _ = self.join.read(table)
        with open_sides(self.info, partition, self.join) as sides:
            table = self.join.write(rows, self.pairs(rows, sides))  # (4)
        yield from record_batches([table], self.output)

    def pairs(self, rows: NewRows, sides: tuple[JoinSideState, JoinSideState]) -> Pairs:
        """The pairs that new rows are part of."""
        size = len(rows.side)
        keys = UnsafeRowCodec(self.join.keys).encode(rows.keys, size)
        joins = rows.passes & ~self.join.is_late(rows, self.watermarks.late_ms)  # (1)
        partners = [Partners(side, keys, size) for side in sides]
        found: list[Candidate] = []
        first, second = self.join.order
        for row in np.flatnonzero(joins & (rows.side == first)).tolist():  # (2)
            found += [Candidate(row, place, at) for place, at in enumerate(partners[second].of(keys[row]))]
            partners[first].add(keys[row], row)
        for row in np.flatnonzero(joins & (rows.side == second)).tolist():  # (3)
            found += [Candidate(row, place, at) for place, at in enumerate(partners[first].of(keys[row]))]
        row_numbers, places, positions = np.array(found, np.int64).reshape(-1, len(Candidate._fields)).T
        is_left = rows.side[row_numbers] == LEFT
        left = take(partners[LEFT].columns(rows.columns[LEFT]), np.where(is_left, row_numbers, positions))
        right = take(partners[RIGHT].columns(rows.columns[RIGHT]), np.where(is_left, positions, row_numbers))
        return Pairs(row_numbers, places, (left, right))


class Candidate(NamedTuple):
    """A pair: the number of the new row, the partner's place among the rows of its key, and its position in `Partners`."""

    row: int
    place: int
    position: int


class Partners:
    """The rows of one side that new rows of the other side may meet, found by key.

    A row is known by its position in `columns`: a new row by its number, a row from the state by a place behind all new rows.
    """

    def __init__(self, side: JoinSideState, keys: list[bytes], num_new: int):
        side.prepare(keys)
        self._side, self._num_new = side, num_new
        self._new: dict[bytes, list[int]] = {}
        self._of_key: dict[bytes, list[int]] = {}
        self._stored: list[bytes] = []

    def add(self, key: bytes, row: int) -> None:
        """A new row that `of` will find, too; to be called before `of` is asked for the key."""
        self._new.setdefault(key, []).append(row)

    def of(self, key: bytes) -> list[int]:
        """The positions of the rows of a key, in the order of their places: those from the state, then new ones."""
        if key not in self._of_key:
            begin = self._num_new + len(self._stored)
            self._stored += [row.value for row in self._side.rows_of(key)]
            self._of_key[key] = [*range(begin, self._num_new + len(self._stored)), *self._new.get(key, ())]
        return self._of_key[key]

    def columns(self, new: Columns) -> Columns:
        """The columns of this side: of all new rows (`new`), then of those from the state."""
        stored = self._side.decode(self._stored)
        return [pa.concat_arrays([of_new, of_stored.cast(of_new.type)]) for of_new, of_stored in zip(new, stored)]
