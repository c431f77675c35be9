"""The queries of a session: start them, find them, wait for them.

Models: StreamingQueryManager (Execution flow; From query to the plan).

`start_query` in order:
1. Find the checkpoint and check what may not run (runtime/write_to_stream.py).
2. Make the query's own session: a clone with adaptive execution and cost-based optimisation off, because both may change
   the number of shuffle partitions, and there is one state store per partition. Unions keep the partitions of their inputs,
   because the two sides of a join must meet in the partition of their key.
3. Compile the plan (runtime/query_planner.py), so that what the model cannot run fails here and not on the query's thread.
4. A second run on one checkpoint stops the first (`stopActiveRunOnRestart`); a name may be used only once at a time.
5. Start the thread.

Differs from Spark: adaptive execution is off for every query; Spark 4.1 and later leave it on for queries without state.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from minispark_stream.clock import Clock, SystemClock
from minispark_stream.jvm import plans, sessions
from minispark_stream.jvm.errors import illegal_argument
from minispark_stream.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.runtime.stream_execution import StreamExecution
from minispark_stream.runtime.write_to_stream import resolve_write_to_stream
from minispark_stream.sinks.base import Sink
from minispark_stream.streaming_query import StreamingQuery, check_timeout
from minispark_stream.trace.recorder import NullRecorder, Recorder

logger = logging.getLogger(__name__)

# The running queries of this process by id, because a checkpoint may have only one active run, whichever session started it
# (Spark: SharedState.activeStreamingQueries). A query leaves when it ends.
_active_runs: dict[str, StreamExecution] = {}
_active_runs_lock = threading.Lock()

_EVENTS = {
    "started": (QueryStartedEvent, "onQueryStarted"),
    "idle": (QueryIdleEvent, "onQueryIdle"),
    "terminated": (QueryTerminatedEvent, "onQueryTerminated"),
}


class StreamingQueryManager:
    """`session.streams`, with PySpark's methods.

    Args:
        session: the wrapped Spark session.
        trace: "off", "steps" or "rows": what new queries record.
    """

    def __init__(self, session: SparkSession, trace: str = "steps", clock: Clock | None = None):
        self._session = session
        self._trace = trace
        self._clock = clock or SystemClock()
        self._queries: dict[str, StreamingQuery] = {}
        self._listeners: list[StreamingQueryListener] = []
        self._ended: list[StreamingQuery] = []
        self._changed = threading.Condition(threading.RLock())

    # -- PySpark's methods --------------------------------------------------------------------------------

    @property
    def active(self) -> list[StreamingQuery]:
        with self._changed:
            return list(self._queries.values())

    def get(self, id: str) -> StreamingQuery | None:
        with self._changed:
            return self._queries.get(str(id))

    def awaitAnyTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        """Wait until any query has ended since `resetTerminated`; raise the error of one that failed."""
        check_timeout(timeout)
        with self._changed:
            ended = self._changed.wait_for(lambda: bool(self._ended), timeout)
            failures = [error for query in self._ended if (error := query.exception()) is not None]
        if failures:
            raise failures[-1]
        return ended if timeout is not None else None

    def resetTerminated(self) -> None:  # noqa: N802
        """Forget the queries that have ended."""
        with self._changed:
            self._ended.clear()

    def addListener(self, listener: StreamingQueryListener) -> None:  # noqa: N802
        with self._changed:
            self._listeners.append(listener)

    def removeListener(self, listener: StreamingQueryListener) -> None:  # noqa: N802
        with self._changed:
            if listener in self._listeners:
                self._listeners.remove(listener)

    # -- starting ---------------------------------------------------------------------------------------------

    def start_query(self, df: DataFrame, sink: Sink, **asked: Any) -> StreamingQuery:
        """Create and start a query.

        Args:
            asked: what `resolve_write_to_stream` takes: output_mode, trigger, name, options and what the sink can do without.

        Raises:
            AnalysisException: an operation or output mode that streams do not support, or no checkpoint.
            IllegalArgumentException: the name is taken.
        """
        write = resolve_write_to_stream(self._session, analyzed=plans.analyzed(df), sink=sink, **asked)  # (1)
        recorder = NullRecorder() if self._trace == "off" else Recorder(self._trace)
        with recorder.step(
            "startQuery", name=write.name, outputMode=write.output_mode, sink=sink.description, checkpoint=write.checkpoint
        ) as step:
            execution = MicroBatchExecution(self._stream_session(), write, self._clock, recorder, self._post)  # (2), (3)
            query = StreamingQuery(execution)
            self._register(query, execution)  # (4)
            step.out(id=query.id, runId=query.runId, plan=execution.plan_text)
        execution.start()  # (5)
        return query

    def _stream_session(self) -> SparkSession:
        clone = sessions.cloned(self._session)
        clone.conf.set("spark.sql.adaptive.enabled", "false")
        clone.conf.set("spark.sql.cbo.enabled", "false")
        clone.conf.set("spark.sql.unionOutputPartitioning", "true")
        return clone

    def _register(self, query: StreamingQuery, execution: StreamExecution) -> None:
        with self._changed:
            if execution.name is not None and any(other.name == execution.name for other in self._queries.values()):
                raise illegal_argument(
                    f"Cannot start query with name {query.name} as a query with that name is already active in this "
                    "SparkSession"
                )
        with _active_runs_lock:
            running = _active_runs.get(query.id)
        if running is not None and not running.terminated.is_set():
            if self._session.conf.get("spark.sql.streaming.stopActiveRunOnRestart") == "false":
                raise AnalysisException(
                    message=f"Cannot start query with id {query.id} as another query with same id is already active. Perhaps "
                    "you are attempting to restart a query from checkpoint that is already active. You may stop the old "
                    'query by setting the SQL configuration: spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", true)'
                    " and retry."
                )
            logger.warning("Stopping existing streaming query [id=%s, runId=%s], as a new run is being started.", running.id,
                           running.run_id)
            running.stop()
        with _active_runs_lock:
            _active_runs[query.id] = execution
        with self._changed:
            self._queries[query.id] = query

    # -- events -----------------------------------------------------------------------------------------------

    def _post(self, kind: str, event: dict[str, Any]) -> None:
        """Tell every listener, and keep the books when a query ends. A listener's error is its own."""
        if kind == "terminated":
            self._unregister(event["id"], event["runId"])
        for listener in list(self._listeners):
            try:
                if kind == "progress":
                    listener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(event)))
                else:
                    event_class, method = _EVENTS[kind]
                    getattr(listener, method)(event_class.fromJson(event))  # type: ignore[attr-defined]
            except Exception:
                logger.warning("Listener %s threw an exception", listener, exc_info=True)

    def _unregister(self, query_id: str, run_id: str) -> None:
        with _active_runs_lock:
            if (run := _active_runs.get(query_id)) is not None and run.run_id == run_id:
                del _active_runs[query_id]
        with self._changed:
            query = self._queries.get(query_id)
            if query is not None and query.runId == run_id:
                del self._queries[query_id]
                self._ended.append(query)
            self._changed.notify_all()
