"""The timers of transformWithState, for the picture of event time: from the batch that sets one to the one in which it fires.

1. A timer is a row of the state: the batch that puts it there has set it, and the one that takes it away has ended it.
2. Whether it fired then, or the function deleted it, the tasks told, timer by timer.
3. One that is set and fires in the same batch is in no version of the state; that it fired is told all the same.

    ann, 12:05     in the state after batch 1, and not after batch 4; told fired in batch 4     set in batch 1, fired in batch 4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.times import shown_ms
from minispark_stream.lens.trace.facts import FIRED, OperatorFacts
from minispark_stream.lens.trace.fates import Fates
from minispark_stream.lens.trace.given import key_name
from minispark_stream.lens.trace.values import as_int, as_map
from minispark_stream.lens.view.words import row_words, time_words

EVENT_TIMERS, CLOCK_TIMERS = "event timers", "clock timers"  # stores of extras/transform_with_state/readable_variables.py

Known = dict[tuple[str, int], Mapping[str, Any]]  # key and time of a timer -> the key


@dataclass(frozen=True)
class Timer:
    """A timer for `ms`, set in batch `first`; `last` is the batch in which it ended (None: it is still set)."""

    ms: int
    first: int
    last: int | None
    fired: bool
    title: str


def timers(found: Fates, operator_id: int) -> dict[str, tuple[Timer, ...]]:
    """The timers of one operator, by the batch in which they end, under the name of their store: all are of one kind."""
    rows = (as_map(row) for batch in found.batches if (one := batch.operators.get(operator_id)) for row in one.after)
    store = next((str(row["store"]) for row in rows if row.get("store") in (EVENT_TIMERS, CLOCK_TIMERS)), None)
    return {} if store is None else {store: tuple(_timers(found, operator_id, store))}


def _timers(found: Fates, operator_id: int, store: str) -> Iterator[Timer]:
    since: dict[tuple[str, int], int | None] = {}  # None: the trace begins later
    keys: Known = {}
    for batch in found.batches:
        operator = batch.operators.get(operator_id)
        if operator is None:
            continue
        before, after, fired = _set(operator.before, store), _set(operator.after, store), _fired(operator)
        keys |= {**before, **after, **fired}
        since |= {one: None for one in before if one not in since} | {one: batch.number for one in after if one not in before}
        since |= {one: batch.number for one in fired if one not in since}  # (3)
        ended = [one for one in since if one not in after and (one in before or one in fired)]  # (1)
        for one in sorted(ended):
            yield _timer(found, one, keys[one], since.pop(one), batch.number, one in fired)
    for one, first in sorted(since.items()):
        yield _timer(found, one, keys[one], first, None, False)


def _timer(
    found: Fates, one: tuple[str, int], key: Mapping[str, Any], first: int | None, last: int | None, fired: bool
) -> Timer:
    begins = "set before" if first is None else f"set in batch {found.batches[first].batch_id}"
    ends = "still set" if last is None else f"{'fired' if fired else 'deleted'} in batch {found.batches[last].batch_id}"
    title = f"timer of {row_words(key)} for {time_words(one[1])}: {begins}; {ends}"
    return Timer(one[1], first or 0, last, fired, title)


def _set(rows: Sequence[Any], store: str) -> Known:
    """The timers in a version of the state."""
    found: Known = {}
    for row in map(as_map, rows):
        key = dict(as_map(row.get("key")))
        ms = shown_ms(key.pop("timer", None))
        if row.get("store") == store and ms is not None:
            found[key_name(key), ms] = key
    return found


def _fired(operator: OperatorFacts) -> Known:  # (2)
    told = ((as_map(item.get("key")), as_int(as_map(item.get("timer")).get("ms"))) for item in operator.told_of(FIRED))
    return {(key_name(key), ms): key for key, ms in told if ms is not None}
