"""Spark's own errors, raised from Python: the class, the condition, the SQL state and the text that a Spark user knows.

    analysis_error(session, "PATH_NOT_FOUND", path="in")    [PATH_NOT_FOUND] Path does not exist: in. SQLSTATE: 42K03

An exception of the kinds in `_JAVA_CLASSES` may reach the user in a call of his own. It is made by Spark itself, so PySpark
shows it like any other exception of Spark. Exceptions of the other kinds end a query on its own thread, and users see only
their text and their condition: these are Python exceptions with Spark's text.
"""

from __future__ import annotations

import re
import traceback
from typing import TypeVar, cast

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError as JavaError  # an exception of Java for which PySpark has no class of its own
from pyspark import SparkContext
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    SparkRuntimeException,
    UnsupportedOperationException,
)
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.captured import CapturedException, UnknownException, convert_exception
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.scala import JavaObject

__all__ = [
    "JavaError", "analysis_error", "as_captured", "concurrent_queries", "concurrent_stream_log_update", "condition_of",
    "extended_analysis_error", "illegal_argument", "java_error", "spark_error", "spark_exception", "to_boolean",
]

_CALL_FAILED = "An error occurred while calling {}.\n"  # py4j's words
E = TypeVar("E", bound=PySparkException)

_JAVA_CLASSES: dict[type[PySparkException], str] = {
    AnalysisException: "AnalysisException",
    IllegalArgumentException: "SparkIllegalArgumentException",
    UnsupportedOperationException: "SparkUnsupportedOperationException",
}


def spark_error(session: SparkSession, kind: type[E], condition: str, **parameters: str) -> E:
    """An exception of class `kind` under Spark's error condition, with Spark's message for it."""
    if kind in _JAVA_CLASSES:
        return cast(E, convert_exception(_thrown(session, kind, condition, parameters)))
    helper = scala.java_class(session, "SparkThrowableHelper")
    text = helper.getMessage(condition, scala.java_class(session, "java.util.HashMap")(parameters))
    return kind(message=text.removeprefix(f"[{condition}] "), errorClass=condition, messageParameters=parameters)


def analysis_error(session: SparkSession, condition: str, *origin: JavaObject, **parameters: str) -> AnalysisException:
    """Spark's AnalysisException. With the Origin of a plan as `origin`, it says where in the SQL text the error is."""
    return cast(AnalysisException, convert_exception(_thrown(session, AnalysisException, condition, parameters, *origin)))


def extended_analysis_error(session: SparkSession, plan: JavaObject, condition: str, **parameters: str) -> AnalysisException:
    """An analysis error whose text shows the plan that it is about (ExtendedAnalysisException)."""
    extended = scala.java_class(session, "ExtendedAnalysisException")
    thrown = extended(_thrown(session, AnalysisException, condition, parameters), plan)
    return cast(AnalysisException, convert_exception(thrown))


def _thrown(
    session: SparkSession, kind: type[PySparkException], condition: str, parameters: dict[str, str], *origin: JavaObject
) -> JavaObject:
    return scala.java_class(session, _JAVA_CLASSES[kind])(condition, scala.java_map(session, parameters), *origin)


def java_error(session: SparkSession, name: str, message: str, calling: str = "start") -> JavaError:
    """A Java exception for which PySpark has no class of its own, by the name of its class; `calling` names a user's call."""
    return JavaError(_CALL_FAILED.format(calling), scala.java_class(session, name)(message))


def spark_exception(session: SparkSession, condition: str, **parameters: str) -> JavaError:
    """A SparkException, for which PySpark has no class of its own."""
    exception = scala.java_class(session, "SparkException")
    return JavaError(_CALL_FAILED.format("start"), exception(condition, scala.java_map(session, parameters), None))


def illegal_argument(message: str) -> IllegalArgumentException:
    return IllegalArgumentException(message=message)


def to_boolean(text: str | None) -> bool:
    """An option that is true or false, in any case; None is false. Raises IllegalArgumentException."""
    if text is None or text.lower() == "false":
        return False
    if text.lower() != "true":
        raise illegal_argument(f'For input string: "{text}"')
    return True


def concurrent_stream_log_update(batch_id: int) -> SparkRuntimeException:
    """The error when another run of this query has written the batch first."""
    return SparkRuntimeException(
        message=f"Concurrent update to the log. Multiple streaming jobs detected for {batch_id}. Please make sure only one "
        "streaming job runs on a specific checkpoint location at a time. SQLSTATE: 40000",
        errorClass="CONCURRENT_STREAM_LOG_UPDATE",
        messageParameters={"batchId": str(batch_id)},
    )


def concurrent_queries(session: SparkSession, path: str) -> CapturedException:
    """The error when two queries begin to use the same new checkpoint at the same moment."""
    exists = scala.java_class(session, "FileAlreadyExistsException")(f"File already exists: {path}")
    errors = scala.companion(session, "QueryExecutionErrors")
    return convert_exception(errors.multiStreamingQueriesUsingPathConcurrentlyError(path, exists))


def illegal_state(session: SparkSession, condition: str, **parameters: str) -> JavaError:
    """A SparkIllegalStateException, for which PySpark has no class of its own."""
    exception = scala.java_class(session, "SparkIllegalStateException")
    no_context = scala.gateway(session).new_array(scala.java_class(session, "QueryContext"), 0)
    made = exception(condition, scala.java_map(session, parameters), no_context, None, scala.none(session))
    return JavaError(_CALL_FAILED.format("start"), made)


def as_captured(error: BaseException) -> CapturedException:
    """An error of any origin as one of PySpark's CapturedExceptions, which have `_desc`, `_stackTrace` and `_cause`.

    An error that Spark would have raised in Java, but Python has raised here, gets PySpark's class for it. PySpark would ask
    the Java exception for its condition, but there is none, so the Python exception answers in its place.
    """
    if isinstance(error, CapturedException):
        return error
    words = type(error).__name__
    try:
        if isinstance(error, JavaError):
            return convert_exception(error.java_exception)
        words += f": {error}" if str(error) else ""
    except Exception:  # a JVM that has died can no longer say what it raised
        pass
    stack_trace = "".join(traceback.format_exception(error))
    kind = getattr(captured, type(error).__name__, None)
    if not isinstance(error, PySparkException) or kind is None or not issubclass(kind, CapturedException):
        return UnknownException(words, stack_trace)
    as_raised = kind(str(error), stack_trace)
    for answer in ("getCondition", "getMessageParameters", "getMessage"):
        setattr(as_raised, answer, getattr(error, answer))
    state = re.search(r"SQLSTATE: (\w{5})$", str(error))  # in Spark's text: Python knows the states of PySpark's own conditions
    as_raised.getSqlState = lambda: state[1] if state else error.getSqlState()
    return as_raised


def condition_of(error: BaseException) -> str | None:
    """The error condition that Spark gave an error; None if it has none, or if the JVM that knew it has died."""
    try:
        if isinstance(error, JavaError):
            raised, gateway = error.java_exception, SparkContext._gateway
            return raised.getCondition() if is_instance_of(gateway, raised, ENGINE["SparkThrowable"]) else None
        return error.getCondition() if isinstance(error, PySparkException) else None
    except Exception:
        return None
