"""What the operators of a query keep in their state, batch by batch, as their tasks told it.

1. What is kept is a *holding*: a group (of a window, of a key), a session, the first row of a key, a buffered row of a join.
2. A row that was kept opens a holding, or is added to an existing one. The tasks tell which sessions there are after a batch: a
   holding that lies within one of them has become this session, or a part of it.
3. At the end of a batch, the tasks tell what was emitted from the state, and what was removed from it.
4. If the tasks of a batch told nothing, it is no longer known what became of the operator's holdings.

    told kept: session [12:00, 12:13)      held: [12:00, 12:05) and [12:08, 12:13)      now one, the second a part of the first

No time is compared with a watermark here. lens/trace/fates.py follows the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.times import is_window
from minispark_stream.lens.trace.facts import AGGREGATES, DUPLICATE, EMITTED, KEPT, REMOVED, BatchFacts, OperatorFacts
from minispark_stream.lens.trace.rows import Time
from minispark_stream.lens.trace.values import name_of


@dataclass
class Holding:
    """(1) What an operator keeps in its state for one or more rows: a window, a session, a key, a buffered row.

    `start_ms` and `end_ms` are event times (None if it has none); it is evicted when the watermark reaches `until_ms` (None:
    never). `counts` are its rows by batch, `emitted` the batches that emitted it, each with its place among the emitted rows;
    `evicted` is the batch that evicted it. A session grows: `extents` has its start and end after each batch that changed them,
    and `merged_into` is the session that it became a part of, in batch `merged`. From batch `lost` on, it is not known what
    became of it (4).
    """

    operator_id: int
    side: int
    key: Mapping[str, Any]
    start_ms: Time | None
    end_ms: Time | None
    until_ms: Time | None
    opened: int
    counts: Counter[int] = field(default_factory=Counter)
    emitted: dict[int, int] = field(default_factory=dict)
    evicted: int | None = None
    extents: dict[int, tuple[Time | None, Time | None]] = field(default_factory=dict)
    merged_into: Holding | None = None
    merged: int | None = None
    lost: int | None = None

    @property
    def last(self) -> Holding:
        """The session that this one became a part of, or itself."""
        return self if self.merged_into is None else self.merged_into.last


class Holdings:
    """What is in the states now; and `all` that has ever been there, in the order in which it was opened."""

    def __init__(self) -> None:
        self.all: list[Holding] = []
        self._now: dict[tuple[int, str], list[Holding]] = {}  # by operator, and by what identifies a holding there

    def keep(self, batch: BatchFacts, operator: OperatorFacts, at: Mapping[str, Any], what: str) -> Holding | None:
        """(2) What keeps a row: an existing holding, or a new one. For a duplicate, what keeps the row before it."""
        held = self._by(operator, at)
        if operator.keeps == "sessions":
            found = next((one for one in held if is_within(at.get("start"), at.get("time"), one)), None)
        else:
            found = held[0] if held and operator.keeps != "rows" else None
        if what == DUPLICATE:
            return found
        if found is None:
            end_ms = at.get("time") if operator.keeps != "values" else None  # only the function knows how long
            start_ms = end_ms if at.get("start") is None else at.get("start")
            found = self._open(batch, operator, at, start_ms, end_ms)
        found.counts[batch.number] += 1
        if operator.keeps == "keys":
            found.emitted[batch.number] = 0  # the row itself
        return found

    def _by(self, operator: OperatorFacts, item: Mapping[str, Any]) -> list[Holding]:
        """What an operator holds for an `item`: under its key, in its group of sessions, or as a row of its side."""
        key = item.get("key") or {}
        if operator.keeps == "sessions":
            key = without_window(key)
        known_by = [item.get("side") or 0, item.get("row")] if operator.keeps == "rows" else [0, key]
        return self._now.setdefault((operator.operator_id, name_of(known_by)), [])

    def _open(
        self, batch: BatchFacts, operator: OperatorFacts, item: Mapping[str, Any], start_ms: Time | None, end_ms: Time | None
    ) -> Holding:
        side = item.get("side") or 0
        new = Holding(
            operator_id=operator.operator_id,
            side=side,
            key=item.get("key") or {},
            start_ms=start_ms,
            end_ms=end_ms,
            until_ms=_until(operator, side, end_ms),
            opened=batch.number,
            extents={batch.number: (start_ms, end_ms)},
        )
        self.all.append(new)
        self._by(operator, item).append(new)
        return new

    def grow(self, batch: BatchFacts) -> None:
        """(2) The sessions after a batch: those that lie within one of them have become it."""
        for operator in batch.operators.values():
            for item in operator.told_of(KEPT) if operator.keeps == "sessions" else ():
                self._grow(batch, operator, item)

    def _grow(self, batch: BatchFacts, operator: OperatorFacts, session: Mapping[str, Any]) -> None:
        start_ms, end_ms = session.get("start"), session.get("end")
        held = self._by(operator, session)
        parts = [one for one in held if is_within(one.start_ms, one.end_ms, session)]
        one = parts[0] if parts else self._open(batch, operator, session, start_ms, end_ms)
        for other in parts[1:]:
            held.remove(other)
            other.merged_into, other.merged = one, batch.number
            one.counts[batch.number] += sum(other.counts.values())
        if (one.start_ms, one.end_ms) != (start_ms, end_ms):
            one.start_ms, one.end_ms, one.key = start_ms, end_ms, session.get("key") or {}
            one.until_ms = _until(operator, 0, end_ms)
            one.extents[batch.number] = (start_ms, end_ms)

    def leave(self, batch: BatchFacts) -> None:
        """(3) At the end of a batch."""
        for operator in batch.operators.values():
            for place, item in enumerate(operator.told_of(EMITTED) if operator.keeps in AGGREGATES else ()):
                for one in self._those(operator, item):
                    one.emitted[batch.number] = place
            for item in operator.told_of(REMOVED):
                for one in self._those(operator, item)[:1]:
                    one.evicted = batch.number
                    self._by(operator, item).remove(one)
            if operator.told is None:  # (4)
                for (operator_id, _), held in self._now.items():
                    if operator_id == operator.operator_id:
                        for one in held:
                            one.lost = batch.number
                        held.clear()

    def _those(self, operator: OperatorFacts, item: Mapping[str, Any]) -> list[Holding]:
        """The holdings that a told item is about."""
        held = self._by(operator, item)
        is_session = operator.keeps == "sessions"
        return [one for one in held if not is_session or (one.start_ms, one.end_ms) == (item.get("start"), item.get("end"))]


def group_of(item: Mapping[str, Any]) -> str:
    """What identifies the group that a session belongs to."""
    return name_of(without_window(item.get("key") or {}))


def without_window(key: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a key that are not its window or session."""
    return {name: value for name, value in key.items() if not is_window(value)}


def is_within(start: Any, end: Any, session: Any) -> bool:
    """Whether a time range lies in a session, which is a holding or was told."""
    is_held = isinstance(session, Holding)
    bounds = (session.start_ms, session.end_ms) if is_held else (session.get("start"), session.get("end"))
    first, last = bounds
    return None not in (start, end, first, last) and (first or 0) <= (start or 0) and (end or 0) <= (last or 0)


def _until(operator: OperatorFacts, side: int, time_ms: Time | None) -> Time | None:
    """The watermark at which a holding is evicted, by the operator's own rules; None: never."""
    if operator.leaves(side) is None:
        return None
    return time_ms if operator.lasts_ms is None else (time_ms or 0) + operator.lasts_ms
