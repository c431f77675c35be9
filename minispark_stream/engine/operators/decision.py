"""Describes an operator's rules for the tracer of rows: how rows come in, and what decides about them.

Models: nothing of Spark, which does not follow a row. The numbers are those that the tasks of the operator work with.

1. An `Entry` is one input of an operator: the columns of its key, and the column that decides about lateness.
2. A `Decision` is what holds in one batch: which rows are late, what is kept of the others, which state leaves, what is
   emitted. It goes into the trace as it is (step stateOperator, `decides`), for the sentences that name the numbers. To which
   rows it came to apply, the tasks tell (told.py).

    a windowed count, append, watermarks 12:11 and 12:20
    {"keeps": "groups", "late_ms": 12:11, "leaves_ms": [12:20], "emits": "leaving", ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.columns import EventTime

# What an operator keeps of a row that is not late: its group, its session, the first row of its key, every row, what a
# function of the user's makes of it, or no more than that it passed.
GROUPS, SESSIONS, KEYS, ROWS, VALUES, COUNT = "groups", "sessions", "keys", "rows", "values", "count"
# What it emits of that: what a batch has changed, all of it, or what leaves; None: something else.
CHANGED, ALL, LEAVING = "changed", "all", "leaving"
EMITS = {"update": CHANGED, "complete": ALL, "append": LEAVING}


@dataclass(frozen=True)
class Entry:
    """(1) How rows get into an operator on one side. `row` are the columns that it stores of a row, where it stores rows."""

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
    """(2) By what an operator decides in one batch. All times are in ms.

    Rows up to `late_ms` are late (None: none is). State that ends at or before `leaves_ms` leaves, by side of the input (None:
    never); it ends `lasts_ms` after the time of its row. Of the side `unstored`, what would leave at once is not stored.
    """

    keeps: str
    late_ms: int | None = None
    leaves_ms: Sequence[int | None] = (None,)
    lasts_ms: int | None = None
    emits: str | None = None
    limit: int | None = None
    join_type: str | None = None
    unstored: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
