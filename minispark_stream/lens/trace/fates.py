"""What became of each row, batch by batch, looked up in what the tasks told about it.

The tasks of a stateful operator say what they decided about each row or key (`told` of the step stateOperator;
engine/operators/told.py). The trace has the way of each row to the operators (`arrivals` of the step addBatch), and the way of
each row that an operator emitted to the operators above (`onward`). To say what became of a row, no time is compared with a
watermark here. Only `Fate.is_behind` says whether a watermark had passed the time of a counted row, which decides nothing.

1. A row of which nothing reaches the operator was left out below it: by a filter, or because a window needs its event time,
   which is null.
2. At an operator, a row is looked up by its key if Spark has merged the rows with equal keys, which then share their fate; or
   by its session; or by all of its columns: of equal rows, the first one is taken for the one that was kept.
3. What is kept goes to its *holding* (holdings.py): its group, its session, its key, or a place in the buffer of a join.
4. A row reaches the next operator if this one let it pass; and so does what was emitted of its holding, or with it.
5. If the tasks of a batch told nothing, or too much to be kept, the fate of its rows is "not known".

    told late: window [12:00, 12:05)                                12:04 "a" of this batch: LATE
    told kept: window [12:10, 12:15); in batch 4 emitted, removed   12:14 "c" of this batch: KEPT; emitted, removed in batch 4
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from minispark_stream.lens.trace.facts import (
    AGGREGATES,
    BEYOND,
    DUPLICATE,
    EMITTED,
    KEPT,
    LATE,
    OWN_WORDS,
    PASSED,
    TURNED_AWAY,
    BatchFacts,
    OperatorFacts,
    batch_facts,
)
from minispark_stream.lens.trace.given import Given, given_for_keys, key_name
from minispark_stream.lens.trace.holdings import Holding, Holdings, group_of, is_within
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.values import name_of

UNKNOWN, LEFT_OUT = "not known", "left out"  # the tasks told nothing about a row; the row did not reach an operator
SIDES = ("left", "right")  # of a join
DROPPED = (LATE, DUPLICATE, BEYOND, TURNED_AWAY)
FatePlace = tuple[int, int, int]  # of an emitted row: operator, number of the batch, place among the rows that it emitted there


@dataclass(frozen=True)
class Fate:
    """What became of row `number` of the trace at one operator, or in one of its windows; or of a row that an operator emitted.

    `time_ms` was compared with `watermark_ms`, if anything was. `together`: how many rows of the batch had its key, and were
    merged into one row before they were checked. `why`: why a join did not keep it (engine/operators/told.py).
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
    why: str = ""

    @property
    def is_behind(self) -> bool:
        """Whether the event time of a row that was counted is before the eviction watermark, the greater of the two."""
        counted = self.what in (KEPT, PASSED) and self.operator is not None
        return counted and self.event_ms is not None and self.event_ms < ((self.operator and self.operator.eviction_ms) or 0)

    @property
    def side(self) -> int:
        return self.at.get("side") or 0


