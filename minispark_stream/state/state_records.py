"""The records in a delta or snapshot file.

Models: the record format of HDFSBackedStateStoreProvider (About state: delta and snapshot files).

1. A payload is records with big-endian lengths, one behind the other:

       put     i32 key length, key, i32 value length, value
       remove  i32 key length, key, i32 -1                     in deltas only
       end     i32 -1

2. With `rowChecksum.enabled` a put value is preceded by the CRC32C of key and value (i32, little-endian, part of the
   value's length), and the key of a remove by the CRC32C of the key.
3. Puts of rows without variable parts are all of one size. They are written and read as a table of bytes, several times faster.

    put a -> 1, remove b     00000001 61 00000001 31 | 00000001 62 ffffffff | ffffffff

The payload is not trusted: lengths are checked before they are used, and every error names the byte. A reader may also limit
the memory that the records take: one of an empty key and an empty value has 8 bytes in the file, and 130 in Python.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from minispark_stream.checkpointing.lz4_block import LimitExceeded

Pair = tuple[bytes, "bytes | None"]  # a put, or with None a remove
Change = tuple[Sequence[bytes], "Sequence[bytes] | None"]  # keys that were put with their values, or were removed

BYTES_PER_RECORD = 130  # what CPython needs for a pair in a list, besides the bytes of key and value
_END = b"\xff\xff\xff\xff"
_length = struct.Struct(">i")


class NegativeKeySize(ValueError):
    pass


class RowChecksumMismatch(ValueError):
    pass


class _Lengths(dict[int, bytes]):
    """Each length as four bytes, made once."""

    def __missing__(self, length: int) -> bytes:
        self[length] = packed = _length.pack(length)
        return packed


def encode_records(changes: Iterable[Change], checksum: bool = False) -> bytes:
    """`changes` in order as the payload of a delta or snapshot file."""
    lengths = _Lengths()
    out: list[bytes] = []
    for keys, values in changes:
        if checksum:  # (2)
            keys, values = _with_checksum(keys, values)
        if values is not None and (puts := _puts_of_one_size(keys, values)) is not None:
            out.append(puts)
            continue
        columns = [map(lengths.__getitem__, map(len, keys)), keys]  # (1)
        columns += [[_END] * len(keys)] if values is None else [map(lengths.__getitem__, map(len, values)), values]
        records: list[bytes] = [b""] * (len(keys) * len(columns))
        for i, column in enumerate(columns):
            records[i :: len(columns)] = column
        out += records
    return b"".join([*out, _END])


def _puts_of_one_size(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes | None:
    """(3) The records of puts of rows without variable parts; None for others."""
    key_sizes, value_sizes = set(map(len, keys)), set(map(len, values))
    if len(key_sizes) != 1 or len(value_sizes) != 1 or len(keys) != len(values):
        return None
    (key,), (value,) = key_sizes, value_sizes
    table = np.empty((len(keys), 8 + key + value), np.uint8)
    table[:, :4] = np.frombuffer(_length.pack(key), np.uint8)
    table[:, 4 : 4 + key] = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), key)
    table[:, 4 + key : 8 + key] = np.frombuffer(_length.pack(value), np.uint8)
    table[:, 8 + key :] = np.frombuffer(b"".join(values), np.uint8).reshape(len(keys), value)
    return table.tobytes()


def decode_records(data: bytes, checksum: bool = False, max_bytes: int | None = None) -> list[Pair]:
    """The records of a payload, in order.

    Raises ValueError with the byte at which the payload is broken; LimitExceeded when the records need more than `max_bytes`
    of memory.
    """
    most = None if max_bytes is None else max(0, max_bytes - len(data)) // BYTES_PER_RECORD
    records = _records_of_one_size(data) or _records(data)
    pairs = list(islice(records, most))
    if len(pairs) == most and next(records, None) is not None:
        raise LimitExceeded(f"more than {max_bytes:,} bytes when its records are in memory")
    return _checked(pairs) if checksum else pairs


def _records(data: bytes) -> Iterator[Pair]:  # (1)
    at, end, read = 0, len(data), _length.unpack_from
    while True:
        if end - at < 4:
            raise ValueError(f"byte {at} of the records: the file ends without its end mark (-1)")
        (size,) = read(data, at)
        if size < 0:
            if size == -1:
                return
            raise NegativeKeySize(f"key size cannot be {size}")
        key = data[at + 4 : at + 4 + size]
        if at + 8 + size > end:
            raise ValueError(f"byte {at} of the records: a key of {size} bytes, but the file ends before")
        at += 4 + size
        (size,) = read(data, at)
        if size < 0:
            yield key, None
            at += 4
            continue
        if at + 4 + size > end:
            raise ValueError(f"byte {at} of the records: a value of {size} bytes, but the file ends before")
        yield key, data[at + 4 : at + 4 + size]
        at += 4 + size


def _records_of_one_size(data: bytes) -> Iterator[Pair] | None:
    """(3) The same as `_records`, for puts of rows without variable parts; None for others."""
    if len(data) < 12 or data[-4:] != _END:
        return None
    (key,) = _length.unpack_from(data)
    if key < 0 or key + 8 > len(data):
        return None
    (value,) = _length.unpack_from(data, 4 + key)
    if value < 0 or (len(data) - 4) % (8 + key + value):
        return None
    table = np.frombuffer(data, np.uint8, len(data) - 4).reshape(-1, 8 + key + value)
    sizes = [table[:, :4], table[:, 4 + key : 8 + key]]
    if any((size != size[0]).any() for size in sizes):
        return None
    # not of a memoryview: one that a half-read iterator holds can crash the garbage collector (CPython 3.11)
    return struct.iter_unpack(f"4x{key}s4x{value}s", data[:-4])


# --- (2) row checksums -----------------------------------------------------------------------------------------


def _with_checksum(keys: Sequence[bytes], values: Sequence[bytes] | None) -> Change:
    rows = keys if values is None else [k + v for k, v in zip(keys, values)]
    sums = [c.to_bytes(4, "little") for c in crc32c(rows)]
    if values is None:
        return [c + k for c, k in zip(sums, keys)], None
    return keys, [c + v for c, v in zip(sums, values)]


def _checked(pairs: list[Pair]) -> list[Pair]:
    plain: list[Pair] = [(k[4:], None) if v is None else (k, v[4:]) for k, v in pairs]
    sums = [int.from_bytes((k if v is None else v)[:4], "little") for k, v in pairs]
    computed = crc32c([k if v is None else k + v for k, v in plain])
    if sums != computed:
        i = next(i for i, (a, b) in enumerate(zip(sums, computed)) if a != b)
        raise RowChecksumMismatch(f"Expected checksum: {sums[i]}, Computed checksum: {computed[i]}, record {i}")
    return plain


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ (np.uint32(0x82F63B78) * (table & np.uint32(1)))
    return table


_CRC = _crc_table()


def crc32c(rows: Sequence[bytes]) -> list[int]:
    """The CRC32C (Castagnoli) of each row: the nth bytes of all rows at a time."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    start = np.cumsum(lengths) - lengths
    sums = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    live, nth = np.flatnonzero(lengths > 0), 0
    while len(live):
        crc = sums[live]
        sums[live] = _CRC[(crc ^ data[start[live] + nth]) & np.uint32(255)] ^ (crc >> np.uint32(8))
        nth += 1
        live = live[lengths[live] > nth]
    return (~sums).tolist()
