"""Hashes are Spark's `hash()`, so every key finds its partition again."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from minispark_stream.checkpointing.murmur3 import hash_rows, partition_ids
from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec

NESTED = (
    StructType().add("a", LongType()).add("b", StringType())
    .add("c", StructType().add("x", IntegerType()).add("y", DecimalType(30, 2)))
)

# hash(value) or, for the second list, hash(value, 7) in Spark 4.3.0
ALONE: list[tuple[DataType, Any, int]] = [
    (IntegerType(), 1, -559580957),
    (LongType(), 1, -1712319331),
    (LongType(), -1, -939490007),
    (StringType(), "", 142593372),
    (StringType(), "a", 1485273170),
    (StringType(), "abcd", -396302900),
    (StringType(), "abcdé", 1633936390),
    (DoubleType(), 1.5, 1290763749),
    (YearMonthIntervalType(), 14, 335551368),
]
WITH_7: list[tuple[DataType, Any, int]] = [
    (BooleanType(), True, 560912417),
    (BooleanType(), None, 1079293707),
    (ByteType(), -1, -250886693),
    (ShortType(), -32768, 708058852),
    (IntegerType(), -1, -250886693),
    (LongType(), -(2**63), -1150971087),
    (FloatType(), 1.5, -2030787983),
    (FloatType(), float("nan"), 1677598523),
    (DoubleType(), -0.0, -1018884246),
    (DoubleType(), float("-inf"), 1880782295),
    (DecimalType(10, 2), Decimal("-1.23"), 2124647707),
    (DecimalType(38, 4), Decimal(0), -792200921),
    (DecimalType(38, 4), Decimal("0.0128"), -324137066),
    (DecimalType(38, 4), Decimal("-0.0128"), -2110058562),
    (DecimalType(38, 4), Decimal("12345678901234567890.1234"), -657053514),
    (DateType(), dt.date(1960, 1, 1), -1762555242),
    (TimestampType(), dt.datetime(1960, 1, 1, 1, 2, 3, 456, tzinfo=dt.timezone.utc), 1704715570),
    (TimestampNTZType(), dt.datetime(1960, 1, 1, 1, 2, 3, 456), 1704715570),
    (StringType(), "abcdé", -761628388),
    (BinaryType(), b"\xff\x00\x80\x81", -1814599755),
    (DayTimeIntervalType(), dt.timedelta(1, 2, 3), -403717158),
    (NESTED, {"a": 1, "b": "abc", "c": {"x": 1, "y": Decimal("1.5")}}, 1725998229),
    (NESTED, {"a": 3, "b": "x", "c": {"x": 7, "y": None}}, 1843860672),
    (NESTED, None, 1079293707),
    (ArrayType(IntegerType()), [1, 2, 3], 967941167),
    (ArrayType(IntegerType()), [], 1079293707),
    (ArrayType(StringType()), [None, "longer than eight"], -1052399176),
    (ArrayType(ArrayType(StringType())), [["a"], None, [], ["b", None, "cccccccccc"]], -1654508638),
]


def column_of(data_type: DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, UnsafeRowCodec(StructType().add("c", data_type)).arrow_types[0])


@pytest.mark.parametrize(("data_type", "value", "expected"), ALONE)
def test_one_value(data_type: DataType, value: Any, expected: int) -> None:
    assert hash_rows([column_of(data_type, [value])], [data_type]).tolist() == [expected]


@pytest.mark.parametrize(("data_type", "value", "expected"), WITH_7)
def test_two_columns_are_chained(data_type: DataType, value: Any, expected: int) -> None:
    columns = [column_of(data_type, [value] * 3), pa.array([7] * 3, pa.int32())]
    assert hash_rows(columns, [data_type, IntegerType()]).tolist() == [expected] * 3


def test_a_row_hashes_the_same_among_other_rows() -> None:
    values = ["", "a", None, "abcd", "x" * 1000, "abcdé", None]
    together = hash_rows([pa.array(values)], [StringType()], seed=7)
    assert together.dtype == np.int32
    assert together.tolist() == [int(hash_rows([pa.array([v], pa.string())], [StringType()], 7)[0]) for v in values]


def test_a_window_and_a_word() -> None:
    window = StructType().add("start", TimestampType()).add("end", TimestampType())
    column = column_of(window, [{"start": 1735689600000000, "end": 1735689610000000}])
    assert hash_rows([column, pa.array(["apple"])], [window, StringType()]).tolist() == [764280124]


def test_a_partition_is_never_negative() -> None:
    assert partition_ids([pa.array(["x"]), pa.array([7])], [StringType(), LongType()], 5).tolist() == [2060754802 % 5]
    assert partition_ids([pa.array([1], pa.int32())], [IntegerType()], 5).tolist() == [-559580957 % 5]


def test_no_columns_and_no_rows() -> None:
    assert hash_rows([], []).tolist() == []
    for data_type, _, _ in ALONE + WITH_7:
        assert hash_rows([column_of(data_type, [])], [data_type]).tolist() == []


def test_maps_are_refused() -> None:
    with pytest.raises(ValueError, match="map"):
        hash_rows([column_of(MapType(StringType(), LongType()), [[("a", 1)]])], [MapType(StringType(), LongType())])