@dataclass(frozen=True)
class Fates:
    """The whole story: the batches, the fate of each row at each operator that it reached, and what was in the state.

    `emitted` has the fates of the rows that an operator emitted, at the operators above.
    """

    batches: tuple[BatchFacts, ...]
    rows: tuple[Fate, ...]
    holdings: tuple[Holding, ...]
    emitted: Mapping[FatePlace, Sequence[Fate]] = field(default_factory=dict)

    def emissions(self, fate: Fate) -> list[tuple[BatchFacts, int, Mapping[str, Any] | None]] | None:
        """When a join emitted a row, at which place, and with which partner (None: without one); None if this is not known."""
        own, found = fate.at.get("row") or {}, list[tuple[BatchFacts, int, Mapping[str, Any] | None]]()
        for batch in self.batches[fate.batch.number :]:
            operator = batch.operators.get(fate.operator.operator_id) if fate.operator else None
            if operator is None or operator.told is None:
                return None
            for place, pair in enumerate(operator.told.get(EMITTED) or ()):
                both = pair.get("left"), pair.get("right")
                if both[fate.side] == own:
                    found.append((batch, place, both[1 - fate.side]))
        return found

    def given(self, fate: Fate) -> list[Given] | None:
        """What a user's function returned for the key of a row, from the batch of the row on; None if this is not known."""
        key, found = key_name(fate.at.get("key")), list[Given]()
        for batch in self.batches[fate.batch.number :]:
            operator = batch.operators.get(fate.operator.operator_id) if fate.operator else None
            if operator is None or operator.told is None:
                return None
            found += self._given.get((operator.operator_id, batch.number, key), ())
        return found

    @cached_property
    def _given(self) -> Mapping[tuple[int, int, str], Sequence[Given]]:
        return given_for_keys(self.batches)

    def places(self, fate: Fate) -> list[FatePlace]:
        """The places of what was emitted because of a row: from its holding, or in its pairs, or for its key."""
        if fate.operator is None:
            return []
        number = fate.operator.operator_id
        if fate.operator.keeps == "rows":
            return [(number, batch.number, place) for batch, place, _ in self.emissions(fate) or ()]
        if fate.operator.keeps == "values":
            return [(number, one.batch.number, one.place) for one in self.given(fate) or () if one.place is not None]
        if fate.operator.keeps in AGGREGATES and fate.holding is not None:
            return [(number, n, place) for n, place in fate.holding.last.emitted.items() if n >= fate.batch.number]
        return []

    def onward(self, fate: Fate) -> Iterator[Fate]:
        """(4) The fates at the operators above of what was emitted because of a row."""
        for place in self.places(fate):
            for one in self.emitted.get(place, ()):
                yield one
                yield from self.onward(one)


def fates(recording: Recording) -> Fates:
    """Look up every row of a trace. Without recorded rows (`trace="rows"`) there are only batches."""
    play = _Play()
    batches = batch_facts(recording)
    for batch in batches:
        play.run(batch)
    return Fates(batches, tuple(play.rows), tuple(play.held.all), play.emitted)


def decisive(of_row: Sequence[Fate]) -> Fate:
    """The fate that says whether a row counts: the one at the last operator that it reached, in any of its windows."""
    there = [fate for fate in of_row if fate.operator is of_row[-1].operator]
    return next((fate for fate in there if fate.what in (KEPT, PASSED)), there[0])


