"""How the failure of a query is reported.

Models: StreamExecution.runStream, where an error becomes a `StreamingQueryException`, and PySpark's view of that.

One failure has three faces:
1. `awaitTermination()` raises it under the condition STREAM_FAILED, with the message of what went wrong inside of its own.
2. `exception()` returns it without a condition: PySpark puts that one together from the texts of Spark's error.
3. The listeners get the condition of what went wrong, if it has one, and its stack trace.

    a UDF raises       (1) "[STREAM_FAILED] Query [id = ...] terminated with exception: [PYTHON_EXCEPTION] ... SQLSTATE: XXKST"
    ValueError("no")   (2) "[PYTHON_EXCEPTION] ..."
                       (3) PYTHON_EXCEPTION, "org.apache.spark.api.python.PythonException: ... at ..."

Of a foreachBatch function that fails, (2) and the stack trace of (3) show the user's own error; the message in (1) and the
condition in (3) are the sink's.

Differs from Spark: an error that Python code of the driver raised has Python's stack trace, because it was never in the JVM;
Spark wraps it in its own errors, with Java's stack trace.
Shown by tests/unit/engine/runtime/test_stream_execution.py::test_the_cause_of_a_foreach_batch_error_is_the_users_own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors.exceptions import captured

from minispark_stream.engine.jvm.errors import as_captured, condition_of
from minispark_stream.engine.sinks.foreach_batch import ForeachBatchUserFunctionError

_CONDITION, _SQL_STATE = "STREAM_FAILED", "XXKST"


class StreamingQueryException(captured.StreamingQueryException):
    """What `awaitTermination()` raises: PySpark's exception, with the condition that Spark's has."""

    def __init__(self, message: str, where: str, stack_trace: str, parameters: dict[str, str]):
        self._message_parameters = parameters
        self._own_message = f"[{_CONDITION}] {message} SQLSTATE: {_SQL_STATE}"
        super().__init__(f"{self._own_message}\n{where}", stack_trace)

    def getCondition(self) -> str:  # noqa: N802
        return _CONDITION

    def getSqlState(self) -> str:  # noqa: N802
        return _SQL_STATE

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802
        return dict(self._message_parameters)

    def getMessage(self) -> str:  # noqa: N802
        return self._own_message


@dataclass(frozen=True)
class StreamFailure:
    """What ended a run: `error`, and `where` it happened: the query, its offsets and its plan."""

    query_id: str
    run_id: str
    error: BaseException
    where: str

    @property
    def message(self) -> str:
        return _message(as_captured(self.error))

    @property
    def cause(self) -> BaseException:
        """The user's own error instead of the one that the foreachBatch sink makes of it."""
        own = self.error.__cause__ if isinstance(self.error, ForeachBatchUserFunctionError) else None
        return own or self.error

    def raised(self) -> StreamingQueryException:  # (1)
        parameters = {"id": self.query_id, "runId": self.run_id, "message": self.message}
        text = f"Query [id = {self.query_id}, runId = {self.run_id}] terminated with exception: {self.message}"
        failed = StreamingQueryException(text, self.where, self.stack_trace, parameters)
        failed._cause = as_captured(self.cause)
        failed.__cause__ = self.cause
        return failed

    def returned(self) -> captured.StreamingQueryException:  # (2)
        cause = as_captured(self.cause)
        failed = captured.StreamingQueryException(f"{_message(cause)}\n{self.where}", self.stack_trace)
        failed._cause = cause
        failed.__cause__ = self.cause
        return failed

    @property
    def condition(self) -> str | None:  # (3)
        return condition_of(self.error)

    @property
    def stack_trace(self) -> str:
        return as_captured(self.cause)._stackTrace


def session_stopped(error: BaseException) -> RuntimeError:
    """What to say instead of what went wrong when the query went on without a Spark."""
    stopped = RuntimeError(
        "The SparkSession was stopped while the query was running. What is committed stays: start the query again with a new "
        "session, and call stop() on a query before spark.stop()."
    )
    stopped.__cause__ = error
    return stopped


def _message(error: captured.CapturedException) -> str:
    """The message alone; PySpark puts the class before that of an error that it does not know."""
    words = error._desc
    return words.split(": ", 1)[-1] if isinstance(error, captured.UnknownException) else words
