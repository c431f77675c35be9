"""How many bytes Spark counts for rows, and where that ends a batch."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from minispark_stream.engine.operators.groups.arrow_batches import batch_ends, buffer_bytes

MOST = 2**31 - 1
NUMBERS_AND_TEXTS = [pa.array([1, 2, 3], pa.int32()), pa.array(["ab", None, "c"])]


@pytest.mark.parametrize(("rows", "kind", "in_java", "in_the_worker"), [
    ([True] * 9, pa.bool_(), 2 + 2, 2),
    ([None] * 9, pa.int32(), 2 + 36, 2 + 36),
    ([Decimal(1), Decimal(2)], pa.decimal128(10, 2), 1 + 32, 32),
    (["ab", "", "c"], pa.string(), 1 + 16 + 3, 16 + 3),
    (["ab", "", "c"], pa.large_string(), 1 + 32 + 3, 32 + 3),
    ([["ab"], ["c", None]], pa.list_(pa.string()), (1 + 12) + (1 + 16 + 3), 12 + (1 + 16 + 3)),
    ([[], []], pa.list_(pa.string()), 1 + 12, 12 + 4),
    ([[("k", 1)]], pa.map_(pa.string(), pa.int32()), (1 + 8) + 1 + (1 + 8 + 1) + (1 + 4), 8 + (8 + 1) + 4),
    ([{"a": None}, None], pa.struct([("a", pa.int64())]), 1 + (1 + 16), 1 + (1 + 16)),
    ([None, None], pa.null(), 0, 0),
])
def test_the_bytes_of_a_column(rows: list[Any], kind: pa.DataType, in_java: int, in_the_worker: int) -> None:
    column = pa.array(rows, kind)
    assert buffer_bytes([column], 0, len(rows)) == in_java
    assert buffer_bytes([column], 0, len(rows), in_java=False) == in_the_worker
    twice = pa.concat_arrays([column, column])
    assert buffer_bytes([twice], len(rows), 2 * len(rows)) == in_java


@pytest.mark.parametrize(("most_rows", "most_bytes", "ends"), [
    (MOST, MOST, [3]), (2, MOST, [2, 3]), (MOST, 1, [1, 2, 3]), (MOST, 33, [3]), (MOST, 24, [2, 3]), (1, 24, [1, 2, 3]),
])
def test_a_batch_ends_when_it_is_full(most_rows: int, most_bytes: int, ends: list[int]) -> None:
    assert [*batch_ends(NUMBERS_AND_TEXTS, 3, most_rows, most_bytes)] == ends


def test_no_rows_are_no_batch() -> None:
    assert [*batch_ends([], 0, 10, 10)] == []
    assert [*batch_ends([], 5, 2, MOST)] == [2, 4, 5]
