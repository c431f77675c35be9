"""What is easily got wrong in a call of `side_by_side`, and what is said then.

1. A trigger is the arguments of `DataStreamWriter.trigger`, and no word alone.
2. Its arguments have Python's names, where PySpark's methods have camelCase.
3. A folder that is not there: perhaps the query has several inputs, and the steps do not name them.
4. A step is a list of lines, and no text.
5. The function returns the query, which it builds on the session that it is given.

    side_by_side(spark, build, feed, outputMode="complete")
        TypeError: side_by_side() got an unexpected keyword argument 'outputMode'
        Hint: the argument is called output_mode.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql.streaming import DataStreamWriter

from minispark_stream.session import MiniSparkSession

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def check_trigger(trigger: object) -> None:  # (1)
    """Raises TypeError: what was given are no arguments."""
    if trigger is not None and not isinstance(trigger, Mapping):
        wanted = "the arguments of DataStreamWriter.trigger, such as {'availableNow': True}"
        raise TypeError(f"trigger takes {wanted}, not {trigger!r}")


def check_feed(feed: object) -> None:  # (4)
    """Raises TypeError: a text in the place of a list of lines, which would be read letter by letter."""
    steps = [feed] if isinstance(feed, str) else feed if isinstance(feed, (list, tuple)) else []
    for step in steps:
        for lines in step.values() if isinstance(step, Mapping) else (step,):
            if isinstance(lines, str):
                raise TypeError(f"a step of the feed is a list of lines, [{lines!r}], and not the text {lines!r}")


def check_build(build: object) -> None:  # (5)
    """Raises TypeError: what was given cannot be called."""
    if not callable(build):
        raise TypeError(f"side_by_side takes a function of a session, which builds the query on each engine, not {build!r}")


def check_built(found: Any, session: object) -> None:  # (5)
    """Raises TypeError: what the function gave is no query, or not one of the session that it was given."""
    if not hasattr(found, "writeStream"):
        raise TypeError(f"the function must return the streaming DataFrame that it builds, and it returned {found!r}")
    if isinstance(session, MiniSparkSession) and found.isStreaming and type(found.writeStream) is DataStreamWriter:
        raise TypeError("the function builds its query on another session: it must use the one that it is given")


def knows_camel_case(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:  # (2)
    """A function whose error for an argument in camelCase says how the argument is called."""
    names = set(inspect.signature(function).parameters)

    @wraps(function)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        for name in named:
            if name not in names and (snake := re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name)) in names:
                error = TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
                error.add_note(f"Hint: the argument is called {snake}.")
                raise error
        return function(*arguments, **named)

    return call


def hint_at_inputs(error: AnalysisException) -> None:  # (3)
    """Add to an error of the user's `build` what it may come from."""
    if error.getCondition() == "PATH_NOT_FOUND":
        error.add_note('Hint: a query with several inputs takes steps that name them: {"left": ["a"], "right": ["b"]}.')
