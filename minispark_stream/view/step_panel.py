"""The panel above the flow diagram: what this step did, why there is such a step, and what went in and out.

    (3) walCommit                                    offsets/2 written: read up to logOffset 2; watermark 12:04:00.
    OffsetSeqLog.add · Execution flow (3) · 8.1 ms   Why? Written before anything is read: ...

With two engines their sentences stand one below the other where they differ. Whatever comes from the trace is escaped here.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from minispark_stream.trace.events import STEPS, Event
from minispark_stream.view.flow import title
from minispark_stream.view.merged_walk import Stop
from minispark_stream.view.sentences import narrate
from minispark_stream.view.walk import failed
from minispark_stream.view.why import WHY
from minispark_stream.view.words import duration_words

IN_PANELS = ("rows", "before", "after", "plan", "arrivals")  # what a panel or a picture shows


def step_panel(stop: Stop) -> str:
    """What happened in this step, and why there is such a step."""
    step = STEPS[stop.moment.event.step]
    events = {engine: stop.worlds[engine].moment.event for engine in stop.here}
    sentences = {engine: narrate(event) for engine, event in events.items()}
    if len(set(sentences.values())) == 1:
        said = f"<p class='did'>{_sentence(next(iter(sentences.values())))}</p>"
    else:
        said = "".join(f"<p class='did'><b>{escape(e)}</b> {_sentence(words)}</p>" for e, words in sentences.items())
    missing = [engine for engine in stop.worlds if engine not in stop.here]
    unseen = f"<p class='note'>The trace of {escape(', '.join(missing))} does not show this step.</p>" if missing else ""
    look = "now failed" if any(map(failed, events.values())) else "now"
    took = " · ".join(
        (f"{escape(engine)} " if len(events) > 1 else "") + duration_words(event.duration_ms)
        for engine, event in events.items() if event.duration_ms > 0
    )
    return (
        f"<div class='{look}'><div class='what'><h2>{escape(title(step.name))}</h2>"
        f"<p class='where'><code>{escape(step.spark)}</code> · {escape(step.document)}{' · ' if took else ''}{took}</p>"
        f"<p class='note'>{_sentence(step.says)}</p></div><div class='this'>{said}{unseen}"
        f"<p class='why'><b>Why?</b> {escape(WHY[step.name])}</p>{''.join(_raw(e, events) for e in events)}</div></div>"
    )


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
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(_pretty(value))}</dd>" for name, value in shown.items())
    whose = f" ({escape(engine)})" if len(events) > 1 else ""
    return f"<details><summary>In and out, as recorded{whose}</summary><dl>{lines}</dl></details>"


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str, indent=1)
