"""The Python functions inside Spark's expressions: take one out of a UDF, and put another one in its place.

Differs from Spark: nothing; a function is pickled as PySpark pickles it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.broadcast import Broadcast
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.udf import _wrap_function

from minispark_stream.jvm import scala
from minispark_stream.jvm.scala import JavaObject


def with_function(
    session: SparkSession, udf: JavaObject, wrap: Callable[[Any], Any], first_argument: JavaObject
) -> JavaObject:
    """A PythonUDF whose function f is `wrap(f)`, which is given one argument more, before the others."""
    name, function, data_type, children, *rest = scala.elements(udf)
    byte = scala.jvm(session).scala.reflect.ClassTag.Byte()
    command = CPickleSerializer().loads(bytes(function.command().toArray(byte)))
    f, return_type = CPickleSerializer().loads(command.value) if isinstance(command, Broadcast) else command
    made = _wrap_function(session.sparkContext, wrap(f), return_type)
    broadcasts = scala.jvm(session).java.util.ArrayList(made.broadcastVars())
    broadcasts.addAll(function.broadcastVars())
    wrapped = scala.call(
        scala.java_class(session, "org.apache.spark.api.python.SimplePythonFunction"),
        command=made.command(), envVars=made.envVars(), pythonIncludes=made.pythonIncludes(), pythonExec=made.pythonExec(),
        pythonVer=made.pythonVer(), broadcastVars=broadcasts, accumulator=made.accumulator(),
    )
    arguments = scala.seq(session, [first_argument, *scala.items(children)])
    return udf.copy(name, wrapped, data_type, arguments, *rest)
