"""Why did nothing come out? What a query holds, what it dropped, what it waits for, and what would have to arrive.

1. The checkpoint says what is held: the rows of every state; the schemas, which column carries a watermark, and its delay.
2. Its last commit says the watermark. What is held leaves when the watermark reaches its end; so the first end is waited for.
3. The watermark is the newest event time minus the delay, of several inputs the least: so a row that is `delay` newer than that
   end has to arrive, on every input that is behind. An input without rows holds the watermark back. A row of a join waits as
   long as the range of times in its condition lets a partner come; how long that is, a trace of the model knows.
4. Progress reports, where there are any, say what went in and out, and what was dropped as late.

    held         operator 0 (stateStoreSave): 4 keys, the first to leave is window [12:20, 12:25)
    watermark    12:20:00
    waits for    the watermark 12:25:00: window [12:20, 12:25) ends then
    would help   a row with an event time of 12:35:00 or later: 12:25:00 and the delay of 10 min

Differs from Spark: Spark has no such answer; everything is from what it leaves behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.values import as_int, as_list, as_map
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.words import clock_words, delay_words, number, offset_words, plural, short, time_words
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.held import Held, held_by
from minispark_stream.tools.inspection.inputs import named_inputs
from minispark_stream.tools.inspection.report import CheckpointReport

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True)
class OutputExplanation:
    """The answer: (topic, words), in the order in which they are to be read."""

    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max((len(topic) for topic, _ in self.lines), default=0) + 3
        return "\n".join(f"{topic.ljust(width)}{words}" for topic, words in self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [("", (f"<b>{escape(topic)}</b>", escape(words))) for topic, words in self.lines]
        return f"<style>{CSS}</style><div class='ms'>{table(('', ''), rows)}</div>"


Shifts = Mapping[tuple[int, int], int]  # (operator, side) -> ms


def shifts(decided: Iterable[Mapping[str, Any]]) -> Shifts:
    """The shift of each side of a join: how far its state watermark is after the watermark of the query, below 0 if before it.

    Args:
        decided: what the operators of the batches said of themselves (`inputs` of the step stateOperator), the oldest first.
    """
    found: dict[tuple[int, int], int] = {}
    for ins in decided:
        decides, now_ms = as_map(ins.get("decides")), as_int(ins.get("watermarkEviction"))
        for side, ms in enumerate(as_list(decides.get("leaves_ms")) if decides.get("join_type") else ()):
            if ms is not None and now_ms is not None:
                found[as_int(ins.get("operatorId")) or 0, side] = ms - now_ms
    return found


@dataclass(frozen=True)
class Asked:
    """What is known of the query.

    `report` is what is in the checkpoint, None where there is none yet; `progress` the newest progress reports of the run, the
    oldest first; `mode` the output mode, which no checkpoint has; `error` what ended the query. What the `withWatermark`
    operators measured (`inputs`: `node`, `delayMs`, `watermark`) and the `shifts` are known where a trace was recorded.
    """

    report: CheckpointReport | None
    progress: Sequence[Mapping[str, Any]] = ()
    mode: str | None = None
    inputs: Sequence[Mapping[str, Any]] = ()
    shifts: Shifts = field(default_factory=dict)
    error: str | None = None

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of the next batch: as the last commit says, or else that of the last report."""
        batches = self.report.batches if self.report is not None else ()
        told = [iso_ms(as_map(p.get("eventTime")).get("watermark")) for p in self.progress]
        return max((ms for ms in [*(b.next_watermark_ms for b in batches), *told] if ms is not None), default=None)

    @property
    def sources(self) -> Sequence[Any]:
        if self.progress:
            return as_list(self.progress[-1].get("sources"))
        return self.report.sources if self.report is not None else ()

    def needed_ms(self, held: Held) -> float:
        """The watermark with which what is held leaves first."""
        shift = 0 if held.side is None else self.shifts.get((held.operator.operator_id, held.side), 0)
        return (held.until_ms or 0) - shift


def explain(asked: Asked) -> OutputExplanation:
    """Why nothing came out, as far as it can be told."""
    lines = [("error", f"the query ended: {asked.error}")] if asked.error else []
    lines += _in_and_out(asked)
    held = list(held_by(asked.report)) if asked.report is not None else []  # (1)
    lines += [("held", one.words) for one in held] or [("held", _nothing(asked.report))]
    dropped = list(_dropped(asked.progress))
    lines += dropped
    lines += _watermark(asked, held, bool(dropped))
    return OutputExplanation(tuple(lines))


