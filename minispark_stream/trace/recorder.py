"""Records the steps of a query while it runs.

The engine is handed a recorder and wraps every phase in `with recorder.step("walCommit", file=...) as step:`;
`step.out(text=...)` adds what came out. Three recorders share that interface:

    Recorder        keeps events; `level` "steps", or "rows" for row previews (they cost extra work)
    NullRecorder    keeps nothing: tracing off
    CrashAt         (tests) raises when a named step begins or ends
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minispark_stream.trace.events import STEPS, Event


class OpenStep:
    """A step that is under way: what went in, and what came out so far."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: dict[str, Any]):
        self.inputs = inputs
        self.outputs: dict[str, Any] = {}

    def out(self, **outputs: Any) -> None:
        self.outputs.update(outputs)


class NullRecorder:
    """Tracing off."""

    level = "off"
    batch_id: int | None = None

    @contextmanager
    def step(self, name: str, /, **inputs: Any) -> Iterator[OpenStep]:
        yield OpenStep(inputs)

    def next_trigger(self, ran: bool) -> None:
        pass

    @property
    def events(self) -> tuple[Event, ...]:
        return ()


class Recorder(NullRecorder):
    """Keeps the events of the last `max_triggers` triggers that ran a batch.

    A trigger that found nothing to do leaves no events behind, so a query that polls every 10 ms stays small.
    """

    def __init__(self, level: str = "steps", engine: str = "model", max_triggers: int = 1000):
        self.level = level
        self.engine = engine
        self.batch_id = None
        self._start = time.monotonic()
        self._trigger = 0
        self._depth = 0
        self._current: list[Event] = []
        self._kept: deque[list[Event]] = deque(maxlen=max_triggers)

    @contextmanager
    def step(self, name: str, /, **inputs: Any) -> Iterator[OpenStep]:
        if name not in STEPS:
            raise KeyError(f"unknown step {name!r}")
        step = OpenStep(inputs)
        began, depth = time.monotonic(), self._depth
        self._depth += 1
        error: str | None = None
        try:
            yield step
        except BaseException as e:
            error = f"{type(e).__name__}: {e}"
            raise
        finally:
            self._depth = depth
            now = time.monotonic()
            self._current.append(
                Event(name, self.engine, self._trigger, self.batch_id, depth, (began - self._start) * 1000,
                      (now - began) * 1000, step.inputs, step.outputs, error)
            )

    def next_trigger(self, ran: bool) -> None:
        """The trigger is over: keep its events if it ran a batch, else forget them (but not how the query began)."""
        if ran:
            self._kept.append(self._current)
            self._trigger += 1
            self._current = []
        else:
            self._current = [e for e in self._current if e.depth == 0 and e.step != "trigger"]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(e for group in [*self._kept, self._current] for e in group)
