"""How a RocksDB key is made from rows, so that the order of its bytes is useful.

Models: PrefixKeyScanStateEncoder, RangeKeyScanStateEncoder (About state: RocksDB).

The zero before a row says that it is an UnsafeRow.

1. If keys are searched by their first columns, a key consists of two rows, one of those columns and one of the others, and
   before them the length of the first row (i32, including its zero).
2. If keys are needed in the order of a time, the first of the two rows contains the time as a binary field that sorts as the
   time does: big-endian, after a byte that is 0 for a negative number and 1 for any other.
3. In Avro (avro_state_encoder.py), the time is two binary fields.

    page "/" of ann         19000000 | 00 row of ann | 00 row of "/"
    ann at 12:05            21000000 | 00 row of 01 0000018cc4e9b5e0 | 00 row of ann

The bytes are not trusted: what cannot be such a key is a ValueError.

Differs from Spark: nothing.
"""

from __future__ import annotations

import re
import struct

from minispark_stream.engine.checkpointing.unsafe_row.single_row import binary_fields, binary_row

UNSAFE_ROW = b"\0"
_size = struct.Struct("<i")
_time = struct.Struct(">q")
_AVRO_TIME = re.compile(rb"\x00\x02\x02[\x00\x01]\x02\x10(.{8})", re.DOTALL)


def two_rows(first: bytes, others: bytes) -> bytes:  # (1)
    """The key of two rows."""
    return joined(UNSAFE_ROW + first, UNSAFE_ROW + others)


def joined(first: bytes, others: bytes) -> bytes:
    """The key of two rows, each of which begins with what says how it is encoded."""
    return _size.pack(len(first)) + first + others


def first_size(key: bytes, at: int = 0) -> int:
    """The size of the first row of a key of two rows that begins at byte `at`, together with the length before the row."""
    size: int = _size.unpack_from(key, at)[0] if len(key) >= at + 4 else 0
    if not 0 < size < len(key) - 4 - at:
        raise ValueError(f"a key of {len(key) - at} bytes, whose first part should have {size}")
    return 4 + size


def rows_of(key: bytes) -> tuple[bytes, bytes]:
    """Both rows of a key. Raises ValueError."""
    size = first_size(key)
    return unsafe_row(key[4:size]), unsafe_row(key[size:])


def unsafe_row(data: bytes) -> bytes:
    if data[:1] != UNSAFE_ROW:
        raise ValueError("a row that does not begin with a zero, the version of its encoding")
    return data[1:]


def at_time(ms: int, row: bytes) -> bytes:  # (2)
    """The key of a row at a time."""
    return two_rows(binary_row(_sign(ms) + _time.pack(ms)), row)


def avro_time(ms: int) -> bytes:  # (3)
    """The beginning of the key of a row at a time, in Avro."""
    return joined(b"".join([UNSAFE_ROW, b"\2\2", _sign(ms), b"\2\x10", _time.pack(ms)]), b"")


def time_of(key: bytes) -> int:
    """The time of such a key, in either encoding. Raises ValueError."""
    if in_avro := _AVRO_TIME.fullmatch(key, 4, first_size(key)):
        return int(_time.unpack(in_avro[1])[0])
    [time] = binary_fields(rows_of(key)[0], 1)
    if time is None or len(time) != 9 or time[0] != (time[1] < 0x80):
        raise ValueError("a key without a time where it should have one")
    return int(_time.unpack_from(time, 1)[0])


def _sign(ms: int) -> bytes:
    return b"\1" if ms >= 0 else b"\0"
