"""A Python UDF of a continuous query: it is called for each single row, and not for markers.

Models: ArrowEvalPythonExec (Continuous processing).

1. Each UDF in an expression gets an additional first argument: the column of the markers.
2. In the worker, the user's function is called with the other arguments if this one is null. For a marker the result is null.

In a query with UDFs, each of Spark's batches is a single row. In a batch with other rows, the null of a marker would turn the
integers of a pandas Series into floating-point numbers.

    shout(k)  ->  shout'(epoch, k)        rows in (null, a) (null, b) ("0", null)        shout is called with a and b

In the JVM, a single thread writes to the worker and reads from it, unless Spark was started with
`spark.python.udf.pipelined.enabled=true`. It reads only when the socket takes no more rows or there are none left: of 100 rows
a second, none had come out of the UDF after a minute. With one thread that writes and one that reads, a row reached the sink
after 13 ms (the median, on a busy machine of 2 cores, which kept up with a few hundred rows a second).

Differs from Spark: Spark calls a UDF with as many rows as fit into a batch, so a row waits until 10,000 have arrived, or its
epoch ends; here each row is passed on at once. Without the setting, UDFs are refused; UDFs without Arrow and UDFs over an
iterator of batches are always refused.
Shown by tests/conformance/test_continuous.py::test_python_udfs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType
from pyspark.util import PythonEvalType

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import load_command
from minispark_stream.engine.plan.unsupported_nodes import expressions_named

_PIPELINED = "spark.python.udf.pipelined.enabled"
_KINDS = (
    PythonEvalType.SQL_ARROW_BATCHED_UDF, PythonEvalType.SQL_SCALAR_PANDAS_UDF, PythonEvalType.SQL_SCALAR_ARROW_UDF,
)


def without_markers(session: SparkSession, expression: JavaObject, marker: JavaObject) -> JavaObject:
    """The expression with UDFs that leave markers out; `marker` is the column of the markers.

    Raises:
        AnalysisException: there is a UDF that cannot be called row by row.
    """
    if not any(expressions_named(expression, "PythonUDF")):
        return expression
    children = [without_markers(session, child, marker) for child in scala.items(expression.children())]
    if scala.class_name(expression) != "PythonUDF":
        return expression.withNewChildren(scala.seq(session, children))
    if session.sparkContext.getConf().get(_PIPELINED) != "true":
        raise AnalysisException(
            message=f"minispark_stream requires {_PIPELINED}=true (set when Spark starts) for Python UDFs in continuous mode."
        )
    if expression.evalType() not in _KINDS:
        raise AnalysisException(
            message=f"minispark_stream supports only Arrow UDFs without iterators in continuous mode, not {expression.name()}."
        )
    returns = expressions.python_type(expression.dataType())
    command = ForRows(expressions.command(session, expression), returns)
    pickled = CloudPickleSerializer().dumps((command, returns))
    return expressions.with_command(session, expression, pickled, [marker, *children])  # (1)


@dataclass(frozen=True)
class ForRows:
    """The function that the worker calls; `command` is the user's function and its type, as Spark would send it."""

    command: bytes
    returns: DataType

    def __call__(self, marker: Any, *arguments: Any, **named: Any) -> Any:  # (2)
        match marker:
            case pa.Array() if marker.null_count == 0:
                return pa.nulls(1, to_arrow_type(self.returns))
            case pd.Series() if marker.notna().all():
                if isinstance(self.returns, StructType):
                    return pd.DataFrame([dict.fromkeys(self.returns.names)])
                return pd.Series([None])
            case str():
                return None
        return self._function(*arguments, **named)

    @cached_property
    def _function(self) -> Any:
        return load_command(self.command)
