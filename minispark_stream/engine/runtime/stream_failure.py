"""How the failure of a query is reported.

Models: StreamExecution.runStream, where an error becomes a `StreamingQueryException`, and PySpark's view of that.

A failure is reported in three ways:
1. `awaitTermination()` raises an exception with the condition STREAM_FAILED, whose message contains that of the actual error.
2. `exception()` returns an exception without a condition, which PySpark makes from the texts of Spark's error.
3. The listeners get the condition of the actual error, if it has one, and its stack trace.

    a UDF raises       (1) "[STREAM_FAILED] Query [id = ...] terminated with exception: [PYTHON_EXCEPTION] ... SQLSTATE: XXKST"
    ValueError("no")   (2) "[PYTHON_EXCEPTION] ..."
                       (3) PYTHON_EXCEPTION, "org.apache.spark.api.python.PythonException: ... at ..."

If a foreachBatch function fails, (2) and the stack trace in (3) are those of the function's error, as Spark gets it from py4j;
the message in (1) and the condition in (3) are those of the sink's error, whose reason has the same words.

A state store that cannot be loaded or written fails in a task, and the job that the sink runs fails with the error of a Python
worker. It is reported as the state's own error, which is what Spark's task raises. But if a foreachBatch function has run the
job, the error belongs to the function.

Differs from Spark: an error that was raised by Python code in the driver has Python's stack trace, because it was never in the
JVM; Spark wraps it in its own errors, with Java's stack trace.
Shown by tests/unit/engine/runtime/test_stream_execution.py::test_the_cause_of_a_foreach_batch_error_is_the_users_own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pyspark.errors.exceptions import captured

from minispark_stream.engine.jvm.errors import JavaError, as_captured, condition_of
from minispark_stream.engine.observer import error_words
from minispark_stream.engine.sinks.foreach_batch import ForeachBatchUserFunctionError
from minispark_stream.engine.state.state_store import state_error_of

_CONDITION, _SQL_STATE = "STREAM_FAILED", "XXKST"
E = TypeVar("E", bound=captured.StreamingQueryException)


class StreamingQueryException(captured.StreamingQueryException):
    """The exception that `awaitTermination()` raises: PySpark's, with the condition that Spark's exception has."""

    def __init__(self, message: str, where: str, stack_trace: str, parameters: dict[str, str]):
        self._message_parameters = parameters
        self._own_message = f"[{_CONDITION}] {message} SQLSTATE: {_SQL_STATE}"
        super().__init__(f"{self._own_message}\n{where}", stack_trace)

    def getCondition(self) -> str:
        return _CONDITION

    def getSqlState(self) -> str:
        return _SQL_STATE

    def getMessageParameters(self) -> dict[str, str]:
        return dict(self._message_parameters)

    def getMessage(self) -> str:
        return self._own_message


@dataclass(frozen=True)
class StreamFailure:
    """The `error` that ended a run, and `where` it happened: a text with the query, its offsets and its plan."""

    query_id: str
    run_id: str
    error: BaseException
    where: str

    @property
    def message(self) -> str:
        if isinstance(self.error, ForeachBatchUserFunctionError):
            return self.error.getMessage()
        return _message(as_captured(self.error))

    @property
    def cause(self) -> captured.CapturedException:
        """The error, or, if it is that of a foreachBatch function, what Spark gets of it."""
        if isinstance(self.error, ForeachBatchUserFunctionError):
            as_java = f"py4j.Py4JException: {self.error.reason}"
            return captured.UnknownException(as_java, as_java)
        return as_captured(self.error)

    def raised(self) -> StreamingQueryException:  # (1)
        parameters = {"id": self.query_id, "runId": self.run_id, "message": self.message}
        text = f"Query [id = {self.query_id}, runId = {self.run_id}] terminated with exception: {self.message}"
        return self._with_cause(StreamingQueryException(text, self.where, self.stack_trace, parameters))

    def returned(self) -> captured.StreamingQueryException:  # (2)
        text = f"{_message(self.cause)}\n{self.where}"
        return self._with_cause(captured.StreamingQueryException(text, self.stack_trace))

    def _with_cause(self, failed: E) -> E:
        """`failed` with its causes: what Spark says of the error, and, for Python's traceback, the error itself."""
        failed._cause = self.cause
        failed.__cause__ = self.error.__cause__ if isinstance(self.error, ForeachBatchUserFunctionError) else self.error
        return failed

    @property
    def condition(self) -> str | None:  # (3)
        return condition_of(self.error)

    @property
    def stack_trace(self) -> str:
        return self.cause._stackTrace


def error_of_job(error: BaseException) -> BaseException:
    """What is to be reported of `error`: if it is that of a job in which a state store failed, the error of the state store."""
    of_job = isinstance(error, (captured.PythonException, JavaError))
    return of_job and state_error_of(error, error_words(error)) or error


def session_stopped(error: BaseException) -> RuntimeError:
    """The error to report if the session was stopped, instead of `error`, which followed from that."""
    stopped = RuntimeError(
        "The SparkSession was stopped while the query was running. What is committed stays: start the query again with a new "
        "session, and call stop() on a query before spark.stop()."
    )
    stopped.__cause__ = error
    return stopped


def _message(error: captured.CapturedException) -> str:
    """The message of an error. If PySpark does not know the error, its description begins with the class."""
    words = error._desc
    return words.split(": ", 1)[-1] if isinstance(error, captured.UnknownException) else words
