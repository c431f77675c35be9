"""Structs, arrays and maps in UnsafeRows: values that contain values.

Models: UnsafeRow (for a struct), UnsafeArrayData and UnsafeMapData (About state: state files). These are lines 2 and 3 of the
format, see the docstring of the package.

1. A struct is a row within a row: null bits, a slot for each field, a variable region. A whole row is a struct, too.
2. An array is a count, null bits, elements at their natural width, and a variable region.
3. A map is the size of its array of keys in bytes, that array, and an array of values.

    array of ints (7, null)     count 0200000000000000, null bits 0200000000000000, elements 07000000 00000000

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.spark_types import ArrayType, MapType, StructType, stored_type
from minispark_stream.engine.checkpointing.unsafe_row.columns import (
    Buffer,
    Ints,
    Mask,
    Part,
    bitmap,
    header,
    int64,
    list_offsets,
    null_bytes,
    numbered,
    one_chunk,
    pad8,
)
from minispark_stream.engine.checkpointing.unsafe_row.values import (
    BigDecimal,
    Boolean,
    Bytes,
    FieldType,
    Fixed,
    Interval,
    Null,
    SmallDecimal,
    Varying,
)

MAX_LONG_DIGITS = 18
# The types whose values are stored in a slot: their names in Arrow and in numpy.
_FIXED = {
    "byte": (pa.int8(), "<i1"), "short": (pa.int16(), "<i2"), "integer": (pa.int32(), "<i4"), "long": (pa.int64(), "<i8"),
    "float": (pa.float32(), "<f4"), "double": (pa.float64(), "<f8"), "date": (pa.date32(), "<i4"),
    "time": (pa.time64("ns"), "<i8"), "timestamp": (pa.timestamp("us", tz="UTC"), "<i8"),
    "timestamp_ntz": (pa.timestamp("us"), "<i8"),
    "daytimeinterval": (pa.duration("us"), "<i8"), "yearmonthinterval": (pa.int32(), "<i4"),
}

# --- (1) structs -----------------------------------------------------------------------------------------------


class Struct(Varying):
    def __init__(self, schema: StructType):
        self.fields = [field_type(f.dataType) for f in schema.fields]
        self.arrow = pa.struct([pa.field(f.name, t.arrow, f.nullable) for f, t in zip(schema.fields, self.fields)])
        self.bits = null_bytes(len(self.fields))
        self.fixed = self.bits + 8 * len(self.fields)
        self.largest = max([self.fixed, *(t.largest for t in self.fields)])
        self.depth = 1 + max((t.depth for t in self.fields), default=0)

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        return self.prepare_fields(column.flatten(), len(column))

    def prepare_fields(self, columns: Sequence[pa.Array | pa.ChunkedArray], n: int) -> tuple[list[Part], Ints]:
        parts = [t.prepare(one_chunk(c), True) for t, c in zip(self.fields, columns)]
        sizes = np.full(n, self.fixed, np.int64)
        for column, part in zip(columns, parts):
            if len(column) != n:
                raise ValueError(f"columns of different lengths: {len(column)} and {n}")
            if part.sizes is not None:
                sizes += part.sizes
        return parts, sizes

    def write_region(self, out: Buffer, payload: list[Part], start: Ints, lengths: Ints) -> None:
        self.write_fields(out, payload, start)

    def write_fields(self, out: Buffer, parts: list[Part], start: Ints) -> None:
        slot, region = start + self.bits, start + self.fixed
        for i, (t, part) in enumerate(zip(self.fields, parts)):
            if part.valid is not None:
                out.bytes[start + (i >> 3)] |= ~part.valid * np.uint8(1 << (i & 7))
            t.write(out, part, slot, start, region)
            slot = slot + 8
            if part.sizes is not None:
                region = region + part.sizes

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        if valid is not None:
            size = np.where(valid, size, self.largest)
        fields = self.read_fields(src, start, size, valid)
        return pa.Array.from_buffers(self.arrow, len(start), [bitmap(valid)], children=fields)

    def read_fields(
        self, src: Buffer, start: Ints, size: Ints, row_valid: Mask = None, only: Collection[int] | None = None
    ) -> list[pa.Array]:
        src.check(size >= self.fixed, start, f"too short for {len(self.fields)} fields")
        end = start + size
        any_null = [bool(src.words[(start >> 3) + w].any()) for w in range(self.bits // 8)]
        columns: list[pa.Array] = [None] * len(self.fields)
        for i, t in enumerate(self.fields):
            if only is not None and i not in only:
                continue
            src.take(len(start))
            slot = start + self.bits + 8 * i
            valid = src.bytes[start + (i >> 3)] & np.uint8(1 << (i & 7)) == 0 if any_null[i >> 6] else None
            if row_valid is not None:  # the fields of a null struct are null
                valid = row_valid if valid is None else valid & row_valid
            columns[i] = t.read(src, slot, None if valid is None or valid.all() else valid, start, end)
        return columns


# --- (2) and (3) arrays and maps --------------------------------------------------------------------------------


class Elements:
    """The array format, used by arrays and, twice, by maps."""

    def __init__(self, element: FieldType):
        self.element = element

    def measure(self, values: pa.Array, ends: Ints) -> tuple[Any, Ints]:
        part = self.element.prepare(one_chunk(values.slice(ends[0], ends[-1] - ends[0])), False)
        ends = ends - ends[0]
        counts = np.diff(ends)
        fixed = header(counts) + pad8(counts * self.element.width)
        if part.sizes is None:
            return (counts, part, None, fixed), fixed
        before = np.concatenate([[0], np.cumsum(part.sizes)])  # variable bytes before each element, over all arrays
        within = before[:-1] - np.repeat(before[ends[:-1]], counts)
        return (counts, part, within, fixed), fixed + before[ends[1:]] - before[ends[:-1]]

    def write(self, out: Buffer, payload: Any, start: Ints) -> None:
        counts, part, within, fixed = payload
        out.words[start >> 3] = counts
        base, nth = np.repeat(start, counts), numbered(counts)
        if part.valid is not None:
            at, bit = base[~part.valid] + 8 + (nth[~part.valid] >> 3), nth[~part.valid] & 7
            np.bitwise_or.at(out.bytes, at, np.left_shift(1, bit).astype(np.uint8))
        slot = base + np.repeat(header(counts), counts) + nth * self.element.width
        region = base if within is None else base + np.repeat(fixed, counts) + within
        self.element.write(out, part, slot, base, region)

    def read(self, src: Buffer, start: Ints, size: Ints) -> tuple[np.ndarray, pa.Array]:
        src.check(size >= 8, start, "too short for an array")
        counts = src.words[start >> 3]
        small = (counts >= 0) & (counts <= size)  # first, so that the next line cannot overflow
        room = header(np.where(small, counts, 0)) + pad8(np.where(small, counts, 0) * self.element.width) <= size
        src.check(small & room, start, "more elements than there is room for")
        src.take(int(counts.sum()))
        base, nth = np.repeat(start, counts), numbered(counts)
        valid = (src.bytes[base + 8 + (nth >> 3)] >> (nth & 7).astype(np.uint8)) & 1 == 0
        slot = base + np.repeat(header(counts), counts) + nth * self.element.width
        end = np.repeat(start + size, counts)
        return counts, self.element.read(src, slot, None if valid.all() else valid, base, end)


class Array(Varying):
    def __init__(self, dt: ArrayType):
        element = field_type(dt.elementType)
        self.arrow = pa.list_(pa.field("element", element.arrow, dt.containsNull))
        self.elements, self.largest, self.depth = Elements(element), max(16, element.largest), 1 + element.depth

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        return self.elements.measure(column.values, int64(column.offsets))

    def write_region(self, out: Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        self.elements.write(out, payload, start)

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        counts, values = self.elements.read(src, start, size if valid is None else np.where(valid, size, 8))
        buffers = [bitmap(valid), list_offsets(counts)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers, children=[values])


class Map(Varying):
    def __init__(self, dt: MapType):
        key, value = field_type(dt.keyType), field_type(dt.valueType)
        self.arrow = pa.map_(pa.field("key", key.arrow, False), pa.field("value", value.arrow, dt.valueContainsNull))
        self.entries = pa.struct([self.arrow.key_field, self.arrow.item_field])
        self.keys, self.values, self.largest = Elements(key), Elements(value), max(24, key.largest, value.largest)
        self.depth = 1 + max(key.depth, value.depth)

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        ends = int64(column.offsets)
        keys, key_sizes = self.keys.measure(column.keys, ends)
        values, value_sizes = self.values.measure(column.items, ends)
        return (keys, key_sizes, values), 8 + key_sizes + value_sizes

    def write_region(self, out: Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        keys, key_sizes, values = payload
        out.words[start >> 3] = key_sizes
        self.keys.write(out, keys, start + 8)
        self.values.write(out, values, start + 8 + key_sizes)

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        src.check((size >= 8) if valid is None else (size >= 8) | ~valid, start, "too short for a map")
        key_size = src.words[start >> 3]
        if valid is not None:  # a null is read from zeros, which are a map of two empty arrays
            key_size, size = np.where(valid, key_size, 8), np.where(valid, size, 24)
        src.check((key_size >= 8) & (key_size <= size - 16) & (key_size & 7 == 0), start, "no room for the map's keys")
        counts, keys = self.keys.read(src, start + 8, key_size)
        value_counts, values = self.values.read(src, start + 8 + key_size, size - 8 - key_size)
        src.check(counts == value_counts, start, "a map with more keys than values, or fewer")
        if keys.null_count:  # Arrow would crash the process
            src.check(np.asarray(keys.is_valid()), np.repeat(start, counts), "a map with a key that is null")
        entries = pa.Array.from_buffers(self.entries, len(keys), [None], children=[keys, values])
        buffers = [bitmap(valid), list_offsets(counts)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers, children=[entries])


def field_type(dt: Any) -> FieldType:
    """How values of a type are written and read. `dt` is PySpark's DataType or the one of types_without_pyspark.py."""
    if hasattr(dt, "sqlType"):
        dt = stored_type(dt)
    match dt.typeName():
        case "struct":
            return Struct(dt)
        case "array":
            return Array(dt)
        case "map":
            return Map(dt)
        case "void":
            return Null()
        case "interval":
            return Interval(pa.binary())
        case "variant" | "geometry" | "geography" | "binary":
            return Bytes(pa.binary())
        case "string":
            return Bytes(pa.string())
        case "boolean":
            return Boolean(pa.bool_(), "u1")
        case "decimal":
            arrow = pa.decimal128(dt.precision, dt.scale)
            return SmallDecimal(arrow, "<i8") if dt.precision <= MAX_LONG_DIGITS else BigDecimal(arrow)
        case name if name in _FIXED:
            return Fixed(*_FIXED[name])
        case name:
            raise ValueError(f"state holds no values of type {name}")
