"""The panel of the step: what it did, why the step exists, its code, and what went in and out.

    (3) walCommit                                         [Why]  Code  In and out
    offsets/2 written: read up to logOffset 2; ...        Write down what the batch will read before it reads anything.
    took 8.1 ms                                           Why? Written before anything is read: ...
                                                          In Spark: OffsetSeqLog.add · Execution flow (3)

With two engines, their sentences are shown one below the other if they differ. What a step recorded in milliseconds since 1970
is shown as a time; what it wrote to a log is shown as it is in the file. Whatever comes from the trace is escaped here. If the
code that ran was recorded, the tab Code shows that instead of the function of the step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from minispark_stream.lens.steps.step import Step
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.view.flow import title
from minispark_stream.lens.view.merged_walk import Stop
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.lens.view.shown_code import of_event
from minispark_stream.lens.view.step_source import step_sources
from minispark_stream.lens.view.style import breakable
from minispark_stream.lens.view.words import duration_words, time_words

WATERMARKS = frozenset(("watermark", "watermarkLate", "watermarkEviction", "output", "late_ms", "leaves_ms"))
TIMES = WATERMARKS | {"timestamp", "min", "max", "avg"}  # what steps record under these names is a time
IN_PANELS = (  # the panels show them
    "rows", "before", "between", "after", "plan", "arrivals", "onward", "told", "where", "functions", "code", "tasks",
)


def about(step: Step) -> dict[str, str]:
    """What is the same whenever this step is shown, as HTML: what it is, and why it exists."""
    number, _, name = title(step.name).rpartition(" ")
    return {
        "what": f"<h2><small>{escape(number)}</small> {escape(name)}</h2>",
        "why": f"<p>{_sentence(step.says)}</p><p><b>Why?</b> {escape(step.why)}</p>"
               f"<p class='where'>In Spark: <code>{breakable(step.spark)}</code> · {escape(step.document)}</p>",
    }


def said(stop: Stop) -> str:
    """What happened in this step, in a sentence; in two if the engines differ, and not if one of them only tells more."""
    events = _events(stop)
    sentences = {engine: narrate(event) for engine, event in events.items()}
    longest = max(sentences.values(), key=len)
    if all(longest.startswith(sentence.rstrip(".")) for sentence in sentences.values()):
        words = f"<p class='did'>{_sentence(longest)}</p>"
    else:
        words = "".join(f"<p class='did'><b>{escape(e)}</b> {_sentence(said)}</p>" for e, said in sentences.items())
    missing = [engine for engine in stop.worlds if engine not in stop.here]
    unseen = f"<p class='note'>The trace of {escape(', '.join(missing))} does not show this step.</p>" if missing else ""
    took = " · ".join(
        duration_words(_took(event)) + (f" ({escape(engine)})" if len(events) > 1 else "")
        for engine, event in events.items() if event.duration_ms > 0
    )
    return words + unseen + (f"<p class='note'>Took {took}.</p>" if took else "")


def _took(event: Event) -> float:
    """How many milliseconds a step took. Maintenance is done in a worker, and the step in the driver only reports it."""
    in_worker = event.outputs.get("milliseconds")
    return in_worker if isinstance(in_worker, int) else event.duration_ms


def recorded(stop: Stop) -> str:
    """What went in and out, as recorded, engine by engine."""
    events = _events(stop)
    return "".join(_raw(e, events) for e in events) or "<p class='note'>Nothing but what the panels show.</p>"


def code(stop: Stop) -> str:
    """The code that ran in this step, with what did not run folded; if it was not recorded, the function that is the step."""
    source = step_sources()[stop.moment.event.step]
    function = f"<p class='where'><code>{escape(source.where)}</code></p><pre class='code'>{source.html}</pre>"
    return next(filter(None, map(of_event, _events(stop).values())), function)


def _events(stop: Stop) -> dict[str, Event]:
    return {engine: stop.worlds[engine].moment.event for engine in stop.here}


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begin = first.capitalize() if first.isalpha() and first.islower() else first
    return escape(begin + words[len(first):] + ("" if words.endswith(".") else "."))


def _raw(engine: str, events: Mapping[str, Event]) -> str:
    """What went in and out, as recorded; what the panels show is left out."""
    event = events[engine]
    values = {**event.inputs, **event.outputs}
    shown = {name: v for name, v in values.items() if name not in IN_PANELS and v is not None}
    if not shown:
        return ""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(_pretty(name, value))}</dd>" for name, value in shown.items())
    return f"{f'<h4>{escape(engine)}</h4>' if len(events) > 1 else ''}<dl>{lines}</dl>"


def _pretty(name: str, value: Any) -> str:
    value = value if name == "progress" else _with_times(name, value)  # Spark writes the times of a report itself
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=1)


def _with_times(name: str, value: Any) -> Any:
    """A recorded value with every time in it as a person reads it, in UTC."""
    if isinstance(value, Mapping):
        return {of: _with_times(of, one) for of, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_times(name, one) for one in value]
    is_time = name in TIMES and isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_time:
        return value
    return time_words(max(value, 0) if name in WATERMARKS else value)  # before the first watermark, operators subtract from 0
