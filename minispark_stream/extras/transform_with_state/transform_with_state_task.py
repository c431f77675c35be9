"""transformWithState in one task: give the StatefulProcessor each key's rows, then the timers that are due.

Models: TransformWithStateInPySparkExec.processDataWithPartition, and PySpark's worker for it (SIGMOD'18 paper, 4.3.2: a state
of the user's own). In this order:

1. Read the rows of the partition, sorted by key. In event-time mode, drop those that are not after the *late* watermark.
2. `init` declares the state variables.
3. For each key: `handleInitialState` for its rows of the initial state, which only the first batch has; then `handleInputRows`,
   if the key has new rows, in frames or one by one (rows_of_keys.py).
4. `handleExpiredTimer` for each timer at or before the batch's time (processing time) or the *eviction* watermark (event
   time), of all keys, the earliest first. Then the timer is deleted.
   With an `eventTimeColumnName`, no row that is emitted may be late: the operators above would drop it.
5. `close`; remove what has outlived its ttl; commit: write version N+1.

    version 3    ann -> (2), timer 12:05
    batch        bob: 1 row                     eviction watermark 12:05
    calls        handleInputRows(bob, 1 row), handleExpiredTimer(ann, 12:05)

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkValueError
from pyspark.sql.conversion import PandasToArrowConversion
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import Row, StructField, StructType

from minispark_stream.engine.operators.columns import (
    BoolMask,
    EventTime,
    concat,
    event_time_micros,
    is_late,
    not_after,
    record_batch,
    without,
)
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import PandasConf, load_command
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import OF_A_BATCH, StateTask, Stopwatch
from minispark_stream.engine.operators.told import KEPT, LATE, Told, told_of_calls
from minispark_stream.engine.state.state_store import StateStore, state_error
from minispark_stream.extras.rocksdb.avro_state_encoder import AvroStateEncoder, UnsafeRowDataEncoder
from minispark_stream.extras.rocksdb.column_family_schemas import Family
from minispark_stream.extras.transform_with_state.column_families import ColumnFamilies
from minispark_stream.extras.transform_with_state.keyed_families import KeyedFamilies
from minispark_stream.extras.transform_with_state.rows_of_keys import NEW, Input, RowsOfKeys
from minispark_stream.extras.transform_with_state.stateful_processor_handle import EVENT_TIME, NO_TIME, PROCESSING_TIME, Handle


@dataclass(frozen=True, kw_only=True)
class TransformWithStateTask(StateTask):
    """What a task needs to know; calling it runs one partition (for mapInArrow).

    With an `initial` state, the columns of the input are the grouping keys, a struct of a new row's columns, and a struct of
    the initial state's; one of the structs is null. `families`: those of each schema file, if rows are in Avro.
    """

    command: bytes
    in_pandas: bool
    input: Input
    initial: Input | None
    keys: StructType
    result: StructType
    time_mode: str
    event_time: EventTime | None
    output_event_time: int | None
    pandas: PandasConf
    schemas: Mapping[str, StructType] = OF_A_BATCH
    families: Sequence[Sequence[Family]] = OF_A_BATCH
    batch_timestamp_ms: int = OF_A_BATCH

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows to emit and what happened."""
        clock = Stopwatch()
        [store] = stores
        processor = load_processor(self.command)
        delimiter = self.info.conf.list_delimiter
        encoder = AvroStateEncoder(self.families, delimiter) if self.families else UnsafeRowDataEncoder()
        families = ColumnFamilies(store, delimiter, encoder)
        keyed = KeyedFamilies(families, self.keys, self.batch_timestamp_ms)
        handle = Handle(keyed, self.time_mode, self.schemas)
        now = () if self.time_mode == NO_TIME else (self.batch_timestamp_ms, self.watermarks.eviction_ms)
        times = TimerValues(*now)
        arrived, late, sent, initial = self._read(concat(batches))  # (1)
        reader = RowsOfKeys(self.input, self.initial, self.in_pandas, self.pandas)
        processor.init(handle)  # (2)
        handle.initialize()
        calls: list[tuple[bytes, list[pa.RecordBatch]]] = []  # the key of each call, and what the processor returned
        for key, data, states in reader.groups(sent, initial):  # (3)
            keyed.set_implicit_key(key)
            for state in states:
                processor.handleInitialState(key, state, times)
                keyed.set_implicit_key(key)
            if data is not None:
                calls.append((keyed.implicit_key, self._emitted(processor.handleInputRows(key, data, times))))
        updates_ms = clock.lap()
        due = self._due(handle)
        for key, time in due:  # (4)
            keyed.set_implicit_key(key)
            fired = ExpiredTimerInfo(time)
            results = processor.handleExpiredTimer(key=key, timerValues=times, expiredTimerInfo=fired)
            calls.append((keyed.implicit_key, self._emitted(results)))
            handle.deleteTimer(time)
        keyed.set_implicit_key(None)
        processor.close()  # (5)
        handle.remove_expired()
        removals_ms = clock.lap()
        total, internal = families.num_rows(), families.num_rows(internal=True)
        emitted = [batch for _, given in calls for batch in given]
        return emitted, self.committed(
            clock,
            stores,
            lambda: (
                Told(LATE, arrived.filter(pa.array(late))), Told(KEPT, without(arrived, late)),
                *_told_of(keyed, calls, emitted, [time for _, time in due]),
            ),
            num_rows_updated=keyed.updated,
            num_rows_removed=keyed.removed,
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=updates_ms + removals_ms,
            all_removals_time_ms=removals_ms,
            num_rows_total=total,
            custom={**dict.fromkeys(COUNTS, 0), **handle.counts, "rocksdbNumInternalColFamiliesKeys": internal},
        )

    def _due(self, handle: Handle) -> list[tuple[Row, int]]:
        if self.time_mode == NO_TIME:
            return []
        now = self.batch_timestamp_ms if self.time_mode == PROCESSING_TIME else self.watermarks.eviction_ms
        return handle.expired_timers(now)

    # -- input -------------------------------------------------------------------------------------------------

    def _read(
        self, both: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, BoolMask, pa.RecordBatch, pa.RecordBatch | None]:
        """The new rows, which of them are late, and what is sent: the others, and the initial state (rows_of_keys.py)."""
        if self.initial is None:
            late = self._late(both)
            return both, late, without(both, late), None
        *_, data, state = both.columns
        is_new = data.is_valid()
        sides = pa.RecordBatch.from_arrays([data, state], names=["", ""])
        new = sides.filter(is_new)
        rows = pa.RecordBatch.from_struct_array(new.column(NEW))
        late = self._late(rows)
        return rows, late, without(new, late), sides.filter(pc.invert(is_new))

    def _late(self, rows: pa.RecordBatch) -> BoolMask:
        return is_late(rows, self.event_time if self.time_mode == EVENT_TIME else None, self.watermarks.late_ms)

    # -- output ------------------------------------------------------------------------------------------------

    def _emitted(self, results: Iterable[Any]) -> list[pa.RecordBatch]:
        """What the processor returned, in Arrow."""
        batches = self._frames(results) if self.in_pandas else [self._rows(results)]
        return [self._not_late(self._typed(batch)) for batch in batches if batch.num_rows]

    def _typed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return record_batch([column.cast(kind) for column, kind in zip(rows.columns, self.output.types)], rows.num_rows)

    def _not_late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`rows`, unless the event time of one of them is not after the late watermark."""
        if self.output_event_time is None:
            return rows
        event_time, late_ms = EventTime(self.output_event_time, is_window=False), self.watermarks.late_ms
        late = not_after(rows.columns, event_time, late_ms)
        if late.any():
            first = event_time_micros(rows.columns, event_time)[int(np.flatnonzero(late)[0])].as_py()
            text = (
                f"Previous node emitted a row with eventTime={first} which is older than current_watermark_value={late_ms}\n"
                "This can lead to correctness issues in the stateful operators downstream in the execution pipeline.\n"
                "Please correct the operator logic to emit rows after current global watermark value."
            )
            condition = "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"
            raise state_error(condition, text, "42815", currentWatermark=late_ms, emittedRowEventTime=first)
        return rows

    def _frames(self, results: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        import pandas as pd

        for frame in results:
            if not isinstance(frame, pd.DataFrame):
                raise PySparkValueError(
                    "Invalid return type. Please make sure that the UDF returns a "
                    "pandas.DataFrame when the specified return type is StructType."
                )
            batch = PandasToArrowConversion.convert(
                [frame], StructType([StructField("_0", self.result)]), timezone=self.pandas.timezone,
                safecheck=self.pandas.safe, arrow_cast=True, assign_cols_by_name=self.pandas.by_name,
                int_to_decimal_coercion_enabled=self.pandas.int_to_decimal,
            )
            yield pa.RecordBatch.from_struct_array(batch.column(0))

    def _rows(self, results: Iterable[Any]) -> pa.RecordBatch:
        schema = pa.schema(list(to_arrow_type(self.result, timezone="UTC", prefers_large_types=False)))
        return pa.RecordBatch.from_pylist([row.asDict(True) for row in results], schema=schema)


COUNTS = (  # Spark's operator for Python has the two times, and never measures them
    "initialStateProcessingTimeMs", "timerProcessingTimeMs",
    *(f"num{kind}State{ttl}Vars" for ttl in ("", "WithTTL") for kind in ("Value", "List", "Map")), "numDeletedStateVars",
    "numRegisteredTimers", "numDeletedTimers", "numExpiredTimers", "numValuesRemovedDueToTTLExpiry",
)


def _told_of(
    keyed: KeyedFamilies, calls: Sequence[tuple[bytes, list[pa.RecordBatch]]], emitted: Sequence[pa.RecordBatch],
    due_ms: Sequence[int],
) -> Iterable[Told]:
    counts, by_rows = [sum(batch.num_rows for batch in given) for _, given in calls], len(calls) - len(due_ms)
    return told_of_calls(emitted, keyed.keys.columns([key for key, _ in calls]), counts, by_rows, due_ms)


def load_processor(command: bytes) -> StatefulProcessor:
    """The user's processor, from the pickled function that PySpark has made of it."""
    processor: StatefulProcessor = load_command(command).__self__._stateful_processor
    return processor
