"""A streaming aggregation in one task: restore, merge, save, evict, emit.

Models: StateStoreRestoreExec and StateStoreSaveExec (the StructuredStreaming analysis, "About state"; SIGMOD'18 paper,
section 6.1). Spark chains three operators over iterators; here one function does one partition, in this order:

1. Read the partial results of the batch (group keys and aggregation buffers), and merge those of equal keys.
2. Drop the keys whose event time is not after the *late* watermark, and count them.
3. Restore: read the old buffers of these keys from version N of the store, and merge the new ones into them.
4. Save: put the merged buffers into the store.
5. Emit what the output mode asks for, and evict what the *eviction* watermark has passed:
       complete   every row of the state; nothing is ever evicted
       update     the rows that changed; then the expired ones are removed
       append     the rows that expire, removed as they are emitted: no later row can change them
6. Commit: write version N+1.

    version 3    12:00 -> count 2,  12:05 -> count 1
    batch        12:05 -> count 1,  12:10 -> count 4      eviction watermark 12:05 (a window ends at its `end`)
    version 4    12:05 -> count 2,  12:10 -> count 4      append emits (12:00, 2)

Differs from Spark: one pass instead of a chain of iterators; an unmoved watermark skips the eviction scan,
because every row that it could find was removed when it got there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.aggregates import AggregateFunction
from minispark_stream.operators.aggregation_buffers import merge_buffers, unpack_buffers
from minispark_stream.operators.columns import Columns, EventTime, concat, is_late, not_after, take, without
from minispark_stream.operators.metrics import StateMetrics
from minispark_stream.operators.state_task import StateTask, Stopwatch
from minispark_stream.state.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class StateStoreSave(StateTask):
    """What a task of a streaming aggregation needs to know; calling it runs one partition (for mapInArrow).

    `keys` and `values` are the schemas of the state rows; `event_time` is the key that carries the watermark.
    """

    output_mode: str
    keys: StructType
    values: StructType
    functions: tuple[AggregateFunction, ...]
    event_time: EventTime | None

    def run(self, store: StateStore, batches: Iterable[pa.RecordBatch]) -> tuple[list[Columns], StateMetrics]:
        """One partition against an open store: the columns to emit, and what happened."""
        clock = Stopwatch()
        width = len(self.keys.fields)
        key_codec, value_codec = UnsafeRowCodec(self.keys), UnsafeRowCodec(self.values)
        columns = concat(batches)  # (1)
        keys, values = columns[:width], columns[width:]
        size = len(values[0]) if values else len(keys[0]) if keys else 0
        key_rows = key_codec.encode(keys, size) if size else []
        key_rows, keys, values = self._merge_equal_keys(key_rows, keys, values)
        late = is_late(keys, None if self.output_mode == "complete" else self.event_time, self.watermarks.late_ms)  # (2)
        if late.any():
            key_rows, keys, values = list(compress(key_rows, ~late)), without(keys, late), without(values, late)
        if not width and not key_rows and store.num_keys:  # a global aggregate has its row in every batch
            key_rows = [row for row, _ in store.items()]
            values = value_codec.decode([value for _, value in store.items()])
        elif key_rows:
            values = self._restore(store, value_codec, key_rows, values)  # (3)
        if key_rows:
            store.put_many(key_rows, value_codec.encode(values, len(key_rows)))  # (4)
        updates_ms = clock.lap()
        emitted: list[Columns] = []
        removed: list[bytes] = []
        match self.output_mode:  # (5)
            case "complete":
                rows = list(store.items())
                emitted.append(self._decode(key_codec, value_codec, [k for k, _ in rows], [v for _, v in rows]))
            case "update":
                if key_rows:
                    emitted.append([*keys, *unpack_buffers(self.functions, values)])
                removed = self._expired(store, key_codec)
            case "append":
                removed = self._expired(store, key_codec)
                rows_out = [v for v in store.get_many(removed) if v is not None]
                emitted.append(self._decode(key_codec, value_codec, removed, rows_out))
        store.remove_many(removed)
        removals_ms = clock.lap()
        store.commit()  # (6)
        return emitted, StateMetrics(
            num_rows_updated=len(key_rows),
            num_rows_removed=len(removed),
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores={"default": store.metrics()},
        )

    def _merge_equal_keys(self, rows: list[bytes], keys: Columns, values: Columns) -> tuple[list[bytes], Columns, Columns]:
        """Several map tasks may each have sent a partial result for one key: fold them, first come first merged."""
        position: dict[bytes, int] = {}
        occurrence: list[int] = []
        seen: list[int] = []
        for row in rows:
            at = position.setdefault(row, len(position))
            if at == len(seen):
                seen.append(0)
            occurrence.append(seen[at])
            seen[at] += 1
        if len(position) == len(rows):
            return rows, keys, values
        rounds = np.asarray(occurrence)
        target = np.fromiter((position[row] for row in rows), np.int64, len(rows))
        first = np.flatnonzero(rounds == 0)
        merged = take(values, first)
        for n in range(1, int(rounds.max()) + 1):
            again = np.flatnonzero(rounds == n)
            together = merge_buffers(self.functions, take(merged, target[again]), take(values, again))
            merged = [_replace(old, target[again], new) for old, new in zip(merged, together)]
        return list(position), take(keys, first), merged

    def _restore(self, store: StateStore, codec: UnsafeRowCodec, rows: list[bytes], values: Columns) -> Columns:
        old_rows = store.get_many(rows)
        known = np.flatnonzero(np.fromiter((old is not None for old in old_rows), np.bool_, len(old_rows)))
        if not len(known):
            return values
        old = codec.decode([old_rows[i] for i in known])  # type: ignore[misc]
        merged = merge_buffers(self.functions, old, take(values, known))
        return merged if len(known) == len(rows) else [_replace(v, known, m) for v, m in zip(values, merged)]

    def _expired(self, store: StateStore, codec: UnsafeRowCodec) -> list[bytes]:
        if self.event_time is None or not self.watermarks.moved:
            return []
        rows = [row for row, _ in store.items()]
        if not rows:
            return []
        return list(compress(rows, not_after(codec.decode(rows), self.event_time, self.watermarks.eviction_ms)))

    def _decode(self, keys: UnsafeRowCodec, values: UnsafeRowCodec, key_rows: list[bytes], rows: list[bytes]) -> Columns:
        return [*(keys.decode(key_rows) if self.keys.fields else []), *unpack_buffers(self.functions, values.decode(rows))]


def _replace(column: pa.Array, positions: np.ndarray[Any, Any], new: pa.Array) -> pa.Array:
    """`column` with the values of `new` at `positions`."""
    at = np.arange(len(column))
    at[positions] = len(column) + np.arange(len(positions))
    return pa.concat_arrays([column, new]).take(pa.array(at))
