"""What will the next batch read, and should there be one?

Models: MicroBatchExecution.constructNextBatch (Execution flow, steps 2 and 3; From query to the plan: "a gatekeeper").

1. Ask each source how far the next batch may read, under its read limit.
2. Run a batch if a source has something new, or if the last batch left work that needs no data: the watermark has
   moved, so state can be evicted and windows emitted (`spark.sql.streaming.noDataMicroBatches.enabled`).
3. Write the batch into the offset log *before* anything is read: from here on, a restart runs exactly this batch.
4. Batch N is logged, so batch N-1 can never be asked for again: tell the sources (that is why the last batch of a query
   is never cleaned up), and purge log entries below N - minBatchesToRetain.

    source at 7, query at 5, maxFilesPerTrigger 1   -> end 6, run
    source at 7, query at 7, watermark moved        -> end 7, run without data
    source at 7, query at 7                         -> wait

Differs from Spark: the purge is not asynchronous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import SparkRuntimeException

from minispark_stream.checkpointing.offset_seq_log import OffsetSeq
from minispark_stream.runtime.populate_start_offsets import by_source
from minispark_stream.sources.base import ReadLimit, SupportsAdmissionControl

if TYPE_CHECKING:
    from minispark_stream.runtime.micro_batch_execution import MicroBatchExecution


def construct_next_batch(query: MicroBatchExecution) -> bool:
    """Decide on the next batch and log it; False when there is nothing to do."""
    with query.progress_lock, query.reporter.step(
        "constructNextBatch", start=query.described(query.start_offsets)
    ) as step:
        for ordinal, limit in query.read_limits.items():
            _latest_offset(query, ordinal, limit)  # (1)
        query.metadata = query.new_metadata(query.watermark_tracker.current_watermark, query.clock.get_time_millis())
        another = query.no_data_batches_enabled and query.last_batch_left_work()
        run = query.is_new_data_available() or another  # (2)
        step.out(
            end=query.described(query.end_offsets), newData=query.is_new_data_available(), anotherBatch=another, run=run,
            watermark=query.metadata.batch_watermark_ms,
        )
        if run:
            _log_batch(query)
            query.no_new_data = False
        else:
            query.no_new_data = True
            query.progress_lock.notify_all()
        return run


def _latest_offset(query: MicroBatchExecution, ordinal: int, limit: ReadLimit) -> None:
    source = query.sources[ordinal]
    query.update_status(message=f"Getting offsets from {source.description}")
    start = query.start_offsets.get(ordinal)
    with query.reporter.step("latestOffset", source=source.description, start=start, limit=_words(limit)) as step:
        if isinstance(source, SupportsAdmissionControl):
            end = source.latest_offset(start, limit)
            newest = source.report_latest_offset()
        else:
            end = newest = source.get_offset()
        if newest is not None:
            query.latest_offsets[ordinal] = newest
        if end is not None:
            query.end_offsets[ordinal] = end
        step.out(end=end, files=list(getattr(source, "last_files", ())) if end != start else [])


def _log_batch(query: MicroBatchExecution) -> None:
    query.update_status(message="Writing offsets to log")
    entry = OffsetSeq(tuple(query.end_offsets.get(i) for i in query.leaf_sources), query.metadata)
    with query.reporter.step("walCommit", file=f"offsets/{query.batch_id}") as step:
        if not query.offset_log.add(query.batch_id, entry):  # (3)
            raise concurrent_update(query.batch_id)
        step.out(text=query.offset_log.serialize(entry).decode())
        if query.batch_id > 0:  # (4)
            previous = query.offset_log.get(query.batch_id - 1)
            if previous is None:
                raise RuntimeError(f"batch {query.batch_id - 1} doesn't exist")
            for ordinal, end in by_source(query, previous).items():
                source = query.sources[ordinal]
                with query.reporter.step("commitSource", source=source.description, end=end):
                    source.commit(end)
        if query.min_batches_to_retain < query.batch_id:
            before = query.batch_id - query.min_batches_to_retain
            with query.reporter.step("purge", before=before) as purge:
                purge.out(deleted=[*query.offset_log.purge(before), *query.commit_log.purge(before)])


def concurrent_update(batch_id: int) -> SparkRuntimeException:
    """Another run of this query has written the batch first."""
    return SparkRuntimeException(
        message=f"Concurrent update to the log. Multiple streaming jobs detected for {batch_id}. Please make sure only one "
        "streaming job runs on a specific checkpoint location at a time. SQLSTATE: 40000",
        errorClass="CONCURRENT_STREAM_LOG_UPDATE",
        messageParameters={"batchId": str(batch_id)},
    )


def _words(limit: ReadLimit) -> Any:
    parts = ", ".join(f"{name} {value}" for name, value in vars(limit).items())
    return f"{type(limit).__name__}({parts})" if parts else "all available"
