"""Where does the query begin? Compare the last entries of the two logs.

Models: MicroBatchExecution.populateStartOffsets (Execution flow, step 1). With O the last batch in the offset log and C
the last one in the commit log:

    no O       a new query: batch 0 from the beginning
    C = O      batch O is done: next is O+1, and it starts where O ended
    C = O-1    batch O was planned but not finished: run O again, with exactly its logged offsets, watermark and time
    C < O-1    the logs disagree (somebody deleted commits): Spark warns, and runs O again

1. Read the last entry of the offset log, and the entry before it: the end of batch O-1 is the start of batch O.
2. Take over the logged confs: they win over the session's, because the state was written under them.
3. Compare with the commit log; the watermark is the greater of what both logs say.
4. A finished batch: ask each source for it once more, because a source may expect its last batch to be asked for
   after a restart (Kafka does).

    offsets/ 0 1 2   commits/ 0 1     -> run batch 2 again, from the end of batch 1 to the end of batch 2
    offsets/ 0 1 2   commits/ 0 1 2   -> batch 3, from the end of batch 2

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from minispark_stream.checkpointing.offset_seq_log import OffsetSeq, OffsetSeqMetadata
from minispark_stream.sources.base import Offset

if TYPE_CHECKING:
    from minispark_stream.runtime.micro_batch_execution import MicroBatchExecution

logger = logging.getLogger(__name__)


def populate_start_offsets(query: MicroBatchExecution) -> None:
    """Set `batch_id`, `start_offsets`, `end_offsets`, `is_current_batch_constructed` and the watermark of the query.

    Raises:
        RuntimeError: the entry before the last is missing, or the query has another number of sources than its log.
    """
    latest = query.offset_log.get_latest()
    committed = query.commit_log.get_latest()
    with query.reporter.step(
        "populateStartOffsets", offsetLog=latest and latest[0], commitLog=committed and committed[0]
    ) as step:
        if latest is None:
            query.batch_id = 0
            query.start_watermark_tracker()
        else:
            batch_id, offsets = latest  # (1)
            query.batch_id = batch_id
            query.is_current_batch_constructed = True
            query.end_offsets = by_source(query, offsets)
            if batch_id > 0:
                query.start_offsets = by_source(query, _previous(query, batch_id))
            _restore_metadata(query, offsets)  # (2)
            if committed is None:
                logger.info("no commit log present")
            elif committed[0] == batch_id:  # (3)
                for ordinal, end in query.end_offsets.items():  # (4)
                    query.sources[ordinal].get_batch(query.start_offsets.get(ordinal), end)
                query.batch_id = batch_id + 1
                query.is_current_batch_constructed = False
                query.start_offsets = {**query.start_offsets, **query.end_offsets}
                tracker = query.watermark_tracker
                tracker.set_watermark(max(tracker.current_watermark, committed[1].next_batch_watermark_ms))
            elif committed[0] == batch_id - 1:
                for ordinal, end in query.end_offsets.items():
                    start = query.start_offsets.get(ordinal)
                    if start is None or start == end:
                        query.sources[ordinal].get_batch(start, end)
            elif committed[0] < batch_id - 1:
                logger.warning(
                    "Batch completion log latest batch id is %d, which is not trailing batchid %d by one",
                    committed[0], batch_id,
                )
        query.committed_offsets = dict(query.start_offsets)
        step.out(
            batchId=query.batch_id, start=query.described(query.start_offsets), end=query.described(query.end_offsets),
            rerun=query.is_current_batch_constructed, watermark=query.watermark_tracker.current_watermark,
        )


def by_source(query: MicroBatchExecution, offsets: OffsetSeq) -> dict[int, Offset]:
    """The offsets of a log entry by the ordinal of their source."""
    if len(offsets.offsets) != len(query.leaf_sources):
        raise AssertionError(
            f"assertion failed: There are [{len(offsets.offsets)}] sources in the checkpoint offsets and now there are "
            f"[{len(query.leaf_sources)}] sources requested by the query. Cannot continue."
        )
    return {i: offset for i, offset in zip(query.leaf_sources, offsets.offsets) if offset is not None}


def _previous(query: MicroBatchExecution, batch_id: int) -> OffsetSeq:
    previous = query.offset_log.get(batch_id - 1)
    if previous is None:
        raise RuntimeError(
            f"batch {batch_id - 1} doesn't exist. The offset log in {query.checkpoint}/offsets must hold two subsequent "
            f"entries to restart from batch {batch_id}: restore offsets/{batch_id - 1}, or delete the newest entries of "
            "offsets/ and commits/ until the last two offsets follow each other and the last commit is equal to the last "
            "offset or one batch earlier."
        )
    return previous


def _restore_metadata(query: MicroBatchExecution, offsets: OffsetSeq) -> None:
    if offsets.metadata is None:
        query.start_watermark_tracker()
        return
    metadata = offsets.metadata
    metadata.apply_to_session(query.session.conf.set, query.conf)
    query.metadata = replace(
        OffsetSeqMetadata.from_session(query.conf),
        batch_watermark_ms=metadata.batch_watermark_ms, batch_timestamp_ms=metadata.batch_timestamp_ms,
    )
    query.start_watermark_tracker()
    query.watermark_tracker.set_watermark(metadata.batch_watermark_ms)
