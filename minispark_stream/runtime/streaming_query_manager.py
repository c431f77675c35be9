"""The queries of a session: start them, find them, wait for them.

Models: StreamingQueryManager and ResolveWriteToStream (Execution flow; From query to the plan).

`start_query` in order:
1. Find the checkpoint: the option, else `spark.sql.streaming.checkpointLocation`/<name>, else a temporary folder for
   sinks that may forget (memory, console, noop, foreachBatch).
2. Read or create `metadata` (the id of the query) in it.
3. Check what may not run: unsupported operations and output modes.
4. Make the query's own session: a clone with adaptive execution and cost-based optimisation off, because both may change
   the number of shuffle partitions, and there is one state store per partition.
5. A second run on one checkpoint stops the first (`stopActiveRunOnRestart`); a name may be used only once at a time.
6. Start the thread.

Differs from Spark: adaptive execution is off for every query; Spark 4.1 and later leave it on for queries without state.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkValueError, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from minispark_stream.checkpointing import stream_metadata
from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.clock import Clock, SystemClock
from minispark_stream.jvm import plans, sessions
from minispark_stream.jvm.errors import analysis_error, illegal_argument
from minispark_stream.plan.unsupported_operation_checker import check_for_streaming
from minispark_stream.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.runtime.stream_execution import StreamExecution
from minispark_stream.runtime.trigger_executor import Trigger
from minispark_stream.sinks.base import Sink
from minispark_stream.trace.recorder import NullRecorder, Recorder

logger = logging.getLogger(__name__)

# Running queries of this process by id: a checkpoint may have only one active run, whichever session started it.
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
        self._queries: dict[str, StreamExecution] = {}
        self._listeners: list[StreamingQueryListener] = []
        self._ended: list[StreamExecution] = []
        self._changed = threading.Condition(threading.RLock())

    # -- PySpark's methods --------------------------------------------------------------------------------

    @property
    def active(self) -> list[StreamExecution]:
        with self._changed:
            return list(self._queries.values())

    def get(self, id: str) -> StreamExecution | None:
        with self._changed:
            return self._queries.get(str(id))

    def awaitAnyTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        """Wait until any query has ended since `resetTerminated`; raise the error of one that failed."""
        if timeout is not None and (not isinstance(timeout, (int, float)) or timeout < 0):
            raise PySparkValueError(
                errorClass="VALUE_NOT_POSITIVE",
                messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
            )
        with self._changed:
            ended = self._changed.wait_for(lambda: bool(self._ended), timeout)
            failed = [q.exception() for q in self._ended if q.exception() is not None]
        if failed:
            error: StreamingQueryException = failed[-1]  # type: ignore[assignment]
            raise error
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

    def start_query(
        self,
        df: DataFrame,
        sink: Sink,
        name: str | None,
        output_mode: str,
        trigger: Trigger,
        options: Mapping[str, str],
        *,
        temporary_checkpoint: bool,
        recover_from_checkpoint: bool = True,
    ) -> StreamExecution:
        """Create and start a query.

        Args:
            temporary_checkpoint: the sink may do without a checkpoint that outlives the query.
            recover_from_checkpoint: False for a sink that lost its rows with its process.

        Raises:
            AnalysisException: an operation or output mode that streams do not support, or no checkpoint.
            IllegalArgumentException: the name is taken.
        """
        analyzed = plans.analyzed(df)
        checkpoint, temporary = self._checkpoint(options, name, temporary_checkpoint)  # (1)
        if not recover_from_checkpoint and CheckpointFileManager(checkpoint).exists("offsets"):
            raise analysis_error(self._session, "_LEGACY_ERROR_TEMP_1299", checkpointPath=f"{checkpoint}/offsets")
        if self._session.conf.get("spark.sql.streaming.unsupportedOperationCheck") != "false":
            check_for_streaming(self._session, analyzed, output_mode)  # (3)
        query_id = stream_metadata.read_or_create(checkpoint, partial(sessions.conf, self._session))  # (2)
        recorder = NullRecorder() if self._trace == "off" else Recorder(self._trace)
        with recorder.step(
            "startQuery", name=name, outputMode=output_mode, sink=sink.description, checkpoint=checkpoint
        ) as step:
            query = MicroBatchExecution(
                self._stream_session(), query_id, name, checkpoint, temporary, self._post, analyzed, sink, output_mode,  # (4)
                trigger, self._clock, recorder,
            )
            self._register(query)  # (5)
            step.out(id=query.id, runId=query.runId, plan=analyzed.toString())
        query.start()  # (6)
        return query

    def _checkpoint(self, options: Mapping[str, str], name: str | None, temporary_allowed: bool) -> tuple[str, bool]:
        root = self._session.conf.get("spark.sql.streaming.checkpointLocation", None)
        if location := options.get("checkpointlocation"):
            return CheckpointFileManager(location).root, False
        if root:
            return CheckpointFileManager(f"{root.rstrip('/')}/{name or uuid.uuid4()}").root, False
        if temporary_allowed:
            return CheckpointFileManager(tempfile.mkdtemp(prefix="temporary-")).root, True
        raise analysis_error(
            self._session, "_LEGACY_ERROR_TEMP_1298", config="spark.sql.streaming.checkpointLocation"
        )

    def _stream_session(self) -> SparkSession:
        clone = sessions.cloned(self._session)
        clone.conf.set("spark.sql.adaptive.enabled", "false")
        clone.conf.set("spark.sql.cbo.enabled", "false")
        return clone

    def _register(self, query: StreamExecution) -> None:
        with self._changed:
            if query.name is not None and any(q.name == query.name for q in self._queries.values()):
                raise illegal_argument(
                    f"Cannot start query with name {query.name} as a query with that name is already active in this "
                    "SparkSession"
                )
        with _active_runs_lock:
            running = _active_runs.get(query.id)
        if running is not None and running.isActive:
            if self._session.conf.get("spark.sql.streaming.stopActiveRunOnRestart") == "false":
                raise AnalysisException(
                    message=f"Cannot start query with id {query.id} as another query with same id is already active. Perhaps "
                    "you are attempting to restart a query from checkpoint that is already active. You may stop the old "
                    'query by setting the SQL configuration: spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", true)'
                    " and retry."
                )
            logger.warning("Stopping existing streaming query [id=%s, runId=%s], as a new run is being started.", running.id,
                           running.runId)
            running.stop()
        with _active_runs_lock:
            _active_runs[query.id] = query
        with self._changed:
            self._queries[query.id] = query

    def _post(self, kind: str, event: dict[str, Any]) -> None:
        """Tell every listener, and keep the books when a query ends. A listener's error is its own."""
        if kind == "terminated":
            with _active_runs_lock:
                if (run := _active_runs.get(event["id"])) is not None and run.runId == event["runId"]:
                    del _active_runs[event["id"]]
            with self._changed:
                query = self._queries.get(event["id"])
                if query is not None and query.runId == event["runId"]:
                    del self._queries[event["id"]]
                    self._ended.append(query)
                self._changed.notify_all()
        for listener in list(self._listeners):
            try:
                if kind == "progress":
                    listener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(event)))
                else:
                    event_class, method = _EVENTS[kind]
                    getattr(listener, method)(event_class.fromJson(event))  # type: ignore[attr-defined]
            except Exception:
                logger.warning("Listener %s threw an exception", listener, exc_info=True)
