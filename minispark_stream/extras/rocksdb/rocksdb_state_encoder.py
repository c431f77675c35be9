"""How the rows of a store are stored in RocksDB and in its changelogs.

Models: RocksDBStateEncoder, with NoPrefixKeyStateEncoder and PrefixKeyScanStateEncoder, and KeyValueChecksumEncoder (About
state: RocksDB).

In memory, keys and values are UnsafeRows (engine/checkpointing/unsafe_row). In RocksDB:

1. A value is its row with a zero before it, which says that it is an UnsafeRow; so is a key.
2. A key that is searched by its first columns (sessions) is two rows: length i32 | those columns | the other columns.
3. With `rowChecksum.enabled`, the CRC32C of key and value, and the length of the value, come before the value. In a changelog,
   the CRC32C of a key that is removed comes before the key.

    session ('a', 12:00:00)      19000000 | 00 row of 'a' | 00 row of 12:00:00

Whole columns are encoded at a time, and rows that all have the same size stay a table of bytes.

Rows in Avro, which only transformWithState can have, are in avro_state_encoder.py.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import Rows, UnsafeRowCodec
from minispark_stream.engine.state.state_records import Change, RowChecksumMismatch, crc32c
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW

_size = struct.Struct("<i")


@dataclass(frozen=True)
class RocksDBStateEncoder:
    """`prefix`: by how many of its first columns `key` is searched (sessions); 0 if it is only searched as a whole."""

    key: StructType
    prefix: int
    checksum: bool

    def encode(self, change: Change) -> Change:
        keys, values = change
        if not keys:
            return change
        if self.prefix:
            keys = [_size.pack(len(a)) + a + b for a, b in zip(*(_marked(part) for part in self._split(keys)))]
        else:
            keys = _marked(keys)
        values = _marked_or_none(values)
        return (keys, _with_checksums(keys, values)) if self.checksum else (keys, values)

    def decode(self, change: Change) -> Change:
        """Raises ValueError for bytes that are not encoded like this, RowChecksumMismatch if a row has another checksum."""
        keys, values = change
        if not keys:
            return change
        if self.checksum:
            values = _checked(keys, values)
        return (self._joined(keys) if self.prefix else _unmarked(keys)), _unmarked_or_none(values)

    def _split(self, keys: Sequence[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:  # (2)
        columns = UnsafeRowCodec(self.key).decode(keys)
        first, others = self._codecs()
        return first.encode_rows(columns[: self.prefix], len(keys)), others.encode_rows(columns[self.prefix :], len(keys))

    def _joined(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        ends = []
        for i, key in enumerate(keys):
            (size,) = _size.unpack_from(key) if len(key) >= 4 else (-1,)
            if not 0 < size <= len(key) - 4:
                raise ValueError(f"key {i} does not begin with the length of its first part")
            ends.append(4 + size)
        parts = [key[4:end] for key, end in zip(keys, ends)], [key[end:] for key, end in zip(keys, ends)]
        columns = [column for codec, part in zip(self._codecs(), parts) for column in codec.decode(_unmarked(part))]
        return UnsafeRowCodec(self.key).encode_rows(columns, len(keys))

    def _codecs(self) -> tuple[UnsafeRowCodec, UnsafeRowCodec]:
        first, others = self.key.fields[: self.prefix], self.key.fields[self.prefix :]
        return UnsafeRowCodec(StructType(first)), UnsafeRowCodec(StructType(others))


def _marked(rows: Sequence[bytes]) -> Sequence[bytes]:  # (1)
    if not isinstance(rows, Rows) or rows.differ:
        return [UNSAFE_ROW + row for row in rows]
    return Rows(np.pad(rows.table, ((0, 0), (1, 0))))


def _unmarked(rows: Sequence[bytes]) -> Sequence[bytes]:
    rows = Rows.of(rows)
    if isinstance(rows, Rows) and not rows.differ:
        if rows.table[:, 0].any():
            raise ValueError("a row that does not begin with 0, as an UnsafeRow does")
        return Rows(rows.table[:, 1:]) if rows.shape.width > 1 else [b""] * len(rows)
    if any(row[:1] != UNSAFE_ROW for row in rows):
        raise ValueError("a row that does not begin with 0, as an UnsafeRow does")
    return [row[1:] for row in rows]


def _marked_or_none(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
    if isinstance(values, Rows):
        return _marked(values)
    return [None if value is None else UNSAFE_ROW + value for value in values]


def _unmarked_or_none(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
    there = [value for value in values if value is not None]
    if len(there) == len(values):
        return _unmarked(there)
    unmarked = iter(_unmarked(there))
    return [None if value is None else next(unmarked) for value in values]


# -- (3) row checksums -------------------------------------------------------------------------------------------


def _with_checksums(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Sequence[bytes | None]:
    sums = crc32c([key + (value or b"") for key, value in zip(keys, values)])
    return [None if v is None else struct.pack("<Ii", c, len(v)) + v for v, c in zip(values, sums)]


def _checked(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Sequence[bytes | None]:
    plain = [None if value is None else value[8:] for value in values]
    computed = crc32c([key + (value or b"") for key, value in zip(keys, plain)])
    for i, (value, there, now) in enumerate(zip(plain, values, computed)):
        if value is not None and there is not None and there[:8] != struct.pack("<Ii", now, len(value)):
            expected = int.from_bytes(there[:4], "little")
            raise RowChecksumMismatch(f"Expected checksum: {expected}, Computed checksum: {now}, record {i}")
    return plain


def with_key_checksums(change: Change) -> Change:
    """The records of a changelog; in those that remove a key, its checksum is before it."""
    keys, values = change
    removed = [key for key, value in zip(keys, values) if value is None]
    sums = iter(crc32c(removed))
    return [key if v is not None else next(sums).to_bytes(4, "little") + key for key, v in zip(keys, values)], values


def checked_keys(change: Change) -> Change:
    """The records of a changelog without the checksums of removed keys. Raises RowChecksumMismatch."""
    keys, values = change
    plain = [key if value is not None else key[4:] for key, value in zip(keys, values)]
    if with_key_checksums((plain, values))[0] != list(keys):
        raise RowChecksumMismatch("Expected checksum of a removed key is not the computed checksum")
    return plain, values
