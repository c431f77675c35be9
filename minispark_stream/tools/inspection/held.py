"""What a query holds, as its checkpoint tells: of each state how much, and what of it leaves first.

1. Every store of an operator with keys in it is something held. Of a join, each side has one with the rows.
2. A column of the key or the value that carries a watermark says when a row leaves; of a window it is the end. A key of
   dropDuplicatesWithinWatermark has the time of its expiry as its value.

    stateStoreSave, 4 keys     the first to leave is window=[12:20, 12:25), when the watermark reaches 12:25

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.times import shown_ms
from minispark_stream.lens.trace.values import as_int, as_map
from minispark_stream.lens.view.words import plural, row_words
from minispark_stream.tools.inspection.contents import Operator, Store
from minispark_stream.tools.inspection.report import CheckpointReport

DELAY = "spark.watermarkDelayMs"
MOST_ROWS = 5000  # of a partition, to find what leaves first
DAMAGED = (ValueError, OSError)
SIDES = ("left", "right")


@dataclass(frozen=True)
class Held:
    """What one state holds: so many keys; `first` leaves first, when the watermark reaches `until_ms` (None: not known).

    `side` is 0 or 1 where it is a side of a join, whose state watermark decides.
    """

    operator: Operator
    keys: int
    delay_ms: int | None
    until_ms: float | None
    first: str
    side: int | None = None

    @property
    def words(self) -> str:
        side = "" if self.side is None else f", {SIDES[self.side]} side"
        count = plural(self.keys, "key" if self.side is None else "row")
        first = f", the first to leave is {self.first}" if self.first else ""
        no_time = self.until_ms is None and self.delay_ms is None
        forever = "; it has no event time, so no watermark makes it leave" if no_time else ""
        return f"operator {self.operator.operator_id} ({self.operator.name}{side}): {count}{first}{forever}"


def held_by(report: CheckpointReport) -> Iterator[Held]:  # (1)
    """What the states of a checkpoint hold."""
    for operator in report.operators:
        for store in operator.stores:
            if store.name.endswith("keyToNumValues") or not store.num_keys:
                continue
            side = SIDES.index(store.name.split("-")[0]) if "-keyWithIndex" in store.name else None
            yield _first_to_leave(report, operator, store, side)


def _first_to_leave(report: CheckpointReport, operator: Operator, store: Store, side: int | None) -> Held:  # (2)
    place = next(((part, f) for s in store.schemas for part in ("value", "key") for f in getattr(s, part).fields
                  if f.metadata and DELAY in f.metadata), None)
    delay_ms = None if place is None else as_int(place[1].metadata[DELAY])
    nothing = Held(operator, store.num_keys or 0, delay_ms, None, "", side)
    if place is None and operator.name != "dedupeWithinWatermark":
        return nothing
    try:
        rows = report.rows(operator.operator_id, store=store.name, limit=MOST_ROWS)
    except DAMAGED:
        return nothing
    ends: list[tuple[float, str]] = []
    for row in rows:
        value = as_int(row.value.get("expiresAtMicros")) if place is None else None
        until = None if value is None else value / 1000
        if place is not None:
            until = _end_ms((row.value if place[0] == "value" else row.key).get(place[1].name))
        if until is not None:
            ends.append((until, row_words(row.key if side is None else row.value)))
    until_ms, first = min(ends, default=(None, ""))
    return Held(operator, store.num_keys or 0, delay_ms, until_ms, first, side)


def _end_ms(value: Any) -> int | None:
    """The end of a window, or a time."""
    return shown_ms(as_map(value).get("end", value))
