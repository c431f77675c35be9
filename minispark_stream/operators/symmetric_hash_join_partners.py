"""Who meets whom in a stream-stream join: new rows, and the rows of the other side under the same key.

Models: StreamingSymmetricHashJoinExec.processPartitions (About state: SymmetricHashJoin).

A row is known by its *position*: a new row by its number, a row from the state by a number behind those of all new rows.

1. The partners of a new row are positions in the order of their places: first those that the state has under the key, then the
   new rows that the state will have by then.
2. Pairs are made from positions a chunk at a time, because they may be many more than rows: 10,000 rows on each side under one
   key are 20,000 positions, and 100 million pairs.

    2 new rows, 0: right a, 1: left b; state: left a (2)     met [(0, [2])]     pairs of columns left 2, right 0

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from minispark_stream.operators.columns import Columns
from minispark_stream.operators.symmetric_hash_join_rows import LEFT, RIGHT, Ints, NewRows, Pairs
from minispark_stream.operators.symmetric_hash_join_state_manager import JoinSideState

PAIRS_AT_A_TIME = 50_000
NOBODY = np.array([-1], np.int32)  # the other half of a row that leaves alone


class Partners:
    """The rows of one side that new rows of the other side may meet, found by key."""

    def __init__(self, side: JoinSideState, keys: list[bytes], num_new: int):
        side.prepare(keys)
        self._side, self._num_new = side, num_new
        self._new: dict[bytes, list[int]] = {}
        self._of_key: dict[bytes, Ints] = {}
        self._stored: list[bytes] = []

    def add(self, key: bytes, row: int) -> None:
        """A new row that `of` will find, too; to be called before `of` is asked for the key."""
        self._new.setdefault(key, []).append(row)

    def of(self, key: bytes) -> Ints:  # (1)
        """The positions of the rows of a key."""
        if key not in self._of_key:
            begin = self._num_new + len(self._stored)
            self._stored += [row.value for row in self._side.rows_of(key)]
            stored = range(begin, self._num_new + len(self._stored))
            self._of_key[key] = np.array([*stored, *self._new.get(key, ())], np.int32)
        return self._of_key[key]

    def columns(self, new: Columns) -> Columns:
        """The columns of this side by position: of all new rows (`new`), then of those from the state."""
        stored = self._side.decode(self._stored)
        return [pa.concat_arrays([of_new, of_stored.cast(of_new.type)]) for of_new, of_stored in zip(new, stored)]


class Meetings:
    """New rows of a partition with their partners, in the order in which they meet."""

    def __init__(self, rows: NewRows, keys: list[bytes], sides: tuple[JoinSideState, JoinSideState]):
        self._rows = rows
        self.partners = tuple(Partners(side, keys, len(rows.side)) for side in sides)
        self._met: list[tuple[int, Ints]] = []

    def add(self, row: int, positions: Ints) -> None:
        if len(positions):
            self._met.append((row, positions))

    def pairs(self) -> Iterator[Pairs]:  # (2)
        if not self._met:
            return
        left, right = (self.partners[side].columns(self._rows.columns[side]) for side in (LEFT, RIGHT))
        rows = np.array([row for row, _ in self._met])
        ends = np.cumsum([len(positions) for _, positions in self._met])
        begins = ends - [len(positions) for _, positions in self._met]
        for begin in range(0, int(ends[-1]), PAIRS_AT_A_TIME):
            numbers = np.arange(begin, min(begin + PAIRS_AT_A_TIME, ends[-1]))
            meeting = np.searchsorted(ends, numbers, "right")
            first, last = meeting[0], meeting[-1]
            positions = np.concatenate([positions for _, positions in self._met[first : last + 1]])
            positions = positions[begin - begins[first] :][: len(numbers)]
            row = rows[meeting]
            is_left = self._rows.side[row] == LEFT
            halves = _take(left, np.where(is_left, row, positions)), _take(right, np.where(is_left, positions, row))
            yield Pairs(row, numbers - begins[meeting], halves)


def _take(columns: Columns, positions: Ints) -> Columns:
    """The rows at some positions; nulls for nobody."""
    at = pa.array(positions, mask=positions < 0)
    return [column.take(at) for column in columns]
