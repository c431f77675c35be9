"""Real-time mode: long micro-batches, whose rows are written while they run, and whose offsets are logged when they end.

Models: MicroBatchExecution with a RealTimeTrigger, RealTimeStreamScanExec (in no document: real-time mode is newer).

A batch is a micro-batch (engine/runtime/), in which five things are different:

1. When a run begins, an entry of the offset log that has no commit is deleted: its batch cannot be run again with the same
   rows.
2. There is always a batch, and one follows the other at once. Nobody knows yet how far it will read, so nothing is logged.
3. The sources say what each task reads, without an end. The tasks read until the time of the batch is over
   (low_latency_reader.py); the plan is that of a micro-batch, and lets control rows through
   (extras/continuous/epoch_markers.py).
4. The sink writes the rows as they come. The job lasts as long as the batch.
5. With the end of the tasks, the driver learns how far they have read. Now the offsets are logged, and the batch is committed.

    micro-batch     offsets/7   ├─ read, compute, write ─┤                                        commits/7
    real time                   ├─ read, compute and write each row, for 5 seconds ─┤  offsets/7  commits/7

What was read and not committed is read again after a restart: every row is written at least once. Rows that arrive between two
batches wait until the job of the next one has started, which is soon, because it has been planned by then (planned_ahead.py).

An operator that control rows cannot pass (a Python UDF, a shuffle) keeps rows back until its buffers are full or the batch
ends, and a warning says so.

A query with state has a second set of tasks, which run at the same time (pipelines.py). Its state is committed when the batch
ends, and only the commit log says by which ids its files are found. So it contains each row once, even if one is written twice.

Differs from Spark: `repartition` is an ordinary shuffle, so its rows are written when the batch ends, and a query with state
cannot have one. The console prints the rows of a batch when it ends, as in Spark; a `foreach` function is called when a row
arrives, while Spark collects the rows for it until there are many or the batch ends.
Shown by tests/conformance/test_real_time_mode.py::test_rows_are_written_while_the_batch_runs.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.offset_seq_log import to_offsets
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.jvm import expressions, plans, query_execution, sessions
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.observer import Observer, step
from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.metrics import Reports
from minispark_stream.engine.plan.real_time_leaf import real_time_leaf
from minispark_stream.engine.plan.streaming_relation import streaming_sources
from minispark_stream.engine.runtime.construct_next_batch import latest_offsets, wal_commit
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.progress_reporter import status_message
from minispark_stream.engine.runtime.real_time_mode import check_checkpoint_format, check_operators, check_sink_on_thread
from minispark_stream.engine.runtime.run_batch import commit_offsets, plan_batch, state_operator, update_watermark
from minispark_stream.engine.runtime.running_query import QuerySources
from minispark_stream.engine.runtime.stream_execution import Announce
from minispark_stream.engine.runtime.trigger_executor import RealTimeTrigger
from minispark_stream.engine.runtime.write_to_stream import WriteToStream
from minispark_stream.engine.sinks.base import StreamingWrite
from minispark_stream.engine.sources.base import Offset, Source, SupportsRealTimeMode
from minispark_stream.extras.async_progress_tracking.async_progress_tracking_micro_batch_execution import (
    AsyncProgressTrackingMicroBatchExecution,
)
from minispark_stream.extras.continuous.epoch_markers import NoWayThrough, with_control_rows
from minispark_stream.extras.continuous.queued_data_reader import AT_ONCE
from minispark_stream.extras.jvm.pipelined_stages import PlannedOnce
from minispark_stream.extras.real_time.first_rows import first_rows
from minispark_stream.extras.real_time.low_latency_batch import LowLatencyBatch
from minispark_stream.extras.real_time.low_latency_reader import (
    PUSHES,
    PUSHES_TO_AGGREGATION,
    LowLatencyReaderTask,
    PartitionEnd,
    RealTimeWriterTask,
    Written,
)
from minispark_stream.extras.real_time.low_latency_scan import LowLatencyScan, with_control
from minispark_stream.extras.real_time.pipelines import PipelinedExecution, Pipelines, planned_writer
from minispark_stream.extras.real_time.planned_ahead import NewExecution, PlannedAhead, RealTimePlanner
from minispark_stream.extras.real_time.ways import ways

logger = logging.getLogger(__name__)

_CONFS = {
    "spark.sql.unionOutputPartitioning": "false",  # the tasks of both streams of a union read at the same time
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",  # a first batch that was cut off has left its schema
}
_END_BY_THEMSELVES_S = 2  # how long tasks are given for it


class RealTimeMode(MicroBatchExecution):
    """What is different from a micro-batch. The two classes below say how the logs are written.

    `reports` has what the tasks of the current batch have reported.
    """

    ahead: PlannedAhead  # from the first batch on
    write: StreamingWrite | None = None

    def __init__(self, session: SparkSession, write: WriteToStream, clock: Clock, observer: Observer, on_event: Announce):
        super().__init__(session, write, clock, observer, on_event)
        self.sink = write.sink  # not the one that previews batches, which this mode never gives to a sink
        self.reports: Accumulator[list[Any]] = session.sparkContext.accumulator([], Reports())
        self._pushes = 0  # how many control rows follow the rows that a reader has; 0 if the plan does not let them through
        self._pipelines: Pipelines | None = None  # of a query with state
        self._scans: dict[int, LowLatencyScan] = {}  # by the number of the source
        self._writer: PlannedOnce | None = None
        self._schemas: dict[int | None, StructType] = {}  # of the sources, and of the rows that are written (None)

    def run_activated_stream(self) -> None:
        committed = self.commit_log.get_latest_batch_id()
        self.offset_log.purge_after(-1 if committed is None else committed)  # (1)
        for key, value in {**AT_ONCE, **_CONFS}.items():
            self.session.conf.set(key, value)
        super().run_activated_stream()

    def begin(self) -> None:
        super().begin()
        check_checkpoint_format(self.session)

    def create_sources(self) -> QuerySources:
        sources = super().create_sources()
        try:
            check_sink_on_thread(self.session, self.sink)
            self.write = self.sink.streaming_write(self._user_session, expressions.python_schema(self.analyzed.schema()))
        except BaseException:
            for source in sources:
                self.attempt(source.stop)
            raise
        return sources

    def release(self) -> None:
        super().release()
        sessions.forget_accumulator(self.reports)
        for one in (self.write, self._pipelines):
            if one is not None:
                self.attempt(one.stop)

    def stop(self) -> None:
        """Tasks may end by themselves before Spark kills those that still run: a killed worker logs an error."""
        self.stop_requested.set()
        if self._pipelines is not None:
            self._pipelines.cut_off()
        if not self.is_current_thread():
            for source in self.sources:
                if isinstance(source, SupportsRealTimeMode):
                    self.attempt(source.stop_reading)
            self._thread.join(_END_BY_THEMSELVES_S)
        super().stop()

    @step("trigger")
    def execute_trigger(self) -> bool:
        if self.context.is_first_of_run:
            self._begin()
        self.context = construct_next_batch(self, self.context)  # (2)
        self.update_status(isDataAvailable=True, message=status_message(True))
        self.context = run_batch(self, self.context)
        self._report()
        self._tell_who_waits()
        return True

    def _begin(self) -> None:
        """Check the operators, and let control rows through the plan. (3)"""
        new_data = {i: plans.analyzed(self.rows_of(i, source, None)) for i, source in enumerate(self.sources)}
        check_operators(self.session, self.planner.plan_without_check(self.context, new_data))
        new_execution: NewExecution = IncrementalExecution
        operators = self.planner.whole_template(self.context).operators
        pushes = PUSHES_TO_AGGREGATION if any(isinstance(one, StreamingAggregation) for one in operators) else PUSHES
        if operators:
            self._pipelines = Pipelines(self.session, pushes, self.reports if self.observer.wants_told else None)
            new_execution = partial(PipelinedExecution, self._pipelines)
        leaf, plan = partial(real_time_leaf, self.session), query_execution.with_keys_in_order(self.session, self.analyzed)
        try:
            plan = with_control_rows(self.session, plan, leaf, lambda _, expression, control: expression)
            self._pushes, self._scans = pushes, {}
        except NoWayThrough as operator:
            if operators:
                raise AnalysisException(
                    message=f"minispark_stream cannot run {operator} in a query with state in real-time mode, because no row "
                    "would leave it before the batch ends. Use a trigger with micro-batches for this query."
                ) from None
            words = "In real-time mode, %s keeps rows back: they are written when a buffer is full or the batch ends"
            logger.warning(words, operator)
        self.planner.stop()
        of_run = self.output_mode, f"{self.checkpoint}/state", self.run_id, self.observer
        self.planner = planner = RealTimePlanner(new_execution, self.session, plan, *of_run)
        self.ahead = PlannedAhead(self, planner)

    def _tell_who_waits(self) -> None:
        """`processAllAvailable` waits for a batch that has read all there is."""
        reached, limits = self.context.end_offsets, self.sources.read_limits
        with self.progress_lock:
            if all(_real_time(one).latest_offset(reached[i], limits[i]) == reached[i] for i, one in enumerate(self.sources)):
                self.progress_lock.no_new_data = True
                self.progress_lock.notify_all()

    def rows_of(self, number: int, source: Source, start: Offset | None) -> DataFrame:
        """What tasks read of a source until the batch ends; if the plan lets them through, with control rows in between."""
        partitions = tuple(_real_time(source).plan_input_partitions(start))
        if number not in self._scans:
            self._schemas[number] = list(dict(streaming_sources(self.session, self.analyzed)).values())[number].schema
            follows = self.observer.wants_told and self._pushes > 0
            reader = LowLatencyReaderTask(number, (), with_control(self._schemas[number]), self.reports, self._pushes, follows)
            self._scans[number] = LowLatencyScan(self.session, reader)
        return self._scans[number].of(partitions)

    def start_job(self, execution: IncrementalExecution, batch_ms: int) -> tuple[JavaObject, int]:
        """(4) The job of a batch that has been planned, and the time at which its tasks end."""
        self._writer = self._writer or self._planned_writer(execution)
        rows, start_offsets = self._writer.over(execution.rows), {i: scan.start_offsets for i, scan in self._scans.items()}
        if isinstance(execution, PipelinedExecution):
            rows = execution.whole_job(rows)
        end_ms = self.clock.get_time_millis() + batch_ms
        of_batch = LowLatencyBatch.of(execution.template, execution.batch, end_ms, start_offsets)
        self.session.sparkContext.setLocalProperty(*of_batch.local_property())
        return plans.start_to_count(self.session, rows), end_ms

    def pipelines(self) -> dict[str, Any]:
        receivers = {} if self._pipelines is None else {"receivers": self._pipelines.receivers}
        first = first_rows(self.session, self.reports.value, self._schemas)
        return {**receivers, "ways": ways(self.reports.value), "first rows": first}

    def _planned_writer(self, execution: IncrementalExecution) -> PlannedOnce:
        assert self.write is not None
        schema = execution.next_batch.schema
        self._schemas[None] = StructType(schema.fields[: -1 if self._pushes else None])
        writer = RealTimeWriterTask(self.write.write, self.reports, None, self.observer.wants_told)
        return planned_writer(execution, writer, self._pushes > 0)


def _real_time(source: Source) -> SupportsRealTimeMode:
    assert isinstance(source, SupportsRealTimeMode)
    return source


class RealTimeExecution(RealTimeMode):
    """A query whose logs are written on its own thread, because an option or the session says so."""


class AsyncRealTimeExecution(RealTimeMode, AsyncProgressTrackingMicroBatchExecution):
    """A query that does not wait for its logs, as a query without state does by default."""


@step("constructNextBatch")
def construct_next_batch(query: RealTimeMode, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """The sources are asked how far they could be read, but only for the report."""
    begun = latest_offsets(query, context)
    watermark_ms, now_ms = context.watermark_tracker.current_watermark, query.ahead.time_of_batch()
    metadata = replace(context.metadata, batch_watermark_ms=watermark_ms, batch_timestamp_ms=now_ms)
    return replace(context, metadata=metadata, latest_offsets=begun.latest_offsets, is_current_batch_constructed=True)


@step("runBatch")
def run_batch(query: RealTimeMode, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """Run a batch, and log afterwards what it has read."""
    query.reports.value = []
    new_data = {i: get_batch(query, source, context.start_offsets.get(i), None) for i, source in enumerate(query.sources)}
    execution = plan_batch(query, context, {i: plans.analyzed(rows) for i, rows in new_data.items()})
    query.start_maintenance(execution)
    query.check_not_stopped()
    context = add_batch(query, context, execution)  # (4)
    context = update_watermark(query, context, execution)
    wal_commit(query, context, to_offsets(context.end_offsets, query.sources.ids, context.metadata))  # (5)
    commit_offsets(query, context)
    return context


@step("getBatch")
def get_batch(query: RealTimeMode, source: Source, start: Offset | None, end: Offset | None) -> DataFrame:
    return query.rows_of(query.sources.number_of(source), source, start)


@step("addBatch")
def add_batch(
    query: RealTimeMode, context: MicroBatchExecutionContext, execution: IncrementalExecution
) -> MicroBatchExecutionContext:
    """The job, which lasts as long as the batch; then the sink commits, and what the tasks have reported is added up."""
    assert query.write is not None and isinstance(query.trigger, RealTimeTrigger)
    job, end_ms = query.start_job(execution, query.trigger.batch_ms)
    query.ahead.plan_next(execution, job, end_ms)
    plans.counted(query.session, job)
    query.check_not_stopped()  # stop() has let the tasks end, and the sink must not commit what is not logged
    ends = [one for one in query.reports.value if isinstance(one, PartitionEnd)]
    written = sorted((one for one in query.reports.value if isinstance(one, Written)), key=lambda one: one.partition)
    query.write.commit(context.batch_id, [one.message for one in written])
    reached = {i: {one.partition: one.offset for one in ends if one.source == i} for i in range(len(query.sources.sources))}
    end_offsets = {i: _real_time(query.sources[i]).merge_offsets(offsets) for i, offsets in reached.items()}
    return replace(
        context, execution=execution, end_offsets=end_offsets, num_output_rows=sum(one.rows for one in written),
        num_input_rows={i: sum(one.rows for one in ends if one.source == i) for i in end_offsets},
        state_operators=tuple(state_operator(query, execution, one) for one in execution.template.operators),
        new_unique_ids=None if context.unique_ids is None else execution.new_unique_ids(),
    )
