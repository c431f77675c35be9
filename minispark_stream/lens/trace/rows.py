"""The rows that a trace of level "rows" has, as plain data: where they arrived, what was decided about them, the state.

The modules of lens/recording/ make them (arrivals, told, shown_state, ran). Any entry may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Row = Mapping[str, Any]
Time = float | int  # in ms since the epoch; a whole number, if it has no fraction


class At(TypedDict, total=False):
    """A row at an operator; without an id, at the end of a plan that has none."""

    operatorId: int | None
    side: Literal[0, 1]
    partition: int | None
    key: Row | None
    row: Row | None
    start: Time | None
    time: Time | None


class Arrival(TypedDict, total=False):
    """A row of a source, or of an operator, with its ways to the operators above."""

    source: str
    file: str | None
    row: Row
    time: Time | None
    operatorId: int
    place: int
    at: Sequence[At]


class ToldRow(TypedDict, total=False):
    """A key, a row, or the two rows of a pair, about which a task has decided something."""

    key: Row | None
    row: Row | None
    left: Row | None
    right: Row | None
    side: Literal[0, 1]
    why: str
    start: Time | None
    end: Time | None
    timer: Mapping[str, int | None] | None
    place: Mapping[str, int | None] | None


class RowOfState(TypedDict, total=False):
    """A row of a store."""

    store: str
    partition: int
    key: Row | None
    value: Any


class InMemory(TypedDict, total=False):
    """A version of a store that a worker has in memory, and how it came there."""

    partition: int
    store: str
    worker: str | None
    came: str
    shared: bool
    version: int


class Zip(TypedDict, total=False):
    """A version that a batch wrote whole, with its tables."""

    partition: int
    store: str
    version: int
    tables: Mapping[str, Any]


Way = TypedDict(  # of a row in real-time mode (extras/real_time/ways.py)
    "Way",
    {
        "read": Time | None, "computed": Time | None, "received": Time | None, "written": Time | None,
        "from": int | None, "to": int | None, "rows": str,
    },
    total=False,
)


class Tasks(TypedDict, total=False):
    """The tasks of a batch: of each stage, the number, the beginning and the end of each task."""

    stages: Sequence[Sequence[tuple[int, float, Time | None]]]
    receivers: int
    ways: Sequence[Way]
    clock: Time
