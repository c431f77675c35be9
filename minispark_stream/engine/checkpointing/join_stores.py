"""The names of the stores in which a stream-stream join keeps the rows of its two sides, partition by partition.

Models: SymmetricHashJoinStateManager.getStateStoreName.

    left-keyToNumValues, left-keyWithIndexToValue     how many rows a key has, and each of them under a number
    left-keyWithTsToValues, left-tsWithKey            the rows of a key and a time as a list, and which keys a time has

and as many for the right side. State format 4 has the second pair, the others the first. From format 3 on they are not stores
of their own, but column families of one store.

Differs from Spark: nothing.
"""

from __future__ import annotations

SIDES = ("left", "right")
LEFT, RIGHT = 0, 1
COUNTS, VALUES = "keyToNumValues", "keyWithIndexToValue"
ROWS, TIMES = "keyWithTsToValues", "tsWithKey"


def store_name(side: int, kind: str) -> str:
    return f"{SIDES[side]}-{kind}"


STORES = tuple(store_name(side, kind) for side in (LEFT, RIGHT) for kind in (COUNTS, VALUES))
LISTS = frozenset(store_name(side, kind) for side in (LEFT, RIGHT) for kind in (ROWS, TIMES))
