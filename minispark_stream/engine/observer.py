"""Observers of a query: the engine tells an observer when a step begins and when it has ended.

The engine passes on the arguments of the step, by their names, and its result. If the observer `wants_told`, the tasks also
report what they decide (operators/told.py); the engine computes nothing more for observers. What an observer makes of this is
its own business: `lens/recording/` makes a trace, and a test lets a query die at a step.

    with observer.step("walCommit", query, context=context, entry=entry) as ended:
        ...                                                            the step itself
        ended(result)                                                  not called if the step raises
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Ended = Callable[[Any], None]


class Observer:
    """An observer that ignores everything: tracing is off. `wants_told` says whether tasks shall report what they decide."""

    wants_told = False

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        """Surrounds a step of `query`; `name` is its name in the documents (lens/trace/steps.py lists them)."""
        yield _not_interested

    def sink(self, sink: Any) -> Any:
        """The sink that the query shall write to: its own `sink`, or one around it that looks at the rows."""
        return sink

    def task(self, task: Any) -> Any:
        """The task that an operator shall give to Spark: its own `task`, or one around it that looks at what it does."""
        return task

    def begin_trigger(self, batch_id: int) -> None:
        """The steps that follow are those of batch `batch_id`."""

    def end_trigger(self, ran: bool) -> None:
        """The trigger is over; `ran` says whether there was a batch."""


def _not_interested(result: Any) -> None:
    pass


def error_words(error: BaseException) -> str:
    """The class of an error and its message; the class alone if the message was in a JVM that has died."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
