"""applyInPandasWithState in one task: call the user's function for each group, then for each group that timed out.

Models: FlatMapGroupsWithStateExecBase.processDataWithPartition and FlatMapGroupsInPandasWithStateExec (SIGMOD'18 paper,
4.3.2: stateful processing operators; About state). In this order:

1. Read the rows of the partition, sorted by key. With an event-time timeout, drop those that are not after the *late*
   watermark, and count them. Otherwise the function must deal with late rows itself.
2. Each key's rows, and its state from version N of the store, make a `Group`; the function is called for each group
   (grouped_map_pandas_with_state.py).
3. Save what the function did with the `GroupState`:
       removed, and no timeout set       remove the row
       updated, removed, or timeout set  put (state or null, timeout)
       none of these                     leave the old row as it is, with its old timeout
4. Then look for keys in the store whose timeout is before the batch's time (processing time) or before the *eviction* watermark
   (event time). Do (2) and (3) for these, with an empty frame, and with `state.hasTimedOut`.
5. Commit: write version N+1. Then the rows in the frames that the function returned are emitted.

    version 3    ann -> (2), timeout 12:05
    batch        bob: 1 row                     eviction watermark 12:06
    calls        (bob, 1 row, no state) then (ann, no row, state (2), hasTimedOut)

The timeout is a part of the state row: if the function updates the state and sets no timeout, the key has none any more.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.operators.columns import EventTime, concat, is_late, normalized, without
from minispark_stream.engine.operators.groups.arrow_batches import batch_ends
from minispark_stream.engine.operators.groups.group_state_rows import NO_TIMESTAMP, GroupStateRows
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import (
    Group,
    GroupedMapPandasWithState,
    PandasConf,
    load_function,
)
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import OF_A_BATCH, StateTask, Stopwatch
from minispark_stream.engine.operators.told import KEPT, LATE, Told, told_of_calls
from minispark_stream.engine.state.state_store import StateStore, each

Groups = tuple[pa.RecordBatch, list[Group]]  # some rows, and the groups that they are divided into
NO_GROUPS: Groups = pa.RecordBatch.from_arrays([], names=[]), []


@dataclass(frozen=True, kw_only=True)
class ApplyInPandasWithState(StateTask):
    """The task; calling it runs one partition (for mapInArrow).

    `command` is the function as PySpark pickled it in the driver. `columns` is the schema of the rows that come in, and
    `grouping` has the positions of the keys in it. `result` is the schema of the rows that the function returns.
    """

    command: bytes
    columns: StructType
    grouping: tuple[int, ...]
    keys: StructType
    state: StructType
    result: StructType
    timeout: str
    event_time: EventTime | None
    pandas: PandasConf
    batch_timestamp_ms: int = OF_A_BATCH

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows to emit and what happened."""
        clock = Stopwatch()
        [store] = stores
        function = GroupedMapPandasWithState(
            load_function(self.command), self.grouping, self.result, self.output, self.pandas
        )
        keys = UnsafeRowCodec(self.keys)
        states = GroupStateRows(self.state, self.timeout != GroupStateTimeout.NoTimeout)
        arrived = concat(batches)
        drops = self.timeout == GroupStateTimeout.EventTimeTimeout
        late = is_late(arrived, self.event_time if drops else None, self.watermarks.late_ms)  # (1)
        rows = without(arrived, late)
        function.check_types(rows)
        batch, groups = self._groups(store, keys, states, rows)
        emitted = list(function.call(batch, groups))  # (2)
        put, removed = save(store, states, groups)  # (3)
        updates_ms = clock.lap()
        batch, timed_out = self._timed_out(store, keys, states)  # (4)
        emitted += function.call(batch, timed_out)
        put_by_timeout, removed_by_timeout = save(store, states, timed_out)
        removals_ms = clock.lap()
        return emitted, self.committed(  # (5)
            clock,
            stores,
            lambda: (Told(LATE, arrived.filter(pa.array(late))), Told(KEPT, rows), *_calls(keys, groups, timed_out, emitted)),
            num_rows_updated=put + put_by_timeout,
            num_rows_removed=removed + removed_by_timeout,
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms + removals_ms,
            all_removals_time_ms=removals_ms,
        )

    def _groups(
        self, store: StateStore, codec: UnsafeRowCodec, states: GroupStateRows, rows: pa.RecordBatch
    ) -> Groups:
        """The groups of the batch, in the order of their keys. Where an Arrow batch ends, so does a frame.

        Keys with equal numbers are one group even if their bytes differ (0.0 and -0.0); the key of the first row counts.
        """
        if not rows.num_rows:
            return NO_GROUPS
        columns = [rows.column(i) for i in self.grouping]
        keys = codec.encode(columns)
        equal = codec.encode([normalized(column) for column in columns])
        starts = [0, *(i for i in range(1, len(keys)) if equal[i] != equal[i - 1])]
        group_keys = [keys[start] for start in starts]
        found = self._group_states(states, group_keys, each(store.get(group_keys)))
        most_rows, most_bytes = self.pandas.max_records_per_batch, self.pandas.max_bytes_per_batch
        ends, groups = [*batch_ends(rows.columns, rows.num_rows, most_rows, most_bytes)], []
        for key, state, start, end in zip(group_keys, found, starts, [*starts[1:], len(keys)]):
            cuts = [start, *ends[bisect_right(ends, start) : bisect_left(ends, end)], end]
            groups.append(Group(key, list(zip(cuts, cuts[1:])), state))
        return rows.rename_columns(self.columns.names), groups

    def _timed_out(self, store: StateStore, codec: UnsafeRowCodec, states: GroupStateRows) -> Groups:
        """The groups whose timeout has passed, each with one row in which only the key is filled."""
        if self.timeout == GroupStateTimeout.NoTimeout or not store.num_keys:
            return NO_GROUPS
        before = self.watermarks.eviction_ms if self.timeout == GroupStateTimeout.EventTimeTimeout else self.batch_timestamp_ms
        items = list(zip(*store.rows()))
        timeouts = states.timeouts([value for _, value in items])
        expired = [items[i] for i in np.flatnonzero((timeouts != NO_TIMESTAMP) & (timeouts < before))]
        if not expired:
            return NO_GROUPS
        key_rows = [key for key, _ in expired]
        columns = [pa.nulls(len(expired)) for _ in self.columns]  # the function only gets to see their names
        for i, column in zip(self.grouping, codec.decode(key_rows)):
            columns[i] = column
        rows = pa.RecordBatch.from_arrays(columns, names=self.columns.names)
        found = self._group_states(states, key_rows, [value for _, value in expired], timed_out=True)
        return rows, [Group(key, [(i, i + 1)], state) for i, (key, state) in enumerate(zip(key_rows, found))]

    def _group_states(
        self, states: GroupStateRows, keys: Sequence[bytes], rows: Sequence[bytes | None], timed_out: bool = False
    ) -> list[GroupState]:
        """The GroupState for each call, as Spark makes it: the old timeout is not passed on."""
        known = iter(states.decode([row for row in rows if row is not None]))
        found: list[Any] = [None if row is None else next(known) for row in rows]
        return [
            GroupState(
                optionalValue=state, batchProcessingTimeMs=self.batch_timestamp_ms,
                eventTimeWatermarkMs=self.watermarks.eviction_ms, timeoutConf=self.timeout, hasTimedOut=timed_out,
                watermarkPresent=self.event_time is not None, defined=state is not None, updated=False, removed=False,
                timeoutTimestamp=NO_TIMESTAMP, keyAsUnsafe=key, valueSchema=self.state,
            )
            for key, state in zip(keys, found)
        ]


def _calls(keys: UnsafeRowCodec, groups: list[Group], timed_out: list[Group], emitted: list[pa.RecordBatch]) -> Iterable[Told]:
    every = [*groups, *timed_out]
    counts = [group.num_given for group in every]
    return told_of_calls(emitted, keys.decode([group.key for group in every]), counts, by_rows=len(groups))


def save(store: StateStore, states: GroupStateRows, groups: Iterable[Group]) -> tuple[int, int]:
    """(3) Write what the function did with the states; returns how many were put and how many removed."""
    put: list[bytes] = []
    values: list[tuple[Any, ...] | None] = []
    timeouts: list[int] = []
    removed: list[bytes] = []
    for group in groups:
        after = json.loads(group.state.json())
        timeout = int(after["timeoutTimestamp"])
        if after["removed"] and timeout == NO_TIMESTAMP:
            removed.append(group.key)
        elif after["updated"] or after["removed"] or timeout != NO_TIMESTAMP:
            put.append(group.key)
            values.append(group.state.getOption)
            timeouts.append(timeout)
    if put:
        store.put(put, states.encode(values, timeouts))
    store.remove(removed)
    return len(put), len(removed)
