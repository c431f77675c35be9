"""Why did a query emit nothing? What it has in its state, what it dropped, what it waits for, and what would have to arrive.

1. The checkpoint says what is in the state: the rows, the schemas, which column carries a watermark, and its delay.
2. Progress reports, if there are any, say what was read and emitted, and what was dropped as late (in_and_out.py). The plan
   says what may remove a row (plan_text.py).
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

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.view.style import CSS, table
from minispark_stream.lens.view.words import one_line, plural
from minispark_stream.tools.inspection.asked import GONE, Asked, Known, joins, shifts
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.held import held_by
from minispark_stream.tools.inspection.in_and_out import dropped, in_and_out
from minispark_stream.tools.inspection.inputs import named_inputs, planned_inputs
from minispark_stream.tools.inspection.plan_text import removing
from minispark_stream.tools.inspection.real_time import in_real_time
from minispark_stream.tools.inspection.waits_for import waits_for
from minispark_stream.tools.reports import plain

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
    if asked.report is not None and not asked.progress and not (asked.is_active and asked.is_real_time):
        lines.append(("restart", asked.report.next.says))
    lines += in_real_time(asked)
    lines += in_and_out(asked)  # (2)
    lines += _on_the_way(asked)
    held = list(held_by(asked.report)) if asked.report is not None else []  # (1)
    lines += [("held", one.words) for one in held] or [("held", _nothing(asked))]
    late = list(dropped(asked.progress))
    lines += late
    lines += waits_for(asked, held, bool(late))  # (3)
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
        operators = [one for p in asked.progress[-1:] for one in p.get("stateOperators", ())]
        counts = [f"{plural(one.get('numRowsTotal'), 'row')} in {one.get('operatorName')}" for one in operators]
        if counts:
            last = f"the last report says {' and '.join(counts)}"
            return f"not known row by row, because the checkpoint {asked.no_report}: {last}"
        return "nothing: no stateful operator has reported anything" if asked.progress else "nothing yet: no batch has ended"
    names = [f"operator {one.operator_id} ({one.name})" for one in asked.report.operators]
    return f"nothing: the state of {' and of '.join(names)} is empty" if names else "nothing: the checkpoint has no state"


def explain_query(query: Any, known: Known, events: Sequence[Event] = ()) -> OutputExplanation:
    """Why a query, which is anything with PySpark's `recentProgress`, `exception()`, `isActive` and `status`, has no output.

    Args:
        known: what else is known about it.
        events: its trace, if there is one; it says what each `withWatermark` has measured.
    """
    error = query.exception()
    try:
        report = None if known.checkpoint is None else inspect(known.checkpoint)
    except (FileNotFoundError, ValueError):  # nothing has been written yet, or it was a temporary directory
        report = None
    updates = [e.outputs for e in events if e.step == "updateWatermark"]
    trees = [e.outputs.get("tree") or {} for e in events if e.step == "queryPlanning"]
    measured = updates[-1].get("operators", ()) if updates else ()
    of_trace = measured and named_inputs(measured, trees[-1] if trees else {})
    return explain(Asked(
        report=report,
        no_report=NOT_GIVEN if known.checkpoint is None else GONE,
        progress=[plain(one) for one in query.recentProgress],
        mode=known.output_mode and known.output_mode.lower(),
        inputs=list(of_trace or planned_inputs(known.plan, known.watermarks)),
        shifts=shifts(events),
        joins=joins(e for e in events if e.step == "stateOperator"),
        plan=known.plan,
        error=None if error is None else str(error).split("\n")[0],
        is_active=query.isActive,
        real_time_ms=known.real_time_ms,
        sink=known.sink,
        interval_ms=known.interval_ms if query.status["message"] == "Waiting for next trigger" else 0,
    ))


def _on_the_way(asked: Asked) -> Iterator[tuple[str, str]]:
    """What may remove a row before it is in the state or, if there is no state, before it comes out."""
    above, others = removing(asked.plan)
    if others:
        yield "on the way", f"a row goes on only if it passes {' and '.join(others)}"
    if above:
        yield "above", f"what leaves the state comes out only if it passes {' and '.join(above)}"
