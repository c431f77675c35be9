"""dropDuplicates in real-time mode: a row with a new key passes when it comes, and the state is committed when the batch ends.

Models: StreamingDeduplicateExec (About state; SIGMOD'18 paper, 4.3), which works row by row in every mode.

1. Rows that are not after the late watermark of the batch are dropped. It stands still for as long as the batch lasts.
2. A row with a new key passes at once, and its key is put into the state.
3. At the end of the batch, keys that are not after the eviction watermark are removed, and the state is committed.

    12:00:00.100   a     passes, after milliseconds
    12:00:03.000   a     a duplicate
    12:00:05.000         the batch ends: version 8 of the state, with a

Differs from Spark: nothing.
Shown by tests/conformance/test_real_time_state.py::test_logs_and_reports_are_equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from minispark_stream.engine.operators.columns import is_late, without
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import Deduplicate
from minispark_stream.engine.operators.state_task import Stopwatch
from minispark_stream.engine.state.state_store import StateStore
from minispark_stream.extras.continuous.queued_data_reader import PUSH
from minispark_stream.extras.real_time.channel import Receiver
from minispark_stream.extras.real_time.streaming_state import RowByRowTask


@dataclass(frozen=True, kw_only=True)
class LowLatencyDeduplicate(RowByRowTask, Deduplicate):
    """The task half; calling it runs one partition."""

    pushes: int
    own_metrics = ("numDroppedDuplicateRows",)

    def take(self, store: StateStore, rows: pa.RecordBatch, arriving: Receiver) -> Iterator[pa.RecordBatch]:
        clock = Stopwatch()
        late = is_late(rows, self.event_time, self.watermarks.late_ms)  # (1)
        in_time = without(rows, late)
        passed = without(in_time, ~self._put_new(store, in_time))  # (2)
        self.counts.update(
            late=int(late.sum()), updated=passed.num_rows, numDroppedDuplicateRows=in_time.num_rows - passed.num_rows,
            ms=clock.lap(),
        )
        yield passed
        if passed.num_rows and arriving.is_empty():
            yield self._pushes(arriving.names)

    def _pushes(self, names: Sequence[str]) -> pa.RecordBatch:
        push = PUSH + " ".join(names)
        columns = [
            pa.array([push] * self.pushes, f.type) if i == self.channel.control else pa.nulls(self.pushes, f.type)
            for i, f in enumerate(self.output)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.output)

    def evicted(self, store: StateStore) -> tuple[Sequence[bytes], int]:  # (3)
        return self._expired(store), store.num_keys if self.forgets else 0
