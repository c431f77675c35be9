"""Which watermark a query waits for, and which rows would move the watermark there.

1. The operator next to the sink emits first, and what ends first is emitted first. A row of a join is emitted without a
   partner only if it is on an outer side.
2. The watermark is the newest event time minus the delay; with several inputs, the smallest counts. So a row that is newer than
   that end by `delay` has to arrive on every input that is behind. An input without rows holds the watermark back. A row of a
   join waits as long as the time range of its condition allows a partner; a trace of the model says how long this is.
3. What leaves the state comes out unless something above the state removes it, which the plan says and no checkpoint does.
4. A watermark that is later than the clock has been moved by a row with a wrong time; more such rows would not help.

    waits for    the watermark 12:25:00: window [12:20, 12:25) ends then
    would help   a row with an event time of 12:35:00 or later: 12:25:00 and the delay of 10 min

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.view.words import clock_words, delay_words, short, time_words
from minispark_stream.tools.inspection.asked import Asked
from minispark_stream.tools.inspection.findings import ahead_of_the_clock
from minispark_stream.tools.inspection.held import TIMERS, Held
from minispark_stream.tools.inspection.inputs import timers
from minispark_stream.tools.inspection.plan_text import limit, removing

TIMER_NAMES = {f"{clock} timers" for clock in TIMERS.values()}
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def waits_for(asked: Asked, held: Sequence[Held], has_dropped: bool) -> Iterator[tuple[str, str]]:
    """The lines of the answer about the watermark: where it is, what the query waits for, and what would help."""
    if limited := next((one for one in held if one.passed is not None), None):
        yield "waits for", _limited(limit(asked.plan), limited.passed or 0)
    waiting = [one for one in held if one.until_ms is not None]
    times = asked.last_times
    if not waiting and not asked.inputs and not has_dropped and "watermark" not in times:
        return
    now_ms = asked.watermark_ms
    newest_ms = iso_ms(times.get("max"))
    batch = asked.progress[-1].get("batchId") if asked.progress else None
    newest = "" if newest_ms is None else f"; the newest event time of batch {batch} is {time_words(newest_ms)}"
    stands = "; it stands still while a batch runs, and moves between two batches" if asked.is_real_time else ""
    yield "watermark", f"{time_words(now_ms or 0)}{newest}{stands}"
    if says := ahead_of_the_clock(now_ms, asked.batch_ms):  # (4)
        yield "too far", says
        return
    yield from (("held back by", words) for words in _holds_back(asked))
    yield from _no_event_time(asked)
    if waiting:
        yield from _waits_for(asked, _first(asked, waiting), now_ms)
    elif has_dropped and now_ms:
        yield "would help", (
            f"rows that are not late: those of a window that ends after {time_words(now_ms)} or, without windows, with an "
            "event time after it"
        )


def _limited(most: int | None, passed: int) -> str:
    if most is None:
        none = "no row comes out any more. A checkpoint does not say what the limit is"
        return f"nothing, if the limit is {passed}: then {none}"
    if passed >= most:
        return f"nothing: the limit of {most} is used up, so no row comes out any more, except with a new checkpoint"
    return f"new rows: {most - passed} of the limit of {most} may still come out"


def _no_event_time(asked: Asked) -> Iterator[tuple[str, str]]:
    """Whether rows were read, and none of them had an event time. (Spark measures a null as the beginning of 1970.)"""
    times = [p.get("eventTime", {}) for p in asked.progress]
    read = sum(p.get("numInputRows") or 0 for p in asked.progress)
    if not asked.inputs or not read or asked.watermark_ms or any(iso_ms(one.get("max")) for one in times):
        return
    columns = " and ".join(dict.fromkeys(str(one.get("node")) for one in asked.inputs))
    if any("max" in one for one in times):
        yield "no event time", (
            f"{columns} is null in every row that was measured, so no watermark comes from it, and such a row belongs to no "
            "window. A text that is no time, or a wrong schema, becomes null"
        )
    else:
        yield "no event time", f"no row has reached withWatermark, so {columns} was not measured"


def _first(asked: Asked, waiting: Sequence[Held]) -> Held | None:
    """(1) What is emitted first. Of the operators that keep something, the one next to the sink has the smallest number."""
    out = [one for one in waiting if asked.goes_out(one) is not False]
    number = min((one.operator.operator_id for one in out), default=None)
    return min((one for one in out if one.operator.operator_id == number), key=asked.needed_ms, default=None)


def _waits_for(asked: Asked, first: Held | None, now_ms: int | None) -> Iterator[tuple[str, str]]:
    if first is None:
        yield "waits for", "a partner that fits the condition: a row without a partner is never emitted"
        return
    until_ms, needed_ms = first.until_ms or 0, asked.needed_ms(first)
    emits = "emits" if asked.mode else "emits in append mode"
    if first.is_timer:
        yield "waits for", f"new rows, or the timer of {first.first}, at {time_words(until_ms)} of the {_clock(asked, first)}"
        if _clock(asked, first) != "event time":
            return
    elif first.side is not None:
        yield "waits for", (
            "a partner that fits the condition; a row without one is evicted (and then emitted by an outer join) when the "
            f"state watermark of its side reaches its event time, {time_words(until_ms)} at the earliest"
        )
        if (first.operator.operator_id, first.side) not in asked.shifts:
            return
        if needed_ms != until_ms:
            yield "that is", (
                f"when the watermark of the query reaches {time_words(needed_ms)}: the time range of the condition allows a "
                "partner until then"
            )
    elif str(first.operator.name).startswith("dedupe"):
        emitted = "it is emitted when it comes" if asked.is_real_time else "its batch emits it"
        never = "a row whose key is in the state is never emitted"
        yield "waits for", f"a row with a new key: {_comes_out(asked, emitted)}; {never}"
        return
    elif asked.mode in ("update", "complete"):
        which = "the groups of which it had a row" if asked.mode == "update" else "all groups, if it has new data"
        emitted = "each emits the new result of its group when it comes" if asked.is_real_time else f"a batch emits {which}"
        yield "waits for", f"new rows: in {asked.mode} mode, {_comes_out(asked, emitted)}"
        return
    if now_ms is not None and needed_ms <= now_ms:
        yield "waits for", (
            f"one more batch: the watermark has already reached {time_words(needed_ms)}. The batch runs when there is new "
            "data, or without data (spark.sql.streaming.noDataMicroBatches.enabled) while the query runs, and it "
            f"{_comes_out(asked, emits)}"
        )
        return
    if first.side is None and not first.is_timer:
        yield "waits for", f"the watermark {time_words(until_ms)}: {first.first} ends then"
    if asked.report is not None and len(asked.report.operators) > 1 and (first.operator.operator_id, 0) not in asked.shifts:
        yield "would help", (
            f"rows on each input that is behind, well after {time_words(needed_ms)}: an operator below this one passes on an "
            "earlier watermark, and only a trace says how much earlier"
        )
        return
    delay_ms = asked.inputs[0].get("delayMs") if len(asked.inputs) == 1 else first.delay_ms
    if delay_ms is not None or asked.inputs:
        is_last = asked.report is None or first.operator.operator_id == min(one.operator_id for one in asked.report.operators)
        then = _comes_out(asked, emits) if is_last else "passes it on to the next operator, which may keep it, too"
        yield "would help", f"{_would_help(asked, delay_ms or 0, needed_ms)} {then}"


def _comes_out(asked: Asked, emits: str) -> str:
    """(3) That something is emitted, and what may remove it; as far as this is known."""
    if not asked.plan:
        return f"{emits}, if nothing above the operator removes it"
    above, _ = removing(asked.plan)
    return f"{emits}, but only what passes {' and '.join(above)}" if above else emits


def _clock(asked: Asked, timer: Held) -> str:
    """The kind of time that a timer refers to. For applyInPandasWithState, no checkpoint says it."""
    own = timer.variable.removesuffix(" timers") if timer.variable in TIMER_NAMES else timers(asked.plan)
    return own or "event time or the processing time (a checkpoint does not say which)"


def _would_help(asked: Asked, delay_ms: int, needed_ms: float) -> str:
    """(2) Which rows would move the watermark to the point at which something is evicted."""
    if len(asked.inputs) > 1 and not _takes_the_greatest(asked):
        behind = [one for one in asked.inputs if (one.get("watermark") or 0) < needed_ms]
        times = [time_words(needed_ms + (one.get("delayMs") or 0)) for one in behind]
        rows = " and ".join(f"of {time} or later on {_input(one)}" for time, one in zip(times, behind))
        return f"rows with an event time {rows}: {clock_words(needed_ms)} and its delay. The batch after them"
    if len(asked.sources) > 1 and len(asked.inputs) != 1:  # the state has one delay, but does not say of which input
        each = "on any input" if _takes_the_greatest(asked) else "on each input that is behind"
        return (
            f"a row with an event time of {time_words(needed_ms)} and the delay of its withWatermark, or later, {each} "
            f"(one delay is {delay_words(delay_ms)}). The batch after it"
        )
    where = f" on {_input(asked.inputs[0])}" if len(asked.sources) > 1 else ""
    return (
        f"a row with an event time of {time_words(needed_ms + delay_ms)} or later{where}: {clock_words(needed_ms)} "
        f"and the delay of {delay_words(delay_ms)}. The batch after it"
    )


def _input(one: Mapping[str, Any]) -> str:
    """An input by its source, which the plan names, or by its column."""
    names = [short(str(name)) for name in one.get("sources", ())]
    return f"the input {' and '.join(names)}" if names else f"the input with the event time {one.get('node')}"


def _takes_the_greatest(asked: Asked) -> bool:
    conf = asked.report.batches[-1].conf if asked.report is not None and asked.report.batches else {}
    return conf.get(POLICY, "min").lower() == "max"


def _holds_back(asked: Asked) -> Iterator[str]:
    """(2) Which input has the smallest watermark; if this was not recorded, which source has delivered no row."""
    if _takes_the_greatest(asked):
        return
    own = [one.get("watermark") for one in asked.inputs]
    if len(own) > 1 and any("watermark" in one for one in asked.inputs):
        if len(set(own)) == 1:
            return
        ms, least = min(zip(own, asked.inputs), key=lambda pair: pair[0] or 0)
        null = "it has measured no event time so far (a null is measured as the beginning of 1970)"
        no_row = "it has seen no row since the query started"
        has = no_row if ms is None else null if ms <= 0 else f"its own is {clock_words(ms)}"
        yield f"{_input(least)}: {has}, and the query's watermark is the smallest of all"
        return
    if len(asked.sources) < 2:
        return
    for i, source in enumerate(asked.sources if asked.progress else ()):
        if not any(p["sources"][i].get("numInputRows") for p in asked.progress):
            name = short(str(source.get("description")))
            yield f"{name}: it has delivered no row in these batches, and the smallest watermark counts"
