"""A stream-stream join, a row at a time: what the tasks `Probe` and `Build` do with columns, in plain Python.

Models: StreamingSymmetricHashJoinExec and OneSideHashJoiner (About state: SymmetricHashJoin). No query runs this code. It is
for reading, and a test compares the columnar tasks with it: they emit the same rows, and keep the same rows in the same order.

1. Late rows are dropped. The new rows of one side are joined, one after the other, and then those of the other side.
2. A row meets the rows of the other side that wait in the state with the same key, including those of this batch. If the
   condition accepts the two, they are emitted as a pair, and both count as matched. In a semi join, a left row is emitted only
   once, without its partner, and does not wait any longer.
3. Then the row itself waits in the state. But a right row that this batch would evict at once is not stored, unless it must
   then be emitted with nulls.
4. When the state watermark of a side has passed a waiting row, the row is evicted. If it has never been matched and the join is
   outer on its side, it is emitted with nulls.

    waiting   left a: (12:00)
    new       right a: (12:03)          emitted (12:00, 12:03); waiting   left a: (12:00) matched   right a: (12:03) matched
    new       watermark 12:20           a left outer join emits nothing for (12:00), because it has been matched

Differs from Spark: nothing.
Shown by tests/unit/engine/operators/join/test_joins_row_by_row.py::test_columns_do_what_rows_do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from minispark_stream.engine.checkpointing.join_stores import LEFT, RIGHT
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join

RowValues = tuple[Any, ...]  # times are microseconds, a window is a pair of them
Joined = tuple[RowValues | None, RowValues | None]  # None stands for a row of nulls


class NewRow(NamedTuple):
    """A new row. `passes`: whether it fulfils the part of the join condition that is about its own side alone."""

    side: int
    key: RowValues
    values: RowValues
    passes: bool = True


@dataclass
class Waiting:
    """A row that waits in the state."""

    values: RowValues
    matched: bool


class JoinRowByRow:
    """One partition of a join. `condition` is what must be true of a left and a right row besides equal keys."""

    def __init__(self, condition: Callable[[RowValues, RowValues], bool]):
        self.condition = condition
        self.state: tuple[dict[RowValues, list[Waiting]], dict[RowValues, list[Waiting]]] = {}, {}

    def run(self, join: Join, rows: Iterable[NewRow], late_ms: int) -> list[Joined]:
        """Run a batch; returns what it emits. `join` has the state watermarks of this batch."""
        emitted: list[Joined] = []
        for side in join.order:  # (1)
            for row in rows:
                if row.side == side and not passed(row.values, join.sides[side].event_time, late_ms):
                    emitted += self.join_row(join, row)
        return emitted + self.evict(join, LEFT) + self.evict(join, RIGHT)

    def join_row(self, join: Join, row: NewRow) -> list[Joined]:
        is_semi, others = join.join_type == "LeftSemi", self.state[1 - row.side]
        if not row.passes:
            return [pair(row.side, row.values, None)] if join.is_outer(row.side) else []
        met = [other for other in others.get(row.key, ()) if self.condition(*pair(row.side, row.values, other.values))]  # (2)
        if is_semi and row.side == LEFT:
            met = met[:1]
        for other in met:
            other.matched = True
        if is_semi and row.side == RIGHT:
            self.remove(LEFT, row.key, met)
        if self.waits(join, row, bool(met)):  # (3)
            self.state[row.side].setdefault(row.key, []).append(Waiting(row.values, bool(met)))
        pairs = [pair(row.side, row.values, other.values) for other in met]
        return [(left, None) for left, _ in pairs] if is_semi else pairs

    def waits(self, join: Join, row: NewRow, matched: bool) -> bool:
        if row.side == LEFT:
            return join.join_type != "LeftSemi" or not matched
        return not is_old(join, RIGHT, row.key, row.values) or join.is_outer(RIGHT) and not matched

    def evict(self, join: Join, side: int) -> list[Joined]:  # (4)
        emitted: list[Joined] = []
        for key, rows in list(self.state[side].items()):
            gone = [row for row in rows if is_old(join, side, key, row.values)]
            self.remove(side, key, gone)
            emitted += [pair(side, row.values, None) for row in gone if join.is_outer(side) and not row.matched]
        return emitted

    def remove(self, side: int, key: RowValues, gone: list[Waiting]) -> None:
        """Remove rows of a key; as in Spark, the last row of the key moves into each hole."""
        rows, place = self.state[side].get(key, []), 0
        while place < len(rows):
            if not any(rows[place] is row for row in gone):
                place += 1
                continue
            last = rows.pop()
            if place < len(rows):
                rows[place] = last
        if not rows:
            self.state[side].pop(key, None)


def pair(side: int, values: RowValues, other: RowValues | None) -> Any:
    return (values, other) if side == LEFT else (other, values)


def is_old(join: Join, side: int, key: RowValues, values: RowValues) -> bool:
    """Whether the state watermark of a side has passed a row: the event time in its key, or its own event time."""
    bounds = join.sides[side]
    return passed(key, join.key_event_time, bounds.evict_key_ms) or passed(values, bounds.event_time, bounds.evict_value_ms)


def passed(values: RowValues, event_time: EventTime | None, watermark_ms: int | None) -> bool:
    """Whether an event time is not after a watermark; if it is a window, its end counts."""
    if event_time is None or watermark_ms is None or values[event_time.position] is None:
        return False
    time = values[event_time.position]
    return bool((time[1] if event_time.is_window else time) <= watermark_ms * 1000)
