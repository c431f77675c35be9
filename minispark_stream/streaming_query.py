"""A query as its user sees it: the handle that `start()` returns.

Models: StreamingQueryWrapper, the handle around a StreamExecution (Execution flow).

    query = counts.writeStream.format("memory").queryName("counts").start()
    query.status                  # {'message': 'Waiting for data to arrive', ...}
    query.processAllAvailable()
    query.lastProgress["numInputRows"]
    query.trace                   # every step of every trigger
    query.explain_output()        # why did the query emit nothing?
    query.stop()

`trace` and `explain_output` are added to the methods of Spark's handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import IllegalArgumentException, PySparkValueError, StreamingQueryException
from pyspark.sql.streaming import StreamingQuery as SparkStreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.trigger_executor import ProcessingTimeTrigger, RealTimeTrigger

if TYPE_CHECKING:
    from minispark_stream.lens.trace.recorder import Recorder
    from minispark_stream.lens.trace.trace import Trace
    from minispark_stream.tools.inspection.why_no_output import OutputExplanation


class StreamingQuery(SparkStreamingQuery):
    """PySpark's StreamingQuery over this engine."""

    def __init__(self, execution: StreamExecution, recorder: Recorder, code: str | None = None):
        self._execution, self._recorder, self._code = execution, recorder, code

    @property
    def id(self) -> str:
        """The id of the query, which its checkpoint keeps over restarts."""
        return self._execution.id

    @property
    def runId(self) -> str:
        """The id of this run."""
        return self._execution.run_id

    @property
    def name(self) -> str:
        return self._execution.name  # type: ignore[return-value]  # None without a name, as in PySpark

    @property
    def isActive(self) -> bool:
        """False as soon as `stop()` is called, even if the query's thread does not end in time."""
        return self._execution.is_active

    @property
    def status(self) -> dict[str, Any]:
        """`message`, `isDataAvailable`, `isTriggerActive`."""
        return dict(self._execution.status)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """The progress of the last triggers (`spark.sql.streaming.numRecentProgressUpdates`)."""
        return [StreamingQueryProgress.fromJson(p) for p in list(self._execution.reporter.recent)]

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        recent = self.recentProgress
        return recent[-1] if recent else None

    @property
    def trace(self) -> Trace:
        """Every step of every trigger; shown as a picture in Jupyter."""
        from minispark_stream.lens.trace.trace import Trace

        events = self._recorder.events
        return Trace(events, engine="model", name=self.name, plan=self._execution.plan_text, query=self._code)

    def explain_output(self) -> OutputExplanation:
        """Why the query emitted nothing: what is in the state, what was dropped, and what would have to arrive."""
        from minispark_stream.tools.inspection.asked import Known
        from minispark_stream.tools.inspection.why_no_output import explain_query

        execution, trigger = self._execution, self._execution.trigger
        known = Known(
            execution.checkpoint, execution.output_mode, execution.plan_text,
            interval_ms=trigger.interval_ms if isinstance(trigger, ProcessingTimeTrigger) else 0,
            real_time_ms=trigger.batch_ms if isinstance(trigger, RealTimeTrigger) else 0, sink=type(execution.sink).__name__,
        )
        return explain_query(self, known, self._recorder.events)

    def exception(self) -> StreamingQueryException | None:
        """The error that ended the query, if one did."""
        failure = self._execution.failure
        return None if failure is None else failure.returned()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end of the query; raise its error if it failed.

        Args:
            timeout: the most seconds to wait; then the return value says whether the query has ended.

        Raises:
            StreamingQueryException: the query ended with an error.
            JavaError: IllegalStateException, the thread that calls this is the query's own.
            PySparkValueError, IllegalArgumentException: `timeout` is not positive, or less than a millisecond.
        """
        check_timeout(timeout, zero_allowed=False)
        self._execution.check_other_thread("awaitTermination")
        if timeout is not None and int(timeout * 1000) == 0:
            raise IllegalArgumentException("requirement failed: Timeout has to be positive")
        self._execution.terminated.wait(timeout)
        self._raise_failure()
        return not self.isActive if timeout is not None else None

    def processAllAvailable(self) -> None:
        """Wait until all data that was available at the time of the call has been processed.

        Raises:
            StreamingQueryException: the query ended with an error meanwhile.
            JavaError: IllegalStateException, the thread that calls this is the query's own.
        """
        execution = self._execution
        execution.check_other_thread("processAllAvailable")
        with execution.progress_lock:
            execution.progress_lock.no_new_data = False
            while not execution.progress_lock.no_new_data and self.isActive:
                execution.progress_lock.wait(0.1)
        self._raise_failure()

    def stop(self) -> None:
        """End the query: cancel its jobs and wait for its thread (`spark.sql.streaming.stopTimeout`, 0 = forever)."""
        self._execution.stop()

    def explain(self, extended: bool = False) -> None:
        """Print the physical plan of the last batch, or of the continuous job; if `extended`, the logical plans first."""
        self._execution.explain(extended)

    def _raise_failure(self) -> None:
        if self._execution.failure is not None:
            raise self._execution.failure.raised()


def check_timeout(timeout: float | None, zero_allowed: bool) -> None:
    """Raises PySparkValueError: `timeout` is not a number of seconds that one can wait."""
    if timeout is not None and (not isinstance(timeout, (int, float)) or timeout < 0 or timeout == 0 and not zero_allowed):
        raise PySparkValueError(
            errorClass="VALUE_NOT_POSITIVE",
            messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
        )
