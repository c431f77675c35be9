"""A query whose logs are written in the background, and not for every batch: the option `asyncProgressTrackingEnabled`.

Models: AsyncProgressTrackingMicroBatchExecution (in no document: it is newer).

1. A batch does not wait until its offsets and its commit are on disk, which takes most of the time of a small batch. Only the
   last batches before a failure are lost from the logs, and run again. So the sink may get rows twice: exactly once becomes at
   least once.
2. What cannot work so is refused. By `start()`: a sink that would need to know what it has been given before, and a run that
   ends by itself (availableNow, once). In the first batch, when it has been planned: a query with state, because the
   versions of the state follow the batches one by one.
3. The interval is the option `asyncProgressTrackingCheckpointIntervalMs`, 1000 if it is not set; 0 or less: every batch is
   written. async_logs.py has the rules.
4. The sources are told what is done on the query's thread, before a batch runs and at the end.

    writeStream.format("kafka").option("asyncProgressTrackingEnabled", True)       batches of a few ms
    ... .trigger(availableNow=True)      Async progress tracking cannot be used with AvailableNow trigger

Differs from Spark: if an entry of a batch is in the log already, the error is CONCURRENT_STREAM_LOG_UPDATE, as without the
option. In Spark it is wrapped, and has lost its condition.
Shown by tests/conformance/test_async_progress_tracking.py::test_an_entry_that_another_run_has_written_ends_the_query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.errors import IllegalArgumentException, SparkRuntimeException
from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.checkpoint_file_manager import redacted
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import scala, sessions
from minispark_stream.engine.jvm.errors import illegal_argument, spark_error, to_boolean
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime.construct_next_batch import commit_sources
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.stream_execution import Announce
from minispark_stream.engine.runtime.trigger_executor import AvailableNowTrigger, OneTimeTrigger, RealTimeTrigger, Trigger
from minispark_stream.engine.runtime.write_to_stream import WriteToStream
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.extras.async_progress_tracking.async_logs import (
    AsyncCommitLog,
    AsyncOffsetSeqLog,
    LogWriteFailure,
    LogWriter,
)

logger = logging.getLogger(__name__)

INTERVAL = "asyncProgressTrackingCheckpointIntervalMs"
ANY_SINK = "_asyncProgressTrackingOverrideSinkSupportCheck"
_SINKS = ("NoopSink", "ConsoleSink", "MemorySink", "KafkaSink", "ForeachSink")


class AsyncProgressTrackingMicroBatchExecution(MicroBatchExecution):
    """One streaming query in micro-batches that do not wait for the logs.

    Raises:
        IllegalArgumentException: the sink or the trigger is not supported, or the check of the sink is neither on nor off.
        NumberFormatException: the interval is not a number.
    """

    def __init__(self, session: SparkSession, write: WriteToStream, clock: Clock, observer: Observer, on_event: Announce):
        interval_ms = checkpoint_interval_ms(session, write.options, write.trigger)  # (3)
        if not to_boolean(write.options.get(ANY_SINK)):
            check_sink(write.sink)  # (2)
        check_trigger(session, write.trigger, interval_ms)
        super().__init__(session, write, clock, observer, on_event)
        self._log_writer = LogWriter()  # (1)
        retained = self.min_batches_to_retain
        self.offset_log = AsyncOffsetSeqLog(self.offset_log.files.location, self._log_writer, retained, interval_ms, clock)
        self.commit_log = AsyncCommitLog(self.commit_log.files.location, self._log_writer, retained, self.offset_log)

    def run_activated_stream(self) -> None:
        if not sessions.flag(self.session, "spark.sql.streaming.metadataCache.enabled"):
            raise AssertionError("assertion failed")
        self._log_writer.start()
        super().run_activated_stream()

    def begin_trigger(self) -> None:
        error = self._log_writer.error
        if isinstance(error, LogWriteFailure):
            told = {"batchId": str(error.batch_id), "checkpointLocation": redacted(self.checkpoint)}
            raise spark_error(self.session, SparkRuntimeException, error.condition, **told) from error.__cause__
        if error is not None:
            raise error
        super().begin_trigger()

    def start_maintenance(self, execution: IncrementalExecution) -> None:
        """Where other queries begin to look after their state, this one refuses to have any. (2)"""
        if execution.template.operators:
            raise illegal_argument("Stateful streaming queries does not support async progress tracking at this moment.")

    def release(self) -> None:
        self._log_writer.finish()
        if self._log_writer.error is not None:
            logger.warning("The logs of %s are not complete", self.checkpoint, exc_info=self._log_writer.error)
        self.attempt(lambda: commit_sources(self, self.offset_log.done_before(self.context.batch_id)))  # (4)
        super().release()


def checkpoint_interval_ms(session: SparkSession, options: Mapping[str, str], trigger: Trigger) -> int:
    """Raises NumberFormatException."""
    text = options.get(INTERVAL)
    if text is None:
        return 0 if isinstance(trigger, RealTimeTrigger) else 1000
    return int(scala.java_class(session, "java.lang.Long").parseLong(text))


def check_sink(sink: Sink) -> None:
    """Raises IllegalArgumentException if the sink is not one of those that need no log of their own."""
    if type(sink).__name__ not in _SINKS:
        raise illegal_argument(f"Sink {sink.spark_name} does not support async progress tracking")


def check_trigger(session: SparkSession, trigger: Trigger, interval_ms: int) -> None:
    """Raises IllegalArgumentException if a run with this trigger ends by itself, or is in real time and writes too rarely."""
    if isinstance(trigger, RealTimeTrigger) and interval_ms != 0:
        condition = "STREAMING_REAL_TIME_MODE.ASYNC_PROGRESS_TRACKING_CHECKPOINTING_INTERVAL_NON_ZERO"
        raise spark_error(session, IllegalArgumentException, condition)
    names: dict[type[Any], str] = {OneTimeTrigger: "Once", AvailableNowTrigger: "AvailableNow"}
    if type(trigger) in names:
        raise illegal_argument(f"Async progress tracking cannot be used with {names[type(trigger)]} trigger")
