"""How the watermarks have decided the fate of a row, in words.

    event time     12:04:30 UTC; late watermark 12:04:00, eviction watermark 12:11:00
    counted        its window ends 12:05:00, after the late watermark, 12:04:00
    kept           until batch 3 evicted it: the eviction watermark, 12:11:00, had reached 12:05:00

Three watermarks have names: rows are dropped by the late watermark, state is removed by the eviction watermark, and the next
watermark is that of the next batch. Each side of a join has its own state watermark. A row is behind a watermark if its event
time is before it.
"""

from __future__ import annotations

from minispark_stream.lens.trace.fates import AGGREGATES, Fate, Fates, Holding
from minispark_stream.lens.view.words import clock_words, plain, two_clocks


def event_time(fate: Fate, event_ms: float) -> str:
    """The event time, and both watermarks at the operator that the row reached. All times in a fate are in UTC."""
    marks = fate.operator or fate.batch
    if not marks.eviction_ms:
        return f"{clock_words(event_ms)} UTC; there was no watermark yet"
    own, eviction = two_clocks(event_ms, marks.eviction_ms)
    late = two_clocks(marks.late_ms, marks.eviction_ms)[0] if marks.late_ms else "none yet"
    return f"{own} UTC; late watermark {late}, eviction watermark {eviction}"


def counted(fate: Fate) -> str:
    """Why a row was not dropped, without what happened to it later."""
    assert fate.operator is not None
    if fate.operator.keeps == "keys":
        return "it is the first row with its key"
    if fate.operator.keeps == "count":
        return f"fewer than {plain(fate.operator.limit)} rows had passed the limit before it"
    if fate.time_ms is None or fate.operator.drops_ms is None:
        return "no watermark decides about it"
    if not fate.operator.drops_ms:
        return "there is no late watermark yet"
    time, watermark = two_clocks(fate.time_ms, fate.operator.drops_ms)
    behind = f". {_behind(fate)}, which does not matter" if fate.is_behind else ""
    return f"{compared(fate, 'ends', 'is')} {time}, after the late watermark, {watermark}{behind}"


def _behind(fate: Fate) -> str:
    """The watermark that a counted row is behind: the one by which rows are dropped, if the row is behind that one."""
    assert fate.operator is not None
    drops_ms, evicts_ms = fate.operator.drops_ms, fate.operator.eviction_ms
    by_late = bool(drops_ms) and fate.event_ms is not None and fate.event_ms < (drops_ms or 0)
    time, watermark = two_clocks(fate.event_ms, drops_ms if by_late else evicts_ms)
    return f"The row itself, {time}, is behind the {'late' if by_late else 'eviction'} watermark, {watermark}"


def compared(fate: Fate, ends: str, is_: str) -> str:
    """What was compared with the watermark, and its verb."""
    if fate.operator is not None and fate.operator.keeps == "sessions":
        return f"its session, which no row had extended, {ends}"
    if fate.operator is not None and fate.operator.keeps in AGGREGATES:
        return f"its window {ends}" if "start" in fate.at else f"the event time of its key {is_}"
    return f"its event time {is_}"


def until_words(fate: Fate) -> str:
    until = fate.holding.last.until_ms if fate.holding else None
    return f", which stays in the state until the eviction watermark reaches {clock_words(until)}" if until is not None else ""


def end_of_holding(found: Fates, fate: Fate) -> str:
    assert fate.holding is not None
    holding = fate.holding.last
    own = "state watermark of its side" if fate.operator and fate.operator.join_type else "eviction watermark"
    if holding.until_ms is None:
        return "stays in the state for ever: no watermark evicts it"
    if holding.lost is not None:
        return "went into the state; a later batch reported nothing, so it is not known how long it stayed there"
    if holding.evicted is None:
        return f"stays in the state until the {own} reaches {_still_held(found, holding, holding.until_ms)}"
    batch = found.batches[holding.evicted]
    now, until = two_clocks(batch.operators[holding.operator_id].leaves(holding.side), holding.until_ms)
    return f"was in the state until batch {batch.batch_id} evicted it: the {own}, {now}, had reached {until}"


def _still_held(found: Fates, holding: Holding, until_ms: float) -> str:
    """At which watermark of the operator, and of the query, a holding is evicted; the two always have the same distance."""
    next_ms = found.batches[-1].next_ms
    until, newest = two_clocks(until_ms, next_ms)
    there = ((batch.eviction_ms, batch.operators.get(holding.operator_id)) for batch in found.batches)
    apart = [ms - own_ms for ms, operator in there if ms and operator and (own_ms := operator.leaves(holding.side))]
    if not next_ms:
        return f"{until}; there is no watermark yet"
    if not apart or not apart[-1]:
        return f"{until}; the next watermark is {newest}"
    needed = two_clocks(until_ms + apart[-1], next_ms)[0]
    return f"{until}, which happens when the watermark of the query is {needed}; the next watermark of the query is {newest}"
