"""What became of each row, batch by batch: worked out from recorded events alone.

Every operator says by what it decided in a batch (`decides` of the step stateOperator; engine/operators/decision.py). That is
applied to the rows that the trace has of the batch (`arrivals` of the step addBatch):

1. A row that nothing stands for at the operator was left out below it: a filter, or a null event time where a window needs one.
2. A row that is not after `late_ms` is dropped. An aggregation looks when the rows of a key are one row already: they share
   their fate.
3. What is not late goes to its *holding*, as `keeps` says: a group (of a window, of a key), a session, the first row of a key,
   a buffered row of a join. Sessions of a key that touch are one. A key that is held already makes a duplicate of the row; a
   `limit` lets no more than its number pass. A row of the side `unstored` is not stored if it would leave at once.
4. A holding that ends at or before `leaves_ms` leaves the state. `emits` says whether it goes out then, or whenever it changes.
5. A row goes on to the next operator if this one let it pass.

    12:04 "a" in batch 4, late watermark 12:11     window [12:00, 12:05) ended: LATE
    12:14 "c" in batch 1, window [12:10, 12:15)    KEPT; evicted and emitted in batch 4, eviction watermark 12:20
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.times import is_window
from minispark_stream.lens.trace.facts import BatchFacts, OperatorFacts, batch_facts
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.values import as_int, as_list, as_map, name_of

# What became of a row at an operator.
LEFT_OUT, LATE, KEPT, DUPLICATE, BEYOND, PASSED = "left out", "late", "kept", "duplicate", "beyond the limit", "passed"
AGGREGATES = ("groups", "sessions")
SIDES = ("left", "right")  # of a join
DROPPED = (LATE, DUPLICATE, BEYOND)


@dataclass
class Holding:
    """What an operator keeps in its state for one or more rows: a window, a session, a key, a buffered row.

    `start_ms` and `end_ms` are event times (None: it has none); it leaves when the watermark reaches `until_ms` (None: never).
    `counts` are its rows by batch, `emitted` the batches that emitted it, `evicted` the one in which it left. A session grows:
    `extents` has its start and end as of each batch that changed them, and `merged_into` what it became a part of, in batch
    `merged`.
    """

    operator_id: int
    side: int
    key: Mapping[str, Any]
    start_ms: float | None
    end_ms: float | None
    until_ms: float | None
    opened: int
    counts: Counter[int] = field(default_factory=Counter)
    emitted: list[int] = field(default_factory=list)
    evicted: int | None = None
    extents: dict[int, tuple[float | None, float | None]] = field(default_factory=dict)
    merged_into: Holding | None = None
    merged: int | None = None

    @property
    def last(self) -> Holding:
        """The session that this one became a part of, or itself."""
        return self if self.merged_into is None else self.merged_into.last


@dataclass(frozen=True)
class Fate:
    """What became of row `number` of the trace at one operator, or in one of its windows.

    `time_ms` was compared with `watermark_ms`, if anything was. `together`: how many rows of the batch had its key, and were
    one row when they met the filter.
    """

    number: int
    batch: BatchFacts
    source: str
    file: str | None
    row: Mapping[str, Any]
    event_ms: float | None
    what: str
    operator: OperatorFacts | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    time_ms: float | None = None
    watermark_ms: int | None = None
    together: int = 1
    holding: Holding | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the event time of a row that was counted is before the eviction watermark, the greater of the two."""
        counted = self.what in (KEPT, PASSED) and self.operator is not None
        return counted and self.event_ms is not None and self.event_ms < ((self.operator and self.operator.eviction_ms) or 0)


@dataclass(frozen=True)
class Fates:
    """The whole story: the batches, the fate of each row at each operator that it reached, and what was held."""

    batches: tuple[BatchFacts, ...]
    rows: tuple[Fate, ...]
    holdings: tuple[Holding, ...]

    def emissions(self, fate: Fate) -> list[tuple[BatchFacts, Mapping[str, Any] | None]] | None:
        """When a join emitted a row and with which partner (None: without one), as its tasks told; None if they did not."""
        own, side = as_map(fate.at.get("row")), as_int(fate.at.get("side")) or 0
        emitted: list[tuple[BatchFacts, Mapping[str, Any] | None]] = []
        for batch in self.batches[fate.batch.number :]:
            operator = batch.operators.get(fate.operator.operator_id) if fate.operator else None
            if operator is None or operator.pairs is None:
                return None
            for pair in map(as_map, operator.pairs):
                if pair.get(SIDES[side]) == own:
                    emitted.append((batch, pair.get(SIDES[1 - side])))
        return emitted


