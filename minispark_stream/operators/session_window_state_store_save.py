"""A session window aggregation in one task: merge new sessions with old ones, save, evict, emit.

Models: SessionWindowStateStoreRestoreExec, MergingSessionsExec and SessionWindowStateStoreSaveExec with
StreamingSessionWindowStateManagerImplV1 (About state; About watermark: session windows), in this order:

1. Drop the rows whose session ends at or before the *late* watermark, and count them.
2. Restore: read all sessions of the keys in the batch from version N of the store.
3. Merge: sort old and new sessions by key and start. A session that starts after the end of all before it opens a
   new one; any other belongs to the one before it, which grows to the later of the two ends. The buffers are merged
   from left to right.
4. Save: all sessions of these keys replace the old ones; a session that was swallowed by an earlier one is removed.
5. Emit what the output mode asks for:
       complete   every session of the state; nothing is ever evicted
       append     the sessions that the *eviction* watermark has reached, removed as they are emitted
6. Commit: write version N+1.

    gap 5 minutes   version 3        a [12:00, 12:05) count 1, a [12:08, 12:13) count 2
                    batch            a [12:04, 12:09) count 1
                    version 4        a [12:00, 12:13) count 4      put the key (a, 12:00), remove (a, 12:08)

Sessions that only touch (one ends where the next begins) are merged, as in Spark. Differs from Spark: late rows are
dropped by this task and not by an operator before it; an unmoved watermark skips the eviction scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.unsafe_row import FixedField, UnsafeRowCodec
from minispark_stream.operators.aggregates import AggregateFunction
from minispark_stream.operators.aggregation_buffers import merge_buffers, unpack_buffers
from minispark_stream.operators.columns import Columns, EventTime, concat, is_late, not_after, take, without
from minispark_stream.operators.metrics import StateMetrics
from minispark_stream.operators.state_task import StateTask, Stopwatch
from minispark_stream.state.state_store import StateStore

Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class SessionWindowStateStoreSave(StateTask):
    """What a task of a session window aggregation needs to know; calling it runs one partition (for mapInArrow).

    `keys` and `values` are the schemas of the state rows; `session` and `event_time` are positions in `values`, which
    begins with the grouping columns.
    """

    output_mode: str
    keys: StructType
    values: StructType
    functions: tuple[AggregateFunction, ...]
    session: int
    event_time: EventTime | None

    def run(self, store: StateStore, batches: Iterable[pa.RecordBatch]) -> tuple[list[Columns], StateMetrics]:
        """One partition against an open store: the columns to emit, and what happened."""
        clock = Stopwatch()
        codec = UnsafeRowCodec(self.values)
        rows = concat(batches)
        late = is_late(rows, self.event_time, self.watermarks.late_ms)  # (1)
        new = without(rows, late)
        updated, swallowed = self._merge_into(store, codec, new) if new and len(new[0]) else (0, 0)
        updates_ms = clock.lap()
        expired: list[bytes] = []
        match self.output_mode:  # (5)
            case "complete":
                out = [value for _, value in store.items()]
            case _:
                expired, out = self._expired(store, codec)
                store.remove_many(expired)
        removals_ms = clock.lap()
        store.commit()  # (6)
        return [self._emitted(codec.decode(out))], StateMetrics(
            num_rows_updated=updated,
            num_rows_removed=swallowed + len(expired),
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores={"default": store.metrics()},
            num_state_stores=0 if self.output_mode == "complete" else None,  # Spark does not count them there
        )

    def _merge_into(self, store: StateStore, codec: UnsafeRowCodec, new: Columns) -> tuple[int, int]:
        """(2) to (4): how many sessions were put, and how many were removed because another one swallowed them."""
        key_codec = UnsafeRowCodec(self.keys)
        key_rows = self._key_rows(key_codec, new, np.zeros(len(new[0]), np.int64))
        groups: dict[bytes, int] = {}
        group = [groups.setdefault(row, len(groups)) for row in key_rows]
        old_keys, old_values = self._sessions_of(store, groups)  # (2)
        group = [*(groups[self._start.with_long(key, 0)] for key in old_keys), *group]
        rows = [pa.concat_arrays([o, n.cast(o.type)]) for o, n in zip(codec.decode(old_values), new)]
        is_new = np.arange(len(group)) >= len(old_keys)
        merged = self._merge_sessions(rows, np.asarray(group), is_new)  # (3)
        start, _ = _times(merged[self.session])
        keys = self._key_rows(key_codec, merged, start)
        swallowed = store.remove_many(set(old_keys).difference(keys))  # (4)
        store.put_many(keys, codec.encode(merged))
        return len(keys), swallowed

    def _merge_sessions(self, rows: Columns, group: Ints, is_new: Ints) -> Columns:
        """(3) `rows`: grouping columns and buffers of old and new sessions; the same, merged."""
        start, end = _times(rows[self.session])
        order = np.lexsort((end, is_new, start, group))
        group, start, end = group[order], start[order], end[order]
        first = np.flatnonzero(opens_session(group, start, end))
        width = len(self.values.fields) - sum(function.width for function in self.functions)
        grouping = take(rows[:width], order[first])
        grouping[self.session] = _windows(grouping[self.session].type, start[first], np.maximum.reduceat(end, first))
        return grouping + self._fold(take(rows[width:], order), first, np.diff(first, append=len(order)))

    def _fold(self, buffers: Columns, first: Ints, length: Ints) -> Columns:
        """The buffers of each run of rows merged into one row, from left to right, all runs at the same time.

        Longest runs first: those that still have a row in round n are then a prefix of all runs.
        """
        longest_first = np.argsort(-length, kind="stable")
        first, length = first[longest_first], length[longest_first]
        merged, done = take(buffers, first), []
        for n in range(1, int(length[0])):
            running = int(np.searchsorted(-length, -n))
            done.append([column[running:] for column in merged])
            merged = [column[:running] for column in merged]
            merged = merge_buffers(self.functions, merged, take(buffers, first[:running] + n))
        folded = [pa.concat_arrays(parts) for parts in zip(merged, *reversed(done))]
        return take(folded, np.argsort(longest_first))

    def _key_rows(self, codec: UnsafeRowCodec, rows: Columns, start: Ints) -> list[bytes]:
        grouping = [column for i, column in enumerate(rows[: len(self.keys.fields)]) if i != self.session]
        return codec.encode([*grouping, pa.array(start).cast(codec.arrow_types[-1])], len(start))

    @property
    def _start(self) -> FixedField:
        """The start of the session in a state key. With 0 there, the key is the same for all sessions of a group."""
        return FixedField(len(self.keys.fields) - 1, of=len(self.keys.fields))

    def _sessions_of(self, store: StateStore, groups: dict[bytes, int]) -> tuple[list[bytes], list[bytes]]:
        start = self._start
        found = [(key, value) for key, value in store.items() if start.with_long(key, 0) in groups]
        return [key for key, _ in found], [value for _, value in found]

    def _expired(self, store: StateStore, codec: UnsafeRowCodec) -> tuple[list[bytes], list[bytes]]:
        """Keys and values of the sessions that no later row can change."""
        if self.event_time is None or not self.watermarks.moved or not store.num_keys:
            return [], []
        sessions = list(store.items())
        ended = not_after(codec.decode([value for _, value in sessions]), self.event_time, self.watermarks.eviction_ms)
        found = [sessions[i] for i in np.flatnonzero(ended)]
        return [key for key, _ in found], [value for _, value in found]

    def _emitted(self, rows: Columns) -> Columns:
        width = len(rows) - sum(function.width for function in self.functions)
        return [*rows[:width], *unpack_buffers(self.functions, rows[width:])]


def opens_session(group: Ints, start: Ints, end: Ints) -> Ints:
    """Which rows open a session: those that start after the end of every row before them in their group.

    Args:
        group: the number of each row's group; rows are sorted by group, then by start.
        start, end: of each row's own session, in any unit.

    The running maximum must begin anew with each group; so times become ranks, and each group gets ranks of its own
    that are higher than those of all groups before it.
    """
    n = len(group)
    _, rank = np.unique(np.concatenate([start, end]), return_inverse=True)
    offset = group * (2 * n)
    reach = np.maximum.accumulate(rank[n:] + offset)
    opens = np.ones(n, np.bool_)
    opens[1:] = (rank[:n] + offset)[1:] > reach[:-1]
    return opens


def _times(session: pa.Array) -> tuple[Ints, Ints]:
    """Start and end of session windows, in microseconds."""
    if session.null_count:
        raise ValueError("A session window is null: it cannot be a key of cube, rollup or grouping sets.")
    start, end = (pc.struct_field(session, name).cast(pa.int64()) for name in ("start", "end"))
    return np.asarray(start), np.asarray(end)


def _windows(kind: pa.StructType, start: Ints, end: Ints) -> pa.Array:
    fields = [kind.field(i) for i in range(2)]
    return pa.StructArray.from_arrays([pa.array(times).cast(f.type) for times, f in zip((start, end), fields)], fields=fields)
