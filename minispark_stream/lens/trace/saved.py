"""A saved trace, which another program may have written: every field is checked before anything is drawn.

    event_of({"depth": -1, ..}, "event 3")      ValueError: event 3: depth must be a whole number from 0 to 100

What goes into a step and what comes out has the shape that the step declares (lens/steps/), and nothing else checks it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.shapes import misfit

CODE = Sequence[tuple[str, int, str, Sequence[int]]]  # what ran in any step: file, first line, name of a function; its lines
FORMAT = {"format": "minispark_stream trace", "version": 1}


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of the trace that a file contains.

    Raises:
        ValueError: `value` is not a trace, or not one that this version can read.
    """
    if not isinstance(value, Mapping) or value.get("format") != FORMAT["format"]:
        raise ValueError(f'expected a JSON object with "format": "{FORMAT["format"]}"')
    if value.get("version") != FORMAT["version"]:
        raise ValueError(f"version {value.get('version')!r} is not supported, only {FORMAT['version']}")
    check_texts(value, ("engine", "name", "plan", "note", "code"), "the trace")
    if value.get("engine") not in ("model", "spark"):
        raise ValueError(f'engine must be "model" or "spark", not {value.get("engine")!r}')
    if not isinstance(value.get("events"), list):
        raise ValueError("events must be a list")
    events = tuple(event_of(e, f"event {i}") for i, e in enumerate(value["events"]))
    texts = {name: value.get(name) for name in ("engine", "name", "plan", "note")}
    return {"events": events, **texts, "query": value.get("code")}


def event_of(value: Any, where: str) -> Event:
    """One event of a file.

    Raises:
        ValueError: a field is missing, unknown, or of another type.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be an object")
    if extra := set(value) - set(Event.__dataclass_fields__):
        raise ValueError(f"{where} has unknown fields: {', '.join(sorted(extra))}")
    check_texts(value, ("step", "engine", "error"), where)
    for name in ("trigger", "batch_id"):
        if not (value.get(name) is None or type(value[name]) is int):
            raise ValueError(f"{where}: {name} must be a whole number or null")
    if type(value.get("depth")) is not int or not 0 <= value["depth"] <= 100:
        raise ValueError(f"{where}: depth must be a whole number from 0 to 100")
    for name in ("start_ms", "duration_ms"):
        if type(value.get(name)) not in (int, float) or not math.isfinite(value[name]):
            raise ValueError(f"{where}: {name} must be a number")
    step = STEPS.get(value.get("step") or "")
    if step is None:
        raise ValueError(f"{where}: unknown step {value.get('step')!r}; known steps: {', '.join(STEPS)}")
    for name, shape in (("inputs", step.ins), ("outputs", step.outs)):
        values = value.get(name, {})
        try:
            wrong = misfit(values, shape, name) or misfit(values.get("code", ()), CODE, f"{name}.code")
        except RecursionError:
            wrong = f"{name} is nested too deeply"
        if wrong is not None:
            raise ValueError(f"{where}, {step.name}: {wrong}")
    try:
        return Event(**value)
    except TypeError as e:
        raise ValueError(f"{where}: {e}") from e


def check_texts(value: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Raises ValueError: one of these fields is neither missing nor a text."""
    for name in names:
        if not (value.get(name) is None or isinstance(value[name], str)):
            raise ValueError(f"{where}: {name} must be text")
