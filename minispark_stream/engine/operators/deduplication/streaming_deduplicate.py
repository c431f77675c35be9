"""dropDuplicates on a stream: a row passes if its key has not been seen before.

Models: StreamingDeduplicateExec and StreamingDeduplicateWithinWatermarkExec (About state; SIGMOD'18 paper, 4.3).

In each task, for the rows of its partition:
1. Drop rows that are not after the *late* watermark, and count them. The event time of the row decides, even if it is not a
   part of the key.
2. If the key of a row is not in the state, the row passes, and its key is put into the state. Otherwise the row is a duplicate,
   and is counted.
3. Remove keys from the state:
       dropDuplicates with event time in the key         those not after the *eviction* watermark: later rows with them are late
       dropDuplicates without                            never: the state grows with each new key
       dropDuplicatesWithinWatermark                     those whose first row's event time + delay is not after that watermark
4. Commit, and emit the rows that passed.

    dropDuplicatesWithinWatermark("id"), delay 10 min, id 7 at 12:02   kept until the watermark is 12:12
    id 7 again at 12:08                                                a duplicate

The state of dropDuplicates contains only keys (its value is one null). For dropDuplicatesWithinWatermark, the value is the time
when the key expires. If a window is the event time, Spark reads the word of the row that says where the window is and how long
it is, as a time. It is one in the first days of 1970, so with a watermark, a key expires in the batch in which it comes.

With event time in the key, the state is not searched if the watermark has not moved; `numRowsReadDuringEviction` counts the
rows as if they had been read.

Differs from Spark: deduplication may be directly above applyInPandasWithState. Spark 4.3.0 ends the first batch of such a
query with a ClassCastException.
Shown by tests/spark/test_differences.py::test_duplicates_right_above_a_function_with_state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, NullType, StructField, StructType

from minispark_stream.engine.checkpointing.unsafe_row import FixedField, UnsafeRowCodec, chosen
from minispark_stream.engine.jvm import expressions, physical, scala
from minispark_stream.engine.jvm.expressions import without_names
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator, state_schema
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import (
    BoolMask,
    EventTime,
    concat,
    distinct,
    event_time_micros,
    is_late,
    normalized,
    record_batch,
    state_not_after,
    without,
)
from minispark_stream.engine.operators.event_times import event_time_column, event_time_names, several_event_times
from minispark_stream.engine.operators.explained import CHANGED, KEYS, Decision, Entry
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StateTask, Stopwatch
from minispark_stream.engine.operators.told import DUPLICATE, KEPT, LATE, REMOVED, Told
from minispark_stream.engine.state.state_store import StateStore

SEEN = StructType([StructField("__dummy__", NullType())])
EXPIRES = StructType([StructField("expiresAtMicros", LongType(), nullable=False)])


@dataclass(frozen=True, kw_only=True)
class StreamingDeduplicate(StatefulOperator):
    """The driver half.

    `event_times` are the names of all columns that have a watermark.
    """

    task: Deduplicate
    rows: StructType
    keys: StructType
    values: StructType
    event_times: tuple[str, ...]
    tasks: MapPartitions = field(repr=False, compare=False)
    passes_rows_on = True

    @property
    def operator_name(self) -> str:
        return "dedupe" if self.task.delay_ms is None else "dedupeWithinWatermark"

    @property
    def checks_values(self) -> bool:
        return self.task.delay_ms is not None  # the values of dropDuplicates are empty, although old schemas name all columns

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", self.keys, self.values)]

    def entries(self) -> Sequence[Entry]:
        keys = {key.name(): key for key in scala.items(self.plan.keys())}
        row = scala.items(self.plan.output())
        return (Entry.of(keys, [*keys.values()], row, self.lateness, row),)

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return {"key": self.keys} if what == REMOVED else {"row": self.rows}

    @property
    def lateness(self) -> EventTime | None:
        return self.task.event_time

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        leaves_ms = watermarks.eviction_ms if self.task.forgets else None
        return Decision(KEYS, self.late_ms(watermarks), (leaves_ms,), self.task.delay_ms, CHANGED)

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session = context.session
        task = self.of_batch(context, self.task, self.tasks)
        rows = context.rows(children[0])
        columns = scala.items(rows.output())
        shuffled = physical.by_key(session, rows, [columns[i] for i in task.positions], task.info.num_partitions)
        refusal = several_event_times(session, self.event_times)
        return context.leaf(context.map_partitions(self.tasks, shuffled, task, refusal=refusal))


def compile_deduplicate(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> StreamingDeduplicate:
    """Read the operator off Spark's Deduplicate or DeduplicateWithinWatermark node `plan`."""
    columns = scala.items(plan.output())
    position = {column.exprId().id(): i for i, column in enumerate(columns)}
    positions = tuple(position[key.exprId().id()] for key in scala.items(plan.keys()))
    event_time = event_time_column(columns)
    delay_ms = None
    if scala.class_name(plan) == "DeduplicateWithinWatermark" and event_time is not None:
        delay_ms = int(columns[event_time.position].metadata().getLong(expressions.EVENT_TIME))
    key_columns = [columns[i] for i in positions]
    schema, keys = expressions.struct_type(columns), state_schema(session, expressions.struct_type(key_columns))
    return StreamingDeduplicate(
        operator_id=operator_id,
        task=Deduplicate(
            positions=positions, keys=without_names(keys), event_time=event_time, key_event_time=event_time_column(key_columns),
            delay_ms=delay_ms, rows=schema if delay_ms is not None and event_time and event_time.is_window else None,
        ),
        tasks=MapPartitions(session, schema, schema, plan.output()),
        rows=schema,
        keys=keys,
        values=state_schema(session, SEEN if delay_ms is None else EXPIRES),
        event_times=event_time_names(columns),
        plan=plan,
        children=children,
    )


