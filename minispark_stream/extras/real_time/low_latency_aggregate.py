"""An aggregation in real-time mode: each row emits the new result of its key, and the state is committed when the batch ends.

Models: StatefulStreamlineAggregateExec, ProjectAggregationBufferExec (in no document: they are newer).

Catalyst merges the buffers, as in micro-batches (engine/operators/aggregation/streaming_aggregation.py), but row by row. So the
task with the state is at the beginning of its pipeline, and what has been merged comes back from the end of it:

1. The sending tasks turn each row into the buffers of a group of one row. Rows that are not after the late watermark of the
   batch are dropped.
2. The task emits a *group* for each row that has come: the buffers in the state, those of the rows before it with the same key,
   and its own. Groups have numbers, and Spark merges rows of the same number.
3. Once more for each key, it emits the last group, as control rows. They pass all operators up to the end of the pipeline, the
   writer or a sender, which sends the merged buffers back (`StateFromEnd`). The task puts them into the state, and only then
   takes more rows.
4. At the end of the batch, groups that are not after the eviction watermark are removed, and the state is committed.

    state a -> 5, rows a 1, b 2, a 3      groups 0: a 5, a 1     1: b 2     2: a 5, a 1, a 3
                                          and comes back: a 9, b 2

A key that comes often makes long groups, so no more than `MOST_OF_A_KEY` rows of a key are taken at once.

Differs from Spark: a row waits until the results of the rows before it have come back, some milliseconds.
Shown by tests/conformance/test_real_time_aggregation.py::test_rows_reports_and_state_are_equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.aggregation.state_store_restore import state_rows
from minispark_stream.engine.operators.aggregation.state_store_save import StateStoreSave
from minispark_stream.engine.operators.columns import is_late, joined, record_batch, take, without
from minispark_stream.engine.operators.state_task import Stopwatch
from minispark_stream.engine.state.state_store import StateStore
from minispark_stream.extras.continuous.queued_data_reader import PUSH
from minispark_stream.extras.real_time.channel import Receiver, WayBack
from minispark_stream.extras.real_time.low_latency_reader import PUSHES_TO_AGGREGATION
from minispark_stream.extras.real_time.streaming_state import Channel, RowByRowTask

MOST_OF_A_KEY = 64
_COMES_BACK = "comes back"
_PUSHES = PUSHES_TO_AGGREGATION + 1  # on their way are an aggregation that merges, and one that evaluates


@dataclass(frozen=True, kw_only=True)
class LowLatencyAggregate(RowByRowTask, StateStoreSave):
    """The task half; calling it runs one partition. Its rows are keys, the control column, the number of a group, and buffers.

    `updated` has the keys that were put in the batch so far.
    """

    updated: set[bytes] = field(default_factory=set)

    def take(self, store: StateStore, rows: pa.RecordBatch, arriving: Receiver) -> Iterator[pa.RecordBatch]:
        clock = Stopwatch()
        late = is_late(rows, self.event_time, self.watermarks.late_ms)  # (1)
        rows = without(rows, late)
        self.counts.update(late=int(late.sum()))
        keys = list(UnsafeRowCodec(self.keys).encode_rows(rows.columns[: len(self.keys)], rows.num_rows))
        for begin, end in _rounds(keys):
            names = arriving.names if end == len(keys) else ()
            yield self._groups(store, rows.slice(begin, end - begin), keys[begin:end], names)  # (2)
            for merged in arriving.merged(len(set(keys[begin:end]))):  # (3)
                self._put(store, merged)
        self.updated.update(keys)
        self.counts["updated"] = len(self.updated)
        self.counts.update(ms=clock.lap())

    def _groups(
        self, store: StateStore, rows: pa.RecordBatch, keys: Sequence[bytes], names: Sequence[str]
    ) -> pa.RecordBatch:
        """The groups of some rows, and rows that push them forward."""
        width, different = len(self.keys), list(dict.fromkeys(keys))
        is_there, values = store.get(different)
        known = [key for key, there in zip(different, is_there) if there]
        old = state_rows(self.keys, self.values, known, values)
        groups: dict[bytes, list[int]] = {key: [] for key in different}
        for i, key in enumerate(known, rows.num_rows):
            groups[key].append(i)
        order, numbers = list[int](), list[int]()
        for i, key in enumerate(keys):
            groups[key].append(i)
            order += groups[key]
            numbers += [i] * len(groups[key])
        of_data = len(order)
        for number, group in enumerate(groups.values(), rows.num_rows):
            order += group
            numbers += [number] * len(group)
        controls = [None] * of_data + [_COMES_BACK] * (len(order) - of_data)
        controls += [PUSH + " ".join(names)] * _PUSHES
        order += [order[-1]] * _PUSHES
        numbers += [-1 - i for i in range(_PUSHES)]
        columns = [joined(new, then) for new, then in zip(_of_state(rows.columns, width), old.columns)]
        columns = take(columns, pa.array(order))
        return record_batch(
            [*columns[:width], pa.array(controls, pa.string()), pa.array(numbers, pa.int64()), *columns[width:]], len(order)
        )

    def evicted(self, store: StateStore) -> tuple[Sequence[bytes], int]:  # (4)
        return self._expired(store)[0], 0 if self.event_time is None else store.num_keys


def _of_state(columns: Sequence[pa.Array], width: int) -> list[pa.Array]:
    """The keys and the buffers."""
    return [*columns[:width], *columns[width + 2 :]]


def _rounds(keys: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Which rows are taken at once, from one to before another."""
    begin, seen = 0, Counter[bytes]()
    for i, key in enumerate(keys):
        if seen[key] == MOST_OF_A_KEY:
            yield begin, i
            begin, seen = i, Counter[bytes]()
        seen[key] += 1
    if keys:
        yield begin, len(keys)


@dataclass(frozen=True)
class StateFromEnd:
    """(3) What the end of a pipeline does with control rows that come back. It passes all others on, with the control column
    that they had before.

    Attributes:
        channel: that of the aggregation.
        control: the position of the control column at this end.
    """

    channel: Channel
    control: int

    def __call__(self, partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        way_back: WayBack | None = None
        for batch in batches:
            both = batch.column(self.control)
            control = pc.struct_field(both, [0])
            comes_back = pc.fill_null(pc.equal(control, _COMES_BACK), False)
            if pc.any(comes_back).as_py():
                way_back = way_back or WayBack(self.channel.switchboard, self.channel.operator_id, partition)
                way_back.send(pa.RecordBatch.from_struct_array(pc.struct_field(both.filter(comes_back), [1])))
            name = batch.schema.field(self.control).name
            yield batch.set_column(self.control, name, control).filter(pc.invert(comes_back))
