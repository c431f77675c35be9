"""What will the next batch read, and should there be one?

Models: MicroBatchExecution.constructNextBatch (Execution flow, steps 2 and 3; From query to the plan: "a gatekeeper").

(2) Ask each source how far the next batch may read, under its read limit. There is a batch if a source has something new, or
    if a stateful operator has work without data (`should_run_another_batch`), for example because the watermark has moved and
    windows can leave its state. With `spark.sql.streaming.noDataMicroBatches.enabled` off, no operator is asked.
(3) Write the batch into the offset log *before* anything is read: from now on, a restart runs exactly this batch. So batch
    N-1 can never be asked for again. The sources are told so (which is why the last batch of a query is never cleaned up), and
    log entries below N - minBatchesToRetain are deleted.

    source at 7, query at 5, maxFilesPerTrigger 1   -> end 6, run
    source at 7, query at 7, watermark moved        -> end 7, run without data
    source at 7, query at 7                         -> wait

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase, to_offsets
from minispark_stream.engine.jvm.errors import concurrent_stream_log_update
from minispark_stream.engine.observer import step
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.running_query import RunningQuery
from minispark_stream.engine.sources.base import Offset, ReadLimit, Source, SupportsAdmissionControl


@step("constructNextBatch")
def construct_next_batch(query: RunningQuery, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """Decide on the next batch and log it; `is_current_batch_constructed` says whether there is one."""
    with query.progress_lock:  # processAllAvailable begins to wait either before the sources are asked or after the answer
        context = latest_offsets(query, context)  # (2)
        metadata = replace(
            context.metadata,
            batch_watermark_ms=context.watermark_tracker.current_watermark,
            batch_timestamp_ms=query.clock.get_time_millis(),
        )
        context = replace(context, metadata=metadata)
        context = replace(context, another_batch=query.no_data_batches_enabled and context.should_run_another_batch())
        if not context.is_new_data_available() and not context.another_batch:
            query.progress_lock.no_new_data = True
            query.progress_lock.notify_all()
            return context
        wal_commit(query, context, to_offsets(context.end_offsets, query.sources.ids, metadata))  # (3)
        return replace(context, is_current_batch_constructed=True)


def latest_offsets(query: RunningQuery, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """How far the next batch may read each source, and how far the source could be read without a limit."""
    end_offsets, newest_offsets = dict(context.end_offsets), dict(context.latest_offsets)
    for ordinal, limit in query.sources.read_limits.items():
        source = query.sources[ordinal]
        query.update_status(message=f"Getting offsets from {source.description}")
        end, newest = latest_offset(query, source, context.start_offsets.get(ordinal), limit)
        if end is not None:
            end_offsets[ordinal] = end
        if newest is not None:
            newest_offsets[ordinal] = newest
    return replace(context, end_offsets=end_offsets, latest_offsets=newest_offsets)


@step("latestOffset")
def latest_offset(
    query: RunningQuery, source: Source, start: Offset | None, limit: ReadLimit
) -> tuple[Offset | None, Offset | None]:
    if isinstance(source, SupportsAdmissionControl):
        return source.latest_offset(start, limit), source.report_latest_offset()
    end = source.get_offset()
    return end, end


@step("walCommit")
def wal_commit(query: RunningQuery, context: MicroBatchExecutionContext, entry: OffsetSeqBase) -> None:
    query.update_status(message="Writing offsets to log")
    if not query.offset_log.add(context.batch_id, entry):
        raise concurrent_stream_log_update(context.batch_id)
    clean_up(query, context.batch_id)


def clean_up(query: RunningQuery, batch_id: int) -> None:
    """Tell the sources that the batch before is done, and delete old log entries."""
    commit_sources(query, query.offset_log.done_before(batch_id))
    if query.min_batches_to_retain < batch_id:
        purge(query, batch_id - query.min_batches_to_retain)


def commit_sources(query: RunningQuery, done: Iterable[OffsetSeqBase]) -> None:
    for entry in done:
        for ordinal, end in entry.to_stream_progress(query.sources.ids).items():
            commit_source(query, query.sources[ordinal], end)


@step("commitSource")
def commit_source(query: RunningQuery, source: Source, end: Offset) -> None:
    source.commit(end)


@step("purge")
def purge(query: RunningQuery, before: int) -> list[int]:
    """Delete log entries that no restart can need; returns their batch ids."""
    return [*query.offset_log.purge(before), *query.commit_log.purge(before)]
