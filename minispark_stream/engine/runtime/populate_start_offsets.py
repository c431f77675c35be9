"""Where does the query begin? Compare the last entries of the two logs.

Models: MicroBatchExecution.populateStartOffsets (Execution flow, step 1). O is the last batch in the offset log.
If that log is empty, the query is new. Otherwise, engine/checkpointing/recovery.py decides from both logs whether it runs O
again or begins with O + 1. Then:

a. Read the last entry of the offset log, and the entry before it: the end of batch O-1 is the start of batch O. A named source
   that is in neither of the two is a new one, even if it is in older entries. If batch O is unfinished and has another number
   of partitions than batch O-1, it is a repartition of the state by Spark that has not come to its end, and nothing may run.
b. Put the logged confs into the session: they take precedence, because the state was written under them.
c. If batch O is finished, ask each V1 source for it once more, because such a source may expect this at a restart. The
   watermark is the greater one of those in the two logs.
d. If batch O is unfinished, it will run with exactly its logged offsets, watermark and time. Ask only the V1 sources that had
   nothing new in it, or, as in Spark, no start offset yet: the others are asked when it runs.
e. The last entry of the commit log says in which checkpoint format the query was begun, and the query keeps this format. In
   format 2, it also says which files contain the state.

A checkpoint of the continuous engine cannot be continued: its entries have no metadata.

    offsets/ 0 1 2   commits/ 0 1     -> run batch 2 again, from the end of batch 1 to the end of batch 2
    offsets/ 0 1 2   commits/ 0 1 2   -> batch 3, from the end of batch 2

Differs from Spark: a checkpoint of the continuous engine is refused with an explanation; Spark fails with a
NullPointerException. If a query was killed while it wrote its first log entry, the hidden file that is left is ignored;
Spark refuses the checkpoint. If offsets/ is missing and commits/ exists, the error says so and says what to do; Spark's error
says only "assertion failed".
Shown by tests/conformance/test_continuous.py::test_no_engine_continues_with_the_other_trigger,
tests/spark/test_differences.py::test_without_offsets_nothing_of_a_checkpoint_is_lost_or_overwritten.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.errors import SparkRuntimeException, UnsupportedOperationException

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, redacted
from minispark_stream.engine.checkpointing.metadata_log import is_true
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase, OffsetSeqMetadata
from minispark_stream.engine.checkpointing.recovery import LogState, decide
from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import analysis_error, spark_error
from minispark_stream.engine.observer import step
from minispark_stream.engine.plan.name_streaming_sources import SOURCE_EVOLUTION
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.running_query import RunningQuery
from minispark_stream.engine.state.state_store import CHECKPOINT_FORMAT

logger = logging.getLogger(__name__)


@step("populateStartOffsets")
def populate_start_offsets(query: RunningQuery, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """The context of the first batch of this run.

    Raises:
        RuntimeError: the entry before the last one is missing, or the log was written by the continuous engine.
        UnsupportedOperationException: there are no offsets, but there is state (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY).
        AssertionError: the query has another number of sources than its log, or there are commits without any offsets.
        AnalysisException: the log was begun without the names of the sources.
        SparkRuntimeException: the state is being repartitioned (STREAMING_UNFINISHED_REPARTITION_DETECTED).
    """
    latest = query.offset_log.get_latest()
    if latest is not None:  # (a)
        context = replace(context, end_offsets=latest[1].to_stream_progress(query.sources.ids))
    context = replace(context, metadata=replace(context.metadata, version=_log_version(query, latest and latest[1])))
    committed = query.commit_log.get_latest()
    if latest is None and committed is not None:
        raise AssertionError(
            f"assertion failed: {redacted(query.checkpoint)}/commits has batch {committed[0]}, but there are no offsets. "
            "Restore offsets/ from a copy, or start the query with a new checkpoint location."
        )
    if committed is not None:  # (e)
        query.session.conf.set(CHECKPOINT_FORMAT, "1" if committed[1].state_unique_ids is None else "2")
    unique_ids = committed[1].state_unique_ids if committed else None
    if unique_ids is None and int(query.conf(CHECKPOINT_FORMAT) or 1) > 1:
        unique_ids = {}
    context = replace(context, unique_ids=unique_ids)
    if latest is None:
        _check_is_new(query)
        return replace(context, watermark_tracker=query.planner.new_watermark_tracker())
    context = _last_batch(query, context, committed and committed[0], *latest)
    restart = decide(latest[0], committed and committed[0])
    if committed is None:
        logger.info("no commit log present")
    elif restart.logs is LogState.DONE:  # (c)
        _ask_again(query, context)
        reached = max(context.watermark_tracker.current_watermark, committed[1].next_batch_watermark_ms)
        tracker = context.watermark_tracker.set_watermark(reached)
        return replace(context, watermark_tracker=tracker, new_unique_ids=unique_ids).next()
    elif restart.logs is LogState.UNFINISHED:  # (d)
        _ask_again(query, context, only_unmoved=True)
    elif restart.logs is LogState.COMMITS_LOST:
        logger.warning(
            "Batch completion log latest batch id is %d, which is not trailing batchid %d by one", committed[0], latest[0]
        )
    return replace(context, is_current_batch_constructed=True)


def _log_version(query: RunningQuery, latest: OffsetSeqBase | None) -> int:
    """The version in which the offset log is written: that in which it was begun, or, if it is new, the one of the confs.

    Raises:
        AnalysisException: sources shall be identified by their names, but the log was begun in a version without names.
    """
    evolves = is_true(query.conf(SOURCE_EVOLUTION))
    if latest is None:
        return max(2 if evolves else 1, int(query.conf("spark.sql.streaming.offsetLog.formatVersion") or 1))
    if evolves and latest.version == 1:
        raise analysis_error(
            query.session, "STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT", existingVersion="1"
        )
    return latest.version


def _check_is_new(query: RunningQuery) -> None:
    """Check that the checkpoint of a query without a logged batch has nothing of another query.

    Hidden files do not count: a write that was killed has left them.
    """
    if not sessions.flag(query.session, "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"):
        return
    files = CheckpointFileManager(query.checkpoint)
    for folder in ("offsets", "state", "commits"):
        if any(not name.startswith(".") for name, *_ in files.list(folder)):
            raise spark_error(
                query.session, UnsupportedOperationException, "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
                checkpointLocation=f"{redacted(query.checkpoint)}/{folder}",
            )


def _last_batch(
    query: RunningQuery, context: MicroBatchExecutionContext, committed: int | None, batch_id: int, entry: OffsetSeqBase
) -> MicroBatchExecutionContext:
    """The last batch of the offset log, as it was when it was logged; `context` has the end of it already."""
    before = query.offset_log.entry_before(batch_id)  # (a)
    if before is not None and committed is not None and committed < batch_id:
        _check_is_no_repartition(query, committed, batch_id, before, entry)
    if entry.metadata is None:
        raise RuntimeError(
            f"The checkpoint {redacted(query.checkpoint)} was written by a query with a continuous trigger, which a query in "
            "micro-batches cannot continue. Start it with a continuous trigger, or with a new checkpoint location."
        )
    entry.metadata.apply_to_session(query.session.conf.set, query.conf)  # (b)
    metadata = replace(entry.metadata, conf=OffsetSeqMetadata.from_session(query.conf).conf)
    previous = None
    if before is not None:
        previous = MicroBatchExecutionContext(batch_id - 1, metadata=before.metadata or OffsetSeqMetadata())
    return replace(
        context,
        batch_id=batch_id,
        start_offsets=before.to_stream_progress(query.sources.ids) if before else {},
        metadata=metadata,
        watermark_tracker=query.planner.new_watermark_tracker().set_watermark(metadata.batch_watermark_ms),
        previous=previous,
    )


def _check_is_no_repartition(
    query: RunningQuery, committed: int, batch_id: int, before: OffsetSeqBase, entry: OffsetSeqBase
) -> None:
    """Check that an unfinished batch is not Spark's repartition of the state, of which only a part is written."""
    was, now = (one.metadata and one.metadata.conf.get("spark.sql.shuffle.partitions") for one in (before, entry))
    checked = "spark.sql.streaming.checkUnfinishedRepartitionOnRestart"
    if was is not None and now is not None and was != now and sessions.flag(query.session, checked):
        raise spark_error(
            query.session, SparkRuntimeException, "STREAMING_UNFINISHED_REPARTITION_DETECTED",
            batchId=str(batch_id), lastCommittedBatchId=str(committed),
        )


def _ask_again(query: RunningQuery, context: MicroBatchExecutionContext, only_unmoved: bool = False) -> None:
    """Ask the V1 sources for their last batch once more; `only_unmoved`: only those without anything new or without a start."""
    for ordinal, end in context.end_offsets.items():
        source, start = query.sources[ordinal], context.start_offsets.get(ordinal)
        if source.is_v1 and (not only_unmoved or start is None or start == end):
            source.get_batch(start, end)
