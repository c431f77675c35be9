"""Rows as columns: putting batches together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from minispark_stream.engine.operators.columns import concat, is_late, record_batch, without
from minispark_stream.engine.operators.state_task import record_batches


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["n"])


@pytest.mark.parametrize("batches, rows", [([batch()], []), ([batch(1)], [1]), ([batch(1), batch(), batch(2, 3)], [1, 2, 3])])
def test_batches_are_put_together(batches: list[pa.RecordBatch], rows: list[int]) -> None:
    assert concat(batches).column(0).to_pylist() == rows


def test_rows_without_columns_are_counted_all_the_same() -> None:
    rows = concat([batch(1, 2).select([]), record_batch([], 3)])
    assert (rows.num_columns, rows.num_rows) == (0, 5)
    assert not is_late(rows, None, 0).any()
    assert without(rows, np.array([True, False, False, False, True])).num_rows == 3
    assert [part.num_rows for part in record_batches(record_batch([], 10_001), pa.schema([]))] == [10_000, 1]


def test_more_strings_than_one_array_can_hold_are_refused_and_not_lost() -> None:
    """Three strings of 800 MB; nothing is written into them, so that they take no memory."""
    size = 800 * 2**20
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    text = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(np.empty(size, np.uint8))])
    large = pa.RecordBatch.from_arrays([text], names=["text"])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        concat([large, large, large])
