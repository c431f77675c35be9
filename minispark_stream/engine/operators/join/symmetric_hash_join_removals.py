"""In which steps rows leave the keys of a join, for many keys at once.

Models: the loop of SymmetricHashJoinStateManager.removeByValueCondition (About state).

The rows of a key have the places 0, 1, 2, ... Spark looks at one place after the other. If the row there leaves, the last row
of the key moves into the hole, its old place is removed, and the same place is looked at again. So

1. step s of a key that has c rows removes the place c - 1 - s: the *last* one.
2. The *hole* of a step is that of the step before, if the row that has moved into it leaves, too; otherwise it is the next
   place whose row leaves. So the number of the hole is how many rows that stay have moved before.
3. The row that is *gone* with a step is the one that has moved into the hole in the step before, or the one that was there.

    places 0 1 2 3, those of 0 and 3 leave     step 0: hole 0, last 3: 3 moves to 0     gone: 0
                                               step 1: hole 0, last 2: 2 moves to 0     gone: 3     left: 2 1

Differs from Spark: nothing.
Shown by tests/unit/engine/operators/join/test_removals.py::test_all_keys_at_once_go_through_the_steps_of_spark.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.columns import Ints, numbered


class Removals(NamedTuple):
    """The steps of all keys, key by key. Positions count the rows of all keys, and `gone` counts the rows that leave.

    In each step the row at `last` moves to `hole`, unless that is the same position, and `last` is removed.
    """

    hole: Ints
    last: Ints
    gone: Ints


def removals(counts: Ints, leaving: Ints) -> Removals:
    """The steps in which some rows leave.

    Args:
        counts: how many rows each key has; the positions of a key's rows follow those of the key before it.
        leaving: the positions of the rows that leave, in ascending order.
    """
    ends = np.cumsum(counts)
    key = np.searchsorted(ends, leaving, "right")
    of_key = np.bincount(key, minlength=len(counts))
    step, first = numbered(of_key), (np.cumsum(of_key) - of_key)[key]
    last = ends[key] - 1 - step  # (1)
    leaves = np.zeros(int(ends[-1]), np.bool_)
    leaves[leaving] = True
    stay_moved = np.cumsum(~leaves[last]) - ~leaves[last]  # in the steps before this one, of all keys
    number = first + stay_moved - stay_moved[first]  # (2)
    moved_before = (step > 0) & leaves[np.roll(last, 1)]
    position_gone = np.where(moved_before, np.roll(last, 1), leaving[number])  # (3)
    return Removals(leaving[number], last, np.searchsorted(leaving, position_gone))
