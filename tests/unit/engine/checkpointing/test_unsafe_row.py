"""Rows are Spark's to the byte, both ways, and bytes that are no rows are refused."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
)

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec, columns
from minispark_stream.engine.checkpointing.unsafe_row import rows as rows_module

WINDOW = StructType().add("start", TimestampType()).add("end", TimestampType())
NESTED = StructType().add("a", LongType()).add("b", StringType()).add("c", StructType([
    StructField("x", IntegerType()), StructField("y", DecimalType(30, 2))
]))
NULL_BIT = "0100000000000000"
K = "0700000000000000"  # the second field of every row below: an int, 7

# What Spark 4.3.0 writes for (value, 7).
SPARK_ROWS: list[tuple[DataType, Any, str]] = [
    (BooleanType(), True, "0000000000000000 0100000000000000" + K),
    (BooleanType(), None, NULL_BIT + "0000000000000000" + K),
    (ByteType(), -1, "0000000000000000 ff00000000000000" + K),
    (ShortType(), -32768, "0000000000000000 0080000000000000" + K),
    (IntegerType(), -1, "0000000000000000 ffffffff00000000" + K),
    (LongType(), -(2**63), "0000000000000000 0000000000000080" + K),
    (FloatType(), 1.5, "0000000000000000 0000c03f00000000" + K),
    (DoubleType(), -0.0, "0000000000000000 0000000000000080" + K),
    (DoubleType(), float("-inf"), "0000000000000000 000000000000f0ff" + K),
    (DecimalType(10, 2), Decimal("-1.23"), "0000000000000000 85ffffffffffffff" + K),
    (DecimalType(38, 4), Decimal(0), "0000000000000000 0100000018000000" + K + "00" * 16),
    (DecimalType(38, 4), Decimal("0.0128"), "0000000000000000 0200000018000000" + K + "0080" + "00" * 14),
    (DecimalType(38, 4), Decimal("-0.0128"), "0000000000000000 0100000018000000" + K + "80" + "00" * 15),
    (DecimalType(38, 4), None, NULL_BIT + "0000000018000000" + K + "00" * 16),
    (DecimalType(38, 4), Decimal("12345678901234567890.1234"),
     "0000000000000000 0a00000018000000" + K + "1a249b1f10a06c96aff2 000000000000"),
    (DateType(), dt.date(1960, 1, 1), "0000000000000000 bbf1ffff00000000" + K),
    (TimestampType(), dt.datetime(1960, 1, 1, 1, 2, 3, 456, tzinfo=dt.UTC),
     "0000000000000000 889a9b0bf3e0feff" + K),
    (TimestampNTZType(), dt.datetime(1960, 1, 1, 1, 2, 3, 456), "0000000000000000 889a9b0bf3e0feff" + K),
    (StringType(), "", "0000000000000000 0000000018000000" + K),
    (StringType(), "abcdé", "0000000000000000 0600000018000000" + K + "61626364c3a90000"),
    (BinaryType(), b"\xff\x00\x80\x81", "0000000000000000 0400000018000000" + K + "ff00808100000000"),
    (DayTimeIntervalType(), dt.timedelta(1, 2, 3), "0000000000000000 83e4f51d14000000" + K),
    (YearMonthIntervalType(), 14, "0000000000000000 0e00000000000000" + K),
    (NullType(), None, NULL_BIT + "0000000000000000" + K),
    (NESTED, {"a": 1, "b": "abc", "c": {"x": 1, "y": Decimal("1.5")}},
     "0000000000000000 5000000018000000" + K + "0000000000000000 0100000000000000 0300000020000000 2800000028000000"
     "6162630000000000 0000000000000000 0100000000000000 0200000018000000 0096000000000000 0000000000000000"),
    (NESTED, {"a": 3, "b": "x", "c": {"x": 7, "y": None}},
     "0000000000000000 5000000018000000" + K + "0000000000000000 0300000000000000 0100000020000000 2800000028000000"
     "7800000000000000 0200000000000000 0700000000000000 0000000018000000 0000000000000000 0000000000000000"),
    (NESTED, None, NULL_BIT + "0000000000000000" + K),
    (ArrayType(IntegerType()), [None, 5, 7],
     "0000000000000000 2000000018000000" + K + "0300000000000000 0100000000000000 000000000500000007000000 00000000"),
    (ArrayType(BooleanType()), [True, False, None],
     "0000000000000000 1800000018000000" + K + "0300000000000000 0400000000000000 010000 0000000000"),
    (ArrayType(StringType()), [None, "longer than eight"],
     "0000000000000000 3800000018000000" + K + "0200000000000000 0100000000000000 0000000000000000 1100000020000000"
     "6c6f6e676572207468616e206569676874 00000000000000"),
    (ArrayType(DecimalType(25, 1)), [Decimal("1.5"), None, Decimal("-123456789012345678901234")],
     "0000000000000000 4000000018000000" + K + "0300000000000000 0200000000000000 0100000028000000 0000000000000000"
     "0b00000030000000 0f00000000000000 fefa91f0c959bbc21d208c0000000000"),
    (ArrayType(ArrayType(StringType())), [["a"], None, [], ["b", None, "cccccccccc"]],
     "0000000000000000 9800000018000000" + K + "0400000000000000 0200000000000000 2000000030000000 0000000000000000"
     "0800000050000000 4000000058000000 0100000000000000 0000000000000000 0100000018000000 6100000000000000"
     "0000000000000000 0300000000000000 0200000000000000 0100000028000000 0000000000000000 0a00000030000000"
     "6200000000000000 63636363636363636363000000000000"),
    (MapType(StringType(), LongType()), [("a", 1), ("bb", None)],
     "0000000000000000 5800000018000000" + K + "3000000000000000 0200000000000000 0000000000000000 0100000020000000"
     "0200000028000000 6100000000000000 6262000000000000 0200000000000000 0200000000000000 0100000000000000"
     "0000000000000000"),
]


@pytest.mark.parametrize(("data_type", "value", "row"), SPARK_ROWS)
def test_rows_are_those_of_spark(data_type: DataType, value: Any, row: str) -> None:
    codec = UnsafeRowCodec(StructType().add("c", data_type).add("k", IntegerType()))
    column = pa.array([value], codec.arrow_types[0])
    spark_row = bytes.fromhex(row)
    assert codec.encode([column, pa.array([7], pa.int32())]) == [spark_row]
    assert codec.decode([spark_row])[0].equals(column)


def test_a_window_and_a_word_as_a_key() -> None:
    codec = UnsafeRowCodec(StructType().add("window", WINDOW).add("word", StringType()))
    window = {"start": 1735689600000000, "end": 1735689610000000}
    row = bytes.fromhex(
        "0000000000000000 1800000018000000 0500000030000000"
        "0000000000000000 00600cba992a0600 80f6a4ba992a0600 6170706c65000000"
    )
    assert codec.encode([pa.array([window], codec.arrow_types[0]), pa.array(["apple"])]) == [row]
    assert codec.decode([row])[1].to_pylist() == ["apple"]


def test_no_rows_and_no_fields() -> None:
    codec = UnsafeRowCodec(StructType().add("s", StringType()).add("a", ArrayType(MapType(StringType(), WINDOW))))
    assert codec.decode([]) == [pa.array([], t) for t in codec.arrow_types]
    assert codec.encode(codec.decode([])) == []
    assert UnsafeRowCodec(StructType()).encode([], num_rows=2) == [b"", b""]
    assert UnsafeRowCodec(StructType()).decode([b"", b""]) == []


def test_more_than_64_fields_have_two_words_of_null_bits() -> None:
    schema = StructType([StructField(f"c{i}", IntegerType()) for i in range(70)])
    columns = [pa.array([None if i in (0, 63, 64) else i], pa.int32()) for i in range(70)]
    (row,) = UnsafeRowCodec(schema).encode(columns)
    assert row[:16].hex() == "0100000000000080" + "0100000000000000" and len(row) == 16 + 70 * 8
    assert UnsafeRowCodec(schema).decode([row]) == columns


# --- properties --------------------------------------------------------------------------------------------------

LEAVES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (ShortType(), st.integers(-(2**15), 2**15 - 1)),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (FloatType(), st.floats(width=32, allow_nan=False)),
    (DoubleType(), st.floats(allow_nan=False)),
    (StringType(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (BinaryType(), st.binary(max_size=20)),
    (DecimalType(9, 0), st.integers(-(10**9) + 1, 10**9 - 1).map(Decimal)),
    (DecimalType(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (TimestampType(), st.integers(-(2**62), 2**62)),
    (DateType(), st.integers(-(2**31), 2**31 - 1)),
]


@st.composite
def types_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["leaf"] * 3 + ["struct", "array", "map"] if depth else ["leaf"]))
    if kind == "leaf":
        data_type, values = draw(st.sampled_from(LEAVES))
        return data_type, st.none() | values
    if kind == "struct":
        fields = draw(st.lists(types_and_values(depth - 1), min_size=1, max_size=3))
        schema = StructType([StructField(f"f{i}", t) for i, (t, _) in enumerate(fields)])
        return schema, st.none() | st.fixed_dictionaries({f"f{i}": v for i, (_, v) in enumerate(fields)})
    element, values = draw(types_and_values(depth - 1))
    if kind == "array":
        return ArrayType(element), st.none() | st.lists(values, max_size=5)
    return MapType(LongType(), element), st.none() | st.lists(st.tuples(st.integers(0, 9), values), max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> tuple[UnsafeRowCodec, list[pa.Array]]:
    kinds = draw(st.lists(types_and_values(), min_size=1, max_size=4))
    codec = UnsafeRowCodec(StructType([StructField(f"c{i}", t) for i, (t, _) in enumerate(kinds)]))
    n = draw(st.integers(0, 6))
    columns = [draw(st.lists(values, min_size=n, max_size=n)) for _, values in kinds]
    return codec, [pa.array(c, t) for c, t in zip(columns, codec.arrow_types)]


@settings(max_examples=150, deadline=None)
@given(batches())
def test_what_was_encoded_is_decoded(batch: tuple[UnsafeRowCodec, list[pa.Array]]) -> None:
    codec, columns = batch
    rows = codec.encode(columns)
    decoded = codec.decode(rows)
    for array in decoded:
        array.validate(full=True)
    assert decoded == columns
    assert codec.encode(decoded) == rows
    assert codec.encode([c.slice(1) for c in columns]) == rows[1:]
    assert codec.encode([pa.chunked_array([c, c], c.type) for c in columns]) == rows * 2


@settings(max_examples=150, deadline=None)
@given(batches(), st.integers(0, 2**32))
def test_damaged_rows_are_refused_or_decode_to_something_sound(
    batch: tuple[UnsafeRowCodec, list[pa.Array]], seed: int
) -> None:
    codec, columns = batch
    rows = codec.encode(columns)
    rng = random.Random(seed)
    for _ in range(10):
        damaged = [bytearray(row) for row in rows]
        for row in damaged:
            row[rng.randrange(len(row))] ^= 1 << rng.randrange(8)
            if rng.random() < 0.3:
                del row[rng.randrange(len(row)) :]
        try:
            decoded = codec.decode([bytes(row) for row in damaged])
        except ValueError as e:
            assert "UnsafeRow" in str(e)
            continue
        for array in decoded:
            array.validate()
        assert sum(array.nbytes for array in decoded) <= 50 * (sum(map(len, damaged)) + 1000)


def test_strings_are_copied_in_lines_as_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = UnsafeRowCodec(StructType().add("a", StringType()).add("n", LongType()).add("b", StringType()))
    texts = [f"{i * 7919}"[: i % 9] * (1 + i % 5) for i in range(200)]
    batch = [pa.array(texts), pa.array(range(200)), pa.array([None if i % 6 == 0 else text for i, text in enumerate(texts[::-1])])]
    monkeypatch.setattr(rows_module, "CACHE", 1000)  # so that they come in pieces
    rows = codec.encode_rows(batch)
    assert codec.decode(rows) == codec.decode(list(rows)) == batch
    assert columns._room(np.array([len(text) for text in texts])) == 40
    monkeypatch.setattr(columns, "MOST_ROOM", 0)
    assert list(codec.encode_rows(batch)) == list(rows) and codec.decode(rows) == batch


def test_a_calendar_interval_keeps_its_place_in_a_row_and_has_16_bytes() -> None:
    codec = UnsafeRowCodec(StructType().add("i", CalendarIntervalType()).add("v", VariantType()))
    day = struct.pack("<iiq", 0, 1, 0)
    rows = codec.encode([pa.array([day, None], pa.binary()), pa.array([b"xyz", None], pa.binary())])
    assert [len(row) for row in rows] == [24 + 16 + 8, 24 + 16]
    assert [column.to_pylist() for column in codec.decode(rows)] == [[day, None], [b"xyz", None]]
    with pytest.raises(ValueError, match="a calendar interval has 16 bytes"):
        codec.decode([rows[0].replace(struct.pack("<II", 16, 24), struct.pack("<II", 8, 24))])


# --- damaged rows ------------------------------------------------------------------------------------------------

STRINGS = UnsafeRowCodec(StructType().add("s", StringType()))


def string_row(offset: int, size: int, length: int = 24) -> bytes:
    return (bytes(8) + (offset << 32 | size).to_bytes(8, "little") + b"x" * length)[:length]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"", "row 0 is not an UnsafeRow of this schema: at byte 0: too short for 1 fields"),
        (bytes(8), "too short"),
        (bytes(15), "its size 15 is not a multiple of 8"),
        (string_row(16, 9), "row 0 is not an UnsafeRow of this schema: at byte 8: the value's offset"),
        (string_row(16, 0xFFFFFFFF), "outside"),
        (string_row(0x7FFFFFF8, 8), "outside"),
        (string_row(0xFFFFFFF8, 8), "outside"),
        (string_row(17, 1), "outside"),
        (string_row(0, 2), "outside"),  # the number 2, where a text is expected
        (string_row(8, 8), "outside"),
    ],
)
def test_a_string_must_lie_in_its_row(row: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        STRINGS.decode([row])


def test_the_error_names_the_row() -> None:
    good = string_row(16, 8)
    with pytest.raises(ValueError, match="row 2 is not an UnsafeRow of this schema: at byte 8"):
        STRINGS.decode([good, good, string_row(16, 80)])


def test_values_that_overlap_cannot_grow_beyond_the_rows() -> None:
    strings = 1000
    elements = b"".join((8 + 128 + 8 * strings << 32 | 7000).to_bytes(8, "little") for _ in range(strings))
    array = strings.to_bytes(8, "little") + bytes(128) + elements + bytes(7000)
    row = bytes(8) + (16 << 32 | len(array)).to_bytes(8, "little") + array
    with pytest.raises(ValueError, match="overlap"):
        UnsafeRowCodec(StructType().add("a", ArrayType(StringType()))).decode([row])


@pytest.mark.parametrize("count", [2**63 - 1, 2**62, -1, 100])
def test_an_array_cannot_claim_more_elements_than_it_has_bytes(count: int) -> None:
    array = count.to_bytes(8, "little", signed=True) + bytes(16)
    row = bytes(8) + (16 << 32 | len(array)).to_bytes(8, "little") + array
    with pytest.raises(ValueError, match="more elements than there is room for"):
        UnsafeRowCodec(StructType().add("a", ArrayType(LongType()))).decode([row])
