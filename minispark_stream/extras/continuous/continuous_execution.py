"""The continuous engine: one Spark job for the whole life of a query, whose tasks process rows as they arrive.

Models: ContinuousExecution (Continuous processing; SIGMOD'18 paper, section 6.3).

1. Where did the last run stop? At the last epoch of the commit log. Offsets of later epochs are deleted, because their rows
   were read, but perhaps not written.
2. Each partition of the source becomes a task: a reader, the operators of the query, and a writer (epoch_markers.py).
3. The job is started, and runs until the query ends. A thread ends an epoch whenever the trigger says so.
4. The tasks report to the coordinator (epoch_coordinator.py). When all readers have passed the end of an epoch, its offsets are
   written; when all writers have, it is committed.
5. When the partitions of the source have changed, the job is restarted from the last epoch that was committed.

    epoch 0           epoch 1            trigger(continuous="1 second")
    ─ a ─ b ─┊─ c ─ d ─ e ─┊─ f ─        rows of a partition, and the markers between epochs
             offsets/0     offsets/1     written when the markers have passed the readers
             commits/0     commits/1     written when the markers have passed the writers

What was read and not committed is read again after a restart: every row arrives at least once. A micro-batch is logged before
it runs, but an epoch is logged afterwards, so an epoch cannot be run again with the same rows.

Reader and writer are Python workers of one task, so a partition takes a slot and two processes for as long as the query runs.
If there are fewer slots than partitions, no epoch ends. With an interval of 0, an epoch takes at least a millisecond.

Differs from Spark: the offsets of a run that has committed nothing are deleted, too; Spark keeps them, and the next run
commits its first epoch with them.
Shown by tests/unit/extras/continuous/test_continuous_streams.py::test_a_run_begins_after_the_last_epoch_that_was_committed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.checkpointing.commit_log import CommitMetadata
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetMap, OffsetSeq
from minispark_stream.engine.jvm import expressions, physical, plans, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.observer import step
from minispark_stream.engine.plan.streaming_relation import streaming_sources
from minispark_stream.engine.runtime import trigger_executor
from minispark_stream.engine.runtime.running_query import QuerySources
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.trigger_executor import ContinuousTrigger, ProcessingTimeTrigger
from minispark_stream.engine.runtime.write_to_stream import WriteToStream
from minispark_stream.engine.sinks.base import StreamingWrite
from minispark_stream.engine.sources.base import ContinuousInputPartition, ContinuousStream, Offset
from minispark_stream.extras.continuous.continuous_queued_data_reader import ContinuousReaderTask
from minispark_stream.extras.continuous.continuous_write import ContinuousWriterTask
from minispark_stream.extras.continuous.epoch_coordinator import (
    EpochCoordinator,
    IncrementAndGetEpoch,
    SetReaderPartitions,
    SetWriterPartitions,
    StopContinuousExecutionWrites,
)
from minispark_stream.extras.continuous.epoch_markers import with_epoch_markers
from minispark_stream.extras.continuous.queued_data_reader import AT_ONCE
from minispark_stream.extras.rpc import RpcEndpoint

logger = logging.getLogger(__name__)

_CONTINUOUS = "spark.sql.streaming.continuous"
_END_BY_THEMSELVES_S = 2  # how long readers and writers are given for it


class ContinuousExecution(StreamExecution):
    """One streaming query in epochs.

    Args:
        streaming_write: asks the sink how it writes.
        arguments: what StreamExecution takes.

    Raises:
        UnsupportedOperationException: the source can only be read in micro-batches.
        PySparkException: what source and sink refuse; it is raised here and not on the query's thread, as in Spark.
    """

    is_continuous = True

    def __init__(self, streaming_write: Callable[[], StreamingWrite], write: WriteToStream, **arguments: Any):
        super().__init__(write=write, **arguments)
        [(_, self._relation)] = streaming_sources(self.session, self.analyzed)
        if self._relation.create_continuous is None:
            source = self._relation.source_name
            raise spark_error(
                self.session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2253", sourceName=source
            )
        self.stream: ContinuousStream = self._relation.create_continuous(self.session, f"{self.checkpoint}/sources/0")
        self.sources = QuerySources([self.stream], ["0"])  # for what a source is asked for when the query ends or fails
        try:
            self._write = streaming_write()
        except BaseException:
            self.stream.stop()
            raise
        self._plan: DataFrame | None = None
        self._endpoint: RpcEndpoint | None = None
        self._reconfiguring = False
        self._failed: Exception | None = None

    def run_activated_stream(self) -> None:
        for key, value in AT_ONCE.items():
            self.session.conf.set(key, value)
        sessions.propagate_confs(self.session)  # the buffers are made in the tasks
        self._reconfiguring = True
        while self._reconfiguring and not self.stop_requested.is_set():  # (5)
            self._reconfiguring = False
            self.run_continuous()

    def explain(self, extended: bool) -> None:
        if self._plan is None:
            print("No physical plan. Waiting for data.")
        else:
            self._plan.explain(extended)

    def stop(self) -> None:
        """Readers and writers may end by themselves before Spark kills those that still run: a killed worker logs an error."""
        self.stop_requested.set()
        if self._endpoint is not None and not self.is_current_thread():
            self._endpoint.stop()
            self._thread.join(_END_BY_THEMSELVES_S)
        super().stop()

    def release(self) -> None:
        super().release()
        self._write.stop()

    def run_continuous(self) -> None:
        """One job, until the query ends or is to be reconfigured."""
        start = get_start_offset(self)  # (1)
        partitions = self.stream.plan_input_partitions(start)
        coordinator = EpochCoordinator(
            self.context.batch_id, int(str(self.conf(f"{_CONTINUOUS}.epochBacklogQueueSize"))), self.add_offset, self.commit
        )
        for message in (SetReaderPartitions(len(partitions)), SetWriterPartitions(len(partitions))):
            coordinator.receive(message)
        endpoint = RpcEndpoint(
            sessions.driver_host(self.session), coordinator.receive, lambda error: self._fail(endpoint, error)
        )
        self._endpoint = endpoint
        job_ended = threading.Event()
        epochs = threading.Thread(target=self._update_epochs, args=(endpoint, job_ended), daemon=True)
        try:
            epochs.start()
            self.update_status(message="Running")
            self._plan = self.plan(partitions, endpoint)  # (2)
            run_job(self, self._plan)  # (3)
        finally:
            job_ended.set()
            epochs.join()
            endpoint.tell(StopContinuousExecutionWrites())
            endpoint.stop()
        if self._failed is not None:
            raise self._failed
        if not self._reconfiguring and not self.stop_requested.is_set():
            raise RuntimeError(
                f"All tasks ended although the query was not stopped. Can they reach the driver at {endpoint.ref.address}?"
            )

    def plan(self, partitions: Sequence[ContinuousInputPartition], endpoint: RpcEndpoint) -> DataFrame:
        """The rows of the readers, through the operators of the query, into the writers; no row comes out."""
        slots = self.session.sparkContext.defaultParallelism
        if len(partitions) > slots:
            logger.warning(
                "Too few task slots: %d partitions need one each, %d are available; no epoch can complete",
                len(partitions), slots,
            )
        epoch = self.context.batch_id
        rows = expressions.positional(self._relation.schema, StructType().add("epoch", StringType()))
        reader = ContinuousReaderTask(
            tuple(partitions), rows, endpoint.ref, epoch, int(str(self.conf(f"{_CONTINUOUS}.executorQueueSize"))),
            self.conf_ms(f"{_CONTINUOUS}.executorPollIntervalMs") / 1000,
        )
        ids = self.session.range(0, len(partitions), 1, len(partitions))
        query = with_epoch_markers(self.session, self.analyzed, ids.mapInArrow(reader, rows))
        if udf_operators := physical.count_udf_operators(query):
            self.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)  # python_udfs.py
            sessions.propagate_confs(self.session)
            reader = replace(reader, pushes=1 + udf_operators)
            query = with_epoch_markers(self.session, self.analyzed, ids.mapInArrow(reader, rows))
        columns = [f"_{i}" for i in range(len(query.columns))]
        writer = ContinuousWriterTask(self._write.write, endpoint.ref, epoch)
        return query.toDF(*columns).mapInArrow(writer, StructType().add("nothing", LongType()))

    def _update_epochs(self, endpoint: RpcEndpoint, job_ended: threading.Event) -> None:
        """(3) Begin an epoch at each point of the trigger's grid."""

        def update_epoch() -> bool:
            if job_ended.is_set() or self.stop_requested.is_set():
                return False
            if self.stream.needs_reconfiguration():
                self._reconfiguring = True
                endpoint.stop()  # readers and writers end, and the job with them
                return False
            endpoint.tell(IncrementAndGetEpoch())
            return True

        try:
            assert isinstance(self.trigger, ContinuousTrigger)
            interval = ProcessingTimeTrigger(max(1, self.trigger.interval_ms))
            trigger_executor.execute(interval, update_epoch, self.clock, job_ended)
        except Exception as e:
            self._fail(endpoint, e)

    def _fail(self, endpoint: RpcEndpoint, error: Exception) -> None:
        """The driver's work for an epoch has failed: readers and writers end, and the query with them."""
        self._failed = self._failed or error
        threading.Thread(target=endpoint.stop, daemon=True).start()  # it waits for the thread that has come here

    # -- what the coordinator calls (4) -------------------------------------------------------------------

    def add_offset(self, epoch: int, offsets: Mapping[int, Any]) -> None:
        """All readers have passed the end of an epoch."""
        end = self.stream.merge_offsets(offsets)
        write_offset(self, epoch, end)
        self.context = replace(self.context, end_offsets={0: end})

    def commit(self, epoch: int, messages: Sequence[Any]) -> None:
        """All writers have passed it, too."""
        self.update_status(message=f"Committing epoch {epoch}")
        entry = self.offset_log.get(epoch)
        assert isinstance(entry, OffsetSeq) and entry.offsets[0] is not None, f"no offset for epoch {epoch} before its commit"
        commit_epoch(self, epoch, messages, entry.offsets[0])
        self.observer.end_trigger(True)
        with self.progress_lock:
            if self.context.start_offsets.get(0) == entry.offsets[0]:
                self.progress_lock.no_new_data = True
            self.context = replace(self.context, batch_id=epoch + 1, start_offsets={0: entry.offsets[0]})
            self.progress_lock.notify_all()


