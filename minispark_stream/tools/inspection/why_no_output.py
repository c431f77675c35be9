"""Why did a query emit nothing? What it has in its state, what it dropped, what it waits for, and what would have to arrive.

1. The checkpoint says what is in the state: the rows, the schemas, which column carries a watermark, and its delay.
2. Progress reports, if there are any, say what was read and emitted, and what was dropped as late. A reader of files applies
   filters itself, and Spark does not count what it leaves out; it counts a row again whenever foreachBatch reads the batch. The
   folders of files say what was not read yet (unread_files.py), the plan what may remove a row (plan_text.py).
3. The commits and the reports have the watermark. A row of state is evicted when the watermark reaches its end; which rows move
   it there depends on the delay of each input, the time range of a join, and the clock of a timer (waits_for.py). Everything
   that is known about these is collected first (asked.py).

    held         operator 0 (stateStoreSave): 4 keys, the first to leave is window=[12:20, 12:25)
    watermark    12:20:00
    waits for    the watermark 12:25:00: window=[12:20, 12:25) ends then
    would help   a row with an event time of 12:35:00 or later: 12:25:00 and the delay of 10 min

Differs from Spark: Spark has no such answer; everything comes from its checkpoint and its reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.values import as_int, as_list, as_map
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.words import (
    delay_words,
    duration_words,
    number,
    offset_words,
    one_line,
    plural,
    short,
    time_words,
)
from minispark_stream.tools.inspection.asked import GONE, Asked, joins, shifts
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.held import held_by
from minispark_stream.tools.inspection.inputs import named_inputs, planned_inputs
from minispark_stream.tools.inspection.plan_text import folders, removing
from minispark_stream.tools.inspection.unread_files import unread
from minispark_stream.tools.inspection.waits_for import waits_for
from minispark_stream.tools.pasted_text import CUT_OFF
from minispark_stream.tools.reports import plain

FOREACH_BATCH = "ForeachBatchSink"  # as progress reports call it
NOT_GIVEN = "was not given (explain_output takes it as checkpoint=…)"


@dataclass(frozen=True)
class OutputExplanation:
    """The answer: (topic, words), in the order in which they should be read; and the exit code of `why CHECKPOINT`."""

    lines: tuple[tuple[str, str], ...]
    exit_code: int = 0

    def __str__(self) -> str:
        width = max((len(topic) for topic, _ in self.lines), default=0) + 3
        return "\n".join(f"{topic.ljust(width)}{words}" for topic, words in self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [("", (f"<b>{escape(topic)}</b>", escape(words))) for topic, words in self.lines]
        return f"<style>{CSS}</style><div class='ms'>{table(('', ''), rows)}</div>"


def explain(asked: Asked) -> OutputExplanation:
    """Why the query emitted nothing, as far as this is known."""
    lines = [("error", f"the query ended: {asked.error}")] if asked.error else []
    if asked.is_active is False and not asked.error:
        lines.append(("query", "it has ended, so nothing comes out until it is started again"))
    if asked.report is not None and not asked.progress:
        lines.append(("restart", asked.report.next.says))
    lines += _in_and_out(asked)
    lines += _on_the_way(asked)
    held = list(held_by(asked.report)) if asked.report is not None else []  # (1)
    lines += [("held", one.words) for one in held] or [("held", _nothing(asked))]
    dropped = list(_dropped(asked.progress))
    lines += dropped
    lines += waits_for(asked, held, bool(dropped))  # (3)
    if asked.is_active is None and not asked.plan:
        lines.append(("not known", _unknown(asked)))
    return OutputExplanation(tuple((topic, one_line(words)) for topic, words in lines))


def explain_checkpoint(checkpoint: str) -> OutputExplanation:
    """What a checkpoint alone says, without PySpark.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: the directory is not a checkpoint.
    """
    report = inspect(checkpoint)
    return replace(explain(Asked(report)), exit_code=report.exit_code)


def explain_reports(
    progress: Sequence[Mapping[str, Any]], error: str | None = None, checkpoint: str | None = None
) -> OutputExplanation:
    """What saved progress reports say, with those of the checkpoint, if it is there.

    Raises:
        FileNotFoundError, ValueError: the path of the checkpoint is wrong.
    """
    report = None if checkpoint is None else inspect(checkpoint)
    found = explain(Asked(report, progress, no_report=NOT_GIVEN, error=None if error is None else error.split("\n")[0]))
    return found if report is None else replace(found, exit_code=report.exit_code)


def _unknown(asked: Asked) -> str:
    if not asked.progress:
        return "how many rows came in and went out, the plan, and the output mode: a checkpoint does not have them; a query has"
    of_state = "" if asked.report is not None else "the rows of the state, "
    return f"{of_state}the plan and the output mode: progress reports do not have them; a running query has"


def _nothing(asked: Asked) -> str:
    if asked.report is None:
        operators = [as_map(one) for p in asked.progress[-1:] for one in as_list(p.get("stateOperators"))]
        counts = [f"{plural(as_int(one.get('numRowsTotal')), 'row')} in {one.get('operatorName')}" for one in operators]
        if counts:
            last = f"the last report says {' and '.join(counts)}"
            return f"not known row by row, because the checkpoint {asked.no_report}: {last}"
        return "nothing: no stateful operator has reported anything" if asked.progress else "nothing yet: no batch has ended"
    names = [f"operator {one.operator_id} ({one.name})" for one in asked.report.operators]
    return f"nothing: the state of {' and of '.join(names)} is empty" if names else "nothing: the checkpoint has no state"


def explain_query(
    query: Any, checkpoint: str | None, mode: str | None, events: Sequence[Event] = (), plan: str = "",
    measured: Mapping[str, int | None] | None = None, interval_ms: int = 0,
) -> OutputExplanation:
    """The same for a query, which is anything with PySpark's `recentProgress`, `exception()`, `isActive` and `status`.

    Args:
        events: its trace.
        plan: its analysed plan as Spark prints it.
        measured: what each `withWatermark` has measured, by its id in the plan, if there is no trace.
        interval_ms: that of a processing-time trigger.
    """
    error = query.exception()
    try:
        report = None if checkpoint is None else inspect(checkpoint)
    except (FileNotFoundError, ValueError):  # nothing has been written yet, or it was a temporary directory
        report = None
    updates = [e.outputs for e in events if e.step == "updateWatermark"]
    trees = [as_map(e.outputs.get("tree")) for e in events if e.step == "queryPlanning"]
    operators = as_list(updates[-1].get("operators")) if updates else ()
    inputs = named_inputs(operators, trees[-1] if trees else {}) if operators else planned_inputs(plan, measured)
    return explain(Asked(
        report=report,
        no_report=GONE if checkpoint is not None else NOT_GIVEN,
        progress=[plain(one) for one in query.recentProgress],
        mode=mode and mode.lower(),
        inputs=list(inputs),
        shifts=shifts(events),
        joins=joins(e for e in events if e.step == "stateOperator"),
        plan=plan,
        error=None if error is None else str(error).split("\n")[0],
        is_active=query.isActive,
        interval_ms=interval_ms if query.status["message"] == "Waiting for next trigger" else 0,
    ))


# -- (2) in and out --------------------------------------------------------------------------------------------


def _in_and_out(asked: Asked) -> Iterator[tuple[str, str]]:
    batches = [p for p in asked.progress if "addBatch" in as_map(p.get("durationMs"))]
    if batches:
        yield from _reported(asked, batches)
    elif asked.progress and asked.report is None:
        idle = ": no source had anything new, so nothing comes out and the watermark stands" if _is_idle(asked.progress) else ""
        yield "batches", f"none has run in the time of these reports{idle}"
    else:
        yield "batches", _logged(asked)
    read = {path for source in asked.report.sources for path in source.paths} if asked.report is not None else set()
    for folder in folders(asked.plan) if asked.report is not None or not batches else ():  # without the log, who knows
        if says := unread(folder, read):
            yield "not read yet", says
    if asked.interval_ms:
        began_ms = iso_ms(batches[-1].get("timestamp")) if batches else None
        began = "" if began_ms is None else f", the last one began {time_words(began_ms // 1000 * 1000)}"
        every = delay_words(asked.interval_ms)
        yield "next batch", f"the trigger lets one begin every {every}{began}; what arrives in between waits"


def _logged(asked: Asked) -> str:
    found = asked.report.batches if asked.report is not None else ()
    done = [b.batch_id for b in found if b.committed]
    begun = [b.batch_id for b in found if not b.committed and b.offsets is not None]
    newest = f", the last is {done[-1]}" if done else ""
    begun_too = f"; batch {begun[-1]} has begun and is not committed" if begun and begun[-1] > max(done, default=-1) else ""
    return f"{plural(len(done), 'batch')} committed{newest}{begun_too}"


def _reported(asked: Asked, batches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    rows_in = sum(as_int(p.get("numInputRows")) or 0 for p in batches)
    counts = [as_int(as_map(p.get("sink")).get("numOutputRows")) for p in batches]
    rows_out = "not reported by the sink"
    if all(count is not None and count >= 0 for count in counts):
        rows_out = number(sum(count or 0 for count in counts))
    first, last = batches[0].get("batchId"), batches[-1].get("batchId")
    which = f"batch {last}" if first == last else f"batches {first} to {last}"
    by_function = str(as_map(batches[-1].get("sink")).get("description")) == FOREACH_BATCH
    again = " (each counts again whenever the function of foreachBatch reads its batch)" if by_function and rows_in else ""
    mode = f"; output mode {asked.mode}" if asked.mode else ""
    yield "batches", f"{which}: {plural(rows_in, 'row')} in{again}, rows out: {rows_out}{mode}"
    if asked.is_active is None:
        yield "took", _took(batches[-1])
        if after := batches[-1].get(CUT_OFF):
            yield "cut off", f"what the report says after {after} is missing"
    sources = [as_map(source) for source in as_list(batches[-1].get("sources"))]
    for source in sources:
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if latest not in (None, "null", end):
            name = short(str(source.get("description")))
            yield "not read yet", f"{name}: read up to {offset_words(end)}, but there is data up to {offset_words(latest)}"
    if rows_in == 0:
        yield "no input", _no_row(asked, batches, by_function)


def _is_idle(progress: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no source had anything new in the time of these reports."""
    sources = [as_map(source) for p in progress for source in as_list(p.get("sources"))]
    return bool(sources) and all(source.get("startOffset") == source.get("endOffset") for source in sources)


