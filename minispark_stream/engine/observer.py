"""Observers of a query: the engine tells an observer when a step begins and when it has ended.

`@step("walCommit")` marks a function of the engine that is a step of the documents. It takes the query as its first argument.
It is timed, because progress reports show how long the phases took (`durationMs`), and the query's observer is told of it:

    @step("getBatch")                                    observer.step("getBatch", query, source=..., start=..., end=...)
    def get_batch(query, source, start, end):    ->      reporter: getBatch 4 ms
        return source.get_batch(start, end)              observer: ended, with the DataFrame

The observer gets the other arguments of the step, by their names, and its result. If the observer `wants_told`, the tasks also
report what they decide (operators/told.py); the engine computes nothing more for observers. What an observer makes of this is
its own business: `lens/recording/` makes a trace, and a test lets a query die at a step. Of a step
that raises, no end is told.

Models: ProgressContext.reportTimeTaken, which times the steps (Execution flow).
Differs from Spark: nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Ended = Callable[[Any], None]
StepFunction = TypeVar("StepFunction", bound=Callable[..., Any])


def step(name: str) -> Callable[[StepFunction], StepFunction]:
    """Make a function a step with this name."""

    def declare(function: StepFunction) -> StepFunction:
        _, *names = inspect.signature(function).parameters

        @wraps(function)
        def run(query: Any, *arguments: Any) -> Any:
            with query.reporter.timed(name), query.observer.step(name, query, **dict(zip(names, arguments))) as ended:
                result = function(query, *arguments)
                ended(result)
            return result

        return run  # type: ignore[return-value]

    return declare


class Observer:
    """An observer that ignores everything: tracing is off. `wants_told` says whether tasks shall report what they decide."""

    wants_told = False

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        """Surrounds a step of `query`; `name` is its name in the documents (lens/steps/ lists them)."""
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
