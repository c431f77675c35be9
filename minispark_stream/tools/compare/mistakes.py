"""Easy mistakes in a call of `side_by_side`, and what the errors say about them.

1. A trigger must be the arguments of `DataStreamWriter.trigger`, and not a single word.
2. The arguments of `side_by_side` have Python's names, and not camelCase as in PySpark's methods.
3. If a folder does not exist, perhaps the query has several inputs, and the steps do not name them.
4. A step must be a list of lines, and not a text.
5. The function must return the query, and build it on the session that it is called with.
6. A misspelt name would have no effect: a conf that Spark does not know, an engine that does not exist, a knob that is not a
   parameter.
7. A query with timers in processing time has a batch in each trigger, for ever, unless batches without data are off.
8. What Spark refuses, the model refuses, too, and often says what to do; this is added to Spark's error.

    side_by_side(spark, build, feed, outputMode="complete")
        TypeError: side_by_side() got an unexpected keyword argument 'outputMode'
        Hint: the argument is called output_mode.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.stepped_queries import plan_text
from minispark_stream.lens.view.words import perhaps

ENGINES = ("model", "spark")
# The first two are up to a catalog or a state store provider; the last one is a conf that Spark reads but does not list.
FREE = ("spark.sql.catalog.", "spark.sql.streaming.stateStore.", "spark.sql.streaming.checkpointFileManagerClass")
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_HAS_TIMERS = re.compile(
    r"^\W*(?:FlatMapGroupsInPandasWithState|TransformWithStateInPySpark) .*, ProcessingTime(?:Timeout)?(?!\w|#)", re.MULTILINE
)
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def check_trigger(trigger: object) -> None:  # (1)
    """Raises TypeError: the trigger is not a mapping of arguments."""
    if trigger is not None and not isinstance(trigger, Mapping):
        wanted = "the arguments of DataStreamWriter.trigger, such as {'availableNow': True}"
        raise TypeError(f"trigger takes {wanted}, not {trigger!r}")


def check_feed(feed: object) -> None:  # (4)
    """Raises TypeError: a step is a text instead of a list of lines, and would be read letter by letter."""
    steps = [feed] if isinstance(feed, str) else feed if isinstance(feed, (list, tuple)) else []
    for step in steps:
        for lines in step.values() if isinstance(step, Mapping) else (step,):
            if isinstance(lines, str):
                raise TypeError(f"a step of the feed is a list of lines, [{lines!r}], and not the text {lines!r}")


def check_build(build: object) -> None:  # (5)
    """Raises TypeError: `build` cannot be called."""
    if not callable(build):
        raise TypeError(f"the query must be built by a function of a session, which each engine calls, not by {build!r}")


def check_confs(spark: SparkSession, confs: Mapping[str, str]) -> None:  # (6)
    """Raises ValueError: Spark has no such SQL conf, or it cannot be set while Spark runs, so it would have no effect."""
    for name in confs:
        if name.startswith("spark.sql.") and not name.startswith(FREE) and not spark.conf.isModifiable(name):
            known = [str(row.key) for row in spark.sql("SET -v").collect()]
            raise ValueError(f"Spark has no conf {name} that can be set while it runs{perhaps(name, known)}")


def check_relay(relay: Collection[str]) -> None:  # (6)
    """Raises ValueError: an engine does not exist, or the model is missing, so that Spark would be compared with itself."""
    for name in relay:
        if name not in ENGINES:
            raise ValueError(f"relay takes {' and '.join(ENGINES)}, not {name!r}")
    if "model" not in relay:
        raise ValueError("a relay without the model compares Spark with itself")


def check_knobs(build: Callable[..., Any], knobs: Collection[str], others: Collection[str]) -> None:  # (6)
    """Raises TypeError: the function has no such parameter."""
    parameters = inspect.signature(build).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for name in knobs:
        if name not in parameters and name not in others:
            snake = re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name)
            raise TypeError(f"{name} is not a parameter of the function{perhaps(snake, [*parameters, *others])}")


def check_built(found: Any, session: object) -> None:  # (5)
    """Raises TypeError: the function did not return a query, or built it on another session."""
    if not hasattr(found, "writeStream"):
        raise TypeError(f"the function must return the streaming DataFrame that it builds, but it returned {found!r}")
    from minispark_stream.session import MiniSparkSession  # the kit takes other functions of this module, and needs no model

    if isinstance(session, MiniSparkSession) and found.isStreaming and type(found.writeStream) is DataStreamWriter:
        raise TypeError("the function builds its query on another session: it must use the session that it is called with")


def with_an_end(build: Callable[..., Any]) -> Callable[..., Any]:  # (7)
    """`build`, which raises ValueError if its query would always have something to do, also with `availableNow`."""
    @wraps(build)
    def checked(*arguments: Any, **knobs: Any) -> Any:
        found = build(*arguments, **knobs)
        is_query = isinstance(found, DataFrame) and found.isStreaming
        if is_query and sessions.flag(found.sparkSession, NO_DATA_BATCHES) and _HAS_TIMERS.search(plan_text(found)):
            says = "the query has timers in processing time, so each trigger runs a batch, and a step would never be done"
            raise ValueError(f"{says}; with confs={{'{NO_DATA_BATCHES}': 'false'}}, a batch runs only when there are rows")
        return found

    return checked


def knows_camel_case(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:  # (2)
    """A function whose error for an argument in camelCase says the right name of the argument."""
    names = set(inspect.signature(function).parameters)

    @wraps(function)
    def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        for name in named:
            if name not in names and (snake := re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", name)) in names:
                error = TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
                if hasattr(error, "add_note"):  # not in Python 3.10
                    error.add_note(f"Hint: the argument is called {snake}.")
                raise error
        return function(*arguments, **named)

    return call


def add_hints(error: PySparkException, run: Callable[[], object]) -> None:  # (8)
    """Add the hints that the model gives with the same error; `run` runs the query on the model."""
    try:
        run()
    except PySparkException as own:
        for note in getattr(own, "__notes__", ()):
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)


def hint_at_inputs(error: AnalysisException) -> None:  # (3)
    """Add a possible reason to an error of the user's `build`."""
    if error.getCondition() == "PATH_NOT_FOUND":
        error.add_note('Hint: a query with several inputs takes steps that name them: {"left": ["a"], "right": ["b"]}.')
