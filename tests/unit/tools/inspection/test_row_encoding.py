"""Keys and values as RocksDB has them. The bytes are Spark's own, from real checkpoints and from the encoders in its jar."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.state.state_records import crc32c
from minispark_stream.extras.rocksdb.column_family_schemas import prefix
from minispark_stream.tools.inspection.rocksdb.row_encoding import RocksDBRows, number
from tests.unit.rocksdb_files import KEY, VALUE, element, rows

MB = 1 << 20
A_ROW = "00 0000000000000000 0100000010000000 6100000000000000"


@pytest.mark.parametrize("data, kind, value", [
    ("00ffffffffffffffff", LongType(), -1), ("010000000000000000", LongType(), 0), ("020000000000000000", LongType(), None),
    ("00fffffffe", IntegerType(), -2), ("010005", ShortType(), 5), ("004007ffffffffffff", DoubleType(), -1.5),
    ("013ff8000000000000", DoubleType(), 1.5), ("00403fffff", FloatType(), -1.5),
])
def test_numbers_in_bytes_that_sort(data: str, kind: DataType, value: Any) -> None:
    assert number(bytes.fromhex(data), kind) == value


@pytest.mark.parametrize("data", ["", "01", "0300", "0100"])
def test_bytes_that_are_no_number_are_refused(data: str) -> None:
    with pytest.raises(ValueError, match="a key with a bigint"):
        number(bytes.fromhex(data), LongType())


def test_a_key_of_two_rows() -> None:
    session = StructType().add("k", StringType()).add("sessionStartTime", TimestampType())
    key = bytes.fromhex(f"19000000 {A_ROW} 00 0000000000000000 00d00c1fe10d0600")
    encoding = RocksDBRows(session, VALUE, prefix(1))
    assert encoding.key_columns([key], Budget(MB)) == {"k": ["a"], "sessionStartTime": ["2024-01-01 12:00:00"]}
    for size in ("00000000", "ff000000", "ffffffff"):
        with pytest.raises(ValueError, match="a key of 46 bytes, whose first part should have"):
            encoding.key_columns([bytes.fromhex(size) + key[4:]], Budget(MB))


def test_a_key_that_sorts_by_its_time() -> None:
    index = StructType().add("expirationMs", LongType()).add("elementKey", KEY)
    key = bytes.fromhex(
        "21000000 00 0000000000000000 0900000010000000 01000001a20caa367d00000000000000 "
        "00 0000000000000000 1800000010000000 0000000000000000 0100000010000000 6200000000000000"
    )
    encoding = RocksDBRows(index, VALUE, {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]})
    assert encoding.key_columns([key], Budget(MB)) == {"expirationMs": [1795508811389], "elementKey": [{"k": "b"}]}


@pytest.mark.parametrize("place", ["Prefix", "Postfix"])
def test_a_time_before_or_behind_the_key(place: str) -> None:
    of_join = StructType().add("k", StringType()).add("__event_time", LongType())
    time, row = "80060de11f0cd000", A_ROW
    encoding = RocksDBRows(of_join, VALUE, {"keyStateEncoderType": f"TimestampAs{place}KeyStateEncoderSpec"})
    key = bytes.fromhex(time + row if place == "Prefix" else row + time)
    assert encoding.key_columns([key], Budget(MB)) == {"k": ["a"], "__event_time": [1704110400000000]}


@pytest.mark.parametrize("kind", ["NoPrefixKey", "PrefixKeyScan", "RangeKeyScan", "TimestampAsPrefixKey", "TimestampAsPostfixKey"])
@pytest.mark.parametrize("schema", [KEY, StructType(), StructType().add("a", LongType()).add("a", KEY)], ids=["k", "none", "twice"])
def test_an_encoding_that_lies_is_no_crash(kind: str, schema: StructType) -> None:
    for numbers in (None, [], [0], [7], [-1], ["x"], [True], 10**30, "0", {}, {"a": 1}):
        said = {"keyStateEncoderType": f"{kind}StateEncoderSpec", "numColsPrefixKey": numbers, "orderingOrdinals": numbers}
        encoding = RocksDBRows(schema, VALUE, said)
        for key in (b"", b"\0", bytes(13), bytes(33), bytes.fromhex(A_ROW)):
            try:
                encoding.key_columns([key], Budget(MB))
            except ValueError as e:
                assert str(e)


def test_an_encoding_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match="keys in the unknown encoding 'Other'"):
        RocksDBRows(KEY, VALUE, {"keyStateEncoderType": "Other"}).key_columns([b"\0"], Budget(MB))


@pytest.mark.parametrize("delimiter", [b"", b","])
def test_a_list_with_the_delimiter_of_its_checkpoint(delimiter: bytes) -> None:
    encoding = RocksDBRows(KEY, VALUE, lists=True, delimiter=delimiter)
    value = delimiter.join(map(element, (1, 2, 3)))
    assert encoding.value_rows([b""], [value], Budget(MB)) == [{"list": [{"n": 1}, {"n": 2}, {"n": 3}]}]
    for damaged in (value[:-1], b"\xff" * 4 + value, value[:3]):
        with pytest.raises(ValueError):
            encoding.value_rows([b""], [damaged], Budget(MB))


def test_checksums_of_rows_are_compared() -> None:
    [key], [value] = rows(KEY, ["a"]), rows(VALUE, [5])
    family = b"\2\0"
    checksum = crc32c([family + key + value])[0].to_bytes(4, "little")
    encoding = RocksDBRows(KEY, VALUE, family=family, checksum=True)
    whole = checksum + len(value).to_bytes(4, "little") + value
    assert encoding.value_rows([key], [whole], Budget(MB)) == [{"n": 5}]
    with pytest.raises(ValueError, match="checksum does not match"):
        encoding.value_rows([key], [whole[:-8] + b"\7" + whole[-7:]], Budget(MB))
    with pytest.raises(ValueError, match="without its checksum"):
        encoding.value_rows([key], [value], Budget(MB))
