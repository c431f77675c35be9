"""The steps in which rows leave the keys of a join: for many keys at once, and in Spark's loop."""

from __future__ import annotations

import numpy as np
import pytest

from minispark_stream.engine.operators.join.symmetric_hash_join_removals import removals


def loop(count: int, leaving: set[int]) -> list[tuple[int, int, int]]:
    """SymmetricHashJoinStateManager.removeByValueCondition for one key: hole, last place and row that is gone, step by step."""
    left, place, steps = list(range(count)), 0, []
    while place < len(left):
        if left[place] not in leaving:
            place += 1
            continue
        gone, last = left[place], left.pop()
        if place < len(left):
            left[place] = last
        steps.append((place, len(left), gone))
    return steps


@pytest.mark.parametrize("seed", range(50))
def test_all_keys_at_once_go_through_the_steps_of_spark(seed: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(0, 7, 20)
    leaves = random.random(counts.sum()) < random.random()
    begins, expected = np.cumsum(counts) - counts, []
    for begin, count in zip(begins.tolist(), counts.tolist()):
        steps = loop(count, set(np.flatnonzero(leaves[begin : begin + count]).tolist()))
        expected += [tuple(begin + position for position in step) for step in steps]
    leaving = np.flatnonzero(leaves)
    found = removals(counts, leaving)
    assert list(zip(found.hole.tolist(), found.last.tolist(), leaving[found.gone].tolist())) == expected


def test_of_two_rows_that_leave_the_second_moves_before_it_is_gone() -> None:
    found = removals(np.array([4]), np.array([0, 3]))
    assert [part.tolist() for part in found] == [[0, 0], [3, 2], [0, 1]]
