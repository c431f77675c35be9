"""Why did nothing come out? What a query holds, what it dropped, what it waits for, and what would have to arrive.

1. The checkpoint says what is held: the rows of every state; the schemas, which column carries a watermark, and its delay.
2. Its last commit says the watermark. What is held leaves when the watermark reaches its end; so the first end is waited for.
3. The watermark is the newest event time minus the delay, of several inputs the least: so a row that is `delay` newer than that
   end has to arrive, on every input. An input without rows holds the watermark back.
4. Progress reports, where there are any, say what went in and out, and what was dropped as late.

    held         operator 0 (stateStoreSave): 4 keys, the first to leave is window [12:20, 12:25)
    watermark    12:20:00
    waits for    the watermark 12:25:00: window [12:20, 12:25) ends then
    would help   a row with an event time of 12:35:00 or later: 12:25:00 and the delay of 10 min

Differs from Spark: Spark has no such answer; everything is from what it leaves behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from minispark_stream.inspection.checkpoint import inspect
from minispark_stream.inspection.contents import Operator, Store
from minispark_stream.inspection.report import CheckpointReport
from minispark_stream.trace.times import iso_ms
from minispark_stream.trace.values import as_int, as_list, as_map
from minispark_stream.view.style import CSS, table
from minispark_stream.view.words import clock_words, delay_words, number, offset_words, plural, row_words, short, time_words

DELAY = "spark.watermarkDelayMs"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
MOST_ROWS = 5000  # of a partition, to find what leaves first
DAMAGED = (ValueError, OSError)


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


@dataclass(frozen=True)
class Held:
    """What one state holds: so many keys; `first` leaves first, when the watermark reaches `until_ms` (None: not known)."""

    operator: Operator
    keys: int
    delay_ms: int | None
    until_ms: float | None
    first: str
    side: str = ""


def explain(
    report: CheckpointReport | None, progress: Sequence[Mapping[str, Any]] = (), mode: str | None = None,
    inputs: Sequence[Mapping[str, Any]] = (), error: str | None = None,
) -> OutputExplanation:
    """Why nothing came out, as far as it can be told.

    Args:
        report: what is in the checkpoint; None where there is none yet.
        progress: the newest progress reports of the run, the oldest first.
        mode: the output mode, where it is known: no checkpoint has it.
        inputs: what the `withWatermark` operators measured (`node`, `delayMs`, `watermark`), where that was recorded.
        error: what ended the query.
    """
    lines = [("error", f"the query ended: {error}")] if error else []
    lines += _in_and_out(report, progress, mode)
    held = list(_held(report)) if report is not None else []
    lines += [("held", _held_words(one)) for one in held] or [("held", "nothing: the query has no state, or it is empty")]
    lines += _dropped(progress)
    lines += _watermark(report, held, inputs, progress, mode)
    return OutputExplanation(tuple(lines))


def explain_query(
    query: Any, checkpoint: str, mode: str | None, inputs: Sequence[Mapping[str, Any]] = ()
) -> OutputExplanation:
    """The same of a query: anything that has PySpark's `recentProgress` and `exception()`."""
    error = query.exception()
    try:
        report = inspect(checkpoint)
    except (FileNotFoundError, ValueError):  # nothing has been written yet, or it was a temporary directory
        report = None
    progress = [json.loads(one.json) for one in query.recentProgress]
    return explain(report, progress, mode and mode.lower(), inputs, None if error is None else str(error).split("\n")[0])


# -- (4) in and out --------------------------------------------------------------------------------------------


def _in_and_out(
    report: CheckpointReport | None, progress: Sequence[Mapping[str, Any]], mode: str | None
) -> Iterator[tuple[str, str]]:
    batches = [p for p in progress if "addBatch" in as_map(p.get("durationMs"))]
    if not batches:
        done = [b.batch_id for b in report.batches if b.committed] if report is not None else []
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
    yield "batches", f"{which}: {plural(rows_in, 'row')} in, rows out: {rows_out}" + (f"; output mode {mode}" if mode else "")
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


# -- (1) what is held ------------------------------------------------------------------------------------------


def _held(report: CheckpointReport) -> Iterator[Held]:
    for operator in report.operators:
        for store in operator.stores:
            if store.name.endswith("keyToNumValues") or not store.num_keys:
                continue
            side = store.name.split("-")[0] + " side" if "-keyWithIndex" in store.name else ""
            yield _first_to_leave(report, operator, store, side)


def _first_to_leave(report: CheckpointReport, operator: Operator, store: Store, side: str) -> Held:
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
            ends.append((until, row_words(row.key) if not side else row_words(row.value)))
    until_ms, first = min(ends, default=(None, ""))
    return Held(operator, store.num_keys or 0, delay_ms, until_ms, first, side)