def fates(recording: Recording) -> Fates:
    """Play the rules over a trace. Without recorded rows (`trace="rows"`) there are only batches."""
    play = _Play()
    batches = batch_facts(recording)
    for batch in batches:
        play.run(batch)
    return Fates(batches, tuple(play.rows), tuple(play.holdings))


def decisive(of_row: Sequence[Fate]) -> Fate:
    """The fate of a row that says whether it counts: at the last operator that it reached, in any of its windows."""
    there = [fate for fate in of_row if fate.operator is of_row[-1].operator]
    return next((fate for fate in there if fate.what in (KEPT, PASSED)), there[0])


def _place(at: Mapping[str, Any]) -> str:
    return name_of([at.get("side"), at.get("key")])


def _places(arrival: Mapping[str, Any]) -> dict[int, list[Mapping[str, Any]]]:
    """Where a row came to, by operator; -1 is the end of a plan without operators."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for at in map(as_map, as_list(arrival.get("at"))):
        number = -1 if at.get("operatorId") is None else as_int(at["operatorId"]) or 0
        found.setdefault(number, []).append(at)
    return found


class _Play:
    def __init__(self) -> None:
        self.rows: list[Fate] = []
        self.holdings: list[Holding] = []
        self._held: dict[str, list[Holding]] = {}  # operator, side and key -> what is in the state now
        self._passed: Counter[int] = Counter()  # operator -> rows that a limit has let pass
        self._arrived = 0
        self._same_key: Counter[str] = Counter()  # side and key -> rows of this batch at the operator that decides

    def run(self, batch: BatchFacts) -> None:
        """One batch: the operators decide from the lowest to the highest, then state leaves."""
        came = [(self._row(batch, arrival), _places(arrival)) for arrival in batch.arrivals or ()]
        found = [Fate(**row, what=LEFT_OUT) for row, places in came if not places]  # (1)
        stopped: set[int] = set()
        for number in sorted({number for _, places in came for number in places}, reverse=True):
            reached = [(row, at) for row, places in came if row["number"] not in stopped for at in places.get(number, ())]
            self._same_key = Counter(_place(at) for _, at in reached)
            decided = [self._fate(batch, batch.operators.get(number), row, at) for row, at in reached]
            passed = {fate.number for fate in decided if fate.what in (KEPT, PASSED)}
            stopped |= {row["number"] for row, _ in reached} - passed  # (5)
            found += decided
        self.rows += sorted(found, key=lambda fate: fate.number)
        self._evict(batch)

    def _row(self, batch: BatchFacts, arrival: Mapping[str, Any]) -> dict[str, Any]:
        """What all fates of a row have in common."""
        self._arrived += 1
        return {
            "number": self._arrived, "batch": batch, "source": str(arrival.get("source")), "file": arrival.get("file"),
            "row": as_map(arrival.get("row")), "event_ms": _number(arrival.get("time")),
        }

    def _fate(self, batch: BatchFacts, operator: OperatorFacts | None, row: Mapping[str, Any], at: Mapping[str, Any]) -> Fate:
        time_ms = _number(at.get("time"))
        decided = self._decide(batch, operator, at, time_ms)
        return Fate(**row, **{"operator": operator, "at": at, "time_ms": time_ms, **decided})

    def _decide(
        self, batch: BatchFacts, operator: OperatorFacts | None, at: Mapping[str, Any], time_ms: float | None
    ) -> dict[str, Any]:
        if operator is None:
            return {"what": PASSED}
        together = self._same_key[_place(at)] if operator.keeps in AGGREGATES else 1
        if time_ms is not None and operator.drops_ms and time_ms <= operator.drops_ms:  # (2)
            return {"what": LATE, "watermark_ms": operator.drops_ms, "together": together}
        if operator.keeps == "count":
            self._passed[operator.operator_id] += 1
            return {"what": PASSED if self._passed[operator.operator_id] <= (operator.limit or 0) else BEYOND}
        return self._keep(batch, operator, at, time_ms) | {"watermark_ms": operator.drops_ms or None, "together": together}

    def _keep(
        self, batch: BatchFacts, operator: OperatorFacts, at: Mapping[str, Any], time_ms: float | None
    ) -> dict[str, Any]:
        """(3) What becomes of a row that is not late: the holding that it opens or goes to, or why there is none."""
        side, key = as_int(at.get("side")) or 0, as_map(at.get("key"))
        group = {k: v for k, v in key.items() if not (operator.keeps == "sessions" and is_window(v))}
        held = self._held.setdefault(name_of([operator.operator_id, side, group]), [])
        bound_ms = operator.leaves(side)
        until_ms = _until(operator, side, time_ms)
        if side == operator.unstored and bound_ms is not None and until_ms is not None and until_ms <= bound_ms:
            return {"what": PASSED}
        if operator.keeps == "values":
            time_ms = None  # how long a function of the user's holds a key is its own business
        start_ms = time_ms if at.get("start") is None else _number(at.get("start"))
        new = Holding(
            operator_id=operator.operator_id,
            side=side,
            key=key,
            start_ms=start_ms,
            end_ms=time_ms,
            until_ms=until_ms,
            opened=batch.number,
            counts=Counter({batch.number: 1}),
            extents={batch.number: (start_ms, time_ms)},
        )
        if operator.keeps == "keys" and held:
            return {"what": DUPLICATE, "holding": held[0]}
        found = None
        if operator.keeps == "sessions":
            found = _merged(new, held, batch.number)
        elif operator.keeps != "rows":
            found = next(iter(held), None)
        if found is None:
            found = new
            held.append(new)
            self.holdings.append(new)
        else:
            found.counts[batch.number] += 1
        return {"what": KEPT, "holding": found}

    def _evict(self, batch: BatchFacts) -> None:
        """(4) At the end of a batch: note what each operator emits of its holdings, and take away those that leave."""
        for held in self._held.values():
            for holding in held[:]:
                operator = batch.operators.get(holding.operator_id)
                if operator is None:
                    continue
                if operator.emits == "all" or operator.emits == "changed" and holding.counts[batch.number]:
                    holding.emitted.append(batch.number)
                bound_ms = operator.leaves(holding.side)
                if holding.until_ms is not None and bound_ms and holding.until_ms <= bound_ms:
                    holding.evicted = batch.number
                    held.remove(holding)
                    if operator.emits == "leaving":
                        holding.emitted.append(batch.number)


def _merged(new: Holding, held: list[Holding], batch: int) -> Holding | None:
    """The session that a new one becomes a part of, which may join two that were apart."""
    touching = [h for h in held if (h.start_ms or 0) <= (new.end_ms or 0) and (new.start_ms or 0) <= (h.end_ms or 0)]
    if not touching:
        return None
    first, *others = touching
    for other in others:
        held.remove(other)
        other.merged_into, other.merged = first, batch
        first.counts[batch] += sum(other.counts.values())
    every = [new, *touching]
    first.start_ms = min(h.start_ms or 0 for h in every)
    first.end_ms = first.until_ms = max(h.end_ms or 0 for h in every)
    first.extents[batch] = (first.start_ms, first.end_ms)
    return first


def _until(operator: OperatorFacts, side: int, time_ms: float | None) -> float | None:
    """The watermark with which a holding leaves; None: never."""
    if operator.leaves(side) is None:
        return None
    return time_ms if operator.lasts_ms is None else (time_ms or 0) + operator.lasts_ms


def _number(value: Any) -> float | None:
    """A time in milliseconds; none of Spark's has more than 64 bits."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63 else None


def matching(found: Fates, wanted: Mapping[str, Any]) -> Iterator[Fate]:
    """The rows that have all of the `wanted` columns: at their source, in their key, or where a join keeps them."""
    for fate in found.rows:
        known = {**fate.row, **as_map(fate.at.get("row")), **as_map(fate.at.get("key"))}
        if all(name in known and _same(known[name], value) for name, value in wanted.items()):
            yield fate


def _same(one: Any, other: Any) -> bool:
    """Times are written in several ways: "2024-01-01 12:04", with seconds, as a datetime."""
    return one == other or str(one).removesuffix(":00") == str(other).replace("T", " ").removesuffix(":00")
