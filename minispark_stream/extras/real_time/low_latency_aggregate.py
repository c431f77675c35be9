"""An aggregation in real-time mode: each row emits the new result of its key, and the state is committed when the batch ends.

Models: StatefulStreamlineAggregateExec, ProjectAggregationBufferExec (in no document: they are newer).

Catalyst merges the buffers, as in micro-batches (engine/operators/aggregation/streaming_aggregation.py), but row by row. So the
task with the state is at the beginning of its pipeline, and what has been merged comes back from the end of it:

1. The sending tasks turn each row into the buffers of a group of one row. Rows that are not after the late watermark of the
   batch are dropped.
2. The task takes all rows that have come, and emits a *group* for each: the buffers in the state, those of the rows before it
   with the same key, and its own. Groups have numbers, and Spark merges rows of the same number.
3. The last group of each key is marked. Of its result, Spark makes two rows: one goes on as any other; the other is a control
   row, which passes all operators up to the end of the pipeline, the writer or a sender. That sends the merged buffers back
   (`StateFromEnd`). The task puts them into the state, and only then takes more rows.
4. At the end of the batch, groups that are not after the eviction watermark are removed, and the state is committed.

    state a -> 5, rows a 1, b 2, a 3      groups 0: a 5, a 1     1: b 2, marked     2: a 5, a 1, a 3, marked
                                          and comes back: b 2, a 9

Each time that a key comes again, all rows before it are merged once more. So the rows are taken in rounds, which end before
more than `MOST_REPEATED` rows are repeated. As long as most keys are different, whatever waits is one round.

Differs from Spark: a row waits until the results of the rows before it have come back, some milliseconds.
Shown by tests/conformance/test_real_time_aggregation.py::test_rows_reports_and_state_are_equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.aggregation.state_store_restore import state_rows
from minispark_stream.engine.operators.aggregation.state_store_save import StateStoreSave
from minispark_stream.engine.operators.columns import is_late, joined, record_batch, take, without
from minispark_stream.engine.operators.state_task import Stopwatch
from minispark_stream.engine.state.state_store import StateStore
from minispark_stream.extras.continuous.queued_data_reader import PUSH
from minispark_stream.extras.jvm.pipelined_stages import COMES_BACK
from minispark_stream.extras.real_time.channel import Receiver, WayBack
from minispark_stream.extras.real_time.low_latency_reader import PUSHES_TO_AGGREGATION
from minispark_stream.extras.real_time.streaming_state import Channel, RowByRowTask

MOST_REPEATED = 2048  # to merge so many takes Spark about as long as a round takes besides
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
            different = list(dict.fromkeys(keys[begin:end]))
            yield self._groups(store, rows.slice(begin, end - begin), keys[begin:end], different, names)  # (2)
            for merged in arriving.merged(len(different)):  # (3)
                self._put(store, merged)
        self.updated.update(keys)
        self.counts["updated"] = len(self.updated)
        self.counts.update(ms=clock.lap())

    def _groups(
        self, store: StateStore, rows: pa.RecordBatch, keys: Sequence[bytes], different: Sequence[bytes], names: Sequence[str]
    ) -> pa.RecordBatch:
        """The groups of some rows, and rows that push them forward."""
        width, count = len(self.keys), rows.num_rows
        is_there, values = store.get(different)
        known = [key for key, there in zip(different, is_there) if there]
        columns = _of_state(rows.columns, width)
        if known:
            old = state_rows(self.keys, self.values, known, values)
            columns = [joined(new, then) for new, then in zip(columns, old.columns)]
        number_of = {key: i for i, key in enumerate(different)}
        of_key = np.fromiter(map(number_of.__getitem__, keys), np.int64, count)
        order, group, is_last = _in_groups(of_key, np.fromiter(map(number_of.__getitem__, known), np.int64, len(known)))
        columns = take(columns, pa.array(np.append(order, [0] * _PUSHES)))
        words = pa.array([None, COMES_BACK, PUSH + " ".join(names)], pa.string())
        control = words.take(pa.array(np.append(is_last[group].astype(np.int64), [2] * _PUSHES)))
        number = pa.array(np.append(group, [-1 - i for i in range(_PUSHES)]))
        return record_batch([*columns[:width], control, number, *columns[width:]], len(number))

    def evicted(self, store: StateStore) -> tuple[Sequence[bytes], int]:  # (4)
        return self._expired(store)[0], 0 if self.event_time is None else store.num_keys


def _of_state(columns: Sequence[pa.Array], width: int) -> list[pa.Array]:
    """The keys and the buffers."""
    return [*columns[:width], *columns[width + 2 :]]


def _in_groups(of_key: Any, known: Any) -> tuple[Any, Any, Any]:
    """The groups of rows, whose keys are given by numbers: for each row of a group, which one it is, and its group; and which
    groups are the last of their keys. The rows in the state of the keys `known` come after the others.
    """
    count = len(of_key)
    number = np.concatenate([known, of_key])
    by_key = np.argsort(number, kind="stable")  # of each key, the row in the state, and then the others
    begins = np.searchsorted(number[by_key], of_key)
    place = np.empty(len(number), np.int64)
    place[by_key] = np.arange(len(number))
    lengths = place[len(known):] - begins + 1
    group = np.repeat(np.arange(count), lengths)
    within = np.arange(len(group)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = by_key[begins[group] + within] - len(known)
    ends = np.searchsorted(number[by_key], of_key, side="right")
    return np.where(row < 0, row + len(number), row), group, place[len(known):] == ends - 1


def _rounds(keys: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Which rows are taken at once, from one to before another."""
    begin, repeated, seen = 0, 0, dict[bytes, int]()
    for i, key in enumerate(keys):
        before = seen.get(key, 0)
        repeated += before
        if repeated > MOST_REPEATED:
            yield begin, i
            begin, repeated, before, seen = i, 0, 0, {}
        seen[key] = before + 1
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
            comes_back = pc.fill_null(pc.equal(control, COMES_BACK), False)
            if pc.any(comes_back).as_py():
                way_back = way_back or WayBack(self.channel.switchboard, self.channel.operator_id, partition)
                way_back.send(pa.RecordBatch.from_struct_array(pc.struct_field(both.filter(comes_back), [1])))
            name = batch.schema.field(self.control).name
            yield batch.set_column(self.control, name, control).filter(pc.invert(comes_back))
