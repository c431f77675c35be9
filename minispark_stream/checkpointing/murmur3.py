"""Spark's row hash: which state partition a key belongs to (About state: partitions; catalyst Murmur3Hash).

A stateful operator keeps one store per shuffle partition, and a key must find its own store again in every batch and
after every restart, also in another engine. So the partition comes from Spark's own hash, bit for bit:

1. A row is hashed column by column; the hash of one column is the seed of the next. The first seed is 42.
   A null leaves the hash as it is; structs and arrays are hashed child by child in the same way.
2. boolean (0 or 1), byte, short, int and date are one 4-byte block; long, timestamps and decimals of up to 18 digits
   (unscaled) are two blocks, low word first; float and double by their bits, with -0.0 as 0.0 and one NaN.
3. Strings, binaries and longer decimals (big-endian two's complement of minimal length): little-endian 4-byte blocks,
   then every byte that is left over is sign-extended and mixed as a block of its own (not Murmur3's own tail).
4. `fmix` with the length in bytes ends each value. partition = hash mod n, never negative.

    hash(1: int) = -559580957, hash(1: long) = -1712319331, hash('abcdé') = 1633936390
    hash('x', 7: long) = 2060754802; partition of 4 = 2

Differs from Spark: nothing; maps are refused, as Spark refuses them as grouping keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec

SEED = 42
_C1, _C2, _M, _N = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(5), np.uint32(0xE6546B64)


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType], seed: int = SEED) -> np.ndarray:
    """Spark's `hash(columns)` for every row, as int32. `types` are the columns' Spark types."""
    n = len(columns[0]) if columns else 0
    hashes = np.full(n, seed, np.int64).astype(np.uint32)
    for column, dt in zip(columns, types):  # (1)
        hashes = _hash_column(column, dt, hashes)
    return hashes.view(np.int32)


def partition_ids(columns: Sequence[pa.Array], types: Sequence[DataType], num_partitions: int) -> np.ndarray:
    """The partition of every row under Spark's hash partitioning."""
    return hash_rows(columns, types).astype(np.int64) % num_partitions


def _hash_column(column: pa.Array, dt: DataType, seeds: np.ndarray) -> np.ndarray:
    if isinstance(dt, UserDefinedType):
        dt = dt.sqlType()
    if isinstance(dt, NullType):
        return seeds
    if isinstance(dt, MapType):
        raise ValueError("a map cannot be hashed: Spark does not allow maps in grouping keys")
    if column.null_count:
        valid = np.asarray(column.is_valid())
        hashes = seeds.copy()
        hashes[valid] = _hash_column(column.drop_null(), dt, seeds[valid])
        return hashes
    if isinstance(dt, StructType):
        for child, field in zip(column.flatten(), dt.fields):
            seeds = _hash_column(child, field.dataType, seeds)
        return seeds
    if isinstance(dt, ArrayType):
        return _hash_arrays(column, dt.elementType, seeds)
    if isinstance(dt, (StringType, BinaryType)) or (isinstance(dt, DecimalType) and dt.precision > 18):
        return _hash_bytes(column, dt, seeds)
    return _hash_fixed(column, dt, seeds)


def _hash_arrays(column: pa.Array, element: DataType, seeds: np.ndarray) -> np.ndarray:
    ends = np.asarray(column.offsets).astype(np.int64)
    hashes, start, counts = seeds.copy(), ends[:-1], np.diff(ends)
    rows, nth = np.flatnonzero(counts > 0), 0
    while len(rows):  # the nth element of every array that has one
        hashes[rows] = _hash_column(column.values.take(pa.array(start[rows] + nth)), element, hashes[rows])
        nth += 1
        rows = rows[counts[rows] > nth]
    return hashes


def _hash_fixed(column: pa.Array, dt: DataType, seeds: np.ndarray) -> np.ndarray:  # (2)
    codec = _codec(dt)
    values = np.frombuffer(b"".join(codec.encode([column])), codec.row.fields[0].dtype)  # type: ignore[attr-defined]
    per_slot = 8 // values.itemsize
    values = values.reshape(-1, 2 * per_slot)[:, per_slot].copy()  # behind the null bits, at the low end of the slot
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    if values.itemsize == 8:
        halves = values.view(np.uint32).reshape(-1, 2)
        return _fmix(_mix(_mix(seeds, halves[:, 0]), halves[:, 1]), 8)
    if values.dtype.kind != "f":
        values = values.astype(np.int32)  # a hashed byte is sign-extended, a slot is not
    return _fmix(_mix(seeds, values.view(np.uint32)), 4)


def _hash_bytes(column: pa.Array, dt: DataType, seeds: np.ndarray) -> np.ndarray:  # (3)
    rows = _codec(dt).encode([column])
    data = np.frombuffer(b"".join(rows), np.uint8)
    row_starts = np.cumsum([0, *map(len, rows)])[:-1]
    lengths = data.view("<i4")[row_starts // 4 + 2].astype(np.int64)
    start, hashes = row_starts + 16, seeds.copy()
    words, live, nth = data.view(np.uint32), np.flatnonzero(lengths >= 4), 0
    while len(live):
        hashes[live] = _mix(hashes[live], words[start[live] // 4 + nth])
        nth += 1
        live = live[lengths[live] // 4 > nth]
    for tail in range(3):
        live = np.flatnonzero(lengths % 4 > tail)
        byte = data.view(np.int8)[start[live] + lengths[live] // 4 * 4 + tail]
        hashes[live] = _mix(hashes[live], byte.astype(np.int32).view(np.uint32))
    return _fmix(hashes, lengths.astype(np.uint32))


def _codec(dt: DataType) -> UnsafeRowCodec:
    return UnsafeRowCodec(StructType([StructField("c", dt)]))


def _mix(hashes: np.ndarray, block: np.ndarray) -> np.ndarray:
    block = _rotate_left(block * _C1, 15) * _C2
    return _rotate_left(hashes ^ block, 13) * _M + _N


def _fmix(hashes: np.ndarray, length: int | np.ndarray) -> np.ndarray:  # (4)
    h = hashes ^ np.uint32(length) if isinstance(length, int) else hashes ^ length
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _rotate_left(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
