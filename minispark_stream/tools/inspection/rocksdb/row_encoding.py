"""How rows are stored in the keys and values of RocksDB, which are sorted by the bytes of their keys.

Models: RocksDBStateEncoder and its key encoders (About state: RocksDB).

1. A row is an UnsafeRow with a zero before it. The schema file says how a key is made from rows:

       NoPrefix                the whole key
       PrefixKeyScan(n)        length i32 | the first n columns | the others
       RangeKeyScan(columns)   length i32 | the ordering columns, in bytes that sort as their values do | the others
       TimestampAsPrefix       the last column, in 8 bytes that sort as it does | the others
       TimestampAsPostfix      the others | the last column

2. In bytes that sort as values do, a number is big-endian, after a byte that is 0 for a negative number, 1 for any other, and 2
   for null. All bits of a negative float are inverted.
3. A value is one row. The value of a list consists of all its elements, each with its length before it; here they are a
   column, `list`.
4. With `rowChecksum.enabled`, the CRC32C of key and value, and the length of the value, come before the value; in a list,
   before each element.
5. Rows in Avro, which only transformWithState can have, become UnsafeRows first (extras/rocksdb/avro_state_encoder.py).

    session ('a', 12:00:00)      19000000 | 00 row of 'a' | 00 row of 12:00:00

The bytes are not trusted: what does not fit is a ValueError.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, Budget
from minispark_stream.engine.checkpointing.metadata_log import number as as_number
from minispark_stream.engine.checkpointing.spark_types import BinaryType, DataType, StructField, StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_columns, decode_rows
from minispark_stream.engine.state.state_records import crc32c
from minispark_stream.extras.rocksdb.avro_state_encoder import UnsafeRowDataEncoder
from minispark_stream.extras.rocksdb.changes import elements
from minispark_stream.extras.rocksdb.column_family_schemas import NO_PREFIX
from minispark_stream.extras.rocksdb.key_encoding import rows_of, unsafe_row
from minispark_stream.tools.inspection.state_reader import UnsafeRows

LIST = "list"
_FORMATS = {  # by the name of the SQL type; the bytes behind the marker
    "tinyint": ">b", "smallint": ">h", "int": ">i", "bigint": ">q", "float": ">f", "double": ">d",
    "date": ">i", "timestamp": ">q", "timestamp_ntz": ">q", "boolean": ">?",
}
_size = struct.Struct("<i")


@dataclass(frozen=True)
class RocksDBRows(UnsafeRows):
    """Rows of a store or of a column family. `family`: the bytes before each key that identify the family called `name`."""

    encoder: Mapping[str, Any] = field(default_factory=lambda: NO_PREFIX)
    family: bytes = b""
    lists: bool = False
    delimiter: bytes = b""
    checksum: bool = False
    name: str = ""
    rows: UnsafeRowDataEncoder = UnsafeRowDataEncoder()

    def key_columns(self, keys: Sequence[bytes], budget: Budget) -> dict[str, list[Any]]:  # (1)
        keys = [self.rows.of_key(self.name, key) for key in keys]  # (5)
        kind = str(self.encoder.get("keyStateEncoderType"))
        names = self.key.names or [""]
        match kind.removesuffix("StateEncoderSpec"):
            case "NoPrefixKey":
                return decode_columns(UnsafeRowCodec(self.key), [unsafe_row(key) for key in keys], budget)
            case "PrefixKeyScan":
                columns = as_number(dict(self.encoder), "numColsPrefixKey")
                first, others = _halves(keys)
                return {
                    **_columns(self.key.fields[:columns], first, budget), **_columns(self.key.fields[columns:], others, budget),
                }
            case "RangeKeyScan":
                return self._range_columns(keys, budget)
            case "TimestampAsPrefixKey":
                found = _columns(self.key.fields[:-1], [unsafe_row(key[8:]) for key in keys], budget)
                return {**found, names[-1]: [_time(key[:8]) for key in keys]}
            case "TimestampAsPostfixKey":
                found = _columns(self.key.fields[:-1], [unsafe_row(key[:-8]) for key in keys], budget)
                return {**found, names[-1]: [_time(key[-8:]) for key in keys]}
        raise ValueError(f"keys in the unknown encoding {kind[:80]!r}")

    def value_rows(self, keys: Sequence[bytes], values: Sequence[bytes], budget: Budget) -> list[dict[str, Any]]:  # (3)
        codec = UnsafeRowCodec(self.value)
        if not self.lists:
            return decode_rows(codec, [self._row(value) for value in self._checked(keys, values)], budget)
        lists = [list(self._elements(value, budget)) for value in values]
        if self.checksum:
            lists = [self._checked([key] * len(of), of) for key, of in zip(keys, lists)]
        rows = iter(decode_rows(codec, [self._row(_sized(element)) for of in lists for element in of], budget))
        return [{LIST: [next(rows) for _ in of]} for of in lists]

    def _elements(self, value: bytes, budget: Budget) -> Iterator[bytes]:
        for element in elements(value, self.delimiter, self.checksum):
            budget.take(BYTES_PER_RECORD)
            yield element

    def _row(self, value: bytes) -> bytes:
        return unsafe_row(self.rows.of_element(self.name, value))

    def _range_columns(self, keys: Sequence[bytes], budget: Budget) -> dict[str, list[Any]]:
        fields, ordering = self.key.fields, self.encoder.get("orderingOrdinals")
        if not isinstance(ordering, list) or not all(type(i) is int and 0 <= i < len(fields) for i in ordering):
            raise ValueError(f"keys that sort by the columns {str(ordering)[:80]} of {len(fields)}")
        others = [f for i, f in enumerate(fields) if i not in ordering]
        first, rest = _halves(keys) if others else ([unsafe_row(key[4:]) for key in keys], [])
        binary = UnsafeRowCodec(StructType([StructField(str(i), BinaryType()) for i in ordering])).decode(first, budget=budget)
        found = _columns(others, rest, budget) if others else {}
        for i, column in zip(ordering, binary):
            found[fields[i].name] = [number(value, fields[i].dataType) for value in column.to_pylist()]
        return {name: found[name] for name in self.key.names}

    def _checked(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[bytes]:  # (4)
        if not self.checksum:
            return list(values)
        plain = [value[8:] for value in values]
        if any(len(value) < 8 or _int(value, 4) != len(value) - 8 for value in values):
            raise ValueError("a value without its checksum")
        expected = [int.from_bytes(value[:4], "little") for value in values]
        if crc32c([self.family + key + value for key, value in zip(keys, plain)]) != expected:
            raise ValueError("a value whose checksum does not match")
        return plain


def number(data: bytes | None, kind: DataType) -> Any:  # (2)
    """The value of bytes that sort as values do. Raises ValueError."""
    form = _FORMATS.get(kind.simpleString())
    if data is None or form is None or not data or data[0] > 2:
        raise ValueError(f"a key with a {kind.simpleString()} in bytes that sort, which cannot be read")
    if data[0] == 2:
        return None
    raw = data[1:]
    if len(raw) != struct.calcsize(form):
        raise ValueError(f"a key with a {kind.simpleString()} of {len(raw)} bytes")
    if data[0] == 0 and form in (">f", ">d"):
        raw = bytes(b ^ 0xFF for b in raw)
    return struct.unpack(form, raw)[0]


def _time(data: bytes) -> int:
    if len(data) != 8:
        raise ValueError("a key without its time")
    return int.from_bytes(data, "big") - (1 << 63)


def _columns(fields: Sequence[StructField], rows: Sequence[bytes], budget: Budget) -> dict[str, list[Any]]:
    return decode_columns(UnsafeRowCodec(StructType(list(fields))), rows, budget)


def _sized(data: bytes) -> bytes:
    if _int(data, 0) != len(data) - 4:
        raise ValueError("an element of a list with another length than it says")
    return data[4:]


def _halves(keys: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Both rows of keys that consist of two."""
    both = [rows_of(key) for key in keys]
    return [first for first, _ in both], [others for _, others in both]


def _int(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise ValueError("bytes that end before a length")
    value: int = _size.unpack_from(data, at)[0]
    return value