@step("getStartOffset")
def get_start_offset(query: ContinuousExecution) -> Offset:
    """(1) The offset of the last epoch that was committed, or the first one of the stream.

    Raises:
        RuntimeError: there is a commit without offsets, or with offsets of named sources.
    """
    committed = query.commit_log.get_latest_batch_id()
    query.offset_log.purge_after(-1 if committed is None else committed)
    if committed is None:
        query.context = replace(query.context, batch_id=0)
        return query.stream.initial_offset()
    entry = query.offset_log.get(committed)
    if isinstance(entry, OffsetMap):
        raise RuntimeError(
            f"{query.offset_log.files.root}/{committed} was written by a query in micro-batches with named sources, which a "
            "query with a continuous trigger cannot continue. Start it with a new checkpoint location."
        )
    if entry is None or entry.offsets[0] is None:
        raise RuntimeError(f"Batch {committed} was committed without end epoch offsets!")
    query.context = replace(query.context, batch_id=committed + 1, start_offsets={0: entry.offsets[0]})
    return entry.offsets[0]


@step("runContinuous")
def run_job(query: ContinuousExecution, plan: DataFrame) -> None:
    """The one job of the query: it ends when the query does."""
    query.check_not_stopped()
    plans.count_rows(plan)


@step("addOffset")
def write_offset(query: ContinuousExecution, epoch: int, end: Offset) -> bytes:
    """What an epoch has read, written down afterwards."""
    entry = OffsetSeq((end,), None)
    query.offset_log.add(epoch, entry)
    return query.offset_log.serialize(entry)


@step("commitEpoch")
def commit_epoch(query: ContinuousExecution, epoch: int, messages: Sequence[Any], end: Offset) -> None:
    """First the sink, then the log: a crash in between writes the epoch again, and loses nothing."""
    query._write.commit(epoch, messages)
    query.commit_log.add(epoch, CommitMetadata())
    query.stream.commit(end)
    if (keep := query.min_batches_to_retain) <= epoch:
        query.offset_log.purge(epoch + 1 - keep)
        query.commit_log.purge(epoch + 1 - keep)
