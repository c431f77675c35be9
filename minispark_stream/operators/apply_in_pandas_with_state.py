"""applyInPandasWithState in one task: call the user's function for each group, then for each group that timed out.

Models: FlatMapGroupsWithStateExecBase.processDataWithPartition, FlatMapGroupsInPandasWithStateExec, and the Python worker
that runs the function (SIGMOD'18 paper, 4.3.2: stateful processing operators; About state). In this order:

1. Read the rows of the partition, sorted by key. With an event-time timeout, drop those that are not after the *late*
   watermark, and count them; without one, late rows are the function's business.
2. For each key: its state from version N of the store, and `function(key, frames, state)`. The frames are the group's rows
   as pandas, cut after each `spark.sql.execution.arrow.maxRecordsPerBatch` rows of the partition.
3. Save what the function did with the `GroupState`:
       removed, no timeout set       remove the row
       updated, removed, or timeout  put (state or null, timeout)
       none of these                 leave the old row alone, its old timeout included
4. Of what is in the store now, the keys whose timeout is before the batch's time (processing time), or before the
   *eviction* watermark (event time): 2 and 3 for these, with an empty frame and `state.hasTimedOut`.
5. Commit: write version N+1. The frames that the function gave are the rows that leave.

    version 3    ann -> (2), timeout 12:05
    batch        bob: 1 row                     eviction watermark 12:06
    calls        (bob, 1 row, no state) then (ann, no row, state (2), hasTimedOut)

A timeout holds for one call: a function that is called and sets none has none from then on, if it updates the state.
Differs from Spark: a task holds its rows in memory, and `spark.sql.execution.arrow.maxBytesPerBatch` does not cut frames.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.broadcast import Broadcast
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType
from pyspark.util import fail_on_stopiteration

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.group_state_rows import NO_TIMESTAMP, GroupStateRows
from minispark_stream.operators.metrics import Report, StateMetrics
from minispark_stream.operators.state_task import Stopwatch, concat, not_after, run_partition, take
from minispark_stream.plan.aggregates import Columns
from minispark_stream.state.state_store import StateStore, StateStoreConf

Function = Callable[[tuple[Any, ...], Iterable[Any], GroupState], Iterable[Any]]


@dataclass(frozen=True)
class PandasConf:
    """How rows become pandas and pandas rows: the confs of PySpark's worker."""

    timezone: str
    max_records_per_batch: int
    safe: bool
    by_name: bool
    integer_extension: bool
    int_to_decimal: bool

    @staticmethod
    def from_conf(conf_get: Callable[[str], str | None]) -> PandasConf:
        def flag(key: str) -> bool:
            return (conf_get(key) or "").lower() == "true"

        at_most = int(conf_get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000)
        return PandasConf(
            conf_get("spark.sql.session.timeZone") or "UTC",
            at_most if at_most > 0 else 2**31 - 1,
            flag("spark.sql.execution.pandas.convertToArrowArraySafely"),
            flag("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            flag("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
            flag("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
        )


@dataclass(frozen=True)
class ApplyInPandasWithState:
    """What a task needs to know; calling it runs one partition (for mapInArrow).

    `command` is the function as PySpark pickled it in this session's driver; `columns` are the columns that come in and
    `grouping` the positions of the keys among them; `result` is what the function returns. Times are in milliseconds.
    """

    state_dir: str
    operator_id: int
    version: int
    conf: StateStoreConf
    command: bytes
    columns: StructType
    grouping: tuple[int, ...]
    keys: StructType
    state: StructType
    result: StructType
    timeout: str
    event_time: tuple[int, bool] | None
    batch_timestamp_ms: int
    late_ms: int
    eviction_ms: int
    pandas: PandasConf
    output: pa.Schema
    metrics: Accumulator[list[Report]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_partition(
            self.run, batches, self.state_dir, self.operator_id, self.version, self.conf, self.output, self.metrics
        )

    def run(self, store: StateStore, batches: Iterable[pa.RecordBatch]) -> tuple[list[Columns], StateMetrics]:
        """One partition against an open store: the columns to emit, and what happened."""
        clock = Stopwatch()
        function = load_function(self.command)
        key_codec = UnsafeRowCodec(self.keys)
        states = GroupStateRows(self.state, self.timeout != GroupStateTimeout.NoTimeout)
        rows, dropped = self._drop_late(concat(batches))  # (1)
        groups = list(self._groups(store, key_codec, states, rows))
        emitted, updated, removed = self._process(store, function, states, groups)  # (2), (3)
        updates_ms = clock.lap()
        timed_out = list(self._timed_out(store, key_codec, states))  # (4)
        more, updated_by_timeout, removed_by_timeout = self._process(store, function, states, timed_out)
        removals_ms = clock.lap()
        store.commit()  # (5)
        return emitted + more, StateMetrics(
            num_rows_updated=updated + updated_by_timeout,
            num_rows_removed=removed + removed_by_timeout,
            num_rows_dropped_by_watermark=dropped,
            all_updates_time_ms=updates_ms + removals_ms,
            all_removals_time_ms=removals_ms,
            commit_time_ms=clock.lap(),
            stores={"default": store.metrics()},
        )

    def _drop_late(self, columns: Columns) -> tuple[Columns, int]:
        if self.timeout != GroupStateTimeout.EventTimeTimeout or self.event_time is None or not columns:
            return columns, 0
        late = not_after(columns, self.event_time, self.late_ms)
        return (take(columns, np.flatnonzero(~late)) if late.any() else columns), int(late.sum())

    def _groups(
        self, store: StateStore, codec: UnsafeRowCodec, states: GroupStateRows, columns: Columns
    ) -> Iterator[Group]:
        """The groups of the batch, in the order of their keys."""
        if not columns or not len(columns[0]):
            return
        rows = pa.RecordBatch.from_arrays(columns, names=self.columns.names)
        keys = codec.encode([columns[i] for i in self.grouping], rows.num_rows)
        starts = [0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1])]
        group_keys = [keys[start] for start in starts]
        found = self._states(states, store.get_many(group_keys))
        most = self.pandas.max_records_per_batch
        for key, state, start, end in zip(group_keys, found, starts, [*starts[1:], len(keys)]):
            cuts = [start, *range((start // most + 1) * most, end, most), end]
            chunks = [rows.slice(a, b - a) for a, b in zip(cuts, cuts[1:])]
            yield Group(key, chunks, self._group_state(key, state, timed_out=False))

    def _timed_out(self, store: StateStore, codec: UnsafeRowCodec, states: GroupStateRows) -> Iterator[Group]:
        """The groups whose timeout has passed, each with one row that has nothing but the key."""
        if self.timeout == GroupStateTimeout.NoTimeout or not store.num_keys:
            return
        before = self.eviction_ms if self.timeout == GroupStateTimeout.EventTimeTimeout else self.batch_timestamp_ms
        items = list(store.items())
        timeouts = states.timeouts([value for _, value in items])
        expired = [items[i] for i in np.flatnonzero((timeouts != NO_TIMESTAMP) & (timeouts < before))]
        if not expired:
            return
        keys = codec.decode([key for key, _ in expired])
        columns = [pa.nulls(len(expired)) for _ in self.columns]  # only their names get to the function
        for i, column in zip(self.grouping, keys):
            columns[i] = column
        rows = pa.RecordBatch.from_arrays(columns, names=self.columns.names)
        found = self._states(states, [value for _, value in expired])
        for i, ((key, _), state) in enumerate(zip(expired, found)):
            yield Group(key, [rows.slice(i, 1)], self._group_state(key, state, timed_out=True))

    def _states(self, states: GroupStateRows, rows: list[bytes | None]) -> list[Any]:
        known = iter(states.decode([row for row in rows if row is not None]))
        return [None if row is None else next(known) for row in rows]

    def _group_state(self, key: bytes, state: Any, timed_out: bool) -> GroupState:
        """A PySpark GroupState as Spark makes it for one call: the old timeout is not handed on."""
        return GroupState(
            optionalValue=state,
            batchProcessingTimeMs=self.batch_timestamp_ms,
            eventTimeWatermarkMs=self.eviction_ms,
            timeoutConf=self.timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self.event_time is not None,
            defined=state is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=NO_TIMESTAMP,
            keyAsUnsafe=key,
            valueSchema=self.state,
        )

    def _process(
        self, store: StateStore, function: Function, states: GroupStateRows, groups: list[Group]
    ) -> tuple[list[Columns], int, int]:
        """Call the function for some groups and save their states: rows to emit, states put, states removed."""
        emitted: list[Columns] = []
        frames: list[Any] = []
        size = finished = 0
        for group in groups:
            for frame in self._results(function, group):
                if len(frame):
                    frames.append(frame)
                    size += len(frame)
                if size > self.pandas.max_records_per_batch:
                    emitted.append(self._to_columns(frames, size, finished))
                    frames, size, finished = [], 0, 0
            finished += 1
        if size:
            emitted.append(self._to_columns(frames, size, finished))
        return emitted, *save(store, states, groups)

    def _results(self, function: Function, group: Group) -> Iterator[Any]:
        """(2) What the function returns for one group, checked."""
        import pandas as pd

        chunks = (self._series(chunk) for chunk in group.chunks)
        first = next(chunks)
        key = tuple(first[i][0] for i in self.grouping)
        if group.state.hasTimedOut:
            frames: Iterable[Any] = [pd.DataFrame(columns=pd.concat(first, axis=1).columns)]
        else:
            frames = (pd.concat(series, axis=1) for part in ([first], chunks) for series in part)
        results = function(key, frames, group.state)
        if isinstance(results, pd.DataFrame) or not hasattr(results, "__iter__"):
            expected = "iterable of pandas.DataFrame" if isinstance(results, pd.DataFrame) else "iterable"
            raise _wrong_type(expected, type(results).__name__)
        for frame in results:
            if not isinstance(frame, pd.DataFrame):
                raise _wrong_type("iterator of pandas.DataFrame", f"iterator of {type(frame).__name__}")
            width = len(frame.columns)
            if width != len(self.result) and not (width == 0 and frame.empty):
                raise PySparkRuntimeError(
                    errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                    messageParameters={"expected": str(len(self.result)), "actual": str(width)},
                )
            yield frame

    def _series(self, rows: pa.RecordBatch) -> list[Any]:
        return ArrowBatchTransformer.to_pandas(
            rows, timezone=self.pandas.timezone, struct_in_pandas="dict", ndarray_as_list=False,
            prefer_int_ext_dtype=self.pandas.integer_extension, df_for_struct=False,
        )

    def _to_columns(self, frames: list[Any], size: int, finished: int) -> Columns:
        """The frames as Arrow columns.

        PySpark sends rows and states of a batch side by side, and so fills up the rows to the number of states with
        nulls. A filled column of integers is no column of integers any more for pandas: what can be converted to the
        result type may depend on it, so it is done here too, and the filling is cut off again.
        """
        import pandas as pd

        filling = pd.DataFrame(dict.fromkeys(self.result.names), index=range(max(finished - size, 0)))
        batch = PandasToArrowConversion.convert(
            pd.concat([*frames, filling], ignore_index=True), self.result, timezone=self.pandas.timezone,
            safecheck=self.pandas.safe, arrow_cast=True, assign_cols_by_name=self.pandas.by_name,
            int_to_decimal_coercion_enabled=self.pandas.int_to_decimal,
        )
        return [column.slice(0, size).cast(kind) for column, kind in zip(batch.columns, self.output.types)]


@dataclass(frozen=True)
class Group:
    """One call of the function: the key's row in state, its data, and its state, which the call changes."""

    key: bytes
    chunks: list[pa.RecordBatch]
    state: GroupState


def save(store: StateStore, states: GroupStateRows, groups: list[Group]) -> tuple[int, int]:
    """(3) Write what the function did with the states: how many were put, how many removed."""
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
            values.append(group.state.get if group.state.exists else None)
            timeouts.append(timeout)
    if put:
        store.put_many(put, states.encode(values, timeouts))
    store.remove_many(removed)
    return len(put), len(removed)


def load_function(command: bytes) -> Function:
    """The user's function out of a pickled command, which the driver put into a broadcast if it was long."""
    serializer = CPickleSerializer()
    loaded = serializer.loads(command)
    function, _ = serializer.loads(loaded.value) if isinstance(loaded, Broadcast) else loaded
    return fail_on_stopiteration(function)


def _wrong_type(expected: str, actual: str) -> PySparkTypeError:
    return PySparkTypeError(errorClass="UDF_RETURN_TYPE", messageParameters={"expected": expected, "actual": actual})
