"""What a query holds, according to its checkpoint: how much is in each state, and which part of it is evicted first.

1. Every store of an operator that has keys holds something. A join has a store with the rows of each side; transformWithState
   in RocksDB has a store for each state variable. Stores whose names begin with "$" are the engine's own: indexes and timers.
2. A column of the key or the value that carries a watermark says when a row is evicted; for a window, this is its end. A key
   of dropDuplicatesWithinWatermark has the time of its expiry as its value, and a group of applyInPandasWithState has its
   timer. A row of a join that has matched is evicted without being emitted, and does not count.
3. The state of a limit is the number of rows that it has let through.

    stateStoreSave, 4 keys     the first to leave is window=[12:20, 12:25), when the watermark reaches 12:25

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from minispark_stream.engine.checkpointing.join_stores import COUNTS, SIDES, TIMES
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME
from minispark_stream.engine.times import shown_ms
from minispark_stream.lens.trace.values import as_int, as_map
from minispark_stream.lens.view.words import plural, row_words
from minispark_stream.tools.inspection.contents import DecodedStateRow, Store, StoredOperator
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.rocksdb.row_encoding import LIST

DELAY = "spark.watermarkDelayMs"
MOST_ROWS = 5000  # of a store, to find what is evicted first
DAMAGED = (ValueError, OSError)
TIMERS = {"$eventTimers_keyToTimestamp": "event time", "$procTimers_keyToTimestamp": "processing time"}  # the clock of each
TIMER_COLUMNS = ("timeoutTimestamp", "expiryTimestampMs")  # of a group of applyInPandasWithState, of transformWithState; in ms


@dataclass(frozen=True)
class Held:
    """What one state holds: how many `keys`, and what is evicted `first`, at the watermark `until_ms` (None: not known).

    `side` is 0 or 1 if it is a side of a join, whose state watermark decides; `variable` is the name of a state variable.
    `is_timer`: whether `until_ms` is the time of a timer, which fires when its clock is past it. `passed` is the number of rows
    that a limit has let through; `has_schema` is False if nothing is known of the columns, or the
    rows cannot be decoded.
    """

    operator: StoredOperator
    keys: int
    delay_ms: int | None
    until_ms: float | None
    first: str
    side: int | None = None
    variable: str = ""
    is_timer: bool = False
    passed: int | None = None
    has_schema: bool = True

    @property
    def words(self) -> str:
        name = self.operator.name or "of a kind that is not known"
        if self.passed is not None:
            return f"operator {self.operator.operator_id} ({name}): {plural(self.passed, 'row')} let through so far"
        side = f", {self.variable}" if self.variable else "" if self.side is None else f", {SIDES[self.side]} side"
        count = plural(self.keys, "key" if self.side is None else "row")
        first = f", the first {'timer is that of' if self.is_timer else 'to leave is'} {self.first}" if self.first else ""
        if first and self.keys > MOST_ROWS:
            first += f" (of the first {MOST_ROWS:,}; the others were not looked at)"
        forever = ""
        if not self.has_schema:
            forever = "; what it consists of, and what evicts it, cannot be read"
        elif self.until_ms is None and str(self.operator.name).startswith("transformWithState"):
            forever = "; it leaves when your function says so"
        elif self.until_ms is None and self.delay_ms is None:
            forever = "; it has no event time, so no watermark evicts it"
        return f"operator {self.operator.operator_id} ({name}{side}): {count}{first}{forever}"


def held_by(report: CheckpointReport) -> Iterator[Held]:  # (1)
    """What the states of a checkpoint hold."""
    for operator in report.operators:
        for store in operator.stores:
            if store.name in TIMERS and store.num_keys:
                yield replace(_first_to_leave(report, operator, store, None), variable=f"{TIMERS[store.name]} timers")
            if store.name.startswith("$") or store.name.endswith((COUNTS, TIMES)) or not store.num_keys:
                continue
            side = SIDES.index(store.name.split("-")[0]) if "-keyWith" in store.name else None
            held = _first_to_leave(report, operator, store, side)
            yield held if side is not None or store.name == DEFAULT_STORE_NAME else replace(held, variable=store.name)


def _first_to_leave(report: CheckpointReport, operator: StoredOperator, store: Store, side: int | None) -> Held:  # (2)
    place = next(((part, f) for s in store.schemas for part in ("value", "key") for f in getattr(s, part).fields
                  if f.metadata and DELAY in f.metadata), None)
    delay_ms = None if place is None else as_int(place[1].metadata[DELAY])
    is_decoded = bool(store.schemas) and all(p.not_decoded is None for p in store.partitions)
    nothing = Held(operator, store.num_keys or 0, delay_ms, None, "", side, has_schema=is_decoded)
    if not is_decoded:
        return nothing
    if operator.name == "globalLimit":  # (3)
        return replace(nothing, passed=_passed(report, operator, store))
    columns = [f.name for s in store.schemas for f in (*s.value.fields, *s.key.fields)]
    timer = next((name for name in TIMER_COLUMNS if name in columns), None)
    if place is None and timer is None and operator.name != "dedupeWithinWatermark":
        return nothing
    try:
        found = report.rows(operator.operator_id, store=store.name, limit=MOST_ROWS)
    except DAMAGED:
        return replace(nothing, has_schema=False)
    ends: list[tuple[float, str]] = []
    rows = [one for row in found for one in _elements(row)]
    for row in rows:
        key = row.key
        if timer is not None:
            at = as_int({**row.value, **row.key}.get(timer))
            until: float | None = at if at is not None and at >= 0 else None
            key = as_map(key.get("key", key))
        elif place is not None:
            until = _end_ms((row.value if place[0] == "value" else row.key).get(place[1].name))
        else:
            micros = as_int(row.value.get("expiresAtMicros"))
            until = None if micros is None else micros / 1000
        if until is not None and not (side is not None and row.value.get("matched") is True):
            ends.append((until, row_words(key if side is None else row.value)))
    until_ms, first = min(ends, default=(None, ""))
    return Held(operator, max(len(rows), store.num_keys or 0), delay_ms, until_ms, first, side, is_timer=timer is not None)


def _passed(report: CheckpointReport, operator: StoredOperator, store: Store) -> int | None:
    try:
        rows = report.rows(operator.operator_id, store=store.name, limit=1)
    except DAMAGED:
        return None
    return next((count for row in rows for value in row.value.values() if (count := as_int(value)) is not None), None)


def _elements(row: DecodedStateRow) -> Iterator[DecodedStateRow]:
    """In a join of state format 4, all rows of a key and a time are one list."""
    elements = row.value.get(LIST) if set(row.value) == {LIST} else None
    yield from (replace(row, value=value) for value in elements) if elements is not None else (row,)


def _end_ms(value: Any) -> int | None:
    """The end of a window, or a time."""
    return shown_ms(as_map(value).get("end", value))
