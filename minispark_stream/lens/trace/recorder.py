"""Records the steps of a query while it runs.

`level` is "steps", "rows" to record rows as well, or "code" to record the code that ran as well; both cost extra work. What is
recorded of each step of the engine is said in lens/recording/recorded.py:

    with recorder.step("walCommit", file="offsets/4") as step:
        step.out(text="v1 ...")
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from minispark_stream.engine.observer import error_words
from minispark_stream.lens.trace.events import Event

MAX_TRIGGERS = 1000
MAX_CHARACTERS = 2**26


class OpenStep:
    """A step that is still running: what went in, and what has come out so far."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: dict[str, Any]):
        self.inputs = inputs
        self.outputs: dict[str, Any] = {}

    def out(self, **outputs: Any) -> None:
        self.outputs.update(outputs)


class Recorder:
    """Keeps the events of the last `MAX_TRIGGERS` triggers that ran a batch; fewer if they have over `MAX_CHARACTERS` of text.

    An offset of many partitions is a long text that occurs in many events of a batch, so each text of a trigger is kept once.

    A trigger that found nothing to do leaves no events, so the trace of a query that polls every 10 ms stays small. Every
    thread has a depth of its own: maintenance, on its thread, is not inside any other step.
    """

    def __init__(self, level: str = "steps"):
        self.level = level
        self.batch_id: int | None = None
        self._start = time.monotonic()
        self._trigger = 0
        self._nesting = threading.local()
        self._lock = threading.Lock()
        self._current: list[Event] = []
        self._texts: dict[str, str] = {}  # of the current trigger
        self._kept: deque[tuple[int, list[Event]]] = deque()  # with the number of characters
        self._characters = 0

    @contextmanager
    def step(self, name: str, /, **inputs: Any) -> Iterator[OpenStep]:
        step, error = OpenStep(inputs), None
        began, depth = time.monotonic(), getattr(self._nesting, "depth", 0)
        self._nesting.depth = depth + 1
        try:
            yield step
        except BaseException as e:
            error = error_words(e)
            raise
        finally:
            self._nesting.depth = depth
            with self._lock:
                self._current.append(
                    Event(
                        step=name, engine="model", trigger=self._trigger, batch_id=self.batch_id, depth=depth,
                        start_ms=(began - self._start) * 1000, duration_ms=(time.monotonic() - began) * 1000,
                        inputs=self._once(step.inputs), outputs=self._once(step.outputs), error=error,
                    )
                )

    def next_trigger(self, ran: bool) -> None:
        """The trigger is over: keep its events if it ran a batch, and otherwise forget them (but not how the query began)."""
        with self._lock:
            if ran:
                size = sum(map(len, self._texts))
                self._kept.append((size, self._current))
                self._characters += size
                while len(self._kept) > MAX_TRIGGERS or self._characters > MAX_CHARACTERS and len(self._kept) > 1:
                    self._characters -= self._kept.popleft()[0]
                self._trigger += 1
                self._current, self._texts = [], {}
            else:
                self._current = [e for e in self._current if e.depth == 0 and e.step != "trigger"]
                self._texts = {}

    @property
    def events(self) -> tuple[Event, ...]:
        with self._lock:
            return tuple(e for group in [*(kept for _, kept in self._kept), self._current] for e in group)

    def _once(self, value: Any) -> Any:
        """A JSON value in which equal texts are one object."""
        match value:
            case str():
                return self._texts.setdefault(value, value)
            case dict():
                return {key: self._once(one) for key, one in value.items()}
            case list() | tuple():
                return type(value)(map(self._once, value))
        return value
