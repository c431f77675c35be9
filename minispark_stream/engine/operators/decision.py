"""Describes an operator's rules to those who follow rows through it: how rows come in, and what decides about them.

Models: nothing of Spark, which does not follow a row. The numbers are those that the tasks of the operator work with.

1. An `Entry` is one input of an operator: the columns of its key, and the column that decides about lateness.
2. A `Decision` contains the rules of one batch: which rows are late, what is kept of the others, which state leaves, and what
   is emitted. It is a part of the trace (step stateOperator, `decides`), whose sentences name these numbers. The tasks report
   which rows the rules were applied to (told.py).

    a windowed count, append, watermarks 12:11 and 12:20
    {"keeps": "groups", "late_ms": 12:11, "leaves_ms": [12:20], "emits": "leaving", ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.columns import EventTime

# What an operator keeps of rows that are not late: their groups, their sessions, their keys, the rows themselves, what a user's
# function makes of them, or only how many have passed.
GROUPS, SESSIONS, KEYS, ROWS, VALUES, COUNT = "groups", "sessions", "keys", "rows", "values", "count"
OWN_WORDS = "own words"  # what an operator of one's own does with a row, it says itself
# What it emits of what it keeps: what the batch has changed, all of it, or what leaves; None: something else.
CHANGED, ALL, LEAVING = "changed", "all", "leaving"
EMITS = {"update": CHANGED, "complete": ALL, "append": LEAVING}


@dataclass(frozen=True)
class Entry:
    """(1) How rows come in on one side of an operator. If it stores rows, `row` are the columns that it stores of each."""

    key: Mapping[str, JavaObject]
    shuffled_by: Sequence[JavaObject]
    time: JavaObject | None = None
    is_window: bool = False
    row: Sequence[JavaObject] = ()

    @staticmethod
    def of(
        key: Mapping[str, JavaObject], shuffled_by: Sequence[JavaObject], columns: Sequence[JavaObject],
        event_time: EventTime | None, row: Sequence[JavaObject] = (),
    ) -> Entry:
        """The entry whose event time is one of `columns`."""
        if event_time is None:
            return Entry(key, shuffled_by, row=row)
        return Entry(key, shuffled_by, columns[event_time.position], event_time.is_window, row)


@dataclass(frozen=True)
class Decision:
    """(2) The rules by which an operator decides in one batch. All times are in ms.

    Attributes:
        keeps: what it keeps of rows that are not late.
        late_ms: rows up to this time are late; None: no row is.
        leaves_ms: for each side of the input, state that ends at or before this time leaves; None: it never leaves.
        lasts_ms: state ends this long after the time of its row.
        emits: what it emits of what it keeps.
        limit: how many rows may pass.
        join_type: Spark's name of a join's type.
    """

    keeps: str
    late_ms: int | None = None
    leaves_ms: Sequence[int | None] = (None,)
    lasts_ms: int | None = None
    emits: str | None = None
    limit: int | None = None
    join_type: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
