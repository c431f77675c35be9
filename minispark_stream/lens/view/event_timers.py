"""The timers of functions with state, for the picture of event time: from the batch that sets one to the one in which it fires.

1. A timer of transformWithState is a row of the state, and a timeout of applyInPandasWithState is a part of the row of its key.
   The batch that puts it there has set it, and the one that removes it has ended it.
2. The tasks told whether it fired then, or whether the function removed it: timer by timer, or key by key for timeouts, because
   a key has only one.
3. A timer that is set and fires in the same batch is in no version of the state, but the tasks told that it fired.

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
from minispark_stream.lens.trace.values import as_map
from minispark_stream.lens.view.words import key_words, row_words, time_words

# The times that timers refer to. The trace has timers of transformWithState as a store (readable_variables.py in extras), and
# timeouts of applyInPandasWithState as a part of a state row (flat_map_groups_with_state.py in the engine).
EVENT, CLOCK = "event", "clock"

KnownTimers = dict[tuple[str, int], Mapping[str, Any]]  # key and time of a timer -> the key


@dataclass(frozen=True)
class Timer:
    """A timer of the key `name` for `ms`, set in batch `first`; `last`: in which it ended (None: it is set)."""

    ms: int
    first: int
    last: int | None
    fired: bool
    title: str
    name: str = ""


def timers(found: Fates, operator_id: int) -> dict[str, tuple[Timer, ...]]:
    """The timers of one operator, by the batch in which they end, under the time that all of them refer to."""
    rows = [row for batch in found.batches if (one := batch.operators.get(operator_id)) for row in one.after]
    clock = next((clock for row in rows for clock in (EVENT, CLOCK) if _of(row, clock) is not None), None)
    return {} if clock is None else {clock: tuple(_timers(found, operator_id, clock))}


def _timers(found: Fates, operator_id: int, clock: str) -> Iterator[Timer]:
    since: dict[tuple[str, int], int | None] = {}  # None: the trace begins later
    keys: KnownTimers = {}
    for batch in found.batches:
        operator = batch.operators.get(operator_id)
        if operator is None:
            continue
        before, after = _set(operator.before, clock), _set(operator.after, clock)
        fired = _fired(operator, before)
        keys |= {**before, **after, **fired}
        since |= {one: None for one in before if one not in since} | {one: batch.number for one in after if one not in before}
        since |= {one: batch.number for one in fired if one not in since}  # (3)
        ended = [one for one in since if one not in after and (one in before or one in fired)]  # (1)
        for one in sorted(ended):
            taken_back = "replaced or removed" if operator.operator == "applyInPandasWithState" else "deleted"
            how = "fired" if one in fired else taken_back
            yield _timer(found, one, keys[one], since.pop(one), batch.number, how)
    for one, first in sorted(since.items()):
        yield _timer(found, one, keys[one], first, None, "")


def _timer(
    found: Fates, one: tuple[str, int], key: Mapping[str, Any], first: int | None, last: int | None, how: str
) -> Timer:
    begins = "set before" if first is None else f"set in batch {found.batches[first].batch_id}"
    ends = "still set" if last is None else f"{how} in batch {found.batches[last].batch_id}"
    title = f"timer of {row_words(key)} for {time_words(one[1])}: {begins}; {ends}"
    return Timer(one[1], first or 0, last, how == "fired", title, key_words(key))


def _set(rows: Sequence[Any], clock: str) -> KnownTimers:
    """The timers in a version of the state."""
    return {(key_name(key), ms): key for key, ms in filter(None, (_of(row, clock) for row in rows))}


def _of(row: Mapping[str, Any], clock: str) -> tuple[Mapping[str, Any], int] | None:
    """The key and the time of the timer in a row of the state; None if the row has no timer in this time."""
    key, value = dict(row.get("key") or {}), as_map(row.get("value"))
    if row.get("store") == f"{clock} timers":
        ms = shown_ms(key.pop("timer", None))
    else:
        ms = shown_ms(value.get(f"{clock} timeout")) if "groupState" in value else None
    return None if ms is None else (key, ms)


def _fired(operator: OperatorFacts, before: KnownTimers) -> KnownTimers:  # (2)
    told = [(item.get("key") or {}, (item.get("timer") or {}).get("ms")) for item in operator.told_of(FIRED)]
    timed_out = {key_name(key) for key, ms in told if ms is None}
    fired = {(key_name(key), ms): key for key, ms in told if ms is not None}
    return fired | {one: key for one, key in before.items() if one[0] in timed_out}
