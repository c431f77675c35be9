"""Rows as a task sees them: a record batch, which is one Arrow array for each column, and the number of rows.

Models: WatermarkSupport (About watermark).

1. `not_after` is the comparison of event times with a watermark; if the event time is a window, its end counts. For rows of the
   state, this is `state_not_after`.
2. A row is late if its event time is not after the *late* watermark: `is_late` finds these rows, `without` drops them.

    is_late(window ends 12:05, 12:10;  late watermark 12:05)     [true, false]

Rows may have no columns at all: `limit(3).groupBy().count()` counts rows without looking at any column. Therefore code that
counts rows uses `num_rows`, and `record_batch` must be given the number. Functions that only look at values take the columns as
a list.

Differs from Spark: nothing.
Shown by tests/conformance/test_limit.py::test_rows_without_columns_are_rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, chosen, comparable
from minispark_stream.engine.checkpointing.unsafe_row.columns import Ints

Columns = list[Any]
BoolMask = np.ndarray[Any, Any]
WINDOW_START, WINDOW_END = [0], [1]  # the fields of a window by position, as in a task (engine/jvm/expressions.py)


class EventTime(NamedTuple):
    """The column that has the watermark: its position, and whether it is a window."""

    position: int
    is_window: bool


def joined(first: pa.Array, then: pa.Array) -> pa.Array:
    """The values of two columns of the same type, one after the other.

    In rows of a batch, the type of a timestamp has the session's time zone; in rows of the state it has UTC. The values are the
    same in both.
    """
    return pa.concat_arrays([first, then if then.type == first.type else then.cast(first.type)])


def event_time_micros(columns: Columns, event_time: EventTime) -> pa.Array:
    """The event time of each row, in microseconds."""
    column = columns[event_time.position]
    return (pc.struct_field(column, WINDOW_END) if event_time.is_window else column).cast(pa.int64())


def not_after(columns: Columns, event_time: EventTime, watermark_ms: int) -> BoolMask:  # (1)
    """Whether event time <= watermark, for each row; a null event time is after every watermark."""
    return np.asarray(pc.fill_null(pc.less_equal(event_time_micros(columns, event_time), watermark_ms * 1000), False))


def state_not_after(schema: StructType, rows: Sequence[bytes], event_time: EventTime, watermark_ms: int) -> BoolMask:  # (1)
    """`not_after` for rows of the state, of which only the event time is decoded."""
    return not_after(UnsafeRowCodec(schema).decode(rows, only=[event_time.position]), event_time, watermark_ms)


def is_late(rows: pa.RecordBatch, event_time: EventTime | None, late_ms: int) -> BoolMask:  # (2)
    """Which rows are late; without an event time, none of them is."""
    if event_time is None:
        return np.zeros(rows.num_rows, np.bool_)
    return not_after(rows.columns, event_time, late_ms)


def without(rows: pa.RecordBatch, dropped: BoolMask) -> pa.RecordBatch:
    """The rows that are not `dropped`."""
    return rows.filter(pa.array(~dropped)) if dropped.any() else rows


def concat(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All record batches of a partition as one; there is at least one.

    Raises:
        ArrowInvalid: a column holds more than 2 GiB of strings or bytes, which one array cannot.
    """
    return pa.concat_batches(list(batches))


def record_batch(columns: Columns, num_rows: int) -> pa.RecordBatch:
    """Columns as a record batch, even if there are none."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), num_rows, [None]))
    return pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])


def normalized(column: pa.Array) -> pa.Array:
    """The column with 0.0 for -0.0 and one form of NaN, so that equal numbers have equal bytes (NormalizeFloatingNumbers)."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, kind), pc.add(column, pa.scalar(0.0, kind)))
    if pa.types.is_struct(kind):
        fields = [normalized(column.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null()) if fields else column
    if pa.types.is_list(kind):
        ends = np.cumsum(np.asarray(pc.fill_null(pc.list_value_length(column), 0)))
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        return pa.ListArray.from_arrays(offsets, normalized(column.flatten()), type=kind, mask=column.is_null())
    return column


class Distinct(NamedTuple):
    """The different rows among some rows, in the order in which they first occur.

    Attributes:
        rows: the different rows.
        first: where each of them first occurs.
        of_row: for each of the given rows, its number among the different ones.
    """

    rows: Sequence[bytes]
    first: Ints
    of_row: Ints


def distinct(rows: Sequence[bytes]) -> Distinct:
    """The different rows among some rows."""
    encoded = comparable(rows).dictionary_encode()
    of_row = np.asarray(encoded.indices).astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    first[of_row[::-1]] = np.arange(len(rows))[::-1]
    return Distinct(chosen(rows, first), first, of_row)


def take(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    """Some rows of each column."""
    at = pa.array(rows)
    return [column.take(at) for column in columns]