def _nothing(report: CheckpointReport | None) -> str:
    names = [f"operator {one.operator_id} ({one.name})" for one in report.operators] if report is not None else []
    return f"nothing: the state of {' and of '.join(names)} is empty" if names else "nothing: the query has no state"


def explain_query(query: Any, checkpoint: str, mode: str | None, events: Sequence[Event] = ()) -> OutputExplanation:
    """The same of a query, which is anything that has PySpark's `recentProgress` and `exception()`; `events` are its trace."""
    error = query.exception()
    try:
        report = inspect(checkpoint)
    except (FileNotFoundError, ValueError):  # nothing has been written yet, or it was a temporary directory
        report = None
    measured = [e.outputs for e in events if e.step == "updateWatermark"]
    planned = [as_map(e.outputs.get("tree")) for e in events if e.step == "queryPlanning"]
    return explain(Asked(
        report=report,
        progress=[json.loads(one.json) for one in query.recentProgress],
        mode=mode and mode.lower(),
        inputs=list(named_inputs(as_list(measured[-1].get("operators")), planned[-1] if planned else {})) if measured else (),
        shifts=shifts(e.inputs for e in events if e.step == "stateOperator"),
        error=None if error is None else str(error).split("\n")[0],
    ))


# -- (4) in and out --------------------------------------------------------------------------------------------


def _in_and_out(asked: Asked) -> Iterator[tuple[str, str]]:
    batches = [p for p in asked.progress if "addBatch" in as_map(p.get("durationMs"))]
    if not batches:
        done = [b.batch_id for b in asked.report.batches if b.committed] if asked.report is not None else []
        newest = f", the last is {done[-1]}" if done else ""
        yield "batches", f"{plural(len(done), 'batch')} committed{newest}"
        return
    rows_in = sum(as_int(p.get("numInputRows")) or 0 for p in batches)
    counts = [as_int(as_map(p.get("sink")).get("numOutputRows")) for p in batches]
    rows_out = "the sink does not tell"
    if all(count is not None and count >= 0 for count in counts):
        rows_out = number(sum(count or 0 for count in counts))
    first, last = batches[0].get("batchId"), batches[-1].get("batchId")
    which = f"batch {last}" if first == last else f"batches {first} to {last}"
    mode = f"; output mode {asked.mode}" if asked.mode else ""
    yield "batches", f"{which}: {plural(rows_in, 'row')} in, rows out: {rows_out}{mode}"
    for source in as_list(batches[-1].get("sources")):
        end, latest = as_map(source).get("endOffset"), as_map(source).get("latestOffset")
        if latest not in (None, "null", end):
            name = short(str(as_map(source).get("description")))
            yield "not read yet", f"{name}: read up to {offset_words(end)}, there is data up to {offset_words(latest)}"
    if rows_in == 0:
        yield "no input", "no row has arrived: every source has been read to its end"


