"""Why did a query emit nothing? What it has in its state, what it dropped, what it waits for, and what would have to arrive.

1. The checkpoint says what is in the state: the rows, the schemas, which column carries a watermark, and its delay.
2. Progress reports, if there are any, say what was read and emitted, and what was dropped as late.
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

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.values import as_int, as_list, as_map
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.words import number, offset_words, plural, short
from minispark_stream.tools.inspection.asked import Asked, joins, shifts
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.held import held_by
from minispark_stream.tools.inspection.inputs import named_inputs, planned_inputs
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.waits_for import waits_for


@dataclass(frozen=True)
class OutputExplanation:
    """The answer: (topic, words), in the order in which they should be read."""

    lines: tuple[tuple[str, str], ...]

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
    lines += _in_and_out(asked)
    held = list(held_by(asked.report)) if asked.report is not None else []  # (1)
    lines += [("held", one.words) for one in held] or [("held", _nothing(asked.report))]
    dropped = list(_dropped(asked.progress))
    lines += dropped
    lines += waits_for(asked, held, bool(dropped))  # (3)
    return OutputExplanation(tuple(lines))


def explain_checkpoint(checkpoint: str) -> OutputExplanation:
    """What a checkpoint alone says, without PySpark.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: the directory is not a checkpoint.
    """
    return explain(Asked(inspect(checkpoint)))


def _nothing(report: CheckpointReport | None) -> str:
    names = [f"operator {one.operator_id} ({one.name})" for one in report.operators] if report is not None else []
    return f"nothing: the state of {' and of '.join(names)} is empty" if names else "nothing: the query has no state"


def explain_query(
    query: Any, checkpoint: str, mode: str | None, events: Sequence[Event] = (), plan: str = ""
) -> OutputExplanation:
    """The same for a query, which is anything with PySpark's `recentProgress` and `exception()`; `events` are its trace,
    and `plan` is its analysed plan as Spark prints it.
    """
    error = query.exception()
    try:
        report = inspect(checkpoint)
    except (FileNotFoundError, ValueError):  # nothing has been written yet, or it was a temporary directory
        report = None
    measured = [e.outputs for e in events if e.step == "updateWatermark"]
    trees = [as_map(e.outputs.get("tree")) for e in events if e.step == "queryPlanning"]
    operators = as_list(measured[-1].get("operators")) if measured else ()
    inputs = named_inputs(operators, trees[-1] if trees else {}) if operators else planned_inputs(plan)
    return explain(Asked(
        report=report,
        progress=[json.loads(one.json) for one in query.recentProgress],
        mode=mode and mode.lower(),
        inputs=list(inputs),
        shifts=shifts(events),
        joins=joins(e for e in events if e.step == "stateOperator"),
        plan=plan,
        error=None if error is None else str(error).split("\n")[0],
    ))


# -- (2) in and out --------------------------------------------------------------------------------------------


def _in_and_out(asked: Asked) -> Iterator[tuple[str, str]]:
    batches = [p for p in asked.progress if "addBatch" in as_map(p.get("durationMs"))]
    if not batches:
        done = [b.batch_id for b in asked.report.batches if b.committed] if asked.report is not None else []
        newest = f", the last is {done[-1]}" if done else ""
        yield "batches", f"{plural(len(done), 'batch')} committed{newest}"
        return
    rows_in = sum(as_int(p.get("numInputRows")) or 0 for p in batches)
    counts = [as_int(as_map(p.get("sink")).get("numOutputRows")) for p in batches]
    rows_out = "not reported by the sink"
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
            yield "not read yet", f"{name}: read up to {offset_words(end)}, but there is data up to {offset_words(latest)}"
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
