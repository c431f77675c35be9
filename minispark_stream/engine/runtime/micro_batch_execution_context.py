"""What the loop knows of one batch, from planning to commit.

Models: MicroBatchExecutionContext (Execution flow). A context never changes: each stage of the loop takes one and returns the
next, and the difference between the two is what the stage did.

    populate_start_offsets   batch_id, start_offsets, the watermark; also end_offsets if a batch must run again
    construct_next_batch     end_offsets, metadata (watermark, time, confs), is_current_batch_constructed
    run_batch                execution (the plan that ran), what the sink and the state operators counted, the new watermark
    context.next()           batch_id + 1, start_offsets = end_offsets

Each offset is kept under the number of its source: {0: '{"logOffset":3}'}.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqMetadata
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats, WatermarkTracker
from minispark_stream.engine.sources.base import Offset

Offsets = Mapping[int, Offset]


@dataclass(frozen=True)
class MicroBatchExecutionContext:
    """One batch.

    `previous` is the batch before it, as this run knows it, or, after a restart, as the offset log does. `unique_ids` and
    `new_unique_ids` are the ids of the files with the state that the batch begins and ends with; None in checkpoint format 1
    (commit_log.py).
    """

    batch_id: int = 0
    start_offsets: Offsets = field(default_factory=dict)
    end_offsets: Offsets = field(default_factory=dict)
    latest_offsets: Offsets = field(default_factory=dict)  # how far the sources could be read, regardless of any limit
    metadata: OffsetSeqMetadata = OffsetSeqMetadata()
    another_batch: bool = False  # whether a batch would run even without new data
    is_current_batch_constructed: bool = False
    watermark_tracker: WatermarkTracker = WatermarkTracker()
    execution: IncrementalExecution | None = None
    num_output_rows: int | None = None
    num_input_rows: Mapping[int, int] | None = None  # by source, if its own tasks have counted them (real-time mode)
    state_operators: tuple[Mapping[str, Any], ...] = ()
    event_time_stats: tuple[EventTimeStats, ...] = ()
    unique_ids: Mapping[str, Any] | None = None
    new_unique_ids: Mapping[str, Any] | None = None
    previous: MicroBatchExecutionContext | None = None

    def is_new_data_available(self) -> bool:
        return any(self.start_offsets.get(source) != end for source, end in self.end_offsets.items())

    def should_run_another_batch(self) -> bool:
        """Whether a stateful operator has work without data. Before this run has run a batch, no operator is asked."""
        last = self.previous.execution if self.previous else None
        return last is not None and last.should_run_another_batch(self.metadata.batch_watermark_ms)

    @property
    def is_first_of_run(self) -> bool:
        """Whether this run has not run a batch yet."""
        return self.previous is None or self.previous.execution is None

    @property
    def previous_watermark_ms(self) -> int:
        """The watermark of the batch before, which decides whether rows are late."""
        return self.previous.metadata.batch_watermark_ms if self.previous else 0

    def next(self) -> MicroBatchExecutionContext:
        """The batch after this one, which begins where this one ended (getNextContext)."""
        return MicroBatchExecutionContext(
            batch_id=self.batch_id + 1,
            start_offsets={**self.start_offsets, **self.end_offsets},
            end_offsets=self.end_offsets,
            latest_offsets=self.latest_offsets,
            metadata=self.metadata,
            watermark_tracker=self.watermark_tracker,
            unique_ids=self.new_unique_ids,
            previous=replace(self, previous=None),  # one batch back is enough; a chain would keep all batches in memory
        )