@dataclass(frozen=True, kw_only=True)
class Deduplicate(StateTask):
    """The task half; calling it runs one partition (for mapInArrow).

    Attributes:
        positions: the positions of the key's columns.
        event_time: the column that has the watermark.
        key_event_time: the same, as a column of the key.
        delay_ms: how long dropDuplicatesWithinWatermark keeps a key; None for dropDuplicates.
        rows: the schema of the rows, if the event time is a window and dropDuplicatesWithinWatermark reads it.
    """

    positions: tuple[int, ...]
    keys: StructType
    event_time: EventTime | None
    key_event_time: EventTime | None
    delay_ms: int | None
    rows: StructType | None = None

    @property
    def forgets(self) -> bool:
        """Whether a time says when a key is no longer needed."""
        return self.delay_ms is not None or self.key_event_time is not None

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows that pass and what happened."""
        clock = Stopwatch()
        [store] = stores
        arrived = concat(batches)
        late = is_late(arrived, self.event_time, self.watermarks.late_ms)  # (1)
        rows = without(arrived, late)
        is_first = self._put_new(store, rows)  # (2)
        passed = without(rows, ~is_first)
        updates_ms = clock.lap()
        read = store.num_keys if self.forgets else 0
        expired = self._expired(store)  # (3)
        removed = store.remove(expired)
        removals_ms = clock.lap()
        return [passed], self.committed(  # (4)
            clock,
            stores,
            lambda: (
                Told(LATE, arrived.filter(pa.array(late))), Told(KEPT, passed),
                Told(DUPLICATE, rows.filter(pa.array(~is_first))),
                Told(REMOVED, record_batch(UnsafeRowCodec(self.keys).decode(expired), len(expired))),
            ),
            num_rows_updated=passed.num_rows,
            num_rows_removed=removed,
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms,
            all_removals_time_ms=removals_ms,
            custom={
                "numDroppedDuplicateRows": rows.num_rows - passed.num_rows, "numRowsIncrementallyRemoved": 0,
                "numRowsReadDuringEviction": read,
            },
        )

    def _put_new(self, store: StateStore, rows: pa.RecordBatch) -> BoolMask:
        """Put the keys that are new; returns which rows are the first ones with a new key."""
        keys = [normalized(rows.column(i)) for i in self.positions]
        encoded, first, _ = distinct(UnsafeRowCodec(self.keys).encode_rows(keys, rows.num_rows))
        is_new = ~store.get(encoded)[0]
        store.put(chosen(encoded, is_new), self._values(rows.take(pa.array(first[is_new]))))
        is_first = np.zeros(rows.num_rows, np.bool_)
        is_first[first[is_new]] = True
        return is_first

    def _values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        if self.delay_ms is None or self.event_time is None:
            return UnsafeRowCodec(SEEN).encode_rows([pa.nulls(rows.num_rows)])
        if self.rows is not None:
            encoded = UnsafeRowCodec(self.rows).encode_rows(rows.columns, rows.num_rows)
            micros = pa.array(FixedField(self.event_time.position, of=len(self.rows)).longs(encoded), pa.int64())
        else:
            micros = pc.fill_null(event_time_micros(rows.columns, self.event_time), 0)
        return UnsafeRowCodec(EXPIRES).encode_rows([pc.add(micros, self.delay_ms * 1000)])

    def _expired(self, store: StateStore) -> Sequence[bytes]:
        if not store.num_keys:
            return []
        eviction_ms = self.watermarks.eviction_ms
        if self.delay_ms is not None:  # even if the watermark has not moved: a key with a null event time expires at once
            seen, values = store.rows()
            [expires] = UnsafeRowCodec(EXPIRES).decode(values)
            return chosen(seen, np.asarray(expires) <= eviction_ms * 1000)
        if self.key_event_time is not None and self.watermarks.moved:
            seen, _ = store.rows()
            return chosen(seen, state_not_after(self.keys, seen, self.key_event_time, eviction_ms))
        return []
