"""Where a row goes after its operator: into a group of the next stateful operator, as far as a trace can tell.

Behind an aggregation there are no rows any more, but groups of them, and no number can be carried along. What is recorded is
the state of the next operator before and after each batch, and this says a lot:

1. The batch in which what the row became went on: when its window or session left, or when a row with its key came to the
   other side of a join (where its tasks told what they emitted: the batch that emitted it, alone or not). Which operator
   stands above is in the plan (`tree` of the step queryPlanning).
2. The groups of that operator which this batch has changed, and of these the ones that fit: windows that hold the time of what
   went on, and columns of its key with the same values. More than one may fit; a trace does not tell which of them it was.
3. A group leaves in the first batch after which the state has it no more. Then it goes on itself: (1) again, one higher.

What a function of the user's makes of a row is not followed. Where not all rows of a state are recorded, no group is named.

    row 12:02 "a" -> operator 1, window [12:00, 12:05), left in batch 2 -> operator 0, window [12:00, 12:10), left in batch 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.times import shown_ms
from minispark_stream.lens.trace.facts import BatchFacts, OperatorFacts
from minispark_stream.lens.trace.fates import AGGREGATES, PASSED, Fate, Fates
from minispark_stream.lens.trace.values import as_map, name_of


@dataclass(frozen=True)
class Onward:
    """What went on to `operator` in `batch`: the `groups` that fit; if only one does, the batch in which it `left`."""

    operator: OperatorFacts
    batch: BatchFacts
    groups: tuple[Mapping[str, Any], ...]
    left: BatchFacts | None


@dataclass(frozen=True)
class _Thing:
    """What goes on: its event time in ms, and the columns that it is known by. `operator_id`: where it comes from."""

    operator_id: int
    time_ms: float | None
    columns: Mapping[str, Any]


def onward(found: Fates, fate: Fate) -> tuple[Onward, ...]:
    """The operators above the one of a fate that the row came to, with those that it had become a part of by then."""
    for batch, thing in _begin(found, fate):
        ways = _follow(found, batch, thing)
        if ways:
            return ways
    return ()


def _begin(found: Fates, fate: Fate) -> Iterator[tuple[BatchFacts, _Thing]]:  # (1)
    operator, holding = fate.operator, fate.holding
    if operator is None or operator.keeps != "rows" and (fate.what == PASSED or holding is None):
        return
    if holding and operator.keeps in AGGREGATES and operator.emits == "leaving" and holding.last.evicted is not None:
        yield found.batches[holding.last.evicted], _Thing(operator.operator_id, _before(holding.last.end_ms), holding.key)
    elif operator.keeps == "rows" and (emissions := found.emissions(fate)) is not None:
        own = as_map(fate.at.get("row"))
        for batch, partner in emissions:
            yield batch, _Thing(operator.operator_id, fate.event_ms, {**(partner or {}), **own})
    elif operator.keeps == "rows" and holding is not None:
        left = len(found.batches) if holding.evicted is None else holding.evicted
        others = (h for h in found.holdings if h.operator_id == holding.operator_id and h.side != holding.side)
        met = {
            max(h.opened, holding.opened) for h in others
            if h.key == holding.key and h.opened <= left and (h.evicted is None or h.evicted >= holding.opened)
        }
        columns = as_map(fate.at.get("row")) or holding.key
        for number in sorted(met):
            yield found.batches[number], _Thing(operator.operator_id, fate.event_ms, columns)


def _follow(found: Fates, batch: BatchFacts, thing: _Thing) -> tuple[Onward, ...]:
    operator = batch.operators.get(batch.above.get(thing.operator_id, -1))
    if operator is None:
        return ()
    fitting = [group for group in operator.changed_keys if operator.is_whole and _fits(group, thing)]  # (2)
    left = _leaves(found, batch, operator.operator_id, fitting[0]) if len(fitting) == 1 else None  # (3)
    way = Onward(operator, batch, tuple(fitting), left)
    if left is None or operator.keeps not in AGGREGATES:
        return (way,)
    ended = max((end for _, end in _windows(fitting[0])), default=None)
    return way, *_follow(found, left, _Thing(operator.operator_id, _before(ended), fitting[0]))


def _before(end_ms: float | None) -> float | None:
    """The time of what comes out of a window: its last microsecond, as `window_time` has it."""
    return None if end_ms is None else end_ms - 0.001


def _fits(group: Mapping[str, Any], thing: _Thing) -> bool:
    if thing.time_ms is not None and not all(start <= thing.time_ms < end for start, end in _windows(group)):
        return False
    names = [name for name in group.keys() & thing.columns.keys() if not _window(group[name])]
    return all(str(group[name]) == str(thing.columns[name]) for name in names)


def _leaves(found: Fates, since: BatchFacts, operator_id: int, group: Mapping[str, Any]) -> BatchFacts | None:
    for batch in found.batches[since.number:]:
        operator = batch.operators.get(operator_id)
        if operator is not None and name_of(group) not in operator.held_keys:
            return batch
    return None


def _windows(group: Mapping[str, Any]) -> Sequence[tuple[float, float]]:
    return [window for value in group.values() if (window := _window(value))]


def _window(value: Any) -> tuple[float, float] | None:
    """Start and end of a window in ms; None for what is none. The state has its times in UTC."""
    start, end = (shown_ms(as_map(value).get(side)) for side in ("start", "end"))
    return None if start is None or end is None else (start, end)