def _took(report: Mapping[str, Any]) -> str:
    """How long a batch took, and its phases of at least a tenth of that."""
    took = {str(name): as_int(ms) or 0 for name, ms in as_map(report.get("durationMs")).items()}
    whole_ms = took.pop("triggerExecution", sum(took.values()))
    longest = sorted(((ms, name) for name, ms in took.items() if ms * 10 >= whole_ms), reverse=True)
    parts = ", ".join(f"{name} {duration_words(ms)}" for ms, name in longest)
    return f"batch {report.get('batchId')}: {duration_words(whole_ms)}{', of which ' if parts else ''}{parts}"


def _no_row(asked: Asked, batches: Sequence[Mapping[str, Any]], by_function: bool) -> str:
    """(2) Why no row was counted, although batches ran."""
    if _is_idle(batches):
        return "no row has arrived: no source had anything new"
    first = [as_map(source) for source in as_list(batches[0].get("sources"))]
    if len(batches) == 1 and any(one.get("startOffset") is None and "Kafka" in str(one.get("description")) for one in first):
        unless = "unless startingOffsets says earliest"
        return f"this is the first batch, and a stream of Kafka begins at the end of its topics, {unless}"
    reasons = ["what was read has no rows"]
    if filters := removing(asked.plan)[1]:
        reasons.append(f"the reader has left out the rows that do not pass {' and '.join(filters)}, which Spark does not count")
    if by_function:
        reasons.append("the function of foreachBatch has not read its batch")
    return f"something was read, and no row of it was counted: {', or '.join(reasons)}"


def _on_the_way(asked: Asked) -> Iterator[tuple[str, str]]:
    """What may remove a row before it is in the state or, if there is no state, before it comes out."""
    above, others = removing(asked.plan)
    if others:
        yield "on the way", f"a row goes on only if it passes {' and '.join(others)}"
    if above:
        yield "above", f"what leaves the state comes out only if it passes {' and '.join(above)}"


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
