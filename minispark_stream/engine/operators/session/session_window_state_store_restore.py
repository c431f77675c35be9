"""The first task of a session window aggregation: insert the sessions of the state among the new ones, in order.

Models: SessionWindowStateStoreRestoreExec and MergingSortWithSessionWindowStateIterator (About state).

1. Read the new rows, sorted by group and session, or sort them. Drop those whose session ends at or before the *late*
   watermark, and count them.
2. Read all sessions of the same groups from version N of the store.
3. Emit both, sorted by group and start; of two sessions with the same start, the old one comes first.

    gap 5 minutes   version 3     a [12:00, 12:05) count 1, a [12:08, 12:13) count 2
                    new rows      a [12:04, 12:09) count 1
                    emitted       a [12:00, 12:05), a [12:04, 12:09), a [12:08, 12:13)

Nothing is changed: the task only reads the store.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from minispark_stream.engine.operators.columns import EventTime, Ints, concat, is_late, joined, record_batch, take, without
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.session.streaming_session_window_state_manager import (
    StreamingSessionWindowStateManager,
    session_times,
)
from minispark_stream.engine.operators.state_task import StateTask
from minispark_stream.engine.operators.told import LATE, Told
from minispark_stream.engine.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class SessionWindowStateStoreRestore(StateTask):
    """The first task; calling it runs one partition (for mapInArrow). `sorts`: whether the rows come unsorted."""

    state: StreamingSessionWindowStateManager
    event_time: EventTime | None
    sorts: bool

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """The old and new sessions, and how many rows were late."""
        [store] = stores
        new = concat(batches)
        if self.sorts:  # (1)
            new = new.take(self.state.order(new.columns))
        late = is_late(new, self.event_time, self.watermarks.late_ms)
        both = self.with_old_sessions(store, without(new, late))
        told = self.tell(lambda: (Told(LATE, new.filter(pa.array(late))),))
        return [both], StateMetrics(num_rows_dropped_by_watermark=int(late.sum()), told=told)

    def with_old_sessions(self, store: StateStore, rows: pa.RecordBatch) -> pa.RecordBatch:
        """New rows and the sessions of their groups, sorted by group and start."""
        new = rows.columns
        groups = self.state.groups(new)
        old = self.state.get_sessions(store, groups)  # (2)
        group = np.concatenate([old.positions, groups.of_row])
        both = list(map(joined, self.state.columns(old.values), new))
        start, _ = session_times(both[self.state.session])
        return record_batch(take(both, by_group_and_start(group, start)), len(group))  # (3)


def by_group_and_start(group: Ints, start: Ints) -> Ints:
    """The order of some sessions by group and start; those that have both in common stay as they come.

    The sessions come in a few sorted runs. numpy makes use of this if it sorts by one number, and not if it sorts by two. So
    group and start become one number, if it has no more than 63 bits.
    """
    least, most = (int(start.min()), int(start.max())) if len(start) else (0, 0)
    span = most - least + 1
    if len(group) * span < 1 << 63:
        return np.argsort(group * span + (start - least), kind="stable")
    return np.lexsort((start, group))