def _places(arrival: Mapping[str, Any]) -> dict[int, list[Mapping[str, Any]]]:
    """Where a row arrived, by operator; -1 is the end of a plan without operators."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for at in arrival.get("at", ()):
        number = -1 if at.get("operatorId") is None else at["operatorId"] or 0
        found.setdefault(number, []).append(at)
    return found


class _Play:
    def __init__(self) -> None:
        self.rows: list[Fate] = []
        self.emitted: dict[FatePlace, list[Fate]] = {}
        self.held = Holdings()
        self._arrived = 0

    def run(self, batch: BatchFacts) -> None:
        """One batch: the operators from the lowest to the highest, then what was evicted from their state."""
        came = [self._row(batch, arrival) for arrival in batch.arrivals or ()]
        rows = [*came, *(_emitted_row(batch, one) for one in batch.onward)]
        places = [_places(row) for row in (*(batch.arrivals or ()), *batch.onward)]
        found = [[] if there else [Fate(**row, what=LEFT_OUT)] for row, there in zip(rows, places)]  # (1)
        self.held.grow(batch)
        stopped: set[int] = set()
        for number in sorted({number for there in places for number in there}, reverse=True):
            operator = batch.operators.get(number)
            reached = [(n, at) for n, there in enumerate(places) if n not in stopped for at in there.get(number, ())]
            decided = self._decide(batch, operator, [at for _, at in reached])
            for (n, at), made in zip(reached, decided):
                found[n].append(Fate(**rows[n], operator=operator, at=at, time_ms=at.get("time"), **made))
            passed = {n for (n, _), made in zip(reached, decided) if made["what"] in (KEPT, PASSED)}
            stopped |= {n for n, _ in reached} - passed  # (4)
        self.rows += [fate for of_row in found[: len(came)] for fate in of_row]
        for one, of_row in zip(batch.onward, found[len(came) :]):
            place = (one.get("operatorId") or 0, batch.number, one.get("place") or 0)
            self.emitted.setdefault(place, []).extend(of_row)
        self.held.leave(batch)

    def _row(self, batch: BatchFacts, arrival: Mapping[str, Any]) -> dict[str, Any]:
        """What all fates of a row have in common."""
        self._arrived += 1
        return {
            "number": self._arrived, "batch": batch, "source": str(arrival.get("source")), "file": arrival.get("file"),
            "row": arrival.get("row") or {}, "event_ms": arrival.get("time"),
        }

    def _decide(
        self, batch: BatchFacts, operator: OperatorFacts | None, ats: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """(2) What the tasks told about the rows that reached an operator."""
        if operator is None:
            return [{"what": PASSED} for _ in ats]
        told = list(_looked_up(operator, ats))
        together = Counter(name_of(at.get("key")) for at in ats)
        holdings: dict[int, Holding | None] = {}
        held = () if operator.keeps == OWN_WORDS else (KEPT, DUPLICATE)
        for what in held:  # (3); the row that was kept may come after its duplicates
            holdings |= {n: self.held.keep(batch, operator, ats[n], what) for n, (one, _) in enumerate(told) if one == what}
        return [
            {
                "what": what, "why": why, "watermark_ms": operator.drops_ms, "holding": holdings.get(n),
                "together": together[name_of(at.get("key"))] if operator.keeps in AGGREGATES else 1,
            }
            for n, (at, (what, why)) in enumerate(zip(ats, told))
        ]


def _looked_up(operator: OperatorFacts, ats: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(2) What was told about each row that reached an operator, and why."""
    if operator.told is None:  # (5)
        yield from ((UNKNOWN, "") for _ in ats)
    elif operator.keeps == "groups":
        by_key = {name_of(item.get("key")): what for what in (KEPT, LATE) for item in operator.told_of(what)}
        yield from ((by_key.get(name_of(at.get("key")), UNKNOWN), "") for at in ats)
    elif operator.keeps == "sessions":
        yield from ((_of_session(operator, at), "") for at in ats)
    else:
        by_row: dict[str, list[tuple[str, str]]] = {}
        words = (LATE, KEPT, PASSED, DUPLICATE, BEYOND, TURNED_AWAY)
        told = [(what, item) for what in words for item in operator.told_of(what)]
        for what, item in sorted(told, key=_place):
            by_row.setdefault(_row_name(item), []).append((what, str(item.get("why") or "")))
        others = BEYOND if operator.keeps == "count" else UNKNOWN  # Spark itself has left out rows beyond a limit below
        for at in ats:
            of_row = by_row.get(_row_name(at))
            yield of_row.pop(0) if of_row else (others, "")


def _of_session(operator: OperatorFacts, at: Mapping[str, Any]) -> str:
    """Late are the sessions of single rows, kept are the merged ones. If Spark merges rows before the check, both may fit."""
    group = group_of(at)
    late, kept = ([item for item in operator.told_of(what) if group_of(item) == group] for what in (LATE, KEPT))
    if any((item.get("start"), item.get("end")) == (at.get("start"), at.get("time")) for item in late):
        return LATE
    fits = [
        what for what, items in ((LATE, late), (KEPT, kept))
        if any(is_within(at.get("start"), at.get("time"), item) for item in items)
    ]
    return fits[0] if len(fits) == 1 else UNKNOWN


def _place(told: tuple[str, Mapping[str, Any]]) -> int:
    """The place of a row among those of its task, which only an operator of one's own tells."""
    return (told[1].get("place") or {}).get("place") or 0


def _row_name(item: Mapping[str, Any]) -> str:
    return name_of([item.get("side") or 0, item.get("row")])


def _emitted_row(batch: BatchFacts, emitted: Mapping[str, Any]) -> dict[str, Any]:
    """A row that an operator emitted, as `_row` has those of a source: without a number, its event time is that of its key."""
    source = f"operator {emitted.get('operatorId')}"
    return {"number": 0, "batch": batch, "source": source, "file": None, "row": {}, "event_ms": None}


def matching(found: Fates, wanted: Mapping[str, Any]) -> Iterator[Fate]:
    """The rows that have all of the `wanted` columns: at their source, in their key, or in the buffer of a join."""
    for fate in found.rows:
        known = {**fate.row, **(fate.at.get("row") or {}), **(fate.at.get("key") or {})}
        if all(name in known and _same(known[name], value) for name, value in wanted.items()):
            yield fate


def _same(one: Any, other: Any) -> bool:
    """Times are written in several ways: "2024-01-01 12:04", with seconds, as a datetime."""
    return one == other or str(one).removesuffix(":00") == str(other).replace("T", " ").removesuffix(":00")
