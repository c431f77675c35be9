"""The second task of a streaming aggregation: save the merged buffers, evict, emit.

Models: StateStoreSaveExec (the StructuredStreaming analysis, "About state"; SIGMOD'18 paper, section 6.1), in this order:

1. Read the rows of the batch, in which Spark has merged old and new buffers: one row for each key.
2. Drop the rows whose event time is not after the *late* watermark, and count them. In complete mode, no row is late.
3. Put the other rows into the store.
4. Choose the rows that the output mode asks for, and evict the state that the *eviction* watermark has passed:
       complete   every row of the state; nothing is ever evicted
       update     the rows of (3), whether they changed or not; then the expired ones are removed
       append     the rows that expire, which are removed at the same time: no later row can change them
5. Commit: write version N+1. Then emit the chosen rows.

    version 3    12:00 -> count 2,  12:05 -> count 1
    batch        12:05 -> count 2,  12:10 -> count 4      eviction watermark 12:05 (it is compared with the end of a window)
    version 4    12:05 -> count 2,  12:10 -> count 4      append emits (12:00, 2)

If the watermark has not moved, the state is not searched: what it has passed was removed when it moved to where it is.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, chosen
from minispark_stream.engine.operators.aggregation.state_store_restore import state_rows
from minispark_stream.engine.operators.columns import EventTime, concat, is_late, state_not_after, without
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import OF_A_BATCH, StateTask, Stopwatch
from minispark_stream.engine.operators.told import EMITTED, KEPT, LATE, REMOVED, Told
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class StateStoreSave(StateTask):
    """The second task; calling it runs one partition (for mapInArrow).

    `keys` and `values` are the schemas of the state rows; `event_time` is the key that has the watermark.
    """

    keys: StructType
    values: StructType
    event_time: EventTime | None
    output_mode: str = OF_A_BATCH

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows to emit and what happened."""
        clock = Stopwatch()
        [store] = stores
        merged = concat(batches)  # (1)
        late = is_late(merged, None if self.output_mode == "complete" else self.event_time, self.watermarks.late_ms)  # (2)
        rows = without(merged, late)
        self._put(store, rows)  # (3)
        updates_ms = clock.lap()
        expired = self._expired(store) if self.output_mode != "complete" else ([], [])
        match self.output_mode:  # (4)
            case "complete":
                emitted = state_rows(self.keys, self.values, *store.rows())
            case "update":
                emitted = rows
            case "append":
                emitted = state_rows(self.keys, self.values, *expired)
        removed = store.remove(expired[0])
        removals_ms = clock.lap()
        return [emitted], self.committed(  # (5)
            clock,
            stores,
            lambda: (
                Told(LATE, merged.filter(pa.array(late))), Told(KEPT, rows), Told(EMITTED, emitted),
                Told(REMOVED, state_rows(self.keys, self.values, *expired)),
            ),
            num_rows_updated=rows.num_rows,
            num_rows_removed=removed,
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
        )

    def _put(self, store: StateStore, rows: pa.RecordBatch) -> None:
        """Put the rows into the store."""
        keys, values = rows.columns[: len(self.keys)], rows.columns[len(self.keys) :]
        encoded = UnsafeRowCodec(self.keys).encode_rows(keys, rows.num_rows)
        store.put(encoded, UnsafeRowCodec(self.values).encode_rows(values, rows.num_rows))

    def _expired(self, store: StateStore) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The keys and values of the state that no later row can change."""
        if self.event_time is None or not self.watermarks.moved or not store.num_keys:
            return [], []
        keys, values = store.rows()
        gone = state_not_after(self.keys, keys, self.event_time, self.watermarks.eviction_ms)
        return chosen(keys, gone), chosen(values, gone)
