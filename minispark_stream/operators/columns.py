"""Rows as a task sees them: one Arrow array for each column.

Models: WatermarkSupport (About watermark). `not_after` is the one question that a watermark asks: of a window it is the end
that counts.

    not_after(window ends 12:05, 12:10;  watermark 12:05)   [true, false]

Differs from Spark: Spark hands rows one by one; here a partition is a few columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Columns = list[Any]


def not_after(columns: Columns, event_time: tuple[int, bool], watermark_ms: int) -> np.ndarray[Any, Any]:
    """event time <= watermark; a null event time is never late. `event_time`: which column, is it a window."""
    position, is_window = event_time
    column = pc.struct_field(columns[position], "end") if is_window else columns[position]
    micros = column.cast(pa.int64())
    return np.asarray(pc.fill_null(pc.less_equal(micros, watermark_ms * 1000), False))


def concat(batches: Iterable[pa.RecordBatch]) -> Columns:
    """All record batches of a partition as one array per column; no columns when there are no rows."""
    table = [batch for batch in batches if batch.num_rows]
    if not table:
        return []
    if len(table) == 1:
        return list(table[0].columns)
    return list(pa.Table.from_batches(table).combine_chunks().to_batches()[0].columns)


def take(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    """Some rows of each column."""
    at = pa.array(rows)
    return [column.take(at) for column in columns]
