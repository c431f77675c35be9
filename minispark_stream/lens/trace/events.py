"""A step that has happened, as plain JSON values.

Events are frozen, and are in the order in which the steps *ended*. `Event.depth` gives the nesting: a `latestOffset` happens
inside `constructNextBatch`, which happens inside `trigger`. lens/steps/ says what each step is, and which values it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_ARRIVALS = 1000  # how many rows of a source in a batch are followed
MAX_ROWS = 50  # how many rows of a batch, or of a state store, an event shows


@dataclass(frozen=True)
class Event:
    """One step that happened, in plain JSON values.

    `engine` is "model" or "spark"; `trigger` counts the triggers that ran something, from 0 (None: not known);
    `start_ms` is relative to the start of the query; `error` is the message if the step raised an error.
    """

    step: str
    engine: str
    trigger: int | None
    batch_id: int | None
    depth: int
    start_ms: float
    duration_ms: float
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
