"""The task that sorts the rows of session windows itself puts them into Spark's order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from minispark_stream.engine.operators.session.streaming_session_window_state_manager import (
    SAME_ORDER,
    StreamingSessionWindowStateManager,
)

SESSION = StructType().add("_0", TimestampType()).add("_1", TimestampType())
ROWS = StructType([StructField("name", StringType()), StructField("session", SESSION), StructField("n", LongType())])
KEYS = StructType([StructField("name", StringType()), StructField("n", LongType()), StructField("start", TimestampType())])


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    names, starts, ends, numbers = (list(column) for column in zip(*rows))
    times = [pa.array(some, pa.int64()).cast(pa.timestamp("us", "UTC")) for some in (starts, ends)]
    columns = [pa.array(names, pa.string()), pa.StructArray.from_arrays(times, names=["_0", "_1"]), pa.array(numbers, pa.int64())]
    return [rows[i] for i in StreamingSessionWindowStateManager(KEYS, ROWS, session=1).order(columns).to_pylist()]


def test_groups_come_in_the_order_of_their_keys_and_sessions_by_start_and_end() -> None:
    rows = [("b", 1, 9, 1), ("a", 5, 9, 2), ("a", 5, 8, 2), ("a", 1, 9, None), ("a", 7, 9, 1), (None, 9, 9, 1), ("Z", 3, 4, 1), ("ä", 0, 1, 0)]
    assert in_order(rows) == [
        (None, 9, 9, 1), ("Z", 3, 4, 1), ("a", 1, 9, None), ("a", 7, 9, 1), ("a", 5, 8, 2), ("a", 5, 9, 2), ("b", 1, 9, 1), ("ä", 0, 1, 0),
    ]


def test_rows_of_the_same_session_stay_as_they_come() -> None:
    session = pa.StructArray.from_arrays([pa.array([0, 0, 0, 0]).cast(pa.timestamp("us", "UTC"))] * 2, names=["_0", "_1"])
    columns = [pa.array(["b", "a", "b", "a"]), session, pa.array([1, 1, 1, 1])]
    assert StreamingSessionWindowStateManager(KEYS, ROWS, session=1).order(columns).to_pylist() == [1, 3, 0, 2]


@pytest.mark.parametrize("kind", [DoubleType(), StringType("UTF8_LCASE"), YearMonthIntervalType(), ArrayType(LongType()), SESSION])
def test_spark_sorts_what_arrow_would_sort_in_another_way_or_not_at_all(kind: Any) -> None:
    assert kind not in SAME_ORDER
