"""The records in a delta or snapshot file.

Models: the record format of HDFSBackedStateStoreProvider (About state: delta and snapshot files).

1. A payload consists of records with big-endian lengths, one after the other:

       put     i32 key length, key, i32 value length, value
       remove  i32 key length, key, i32 -1                     in deltas only
       end     i32 -1

2. With `rowChecksum.enabled`, the value of a put is preceded by the CRC32C of key and value (i32, little-endian, part of the
   value's length), and the key of a remove by the CRC32C of the key.
3. Many rows in a table (engine/checkpointing/unsafe_row/rows.py) are written all at once, without a loop. Reading is as fast
   where many records in succession have keys of one size and values of one size, so a large table is written in the order of
   the sizes of its keys.

    put a -> 1, remove b     00000001 61 00000001 31 | 00000001 62 ffffffff | ffffffff

The payload is not trusted: lengths are checked before they are used, and every error names the byte. A reader may also give a
`Budget`: a record with an empty key and an empty value takes 8 bytes in the file, and 130 in Python.

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, Budget
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows

Pair = tuple[bytes, "bytes | None"]  # a key and its new value; None: the key is removed
Change = tuple[Sequence[bytes], "Sequence[bytes | None]"]  # the keys and the values of many such pairs

FEW = 8  # so many records are written as quickly one by one
ALIKE = 1_000  # this many records with the same sizes in succession are worth a table
_END = b"\xff\xff\xff\xff"
_length = struct.Struct(">i")


class NegativeKeySize(ValueError):
    pass


class RowChecksumMismatch(ValueError):
    pass


class _Lengths(dict[int, bytes]):
    """Each length as four bytes, which are made only once."""

    def __missing__(self, length: int) -> bytes:
        self[length] = packed = _length.pack(length)
        return packed


def encode_records(changes: Iterable[Change], checksum: bool = False) -> bytes:
    """`changes` in order as the payload of a delta or snapshot file."""
    lengths = _Lengths()
    out: list[bytes | memoryview] = []
    for keys, values in changes:
        if checksum:  # (2)
            keys, values = _with_checksum(keys, values)
        if len(keys) > FEW and (tables := _tables(keys, values)) is not None:
            out += tables
            continue
        records: list[bytes] = [b""] * (4 * len(keys))  # (1)
        records[::4] = map(lengths.__getitem__, map(len, keys))
        records[1::4] = keys
        records[2::4] = [_END if value is None else lengths[len(value)] for value in values]
        records[3::4] = [value or b"" for value in values]
        out += records
    return b"".join([*out, _END])


def _tables(keys: Sequence[bytes], values: Sequence[bytes | None]) -> list[memoryview] | None:
    """(3) The records of rows that are tables or can be, if all are put or all are removed; None for other rows."""
    keys = Rows.of(keys)
    removed = 0 if isinstance(values, Rows) else values.count(None)
    if not isinstance(keys, Rows) or removed not in (0, len(keys)):
        return None
    puts = Rows(np.empty((removed, 0), np.uint8)) if removed else Rows.of(values)  # type: ignore[arg-type]
    if not isinstance(puts, Rows):
        return None
    if not keys.differ or len(keys) <= ALIKE:
        return [_table(keys, puts)]
    # Records of the same key have the same size, so they keep their order. As 16-bit numbers, numpy sorts them by counting.
    order = np.argsort(keys.sizes.astype(np.uint16), kind="stable")
    keys, puts = keys.some(order), puts.some(order)
    ends = [*(np.flatnonzero(np.diff(keys.sizes)) + 1).tolist(), len(keys)]
    return [_table(keys[begin:end].tight(), puts[begin:end].tight()) for begin, end in pairwise([0, *ends])]


def _table(keys: Rows, puts: Rows) -> memoryview:
    """The records of rows; if the lines of `puts` have no bytes at all, the keys are removed."""
    value_sizes = puts.sizes if puts.table.shape[1] else np.full(len(keys), -1)
    table = np.hstack([_lengths(keys.sizes), keys.table, _lengths(value_sizes), puts.table])
    if not keys.differ and not puts.differ:
        return table.data
    unit = 1 if ((keys.sizes | puts.sizes | table.shape[1]) & 3).any() else 4  # single bytes, or four at a time if sizes allow
    length = np.ones((len(keys), 4 // unit), np.bool_)
    key, value = (np.arange(rows.table.shape[1] // unit) < rows.sizes[:, None] // unit for rows in (keys, puts))
    return table.view(f"u{unit}")[np.hstack([length, key, length, value])].data


def _lengths(sizes: np.ndarray) -> np.ndarray:
    """Lengths as the bytes of the file, one line each."""
    return sizes.astype(">i4").view(np.uint8).reshape(-1, 4)


def decode_records(data: bytes, checksum: bool = False, budget: Budget | None = None) -> list[Pair]:
    """The records of a payload, in order, each as a pair. Raises what `decode_changes` raises."""
    return list(records(decode_changes(data, checksum, budget)))


def records(changes: Iterable[Change]) -> Iterator[Pair]:
    """The records of some changes, one by one."""
    return chain.from_iterable(zip(keys, values) for keys, values in changes)


def decode_changes(data: bytes, checksum: bool = False, budget: Budget | None = None) -> list[Change]:
    """The records of a payload, in order.

    Raises:
        ValueError: the payload is damaged; the text says at which byte.
        LimitExceeded: the records need more memory than the budget has.
    """
    changes: list[Change] = []
    one_by_one: tuple[list[bytes], list[bytes | None]] = [], []
    if budget is not None:
        budget.take(len(data))
    for found in _records(data):
        if isinstance(found[0], bytes):
            key, value = found
            one_by_one[0].append(key)
            one_by_one[1].append(value)
            number = 1
        else:
            changes += [one_by_one, found]
            one_by_one = [], []
            number = len(found[0])
        if budget is not None:
            budget.take(BYTES_PER_RECORD * number)
    changes = [change for change in [*changes, one_by_one] if change[0]]
    return _checked(changes) if checksum else changes


def _records(data: bytes) -> Iterator[Pair | Change]:
    """All records, one at a time; (3) after ALIKE records with the same sizes, the next ones of these sizes as one change."""
    at, end, read, alike, before = 0, len(data), _length.unpack_from, 0, (0, 0)
    while True:  # (1)
        if end - at < 4:
            raise ValueError(f"byte {at} of the records: the file ends without its end mark (-1)")
        (key,) = read(data, at)
        if key < 0:
            if key == -1:
                return
            raise NegativeKeySize(f"key size cannot be {key}")
        if at + 8 + key > end:
            raise ValueError(f"byte {at} of the records: a key of {key} bytes, but the file ends before")
        (value,) = read(data, at + 4 + key)
        width = 8 + key + max(value, 0)
        if at + width > end:
            raise ValueError(f"byte {at + 4 + key} of the records: a value of {value} bytes, but the file ends before")
        alike = alike + 1 if (key, value) == before else 0
        if alike >= ALIKE:
            some = _alike(data, at, key, value, alike)
            alike += len(some[0])
            at += len(some[0]) * width
            yield some
        else:
            yield data[at + 4 : at + 4 + key], None if value < 0 else data[at + 8 + key : at + width]
            at += width
        before = key, value


def _alike(data: bytes, at: int, key: int, value: int, most: int) -> Change:
    """(3) At most `most` records from byte `at` on, as long as their sizes are `key` and `value` (negative for removes)."""
    width = 8 + key + max(value, 0)
    n = min(most, (len(data) - at) // width)
    keys, values = (np.ndarray(n, ">i4", data, offset, (width,)) for offset in (at, at + 4 + key))
    others = np.flatnonzero((keys != key) | (values != value))
    n = int(others[0]) if len(others) else n
    table = np.frombuffer(data, np.uint8, n * width, at).reshape(n, width)
    return _rows(table[:, 4 : 4 + key]), [None] * n if value < 0 else _rows(table[:, 8 + key :])


def _rows(table: np.ndarray) -> Sequence[bytes]:
    return Rows(table) if table.shape[1] else [b""] * len(table)


# --- (2) row checksums -----------------------------------------------------------------------------------------


def _with_checksum(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Change:
    sums = [c.to_bytes(4, "little") for c in crc32c([k + (v or b"") for k, v in zip(keys, values)])]
    changes = [(c + k, None) if v is None else (k, c + v) for k, v, c in zip(keys, values, sums)]
    return [key for key, _ in changes], [value for _, value in changes]


def _checked(changes: list[Change]) -> list[Change]:
    pairs = list(records(changes))
    plain: list[Pair] = [(k[4:], None) if v is None else (k, v[4:]) for k, v in pairs]
    sums = [int.from_bytes((k if v is None else v)[:4], "little") for k, v in pairs]
    computed = crc32c([k if v is None else k + v for k, v in plain])
    if sums != computed:
        i = next(i for i, (a, b) in enumerate(zip(sums, computed)) if a != b)
        raise RowChecksumMismatch(f"Expected checksum: {sums[i]}, Computed checksum: {computed[i]}, record {i}")
    return [([k for k, _ in plain], [v for _, v in plain])]


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ (np.uint32(0x82F63B78) * (table & np.uint32(1)))
    return table


_CRC = _crc_table()


def after_byte(sums: Any, byte: Any) -> Any:
    """The CRC32C after one more byte; or an array of them (uint32) after an array of bytes."""
    return _CRC[(sums ^ byte) & np.uint32(255)] ^ (sums >> np.uint32(8))


def crc32c(rows: Sequence[bytes]) -> list[int]:
    """The CRC32C (Castagnoli) of each row, computed for all rows together, one byte position after the other."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    start = np.cumsum(lengths) - lengths
    sums = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    live, nth = np.flatnonzero(lengths > 0), 0
    while len(live):
        sums[live] = after_byte(sums[live], data[start[live] + nth])
        nth += 1
        live = live[lengths[live] > nth]
    return (~sums).tolist()