def _dropped(progress: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    dropped: dict[str, int] = {}
    batches = []
    for report in progress:
        for operator in map(as_map, as_list(report.get("stateOperators"))):
            count = as_int(operator.get("numRowsDroppedByWatermark")) or 0
            name = str(operator.get("operatorName"))
            if count:
                dropped[name] = dropped.get(name, 0) + count
                batches.append(str(report.get("batchId")))
    for name, count in dropped.items():
        merged = ": an aggregation counts the rows of a key in a batch as one" if name == "stateStoreSave" else ""
        yield "dropped", f"{plural(count, 'row')} too late for {name}, in batch {', '.join(dict.fromkeys(batches))}{merged}"


# -- (2) (3) the watermark -------------------------------------------------------------------------------------


def _watermark(asked: Asked, held: Sequence[Held], has_dropped: bool) -> Iterator[tuple[str, str]]:
    waiting = [one for one in held if one.until_ms is not None]
    if not waiting and not asked.inputs and not has_dropped:
        return
    now_ms = asked.watermark_ms
    yield "watermark", time_words(now_ms or 0)
    yield from (("held back by", words) for words in _holds_back(asked))
    if waiting:
        yield from _waits_for(asked, min(waiting, key=asked.needed_ms), now_ms)
    elif has_dropped and now_ms:
        yield "would help", (
            f"rows that come in time: a window that ends after {time_words(now_ms)}, or an event time after it, is not late"
        )


def _waits_for(asked: Asked, first: Held, now_ms: int | None) -> Iterator[tuple[str, str]]:
    until_ms, needed_ms = first.until_ms or 0, asked.needed_ms(first)
    if first.side is not None:
        yield "waits for", (
            "a partner that fits the condition; a row without one leaves (an outer join emits it then) when the state "
            f"watermark of its side reaches its event time, {time_words(until_ms)} at the earliest"
        )
        if (first.operator.operator_id, first.side) not in asked.shifts:
            return
        if needed_ms != until_ms:
            yield "that is", (
                f"when the watermark of the query reaches {time_words(needed_ms)}: the range of times in the condition lets "
                "a partner come so late"
            )
    elif str(first.operator.name).startswith("dedupe"):
        yield "waits for", "a row with a new key: it is emitted at once, and a row with a key that is held never is"
        return
    elif asked.mode in ("update", "complete"):
        yield "waits for", (
            f"new rows: in {asked.mode} mode a batch emits what has changed, and not what the watermark has finished"
        )
        return
    if now_ms is not None and needed_ms <= now_ms:
        yield "waits for", (
            f"one more batch: the watermark has reached {time_words(needed_ms)} already. It comes with the next data, or by "
            "itself (spark.sql.streaming.noDataMicroBatches.enabled) while the query runs"
        )
        return
    if first.side is None:
        yield "waits for", f"the watermark {time_words(until_ms)}: {first.first} ends then"
    if first.delay_ms is not None:
        yield "would help", _would_help(asked, first.delay_ms, needed_ms)


def _would_help(asked: Asked, delay_ms: int, needed_ms: float) -> str:
    """(3) Which rows would bring the watermark to where what is held leaves."""
    if len(asked.inputs) > 1 and not _takes_the_greatest(asked):
        behind = [one for one in asked.inputs if (as_int(one.get("watermark")) or 0) < needed_ms]
        times = [time_words(needed_ms + (as_int(one.get("delayMs")) or 0)) for one in behind]
        rows = " and ".join(f"of {time} or later on {_input(one)}" for time, one in zip(times, behind))
        return f"rows with an event time {rows}: {clock_words(needed_ms)} and its delay. The batch after them emits"
    if len(asked.sources) > 1:  # the state tells one delay, and not of which input
        each = "on any input" if _takes_the_greatest(asked) else "on each input"
        return (
            f"a row with an event time of {time_words(needed_ms)} and the delay of its withWatermark, or later, {each} "
            f"(one delay is {delay_words(delay_ms)}). The batch after it emits"
        )
    return (
        f"a row with an event time of {time_words(needed_ms + delay_ms)} or later: {clock_words(needed_ms)} "
        f"and the delay of {delay_words(delay_ms)}. The batch after it emits"
    )


def _input(one: Mapping[str, Any]) -> str:
    """An input by its source, of which the plan tells; or by its column."""
    names = [short(str(name)) for name in as_list(one.get("sources"))]
    return f"the input {' and '.join(names)}" if names else f"the input with the event time {one.get('node')}"


def _takes_the_greatest(asked: Asked) -> bool:
    conf = asked.report.batches[-1].conf if asked.report is not None and asked.report.batches else {}
    return conf.get(POLICY, "min") != "min"


def _holds_back(asked: Asked) -> Iterator[str]:
    """(3) Which input has the least watermark; without a record of that, which source has not delivered a row."""
    if _takes_the_greatest(asked):
        return
    own = [as_int(one.get("watermark")) for one in asked.inputs]
    if len(own) > 1:
        if len(set(own)) == 1:
            return
        ms, least = min(zip(own, asked.inputs), key=lambda pair: pair[0] or 0)
        has = f"its own is {clock_words(ms)}" if ms else "it has seen no row"
        yield f"{_input(least)}: {has}, and the query's watermark is the least of all"
        return
    if len(asked.sources) < 2:
        return
    for i, source in enumerate(map(as_map, asked.sources) if asked.progress else ()):
        if all((as_int(as_map(as_list(p.get("sources"))[i]).get("numInputRows")) or 0) == 0 for p in asked.progress):
            name = short(str(source.get("description")))
            yield f"{name}: it has delivered no row in these batches, and the least watermark counts"
