"""A query while it runs: its thread, what it reads and writes, and how it ends.

Models: StreamExecution (Execution flow: "start ... a separate thread to run the streaming query").

    INITIALIZING --thread runs--> ACTIVE --stop(), end of a Once or AvailableNow run, or an error--> TERMINATED

1. `start` starts the thread, which tells the listeners "started" and runs the engine (`run_activated_stream`).
2. Any error on the thread ends the query. Users see it as StreamingQueryException [STREAM_FAILED] with the cause's message
   (stream_failure.py).
3. At the end, the sources are released, threads that wait for the query are woken, and the listeners are told "terminated".

    a sink raises OSError("disk full")  ->  [STREAM_FAILED] Query [id = ...] terminated with exception: disk full

The stages of the loop (run_batch.py and its neighbours) only use the parts of this object that running_query.py declares. What
is known of the current batch is in `context`.

Differs from Spark: a Python thread cannot be interrupted, so `stop()` cancels the Spark jobs of the query, including those
that it would still start, and waits for the current Python call (a source, a foreachBatch function) to return.
Shown by tests/conformance/test_ending.py::test_stop_cancels_the_jobs_that_begin_later.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqLog, OffsetSeqMetadata
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.gauges import gauges
from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import as_captured, java_error
from minispark_stream.engine.jvm.metrics_system import Gauges
from minispark_stream.engine.observer import Ended, Observer, error_words
from minispark_stream.engine.plan.streaming_relation import described
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.maintenance_task import SLICE_S, MaintenanceJobs, MaintenanceTask
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext, Offsets
from minispark_stream.engine.runtime.progress_reporter import ProgressReporter
from minispark_stream.engine.runtime.query_planner import QueryPlanner
from minispark_stream.engine.runtime.running_query import ProgressLock, QuerySources
from minispark_stream.engine.runtime.stream_failure import StreamFailure, error_of_job, session_stopped
from minispark_stream.engine.runtime.write_to_stream import WriteToStream, delete_temporary_checkpoint
from minispark_stream.engine.sinks.base import QUERY_ID_KEY
from minispark_stream.engine.state.maintenance import MaintenanceRound, Partition
from minispark_stream.engine.times import iso_time

logger = logging.getLogger(__name__)

IS_CONTINUOUS_KEY = "__is_continuous_processing"  # a local property, which tasks can ask for

Announce = Callable[["StreamExecution", str, dict[str, Any]], None]


class QueryStopped(Exception):
    """Ends a run after `stop()`; users never see it."""


class StreamExecution(ABC):
    """One run of one query.

    Args:
        session: the query's own session.
        write: what the query computes, and where it writes.
        observer: is told of each step.
        on_event: is called with the events of this run ("started", "progress", "idle", "ended", "terminated") and their values.
    """

    is_continuous = False

    def __init__(self, session: SparkSession, write: WriteToStream, clock: Clock, observer: Observer, on_event: Announce):
        self.session = session
        self.id = write.query_id
        self.run_id = str(uuid.uuid4())
        self.name = write.name
        self.checkpoint = write.checkpoint
        self.analyzed = write.analyzed
        self.plan_text = described(session, write.analyzed)
        self.sink = observer.sink(write.sink)
        self.output_mode = write.output_mode
        self.trigger = write.trigger
        self.clock = clock
        self.observer = observer
        keep = int(self.conf("spark.sql.streaming.numRecentProgressUpdates") or 100)
        self.reporter = ProgressReporter(keep, id=self.id, runId=self.run_id, name=self.name)
        self.offset_log = OffsetSeqLog(f"{self.checkpoint}/offsets")
        self.commit_log = CommitLog(f"{self.checkpoint}/commits")
        self.planner = QueryPlanner(
            session, write.analyzed, write.output_mode, f"{self.checkpoint}/state", self.run_id, observer
        )
        self.no_data_batches_enabled = sessions.flag(session, "spark.sql.streaming.noDataMicroBatches.enabled")
        self.min_batches_to_retain = int(self.conf("spark.sql.streaming.minBatchesToRetain") or 100)
        self.polling_delay_s = self.conf_ms("spark.sql.streaming.pollingDelay") / 1000
        self.idle_interval_ms = self.conf_ms("spark.sql.streaming.noDataProgressEventInterval")
        self.sources = QuerySources()
        self.context = MicroBatchExecutionContext(metadata=OffsetSeqMetadata.from_session(self.conf))
        self.maintenance: MaintenanceTask | None = None

        self.status = {"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}
        self.failure: StreamFailure | None = None
        self.stop_requested = threading.Event()
        self.terminated = threading.Event()
        self.progress_lock = ProgressLock()
        self._user_session = write.session
        self._temporary_checkpoint = write.temporary
        self._force_delete = sessions.flag(session, "spark.sql.streaming.forceDeleteTempCheckpointLocation")
        self.started = threading.Event()
        self._on_event = on_event
        self._thread = InheritableThread(
            target=self._run_stream, name=f"stream execution thread for {self.name or self.id}", daemon=True
        )

    @abstractmethod
    def run_activated_stream(self) -> None:
        """Run until the query ends."""

    @abstractmethod
    def explain(self, extended: bool) -> None:
        """Print the last physical plan; if `extended`, the logical plans before it."""

    def release(self) -> None:
        """Stop the sources."""
        for source in self.sources:
            self.attempt(source.stop)

    # -- what the engine asks for -------------------------------------------------------------------------

    def conf(self, key: str) -> str | None:
        """A conf of this query's session (or its default); None if there is neither."""
        return sessions.conf(self.session, key)

    def conf_ms(self, key: str) -> int:
        """A conf that is a time ("60s", "200ms"), in milliseconds."""
        return sessions.conf_ms(self.session, key)

    def described(self, batch: str) -> str:
        return f"{self.name or ''}\nid = {self.id}\nrunId = {self.run_id}\nbatch = {batch}"

    def pipelines(self) -> dict[str, Any]:
        """What tasks that ran at the same time have told of their rows, for whoever explains the batch."""
        return {}

    def update_status(self, **changes: Any) -> None:
        self.status = {**self.status, **changes}

    def announce(self, kind: str, **event: Any) -> None:
        """Tell the manager of the queries of an event. It passes all of them but "ended" on to the listeners."""
        self._on_event(self, kind, event)

    def start_maintenance(self, execution: IncrementalExecution) -> None:
        """From now on, write snapshots and delete old files in the background, if the batch has state."""
        batch, partitions = execution.batch, execution.partitions
        if self.maintenance is not None:
            self.maintenance.partitions |= partitions  # not all operators need be in every batch
        if self.maintenance is not None or not partitions:
            return

        def ask_for(partitions: tuple[Partition, ...], may_read: bool) -> MaintenanceRound:
            now = self.context  # batch N begins with version N
            ids = now.unique_ids or {}
            return MaintenanceRound(batch.state_dir, batch.state_conf, now.batch_id, partitions, may_read, SLICE_S, ids)

        interval = self.conf_ms("spark.sql.streaming.stateStore.maintenanceInterval")
        words = self.described("maintenance")
        jobs = MaintenanceJobs(self.session, f"{self.run_id} maintenance", words, ask_for)
        self.maintenance = MaintenanceTask(partitions, jobs, interval, self._step)
        self.maintenance.start()

    def _step(self, name: str, **arguments: Any) -> AbstractContextManager[Ended]:
        return self.observer.step(name, self, **arguments)

    # -- the thread -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread and return when the query has been announced to listeners."""
        self._thread.start()
        self.started.wait()

    def stop(self) -> None:
        """End the query: cancel its jobs and wait for its thread (`spark.sql.streaming.stopTimeout`, 0 = forever)."""
        self.stop_requested.set()
        if self._thread.is_alive() and not self.is_current_thread():
            sessions.cancel_jobs(self.session, self.run_id)
            timeout_ms = sessions.conf_ms(self._user_session, "spark.sql.streaming.stopTimeout")
            self._thread.join(timeout_ms / 1000 if timeout_ms > 0 else None)
            if self._thread.is_alive():
                words = f"Stream Execution thread for stream {self._pretty()} failed to stop within {timeout_ms} milliseconds"
                words += " (specified by spark.sql.streaming.stopTimeout). See the cause on what was being executed in the "
                words += "streaming query thread."
                raise java_error(self.session, "java.util.concurrent.TimeoutException", words, "stop")

    @property
    def is_active(self) -> bool:
        """Whether the run goes on. It does not once `stop()` has been called, even if the thread does not end in time."""
        return not (self.stop_requested.is_set() or self.terminated.is_set())

    def check_not_stopped(self) -> None:
        """Raises QueryStopped after `stop()`."""
        if self.stop_requested.is_set():
            raise QueryStopped("stop() was called")

    def check_other_thread(self, calling: str) -> None:
        """Raises JavaError (IllegalStateException) on the query's own thread: whoever waits there waits for ever.

        Args:
            calling: the method that would wait.
        """
        if self.is_current_thread() and not self.terminated.is_set():
            words = "Cannot wait for a query state from the same thread that is running the query"
            raise java_error(self.session, "java.lang.IllegalStateException", words, calling)

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _run_stream(self) -> None:  # (1)
        try:
            sessions.set_active_session(self.session)
            self.session.sparkContext.setJobGroup(self.run_id, self.described("init"), interruptOnCancel=True)
            self.session.sparkContext.setLocalProperty(QUERY_ID_KEY, self.id)
            self.session.sparkContext.setLocalProperty(IS_CONTINUOUS_KEY, str(self.is_continuous).lower())
            if sessions.flag(self.session, "spark.sql.streaming.metricsEnabled"):
                self.reporter.gauges = Gauges(self.session, f"spark.streaming.{self.name or self.id}", gauges({}))
            now = iso_time(self.clock.get_time_millis())
            self.announce("started", id=self.id, runId=self.run_id, name=self.name, timestamp=now)
            self.started.set()
            self.run_activated_stream()
        except BaseException as e:  # (2)
            words = error_words(e)
            if self._is_interrupted_by_stop(e):
                logger.info("Query %s was stopped: %s", self._pretty(), words)
            else:
                logger.error("Query %s terminated with error", self._pretty(), exc_info=True)
                error = session_stopped(e) if sessions.is_stopped(self.session) else error_of_job(e)
                self.failure = StreamFailure(self.id, self.run_id, error, self._where())
        finally:
            self.started.set()
            self._finish()

    def _is_interrupted_by_stop(self, error: BaseException) -> bool:
        """Whether an error is due to `stop()`: the error of a job that it cancelled says so, and names the job group."""
        told = as_captured(error)._stackTrace if self.stop_requested.is_set() else ""
        return isinstance(error, QueryStopped) or "cancelled" in told and self.run_id in told

    def attempt(self, stop_one: Callable[[], None]) -> None:
        """Stop one thing. An error is only logged, so that the other things are stopped, too."""
        try:
            stop_one()
        except Exception:
            logger.warning("Failed to stop all of %s", self._pretty(), exc_info=True)

    def _finish(self) -> None:  # (3)
        if self.maintenance is not None:
            self.attempt(self.maintenance.stop)
        if self.reporter.gauges is not None:
            self.attempt(self.reporter.gauges.remove)
        self.attempt(self.planner.stop)
        self.attempt(self.release)
        failure = self.failure
        self.update_status(
            message="Stopped" if failure is None else f"Terminated with exception: {failure.message}",
            isDataAvailable=False, isTriggerActive=False,
        )
        if self._temporary_checkpoint and (failure is None or self._force_delete):
            delete_temporary_checkpoint(self.checkpoint.removeprefix("file:"))
        self.announce("ended")
        self.terminated.set()
        with self.progress_lock:
            self.progress_lock.notify_all()
        self.announce(
            "terminated", id=self.id, runId=self.run_id, exception=failure and failure.stack_trace,
            errorClassOnException=failure and failure.condition,
        )

    def _where(self) -> str:
        """A description of the query and how far it has come; it does not ask the JVM, which may have died."""
        state, plan = ("ACTIVE", f"\n\nLogical Plan:\n{self.plan_text}") if self.sources.sources else ("INITIALIZING", "")
        return (
            f"=== Streaming Query ===\nIdentifier: {self._pretty()}\n"
            f"Current Committed Offsets: {_stream_progress(self.sources, self.context.start_offsets)}\n"
            f"Current Available Offsets: {_stream_progress(self.sources, self.context.end_offsets)}\n\nCurrent State: {state}\n"
            f"Thread State: RUNNABLE{plan}"
        )

    def _pretty(self) -> str:
        return f"{self.name or ''} [id = {self.id}, runId = {self.run_id}]".strip()


def _stream_progress(sources: QuerySources, offsets: Offsets) -> str:
    """Offsets as Spark's StreamProgress prints them."""
    return f"{{{', '.join(f'{sources[i].description}: {offset}' for i, offset in sorted(offsets.items()))}}}"
