"""A streaming DataFrame is a PySpark DataFrame whose plan has one of the model's sources as a leaf.

Models: DataFrame.writeStream (From query to the plan).

1. `readStream.load()` makes a relation without rows that is marked as streaming (engine/plan/streaming_relation.py).
2. Everything that a user then does with the DataFrame (select, join, groupBy, withWatermark, explain, ...) is Spark's own
   analysis, with Spark's own columns, functions and errors.
3. Only `writeStream` is the model's: for a plan with one of the model's leaves, it returns the model's DataStreamWriter.
4. `show()`, `collect()`, `count()` and the other actions raise Spark's error for a stream, with a note that says how to show a
   stream.
5. `explain()`, `sameSemantics()` and `semanticHash()` see the leaves that Spark's own engine would have.
6. `groupBy(...).operator(name, **options)` puts an operator that was registered (registry.py) on a stream of the model.

       table.join(stream, "k").writeStream     the model's DataStreamWriter, although `table` is a plain DataFrame
       spark.readStream ... .writeStream       Spark's DataStreamWriter

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter

from minispark_stream.engine.operators.registered_operator import with_operator
from minispark_stream.engine.plan.streaming_relation import as_in_spark, model_session_of, with_leaves_alone
from minispark_stream.readwriter import DataStreamWriter
from minispark_stream.registry import create_operator


def _write_stream(df: DataFrame) -> SparkDataStreamWriter:
    session = model_session_of(df)
    return SparkDataStreamWriter(df) if session is None else DataStreamWriter(df, session)


_WRITE_STREAM = property(_write_stream)
_ACTIONS = {name: getattr(ClassicDataFrame, name) for name in (
    "show", "collect", "count", "take", "head", "first", "tail", "isEmpty", "toLocalIterator", "toPandas", "toArrow", "toJSON",
    "foreach", "foreachPartition", "cache", "persist", "checkpoint", "localCheckpoint", "inputFiles",
)}
_HINT = (
    'Hint: a stream has rows when a query runs. df.writeStream.format("console").start() prints each batch, '
    'df.writeStream.format("memory").queryName("t").start() keeps the rows for session.table("t").show().'
)


def _with_hint(action: Callable[..., Any]) -> Callable[..., Any]:
    """An action whose error for a stream says how to show a stream, and says it once if the action calls another one."""

    @wraps(action)
    def call(df: ClassicDataFrame, *arguments: Any, **named: Any) -> Any:
        try:
            return action(df, *arguments, **named)
        except AnalysisException as error:
            if df.isStreaming and _HINT not in getattr(error, "__notes__", ()):
                error.add_note(_HINT)
                error._desc = with_leaves_alone(df, error._desc)  # type: ignore[attr-defined]
            raise

    return call


def _looking(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that looks at the plans of its DataFrames, which are shown to it with the leaves of Spark's own engine."""

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        return method(*(as_in_spark(a) if isinstance(a, ClassicDataFrame) else a for a in arguments), **named)

    return call


_LOOKING = {name: _looking(getattr(ClassicDataFrame, name)) for name in ("explain", "sameSemantics", "semanticHash")}
_HINTING = {name: _with_hint(action) for name, action in _ACTIONS.items()}


def _operator(grouped: GroupedData, name: str, **options: Any) -> DataFrame:
    """What the operator that is registered as `name` emits for these groups.

    Raises:
        AnalysisException: the name is unknown, or the DataFrame is not a stream of the model.
    """
    if model_session_of(grouped._df) is None:
        raise AnalysisException(message=f"The operator '{name}' needs a stream of a MiniSparkSession.")
    return with_operator(grouped, name, create_operator(name, options))


def let_data_frames_choose_their_engine() -> None:
    """Give PySpark's DataFrame a `writeStream` that looks at the plan; calling it again changes nothing.

    A query may begin at any DataFrame, so the engine is chosen at `writeStream`, where every query begins.
    """
    ClassicDataFrame.writeStream = _WRITE_STREAM  # type: ignore[method-assign,assignment]
    GroupedData.operator = _operator  # type: ignore[attr-defined]
    for name, method in {**_HINTING, **_LOOKING}.items():
        setattr(ClassicDataFrame, name, method)