def _end_ms(value: Any) -> float | None:
    """The end of a window, or a time, as state rows show them: in UTC, without a zone."""
    text = str(as_map(value).get("end", value))
    whole, _, fraction = text.partition(".")
    ms = iso_ms(f"{whole.replace(' ', 'T')}.{(fraction + '000')[:3]}Z")
    return None if ms is None else float(ms)


def _held_words(held: Held) -> str:
    name = f"operator {held.operator.operator_id} ({held.operator.name}{', ' + held.side if held.side else ''})"
    first = f", the first to leave is {held.first}" if held.first else ""
    no_time = held.until_ms is None and held.delay_ms is None
    forever = "; it has no event time, so no watermark makes it leave" if no_time else ""
    return f"{name}: {plural(held.keys, 'key')}{first}{forever}"


# -- (2) (3) the watermark -------------------------------------------------------------------------------------


def _watermark(
    report: CheckpointReport | None, held: Sequence[Held], inputs: Sequence[Mapping[str, Any]],
    progress: Sequence[Mapping[str, Any]], mode: str | None,
) -> Iterator[tuple[str, str]]:
    waiting = [one for one in held if one.until_ms is not None]
    if not waiting and not inputs:
        return
    now_ms = _current(report, progress)
    yield "watermark", time_words(now_ms or 0)
    back = list(_holds_back(report, inputs, progress))
    yield from (("held back by", words) for words in back)
    if not waiting:
        return
    next_one = min(waiting, key=lambda one: one.until_ms or 0)
    until_ms = next_one.until_ms or 0
    if next_one.side:
        yield "waits for", (
            "a partner that fits the condition; a row without one leaves (an outer join emits it then) when the state "
            f"watermark of its side reaches its event time, {time_words(until_ms)} at the earliest"
        )
        return
    if str(next_one.operator.name).startswith("dedupe"):
        yield "waits for", "a row with a new key: it is emitted at once, and a row with a key that is held never is"
        return
    if mode in ("update", "complete"):
        yield "waits for", f"new rows: in {mode} mode a batch emits what has changed, and not what the watermark has finished"
        return
    if now_ms is not None and until_ms <= now_ms:
        yield "waits for", (
            f"one more batch: the watermark has reached {time_words(until_ms)} already. It comes with the next data, or by "
            "itself (spark.sql.streaming.noDataMicroBatches.enabled) while the query runs"
        )
        return
    yield "waits for", f"the watermark {time_words(until_ms)}: {next_one.first} ends then"
    if next_one.delay_ms is not None:
        every = " on every input" if len(_sources(report, progress)) > 1 else ""
        yield "would help", (
            f"a row with an event time of {time_words(until_ms + next_one.delay_ms)} or later{every}: {clock_words(until_ms)} "
            f"and the delay of {delay_words(next_one.delay_ms)}. The batch after it emits"
        )


def _current(report: CheckpointReport | None, progress: Sequence[Mapping[str, Any]]) -> int | None:
    """The watermark of the next batch: as the last commit says, or else that of the last report."""
    committed = [b.next_watermark_ms for b in report.batches if b.next_watermark_ms is not None] if report is not None else []
    told = [iso_ms(as_map(p.get("eventTime")).get("watermark")) for p in progress]
    return max([*committed, *(ms for ms in told if ms is not None)], default=None)


def _sources(report: CheckpointReport | None, progress: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    return as_list(progress[-1].get("sources")) if progress else report.sources if report is not None else ()


def _holds_back(
    report: CheckpointReport | None, inputs: Sequence[Mapping[str, Any]], progress: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """(3) Which input has the least watermark; without a record of that, which source has not delivered a row."""
    conf = report.batches[-1].conf if report is not None and report.batches else {}
    if conf.get(POLICY, "min") != "min":
        return
    own = [as_int(one.get("watermark")) for one in inputs]
    if len(inputs) > 1:
        if len(set(own)) == 1:
            return
        ms, least = min(zip(own, inputs), key=lambda pair: pair[0] or 0)
        has = f"its own is {clock_words(ms)}" if ms else "it has seen no row"
        yield f"the input with the event time {least.get('node')}: {has}, and the query's watermark is the least of all"
        return
    names = _sources(report, progress)
    if len(names) < 2:
        return
    for i, source in enumerate(map(as_map, names) if progress else ()):
        if all((as_int(as_map(as_list(p.get("sources"))[i]).get("numInputRows")) or 0) == 0 for p in progress):
            name = short(str(source.get("description")))
            yield f"{name}: it has delivered no row in these batches, and the least watermark counts"
