"""The state partition of a key: Spark's Murmur3 hash of its columns, modulo the number of partitions.

1. The hash begins with 42. Each column takes the hash so far as its seed; a null leaves it as it is.
2. A number of up to 32 bits is one word, one of 64 bits two, the lower one first. -0.0 is hashed as 0.0.
3. A text is hashed by its bytes: four of them are a word, and each of the last ones is a word of its own, with its sign.
4. A struct is hashed field by field.

    ("a", 7) among 5 partitions      murmur3(7, murmur3("a", 42)) mod 5

Models: Murmur3Hash and HashPartitioning (About state: state is partitioned by the key).
Differs from Spark: a key with an array, a map, or a text in a collation is refused.
Shown by tests/unit/tools/operations/test_repartition.py::test_the_hash_is_that_of_spark.
"""

from __future__ import annotations

import struct

from minispark_stream.engine.checkpointing.spark_types import StructType, stored_type
from minispark_stream.engine.checkpointing.unsafe_row.columns import null_bytes

SEED = 42
_32_BITS = 0xFFFFFFFF
WORDS = {
    "boolean": 1, "byte": 1, "short": 1, "integer": 1, "date": 1, "float": 1, "long": 2, "timestamp": 2, "timestamp_ntz": 2,
    "double": 2, "time": 2,
}


class NoPartition(ValueError):
    """Keys of a type whose hash is not computed here."""


def hash_of_key(key: bytes, schema: StructType, columns: int) -> int:
    """The number that, modulo the number of partitions, is the partition of a row which is distributed by its first columns.

    Raises:
        NoPartition: the hash is not computed here.
    """
    hashed = hash_of(key, 0, schema, columns, SEED)
    return hashed - (1 << 32) * (hashed >> 31)  # a hash has a sign


def hash_of(row: bytes, base: int, schema: StructType, columns: int, seed: int) -> int:  # (1)
    """The hash of the first columns of an UnsafeRow that begins at `base`."""
    nulls = null_bytes(len(schema.fields))
    for i, field in enumerate(schema.fields[:columns]):
        if not row[base + (i >> 3)] >> (i & 7) & 1:
            at = base + nulls + 8 * i
            seed = _hash(row, base, row[at : at + 8], stored_type(field.dataType), seed)
    return seed


def _hash(row: bytes, base: int, word: bytes, of_type: object, seed: int) -> int:
    kind = str(of_type.typeName())  # type: ignore[attr-defined]
    if kind in ("float", "double"):  # (2)
        code, size = ("<f", 4) if kind == "float" else ("<d", 8)
        value = struct.unpack(code, word[:size])[0]
        word = struct.pack(code, float("nan") if value != value else value + 0.0)
    if WORDS.get(kind) == 1:
        signed = {"boolean": "<B", "byte": "<b", "short": "<h"}.get(kind, "<i")
        return _finish(_mix(seed, struct.unpack_from(signed, word)[0]), 4)
    if WORDS.get(kind) == 2 or kind == "decimal" and of_type.precision <= 18:  # type: ignore[attr-defined]
        low, high = struct.unpack("<ii", word)
        return _finish(_mix(_mix(seed, low), high), 8)
    size, offset = struct.unpack("<II", word)
    value = row[base + offset : base + offset + size]
    if kind in ("string", "binary", "decimal") and getattr(of_type, "collation", "UTF8_BINARY") == "UTF8_BINARY":  # (3)
        whole = size & ~3
        for one in (*struct.unpack(f"<{whole // 4}i", value[:whole]), *struct.unpack(f"{size - whole}b", value[whole:])):
            seed = _mix(seed, one)
        return _finish(seed, size)
    if isinstance(of_type, StructType):  # (4)
        return hash_of(row, base + offset, of_type, len(of_type.fields), seed)
    raise NoPartition(f"the partition of a key of the type {kind} is not computed here")


def _mix(h: int, k: int) -> int:
    k = _rotated(k * 0xCC9E2D51 & _32_BITS, 15) * 0x1B873593 & _32_BITS
    return _rotated(h ^ k, 13) * 5 + 0xE6546B64 & _32_BITS


def _rotated(n: int, by: int) -> int:
    return (n << by | n >> 32 - by) & _32_BITS


def _finish(h: int, size: int) -> int:
    h ^= size
    h = (h ^ h >> 16) * 0x85EBCA6B & _32_BITS
    h = (h ^ h >> 13) * 0xC2B2AE35 & _32_BITS
    return h ^ h >> 16
