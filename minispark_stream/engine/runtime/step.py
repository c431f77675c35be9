"""`@step("walCommit")` marks a function of the engine that is a step of the documents.

Models: ProgressContext.reportTimeTaken, which times the steps (Execution flow).

A step takes the query as its first argument. It is timed, because progress reports show how long the phases took
(`durationMs`). The query's observer is told of it, and gets its other arguments by their names:

    @step("getBatch")                                    observer.step("getBatch", query, source=..., start=..., end=...)
    def get_batch(query, source, start, end):    ->      reporter: getBatch 4 ms
        return source.get_batch(start, end)              observer: ended, with the DataFrame

Differs from Spark: nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def step(name: str) -> Callable[[Function], Function]:
    """Make a function a step with this name."""

    def declare(function: Function) -> Function:
        _, *names = inspect.signature(function).parameters

        @wraps(function)
        def run(query: Any, *arguments: Any) -> Any:
            with query.reporter.timed(name), query.observer.step(name, query, **dict(zip(names, arguments))) as ended:
                result = function(query, *arguments)
                ended(result)
            return result

        return run  # type: ignore[return-value]

    return declare
