"""The second task of a session window aggregation: save the merged sessions, evict, emit.

Models: SessionWindowStateStoreSaveExec (About state), in this order:

1. Read all sessions of the groups in the batch; Spark has merged those that overlap or touch.
2. Save: they replace all sessions that these groups had before (streaming_session_window_state_manager.py).
3. Emit what the output mode asks for:
       complete   every session of the state; nothing is ever evicted
       append     the sessions whose end the *eviction* watermark has reached, which are removed at the same time
4. Commit: write version N+1.

    gap 5 minutes   version 3        a [12:00, 12:05) count 1, a [12:08, 12:13) count 2
                    batch            a [12:00, 12:13) count 4
                    version 4        a [12:00, 12:13) count 4      put the key (a, 12:00), remove (a, 12:08)

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from minispark_stream.engine.checkpointing.unsafe_row import chosen
from minispark_stream.engine.operators.columns import EventTime, concat, record_batch, state_not_after
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.session.streaming_session_window_state_manager import StreamingSessionWindowStateManager
from minispark_stream.engine.operators.state_task import OF_A_BATCH, StateTask, Stopwatch
from minispark_stream.engine.operators.told import EMITTED, KEPT, REMOVED, Told
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class SessionWindowStateStoreSave(StateTask):
    """The second task; calling it runs one partition (for mapInArrow)."""

    state: StreamingSessionWindowStateManager
    event_time: EventTime | None
    output_mode: str = OF_A_BATCH

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows to emit and what happened."""
        clock = Stopwatch()
        [store] = stores
        rows = concat(batches)  # (1)
        swallowed = self.state.update_sessions(store, rows.columns)  # (2)
        updates_ms = clock.lap()
        expired, values = self._expired(store) if self.output_mode != "complete" else ([], store.rows()[1])
        emitted = record_batch(self.state.columns(values), len(values))  # (3)
        store.remove(expired)
        removals_ms = clock.lap()
        return [emitted], self.committed(  # (4)
            clock,
            stores,
            lambda: (
                Told(KEPT, rows), Told(EMITTED, emitted),
                Told(REMOVED, emitted if self.output_mode == "append" else emitted.slice(0, 0)),
            ),
            num_rows_updated=rows.num_rows,
            num_rows_removed=swallowed + len(expired),
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            num_state_stores=0 if self.output_mode == "complete" else None,  # in this mode, Spark does not count them
        )

    def _expired(self, store: StateStore) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The keys and values of the sessions that no later row can change."""
        if self.event_time is None or not self.watermarks.moved or not store.num_keys:
            return [], []
        keys, values = store.rows()
        gone = state_not_after(self.state.values, values, self.event_time, self.watermarks.eviction_ms)
        return chosen(keys, gone), chosen(values, gone)
