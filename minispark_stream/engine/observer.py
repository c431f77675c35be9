"""Whoever wants to know what a query does: told of each step when it begins, and when it has ended.

The engine announces, by the names of the arguments, and computes nothing for it. What is made of that is the observer's
business: `lens/recording/` makes a trace of it, a test lets a query die at a step.

    with observer.step("walCommit", query, context=context, entry=entry) as ended:
        ...                                                            the step itself
        ended(result)                                                  not called when the step raises
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Ended = Callable[[Any], None]


class Observer:
    """Somebody who is not interested: tracing is off. `wants_rows`: the tasks are to tell what they decide."""

    wants_rows = False

    @contextmanager
    def step(self, name: str, query: Any, /, **arguments: Any) -> Iterator[Ended]:
        """Around a step of `query`; `name` is the documents' (lens/trace/steps.py lists them)."""
        yield _not_interested

    def sink(self, sink: Any) -> Any:
        """The sink that the query is to write to: the query's own, or one around it that looks at the rows."""
        return sink

    def begin_trigger(self, batch_id: int) -> None:
        """The steps that follow are those of batch `batch_id`."""

    def end_trigger(self, ran: bool) -> None:
        """The trigger is over; `ran` says whether there was a batch."""


def _not_interested(result: Any) -> None:
    pass


def error_words(error: BaseException) -> str:
    """The class of an error, and what it says: of an error of a JVM that has died, nothing."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
