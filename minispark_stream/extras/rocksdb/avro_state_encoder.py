"""Keys and values of column families in Avro, with the numbers of the schemas that they were written with.

Models: AvroStateEncoder, UnsafeRowDataEncoder, StateSchemaBroadcast (About state: RocksDB).

The code that works with column families sees keys and values of UnsafeRows (key_encoding.py). With
`stateStore.encodingFormat=avro`, the store contains rows in Avro in their place:

1. A row has a zero before it, as an UnsafeRow has, and then the number of its schema in the schema files (i16).
2. If a key consists of two rows, the first has no such number. A time is two binary fields: its sign, and the time.
3. Rows are written with the schema that the query has now, and with its number, the newest. A value is read with the schema of
   its own number. The types of a key never change, so it is read with the schema that the query has now.
4. In a list, each element is such a value. A family contains lists if there is another one for their lengths.

    total: ann -> 3                              00 0000 0206616e6e -> 00 0000 0206
    the same, with (n long, s string) now                           -> 00 0100 020600
    pages: ann | "/" -> 2      07000000 | 00 020206616e6e | 00 0000 0202022f -> 00 0000 0204

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.metadata_log import number
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.extras.rocksdb.avro_rows import AvroRows
from minispark_stream.extras.rocksdb.changes import elements, list_of
from minispark_stream.extras.rocksdb.column_family_schemas import Family
from minispark_stream.extras.rocksdb.key_encoding import (
    UNSAFE_ROW,
    at_time,
    avro_time,
    first_size,
    joined,
    rows_of,
    time_of,
    two_rows,
    unsafe_row,
)

_number = struct.Struct("<h")


class UnsafeRowDataEncoder:
    """Keys and values as the store has them, if its rows are UnsafeRows: unchanged."""

    def key(self, family: str, key: bytes) -> bytes:
        return key

    def first(self, family: str, row: bytes) -> bytes:
        """The bytes with which a key of two rows begins if its first row is `row`."""
        return two_rows(row, b"")[:-1]

    def value(self, family: str, value: bytes) -> bytes:
        return value

    def of_key(self, family: str, key: bytes) -> bytes:
        """The key as UnsafeRows. Raises ValueError."""
        return key

    def of_value(self, family: str, value: bytes) -> bytes:
        """The value as UnsafeRows. Raises ValueError."""
        return value

    def of_element(self, family: str, value: bytes) -> bytes:
        """A value that is not a list, or an element of one, as UnsafeRows. Raises ValueError."""
        return value


class AvroStateEncoder(UnsafeRowDataEncoder):
    """`files`: the families of each schema file, the newest last. `delimiter`: what is between the elements of a list.
    `budget`: the memory that a row may take."""

    def __init__(self, files: Sequence[Sequence[Family]], delimiter: bytes, budget: Budget | None = None):
        self._budget = budget
        families = [family for file in files for family in file]
        self._lists = {family.name for family in families if any(f.name == f"$rowCounter_{family.name}" for f in families)}
        self._values = {(family.name, family.value_id): family.value for family in families}
        self._codecs = {family.name: _Codecs(family) for family in families}
        self._delimiter = delimiter

    def key(self, family: str, key: bytes) -> bytes:
        codecs = self._codecs[family]
        number = _number.pack(codecs.family.key_id)
        if codecs.first is None and not codecs.is_time:
            return UNSAFE_ROW + number + codecs.others.encode(unsafe_row(key))
        first, others = rows_of(key)
        begin = avro_time(time_of(key)) if codecs.is_time else self.first(family, first)
        return begin + UNSAFE_ROW + number + codecs.others.encode(others)

    def first(self, family: str, row: bytes) -> bytes:  # (2)
        first = self._codecs[family].first
        assert first is not None
        return joined(UNSAFE_ROW + first.encode(row), b"")

    def of_key(self, family: str, key: bytes) -> bytes:
        codecs = self._codecs[family]
        if codecs.first is None and not codecs.is_time:
            return UNSAFE_ROW + codecs.others.decode(_numbered(key)[1], budget=self._budget)
        size = first_size(key)
        others = codecs.others.decode(_numbered(key[size:])[1], budget=self._budget)
        if codecs.first is None:
            return at_time(time_of(key), others)
        return two_rows(codecs.first.decode(unsafe_row(key[4:size]), budget=self._budget), others)

    def value(self, family: str, value: bytes) -> bytes:
        return self._each_element(family, value, self.element)

    def of_value(self, family: str, value: bytes) -> bytes:
        return self._each_element(family, value, self.of_element)

    def _each_element(self, family: str, value: bytes, converted: Callable[[str, bytes], bytes]) -> bytes:  # (4)
        if family not in self._lists:
            return converted(family, value)
        return list_of((converted(family, one[4:]) for one in elements(value, self._delimiter)), self._delimiter)

    def element(self, family: str, value: bytes) -> bytes:
        """A value that is not a list, or an element of one."""
        codecs = self._codecs[family]
        return UNSAFE_ROW + _number.pack(codecs.family.value_id) + codecs.value.encode(unsafe_row(value))

    def of_element(self, family: str, value: bytes) -> bytes:  # (3)
        number, row = _numbered(value)
        if (written := self._values.get((family, number))) is None:
            raise ValueError(f"a row of {family} in schema number {number}, which no schema file contains")
        codecs = self._codecs[family]
        schema = codecs.by_number.setdefault(number, AvroRows(written))
        return UNSAFE_ROW + codecs.value.decode(row, schema, self._budget)


class _Codecs:
    """The rows of a family: the `first` row of a key of two, the `others`, which each key has, and the `value`."""

    def __init__(self, family: Family):
        self.family = family
        self.is_time = "orderingOrdinals" in family.encoder
        self.by_number: dict[int, AvroRows] = {}

    @cached_property
    def first(self) -> AvroRows | None:
        return None if self.is_time or not self._columns else AvroRows(StructType(self.family.key.fields[: self._columns]))

    @cached_property
    def others(self) -> AvroRows:
        return AvroRows(StructType(self.family.key.fields[1 if self.is_time else self._columns :]))

    @cached_property
    def value(self) -> AvroRows:
        return AvroRows(self.family.value)

    @property
    def _columns(self) -> int:
        return number(dict(self.family.encoder), "numColsPrefixKey", 0)


def _numbered(data: bytes) -> tuple[int, bytes]:  # (1)
    """The number of a row's schema, and the row. Raises ValueError."""
    row = unsafe_row(data)
    if len(row) < _number.size:
        raise ValueError(f"a row in Avro of {len(row)} bytes, which ends before the number of its schema")
    number: int = _number.unpack_from(row)[0]
    return number, row[_number.size :]
