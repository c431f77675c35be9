"""Which rows meet in a stream-stream join: new rows, and the rows of the other side with the same key.

Models: StreamingSymmetricHashJoinExec.processPartitions (About state: SymmetricHashJoin).

A row has a *position*: that of a new row is its number, and the rows from the state are counted on from there.

1. The possible partners of a new row are the rows with its key that are in the state, and then those new rows that will be in
   the state when it is joined. (A state may also keep its rows in another order.) `Partners` has the positions of all of them
   in one array, key by key; the *place* of a partner is its index among those of the same key. At a place whose row the state
   lacks (a null that is skipped), there is nobody.
2. A pair consists of two numbers, a row and the place of its partner. Pairs get their columns a chunk at a time, because there
   may be many more pairs than rows: 10,000 rows on each side with the same key are 20,000 positions, and 100 million pairs.

    2 new rows, 0: right a, 1: left b; state: left a (2)     row 0 meets place 0 of a: position 2     columns left 2, right 0

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT
from minispark_stream.engine.operators.columns import Columns, joined
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Ints, KeyNumbers, NewRows, PairNumbers, Pairs
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import JoinSideState

PAIRS_AT_A_TIME = 50_000
Positions = Collection[int] | None  # the positions of some columns; None: all
NOBODY = -1  # the place of the partner of a row that is emitted without one


class Partners:
    """(1) The rows of one side that new rows of the other side may meet.

    Args:
        asked: the numbers of the keys that the other side has.
        new: the new rows of this side that the other side finds besides those of the state.
        columns: the columns of this side, for all new rows.

    `of_key` says how many rows each of the k keys has. The positions of the n new rows are 0 to n - 1, and those of the rows
    from the state follow. `_positions` has the positions of all partners, key by key, and `_begin` (k) where each key begins.
    `nulls_of_key` says how many places of each key are empty.
    """

    def __init__(self, side: JoinSideState, keys: KeyNumbers, asked: Ints, new: Ints, columns: Columns):
        numbers, num_new = np.arange(len(keys.keys)), len(keys.of_row)
        is_asked = np.zeros(len(numbers), np.bool_)
        is_asked[asked] = True
        in_state = np.where(is_asked, side.counts(keys.keys), 0)
        self._side = side
        self._stored = side.rows_of(keys.columns, in_state).values
        there = side.are_there(keys.columns, in_state)
        of_state = np.repeat(numbers, in_state)
        self.nulls_of_key = np.bincount(of_state[~there], minlength=len(numbers))
        key = np.concatenate([of_state, keys.of_row[new]])
        positions = np.concatenate([np.where(there, num_new + np.cumsum(there) - 1, NOBODY), new])
        self.num_positions = num_new + len(self._stored)
        self._positions = positions[side.order(key, self._stored, columns, new)]
        self.of_key = np.bincount(key, minlength=len(numbers))
        self._begin = np.cumsum(self.of_key) - self.of_key

    def at(self, key: Ints, place: Ints) -> Ints:
        """The position of the row at a place of a key."""
        return self._positions[self._begin[key] + place]

    def columns(self, new: Columns, only: Positions = None) -> Columns:
        """The columns of this side by position: of all new rows (`new`), then of those from the state; or only some of them."""
        stored = self._side.decode(self._stored, only)
        return [None if old is None else joined(column, old) for column, old in zip(new, stored)]


class Meetings:
    """New rows of a partition and their possible partners.

    Args:
        asking: the new rows that look for partners.
        new: the new rows that others find.
    """

    def __init__(self, rows: NewRows, keys: KeyNumbers, sides: tuple[JoinSideState, JoinSideState], asking: Ints, new: Ints):
        self._rows, self._key = rows, keys.of_row
        asked, new_side = keys.of_row[asking], rows.side[new]
        self._partners = [
            Partners(state, keys, asked[rows.side[asking] != side], new[new_side == side], rows.columns[side])
            for side, state in enumerate(sides)
        ]

    def all_pairs(self, joining: Ints) -> Iterator[PairNumbers]:
        """All pairs of some rows and their possible partners, in order, a chunk at a time."""
        left, right = self._partners
        key = self._key[joining]
        met = np.where(self._rows.side[joining] == LEFT, right.of_key[key], left.of_key[key])
        ends, num_nulls = np.cumsum(met), self.num_nulls(joining)
        for begin in range(0, int(met.sum()), PAIRS_AT_A_TIME):
            numbers = np.arange(begin, min(begin + PAIRS_AT_A_TIME, ends[-1]))
            meeting = np.searchsorted(ends, numbers, "right")
            pairs = PairNumbers(joining[meeting], numbers - (ends - met)[meeting])
            yield pairs.some(self.partners(pairs) != NOBODY) if num_nulls else pairs

    def num_nulls(self, joining: Ints) -> int:
        """How often some rows meet nobody at a place."""
        left, right = self._partners
        key, is_left = self._key[joining], self._rows.side[joining] == LEFT
        return int(np.where(is_left, right.nulls_of_key[key], left.nulls_of_key[key]).sum())

    def partners(self, pairs: PairNumbers) -> Ints:
        """The position of each pair's partner; `NOBODY` if it has none."""
        positions = np.full(len(pairs.row), NOBODY)
        for side, partners in enumerate(self._partners):
            mine = np.flatnonzero((self._rows.side[pairs.row] != side) & (pairs.partner != NOBODY))
            positions[mine] = partners.at(self._key[pairs.row[mine]], pairs.partner[mine])
        return positions

    def first_of_each_partner(self, pairs: PairNumbers) -> Ints:
        """Which of some pairs are the first ones with their partner. The rows of the pairs must all be of one side."""
        is_met = np.zeros(max(partners.num_positions for partners in self._partners), np.bool_)
        first = [np.array([], np.int64)]
        for number, chunk in enumerate(chunks(pairs)):
            positions = self.partners(chunk)
            new = np.flatnonzero(~is_met[positions])
            new = new[np.sort(np.unique(positions[new], return_index=True)[1])]
            is_met[positions[new]] = True
            first.append(new + number * PAIRS_AT_A_TIME)
        return np.concatenate(first)

    def pairs(self, numbers: Iterable[PairNumbers], only: tuple[Positions, Positions] = (None, None)) -> Iterator[Pairs]:  # (2)
        """Pairs with their columns; all columns but `only` some of each side are None."""
        both = None
        for pairs in numbers:
            both = both or [self._partners[side].columns(self._rows.columns[side], only[side]) for side in (LEFT, RIGHT)]
            positions = self.partners(pairs)
            is_left = self._rows.side[pairs.row] == LEFT
            left, right = np.where(is_left, pairs.row, positions), np.where(is_left, positions, pairs.row)
            yield Pairs(*pairs, (_take(both[LEFT], left), _take(both[RIGHT], right)))


def chunks(pairs: PairNumbers) -> Iterator[PairNumbers]:
    """(2) The same pairs, at most `PAIRS_AT_A_TIME` in each chunk."""
    for begin in range(0, len(pairs.row), PAIRS_AT_A_TIME):
        yield pairs.some(slice(begin, begin + PAIRS_AT_A_TIME))


def _take(columns: Columns, positions: Ints) -> Columns:
    """The rows at some positions; nulls for `NOBODY`."""
    at = pa.array(positions, mask=positions < 0)
    return [None if column is None else column.take(at) for column in columns]
