"""The queries of a session: start them, find them, wait for them.

Models: StreamingQueryManager (Execution flow; From query to the plan).

`_start_query` in order:
1. Find the checkpoint, and refuse what may not run (engine/runtime/write_to_stream.py).
2. Create the query's own session: a clone without adaptive execution and cost-based optimisation, because both may change
   the number of shuffle partitions, and there is one state store per partition. Unions keep the partitions of their inputs,
   because the two sides of a join must meet in the partition of their key.
3. Create the run, with the engine that the trigger asks for. Nothing is planned yet: what Spark's optimizer or the model
   refuses ends the first batch.
4. A second run on one checkpoint stops the first (`stopActiveRunOnRestart`); two running queries cannot have the same name.
5. Start the thread.

Differs from Spark: adaptive execution is off for every query, as in the documents; Spark 4.1 and later leave it on for queries
without state. For these, Spark may find out while a batch runs that a part of its plan will give no rows (`NOT IN` over a table
with a null); then it does not read the stream for that part, and numInputRows is smaller. The conf
`triggerAvailableNowWrapper.enabled` has no effect: a source that does not know where to stop is run as one batch.
Shown by tests/spark/test_differences.py::test_batches_are_not_adaptive.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery as SparkStreamingQuery
from pyspark.sql.streaming import StreamingQueryManager as SparkStreamingQueryManager
from pyspark.sql.streaming.listener import StreamingQueryListener

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import expressions, plans, sessions
from minispark_stream.engine.jvm.errors import illegal_argument, java_error, spark_error
from minispark_stream.engine.jvm.progress import progress_of
from minispark_stream.engine.jvm.queries import ask
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime import real_time_mode
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.stream_failure import StreamFailure
from minispark_stream.engine.runtime.trigger_executor import ContinuousTrigger, RealTimeTrigger
from minispark_stream.engine.runtime.unsupported_confs import check_confs
from minispark_stream.engine.runtime.write_to_stream import WriteToStream, resolve_write_to_stream
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.streaming_query import StreamingQuery, check_timeout
from minispark_stream.streaming_query_listener_bus import StreamingQueryListenerBus

if TYPE_CHECKING:
    from minispark_stream.lens.trace.recorder import Recorder

logger = logging.getLogger(__name__)

# The running queries of this process by id, because a checkpoint may have only one active run, whichever session started it
# (Spark: SharedState.activeStreamingQueries). A query is removed when it ends. The lock also guards the books of every manager.
_active_runs: dict[str, StreamExecution] = {}
_active_runs_lock = threading.RLock()

NO_LINES = "the lines of the query cannot be shown"


class StreamingQueryManager(SparkStreamingQueryManager):
    """`session.streams`: PySpark's StreamingQueryManager over this engine.

    Args:
        session: the model session that the manager belongs to.
        clone: makes a session for a query from that session.
        trace: "off", "steps", "rows" or "code": what new queries record.
        clock: the clock of the queries.
    """

    def __init__(self, session: SparkSession, clone: Callable[[], SparkSession], trace: str, clock: Clock):
        self._session = session
        self._clone = clone
        self._trace = trace
        self._clock = clock
        self._queries: dict[str, StreamingQuery] = {}
        self._bus = StreamingQueryListenerBus(partial(progress_of, session))
        self._any_ended = False  # since resetTerminated
        self._last_failure: StreamFailure | None = None
        self._changed = threading.Condition(_active_runs_lock)

    # -- PySpark's methods --------------------------------------------------------------------------------

    @property
    def active(self) -> list[SparkStreamingQuery]:
        with self._changed:
            return [query for query in self._queries.values() if not query._execution.terminated.is_set()]

    def get(self, id: str) -> SparkStreamingQuery | None:
        """The active query with this id, or None. Raises IllegalArgumentException: `id` is not a UUID."""
        asked: Any = id
        if not isinstance(asked, str):
            ask(self._session, "streams", "get", asked)  # raises, but for None: whether that is a text or a UUID, py4j chooses
            return None
        known = _uuid(id)
        return next((query for query in self.active if query.id == known), None)

    def awaitAnyTermination(self, timeout: int | None = None) -> bool | None:
        """Wait until any query has ended since `resetTerminated`; raise the error of one that failed."""
        check_timeout(timeout, zero_allowed=True)
        with self._changed:
            ended = self._changed.wait_for(lambda: self._any_ended, timeout)
            failure = self._last_failure
        if failure is not None:
            raise failure.raised()
        return ended if timeout is not None else None

    def resetTerminated(self) -> None:
        """Forget the queries that have ended."""
        with self._changed:
            self._any_ended, self._last_failure = False, None

    def addListener(self, listener: StreamingQueryListener) -> None:
        self._bus.add(listener)

    def removeListener(self, listener: StreamingQueryListener) -> None:
        self._bus.remove(listener)

    # -- starting ---------------------------------------------------------------------------------------------

    def _start_query(self, df: DataFrame, sink: Sink, **asked: Any) -> StreamingQuery:
        """Create and start a query.

        Args:
            asked: the arguments of `resolve_write_to_stream`: output_mode, trigger, name, options and more.

        Raises:
            AnalysisException: an operation or output mode that streams do not support, or no checkpoint.
            IllegalArgumentException: the name is taken.
            JavaError: IllegalStateException, the checkpoint has an active run, and `stopActiveRunOnRestart` is false.
            SparkRuntimeException: another run has just been started on the checkpoint.
        """
        from minispark_stream.lens.recording.previews import harmless
        from minispark_stream.lens.trace.recorder import Recorder
        from minispark_stream.lens.trace.written import written_by_caller

        sink.begin()
        write = resolve_write_to_stream(self._session, analyzed=plans.analyzed(df), sink=sink, **asked)  # (1)
        check_confs(self._session)
        recorder = Recorder(self._trace)
        observer = self._observer(recorder)
        with observer.step("startQuery", write, sink=sink) as ended:
            execution = self._create_execution(write, observer)  # (2), (3)
            query = StreamingQuery(execution, recorder, None if self._trace == "off" else harmless(written_by_caller, NO_LINES))
            try:
                self._register(query, execution)  # (4)
            except BaseException:
                execution.release()
                raise
            ended(execution)
        try:
            execution.start()  # (5)
        except BaseException:
            self._unregister(execution)
            raise
        return query

    def _observer(self, recorder: Recorder) -> Observer:
        if self._trace == "off":
            return Observer()
        if self._trace == "code":
            from minispark_stream.lens.recording.code_observer import CodeObserver

            return CodeObserver(recorder, self._session)
        from minispark_stream.lens.recording.recording_observer import RecordingObserver

        return RecordingObserver(recorder)

    def _create_execution(self, write: WriteToStream, observer: Observer) -> StreamExecution:
        """The engine that the trigger asks for; if the sink supports batches only, the micro-batch engine, which refuses."""
        session = self._stream_session()
        if isinstance(write.trigger, ContinuousTrigger) and write.sink.supports_continuous:
            from minispark_stream.extras.continuous.continuous_execution import ContinuousExecution  # and with it, pandas

            schema = expressions.python_schema(write.analyzed.schema())
            streaming_write = partial(write.sink.streaming_write, self._session, schema)
            return ContinuousExecution(
                streaming_write, write, session=session, clock=self._clock, observer=observer, on_event=self._post
            )
        if isinstance(write.trigger, RealTimeTrigger):
            from minispark_stream.extras.real_time import real_time_execution

            real_time_mode.set_soft_defaults(session)
            is_async = write.tracks_progress_async
            real_time = real_time_execution.AsyncRealTimeExecution if is_async else real_time_execution.RealTimeExecution
            return real_time(session, write, self._clock, observer, self._post)
        if write.tracks_progress_async:
            from minispark_stream.extras.async_progress_tracking.async_progress_tracking_micro_batch_execution import (
                AsyncProgressTrackingMicroBatchExecution,
            )

            return AsyncProgressTrackingMicroBatchExecution(session, write, self._clock, observer, self._post)
        return MicroBatchExecution(session, write, self._clock, observer, self._post)

    def _stream_session(self) -> SparkSession:
        clone = self._clone()
        clone.conf.set("spark.sql.adaptive.enabled", "false")
        clone.conf.set("spark.sql.cbo.enabled", "false")
        clone.conf.set("spark.sql.unionOutputPartitioning", "true")
        sessions.tune_session(clone)
        return clone

    def _register(self, query: StreamingQuery, execution: StreamExecution) -> None:
        running = self._reserve(query, execution)
        if running is not None and running.started.is_set():  # before, it cannot leave the books
            logger.warning("Stopping existing streaming query [id=%s, runId=%s], as a new run is being started.", running.id,
                           running.run_id)
            running.stop()  # not under the lock, which it needs to leave the books
            running = self._reserve(query, execution)
        if running is not None:
            raise spark_error(self._session, SparkRuntimeException, "CONCURRENT_QUERY")

    def _reserve(self, query: StreamingQuery, execution: StreamExecution) -> StreamExecution | None:
        """Enter the query in the books, unless there is an active run on its checkpoint; then return that run."""
        with self._changed:
            if query.name is not None and any(other.name == query.name for other in self.active):
                raise illegal_argument(
                    f"Cannot start query with name {query.name} as a query with that name is already active in this "
                    "SparkSession"
                )
            running = _active_runs.get(query.id)
            if running is None or running.terminated.is_set():
                _active_runs[query.id] = execution
                self._queries[query.id] = query
                return None
            if not sessions.flag(self._session, "spark.sql.streaming.stopActiveRunOnRestart"):
                raise java_error(
                    self._session, "java.lang.IllegalStateException",
                    f"Cannot start query with id {query.id} as another query with same id is already active. Perhaps you "
                    "are attempting to restart a query from checkpoint that is already active. You may stop the old query by "
                    'setting the SQL configuration: spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", true) and '
                    "retry.",
                )
            return running

    def _unregister(self, execution: StreamExecution) -> None:
        with self._changed:
            if _active_runs.get(execution.id) is execution:
                del _active_runs[execution.id]
            if execution.id in self._queries and self._queries[execution.id]._execution is execution:
                del self._queries[execution.id]

    # -- events -----------------------------------------------------------------------------------------------

    def _post(self, execution: StreamExecution, kind: str, event: dict[str, Any]) -> None:
        """Tell the listeners. "ended" comes before "terminated" and goes into the books only."""
        if kind != "ended":
            self._bus.post(kind, event)
            return
        self._unregister(execution)
        with self._changed:
            if execution.failure is not None or not self._any_ended:
                self._any_ended, self._last_failure = True, execution.failure
            self._changed.notify_all()


def _uuid(text: str) -> str:
    """A UUID in its usual form; as in Java, its parts may be shorter. Raises IllegalArgumentException for any other text."""
    parts = text.split("-")
    if len(text) > 36:
        raise illegal_argument("UUID string too large")
    if not re.fullmatch(r"[0-9a-fA-F]+(-[0-9a-fA-F]+){4}", text):
        raise illegal_argument(f"Invalid UUID string: {text}")
    return "-".join(part.lower().zfill(size)[-size:] for part, size in zip(parts, (8, 4, 4, 4, 12)))
