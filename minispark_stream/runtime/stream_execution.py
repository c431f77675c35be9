"""A running query: its thread, its state, and the handle that users hold.

Models: StreamExecution and StreamingQuery (Execution flow: "start ... a separate thread to run the streaming query").

    INITIALIZING --thread runs--> ACTIVE --stop(), end of a Once or AvailableNow run, or an error--> TERMINATED

Whatever is raised on the thread ends the query and comes out of `awaitTermination()` and `exception()` as
StreamingQueryException [STREAM_FAILED] with the cause's message.

Differs from Spark: a Python thread cannot be interrupted, so `stop()` cancels the Spark jobs of the query and waits for
the current Python call (a source, a foreachBatch function) to return.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import traceback
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pyspark import InheritableThread
from pyspark.errors import PySparkValueError, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from minispark_stream.jvm import sessions, times
from minispark_stream.sinks.base import QUERY_ID_KEY
from minispark_stream.trace.trace import Trace

logger = logging.getLogger(__name__)


class StreamExecution(ABC):
    """What every kind of query has: identity, thread, status, end. Public methods are PySpark's StreamingQuery."""

    def __init__(
        self,
        session: SparkSession,
        query_id: str,
        name: str | None,
        checkpoint: str,
        delete_checkpoint_on_stop: bool,
        on_event: Callable[[str, dict[str, Any]], None],
    ):
        self.session = session
        self.checkpoint = checkpoint
        self._id = query_id
        self._run_id = str(uuid.uuid4())
        self._name = name
        self._delete_checkpoint_on_stop = delete_checkpoint_on_stop
        self._on_event = on_event
        self._status = {"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}
        self._exception: StreamingQueryException | None = None
        self._stop_requested = threading.Event()
        self._terminated = threading.Event()
        self._started = threading.Event()
        self.progress_lock = threading.Condition(threading.RLock())
        self.no_new_data = False
        self._thread = InheritableThread(
            target=self._run_stream, name=f"stream execution thread for {name or self._id}", daemon=True
        )

    # -- what a kind of query does ----------------------------------------------------------------

    @abstractmethod
    def run_activated_stream(self) -> None:
        """Run until the query ends."""

    @abstractmethod
    def stop_sources(self) -> None:
        """Release the sources."""

    @abstractmethod
    def describe(self) -> str:
        """Offsets and plan, for error messages."""

    @property
    @abstractmethod
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """The progress of the last triggers (`spark.sql.streaming.numRecentProgressUpdates`)."""

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """Every step of every trigger; draws itself in Jupyter."""

    @abstractmethod
    def explain(self, extended: bool = False) -> None:
        """Print the physical plan of the last batch."""

    # -- the handle ---------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of the query, kept in its checkpoint over restarts."""
        return self._id

    @property
    def runId(self) -> str:  # noqa: N802
        """The id of this run."""
        return self._run_id

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self._terminated.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """`message`, `isDataAvailable`, `isTriggerActive`."""
        return dict(self._status)

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        recent = self.recentProgress
        return recent[-1] if recent else None

    def exception(self) -> StreamingQueryException | None:
        """The error that ended the query, if one did."""
        return self._exception

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        """Wait for the end of the query; raise its error if it failed.

        Args:
            timeout: seconds to wait at most; then the return value says whether the query has ended.

        Raises:
            StreamingQueryException: the query ended with an error.
        """
        if timeout is not None:
            if not isinstance(timeout, (int, float)) or timeout < 0:
                raise PySparkValueError(
                    errorClass="VALUE_NOT_POSITIVE",
                    messageParameters={"arg_name": "timeout", "arg_value": type(timeout).__name__},
                )
        ended = self._terminated.wait(timeout)
        if self._exception is not None:
            raise self._exception
        return ended if timeout is not None else None

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all that was available when this is called has been processed.

        Raises:
            StreamingQueryException: the query ended with an error meanwhile.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("Cannot wait for a query state from the same thread that is running the query")
        with self.progress_lock:
            self.no_new_data = False
            while not self.no_new_data and self.isActive:
                self.progress_lock.wait(0.1)
        if self._exception is not None:
            raise self._exception

    def stop(self) -> None:
        """End the query: cancel its jobs and wait for its thread (`spark.sql.streaming.stopTimeout`, 0 = forever)."""
        self._stop_requested.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self.session.sparkContext.cancelJobGroup(self._run_id)
            timeout_ms = self.conf_ms("spark.sql.streaming.stopTimeout")
            self._thread.join(timeout_ms / 1000 if timeout_ms > 0 else None)
            if self._thread.is_alive():
                raise TimeoutError(f"Stream Execution thread for stream {self._pretty()} failed to stop within {timeout_ms} "
                                   "milliseconds (specified by spark.sql.streaming.stopTimeout).")

    def conf(self, key: str) -> str | None:
        """A conf of this query's session (or its default); None when there is neither."""
        return sessions.conf(self.session, key)

    def conf_ms(self, key: str) -> int:
        """A conf that is a time ("60s", "200ms"), in milliseconds."""
        return times.time_string_as_ms(self.session, str(self.session.conf.get(key)))

    # -- the thread -----------------------------------------------------------------------------------

    @property
    def stop_requested(self) -> threading.Event:
        return self._stop_requested

    def start(self) -> None:
        """Start the thread and return when the query has been announced to listeners."""
        self._thread.start()
        self._started.wait()

    def update_status(self, **changes: Any) -> None:
        self._status = {**self._status, **changes}

    def announce(self, kind: str, **event: Any) -> None:
        """Tell the listeners: "started", "progress", "idle" or "terminated"."""
        self._on_event(kind, event)

    def _run_stream(self) -> None:
        try:
            sessions.set_active_session(self.session)
            self.session.sparkContext.setJobGroup(self._run_id, self._description(), interruptOnCancel=True)
            self.session.sparkContext.setLocalProperty(QUERY_ID_KEY, self._id)
            self.announce("started", id=self._id, runId=self._run_id, name=self._name, timestamp=_now())
            self._started.set()
            self.run_activated_stream()
        except BaseException as e:
            if self._stop_requested.is_set():
                logger.info("Query %s was stopped: %s", self._pretty(), e)
            else:
                logger.error("Query %s terminated with error", self._pretty(), exc_info=True)
                self._exception = self._failure(e)
        finally:
            self._started.set()
            self._finish()

    def _finish(self) -> None:
        try:
            self.stop_sources()
        except Exception:
            logger.warning("Failed to stop the sources of %s", self._pretty(), exc_info=True)
        self.update_status(
            message="Stopped" if self._exception is None else f"Terminated with exception: {self._exception}",
            isDataAvailable=False, isTriggerActive=False,
        )
        if self._delete_checkpoint_on_stop and self._exception is None:
            shutil.rmtree(self.checkpoint, ignore_errors=True)
        self._terminated.set()
        with self.progress_lock:
            self.progress_lock.notify_all()
        condition = self._exception.getCondition() if self._exception else None
        self.announce(
            "terminated", id=self._id, runId=self._run_id, exception=str(self._exception) if self._exception else None,
            errorClassOnException=condition,
        )

    def _failure(self, cause: BaseException) -> StreamingQueryException:
        message = str(cause) or type(cause).__name__
        error = StreamingQueryException(
            message=f"Query [id = {self._id}, runId = {self._run_id}] terminated with exception: {message} "
            f"SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: {self._pretty()}\n{self.describe()}",
            errorClass="STREAM_FAILED",
            messageParameters={"id": self._id, "runId": self._run_id, "message": message},
        )
        error.__cause__ = cause
        error.__notes__ = ["".join(traceback.format_exception(cause))]
        return error

    def _description(self) -> str:
        return f"{self._name or ''}\nid = {self._id}\nrunId = {self._run_id}"

    def _pretty(self) -> str:
        return f"{self._name or ''} [id = {self._id}, runId = {self._run_id}]".strip()


def _now() -> str:
    from minispark_stream.runtime.progress_reporter import format_timestamp

    return format_timestamp(time.time() * 1000)
