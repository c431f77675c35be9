"""Rows without a schema: a field of existing rows can be set, and rows of a few fields can be built and taken apart.

Models: the getters and setters of UnsafeRow (About state: state files).

Whole columns of rows are converted by UnsafeRowCodec.

1. A row begins with its null bits: a word for every 64 fields. A slot of 8 bytes for each field follows; `FixedField` is the
   place of one. Bytes are immutable, so setting a field copies the row.
2. `binary_row` builds a row of strings or binaries, and `binary_fields` takes one apart again.

    index = FixedField(1, of=2)             the second of two fields: bytes 16 to 24
    key (7, 0)                              0000000000000000 0700000000000000 0000000000000000
    index.with_long([key], 5)              [0000000000000000 0700000000000000 0500000000000000]

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.unsafe_row.columns import null_bytes
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows

_LONG = struct.Struct("<q")


class FixedField:
    """(1) Field number `field` of rows with `of` fields. Its methods do not touch the null bits."""

    def __init__(self, field: int, of: int):
        self._at = null_bytes(of) + 8 * field

    def longs(self, rows: Sequence[bytes]) -> list[int]:
        """The slot of the field in each row, as a long: of a string or struct, where it is and its size; 0 for a null."""
        return [_LONG.unpack_from(row, self._at)[0] for row in rows]

    def with_long(self, rows: Sequence[bytes], value: int) -> Sequence[bytes]:
        """Set the field in all rows, in one copy of their bytes; to do it row by row would take ten times as long."""
        if isinstance(rows, Rows):
            table = rows.table.copy()
            table.view(np.int64)[:, self._at >> 3] = value
            return Rows(table, rows.differ)
        _, offsets, data = pa.array(rows, pa.large_binary()).buffers()
        ends = np.frombuffer(offsets, np.int64, len(rows) + 1)
        words = np.frombuffer(data or b"", np.int64, ends[-1] >> 3).copy()
        words[(ends[:-1] + self._at) >> 3] = value
        return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, offsets, pa.py_buffer(words)]).to_pylist()

    def with_true(self, rows: Sequence[bytes]) -> Sequence[bytes]:
        if isinstance(rows, Rows):
            table = rows.table.copy()
            table[:, self._at] = 1
            return Rows(table, rows.differ)
        return [row[: self._at] + b"\x01" + row[self._at + 1 :] for row in rows]


def long_row(value: int) -> bytes:
    """The row of one long."""
    return bytes(8) + _LONG.pack(value)


def binary_row(*fields: bytes | None) -> bytes:
    """(2) The row of at most 64 string or binary fields."""
    nulls, slots, variable, end = 0, [], [], 8 + 8 * len(fields)
    for i, value in enumerate(fields):
        if value is None:
            nulls |= 1 << i
            slots.append(0)
            continue
        padded = value + bytes(-len(value) % 8)
        slots.append(end << 32 | len(value))
        variable.append(padded)
        end += len(padded)
    return struct.pack(f"<{1 + len(slots)}Q", nulls, *slots) + b"".join(variable)


def binary_fields(row: bytes, count: int) -> list[bytes | None]:
    """The fields of a row that `binary_row` made. Raises ValueError if it is not such a row."""
    begin = 8 + 8 * count
    if len(row) < begin:
        raise ValueError(f"a state row of {len(row)} bytes is no UnsafeRow of {count} fields")
    nulls, *slots = struct.unpack_from(f"<{1 + count}Q", row)
    fields: list[bytes | None] = []
    for i, slot in enumerate(slots):
        offset, size = slot >> 32, slot & 0xFFFFFFFF
        if nulls >> i & 1:
            fields.append(None)
        elif begin <= offset and offset + size <= len(row):
            fields.append(row[offset : offset + size])
        else:
            raise ValueError(f"a state row is no UnsafeRow of {count} binary fields: at byte {8 + 8 * i}: {offset}, {size}")
    return fields
