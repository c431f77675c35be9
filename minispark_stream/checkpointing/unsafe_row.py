"""UnsafeRow, Spark's binary row (About state: state files; org.apache.spark.sql.catalyst.expressions.UnsafeRow).

State files hold their keys and values in this format, so it must be Spark's to the byte. One row is

    | null bits: ceil(n/64) words | one 8-byte slot per field | variable region |          little-endian

1. A fixed-width value lies at the low end of its slot, the rest is zero. A null has its bit set and a zero slot.
2. A string, binary, struct, array or map has `offset << 32 | size` in its slot; its bytes are in the variable region,
   in field order, zero-padded to 8. A struct is a nested row, and so begins again with null bits.
3. An array is `count: i64 | null bits | elements at their natural width, padded to 8 | variable region`;
   a map is `size of the key array: i64 | key array | value array`. Offsets in an array are relative to the array.
4. A decimal of up to 18 digits is its unscaled i64; a longer one is big-endian two's complement of minimal length in
   the variable region, where a row always keeps 16 bytes for it, even for null; an array keeps what is needed.

A whole batch goes in and out as Arrow columns, column by column, with numpy: positions are arrays of byte offsets, one
per value, into one buffer that holds all rows. Rows read from disk are not trusted: every offset and size is checked
against the bytes of its container, and all values of one depth may not be larger than all rows together (they would
have to share bytes), so memory is bounded.

    schema (count long), row (5)          0000000000000000 0500000000000000
    schema (s string, d double), ('ab', null)
                                          0200000000000000 0200000018000000 0000000000000000 6162000000000000

Differs from Spark: nothing on disk. In Arrow a year-month interval is an int32 (months); calendar intervals and
variants are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    StringType,
    StructType,
    UserDefinedType,
    YearMonthIntervalType,
)

Ints: TypeAlias = np.ndarray  # of int64
Mask: TypeAlias = np.ndarray | None  # of bool: which values are not null; None when all are

MAX_LONG_DIGITS = 18
_NUMPY = {"byte": "<i1", "short": "<i2", "integer": "<i4", "date": "<i4", "float": "<f4"}


class UnsafeRowCodec:
    """Turns Arrow columns into UnsafeRows and back, for one schema."""

    def __init__(self, schema: StructType):
        self.schema = schema
        self.row = _Struct(schema)

    @property
    def arrow_types(self) -> list[pa.DataType]:
        """The Arrow type of each column that `decode` returns."""
        return [t.arrow for t in self.row.fields]

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None = None) -> list[bytes]:
        """One UnsafeRow per row of `columns` (one Arrow array per field, all of the same length).

        `num_rows` is needed only for a schema without fields.
        """
        if len(columns) != len(self.row.fields):
            raise ValueError(f"{len(columns)} columns for a schema of {len(self.row.fields)} fields")
        n = len(columns[0]) if columns else (num_rows or 0)
        parts, sizes = self.row.prepare_fields(columns, n)
        starts = np.empty(n + 1, np.int64)
        starts[0] = 0
        np.cumsum(sizes, out=starts[1:])
        out = _Buffer(np.zeros(int(starts[-1]), np.uint8))
        self.row.write_fields(out, parts, starts[:-1])
        data = out.bytes.tobytes()
        if not any(p.sizes is not None for p in parts):  # all rows are of one size
            return _split_evenly(data, self.row.fixed, n)
        ends = starts.tolist()
        return [data[a:b] for a, b in zip(ends, ends[1:])]

    def decode(self, rows: Sequence[bytes]) -> list[pa.Array]:
        """The columns of `rows`. Raises ValueError, naming row and byte, when a row is not a row of this schema."""
        n = len(rows)
        sizes = np.fromiter(map(len, rows), np.int64, n)
        starts = np.zeros(n, np.int64)
        np.cumsum(sizes[:-1], out=starts[1:])
        if (sizes & 7).any():
            row = int(np.flatnonzero(sizes & 7)[0])
            raise ValueError(f"row {row} is not an UnsafeRow: its size {sizes[row]} is not a multiple of 8")
        # What null structs, arrays and maps point to: a row of zeros behind the last row.
        data = np.frombuffer(b"".join([*rows, bytes(self.row.largest)]), np.uint8)
        return self.row.read_fields(_Buffer(data, starts, self.row.depth - 1), starts, sizes)


def _split_evenly(data: bytes, size: int, n: int) -> list[bytes]:
    return [data[a : a + size] for a in range(0, n * size, size)] if size else [b""] * n


class _Buffer:
    """All rows, one behind the other, seen as words of any width (everything is aligned to its width)."""

    def __init__(self, data: np.ndarray, row_starts: Ints | None = None, depth: int = 1):
        self.bytes = data
        self.row_starts = row_starts
        self.left = len(data) * depth  # bytes of variable values that may still be read

    def view(self, dtype: str) -> np.ndarray:
        return self.bytes.view(dtype)

    @cached_property
    def words(self) -> np.ndarray:
        return self.bytes.view("<i8")

    def check(self, ok: np.ndarray, position: Ints, what: str) -> None:
        """Raise the error for the first value that is not `ok`; `position` is the byte at which each one was read."""
        if not ok.all():
            at = int(position[np.flatnonzero(~ok)[0]])
            starts = self.row_starts if self.row_starts is not None else np.zeros(1, np.int64)
            row = int(np.searchsorted(starts, at, "right")) - 1
            raise ValueError(f"row {row} is not an UnsafeRow of this schema: at byte {at - int(starts[row])}: {what}")


@dataclass(frozen=True)
class _Part:
    """A column made ready for writing. `sizes`: bytes of each value in the variable region (None: never any)."""

    valid: Mask
    payload: Any
    sizes: Ints | None = None


class _Type:
    """How values of one type are written and read. `width`: bytes of an array element; a slot in a row has 8."""

    arrow: pa.DataType
    width = 8
    largest = 16  # bytes of the widest fixed part of anything nested
    depth = 1  # levels of nesting, this one included

    def prepare(self, column: pa.Array, in_row: bool) -> _Part:
        raise NotImplementedError

    def write(self, out: _Buffer, part: _Part, slot: Ints, base: Ints, region: Ints) -> None:
        """Write each value at byte `slot` of `out`, its variable part at `region`; offsets are relative to `base`."""
        raise NotImplementedError

    def read(self, src: _Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        """The values in the slots at bytes `slot`, inside a container from `base` to `end`."""
        raise NotImplementedError


# --- (1) fixed-width values ------------------------------------------------------------------------------------


class _Fixed(_Type):
    def __init__(self, arrow: pa.DataType, dtype: str):
        self.arrow, self.dtype, self.width = arrow, dtype, np.dtype(dtype).itemsize

    def prepare(self, column: pa.Array, in_row: bool) -> _Part:
        column, valid = _leaf(column, self.arrow)
        values = self.to_numpy(column)
        return _Part(valid, values if valid is None else np.where(valid, values, values.dtype.type(0)))

    def write(self, out: _Buffer, part: _Part, slot: Ints, base: Ints, region: Ints) -> None:
        out.view(self.dtype)[slot // self.width] = part.payload

    def read(self, src: _Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        return self.to_arrow(src.view(self.dtype)[slot // self.width], valid)

    def to_numpy(self, column: pa.Array) -> np.ndarray:
        return np.frombuffer(column.buffers()[1] or b"", self.dtype)[column.offset : column.offset + len(column)]

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, len(values), [_bitmap(valid), pa.py_buffer(values)])


class _Boolean(_Fixed):
    def to_numpy(self, column: pa.Array) -> np.ndarray:
        return _bits(column.buffers()[1], column.offset, len(column))

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, len(values), [_bitmap(valid), _bitmap(values != 0)])


class _SmallDecimal(_Fixed):
    def to_numpy(self, column: pa.Array) -> np.ndarray:
        halves = np.frombuffer(column.buffers()[1] or b"", "<i8").reshape(-1, 2)
        return halves[column.offset : column.offset + len(column), 0]

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        halves = np.stack([values, values >> 63], axis=1)
        return pa.Array.from_buffers(self.arrow, len(values), [_bitmap(valid), pa.py_buffer(halves)])


class _Null(_Type):
    arrow = pa.null()

    def prepare(self, column: pa.Array, in_row: bool) -> _Part:
        return _Part(np.zeros(len(column), bool), None)

    def write(self, out: _Buffer, part: _Part, slot: Ints, base: Ints, region: Ints) -> None:
        pass

    def read(self, src: _Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        return pa.nulls(len(slot))


# --- (2) values in the variable region -------------------------------------------------------------------------


class _Variable(_Type):
    """A value that lives in the variable region; nulls take no room there. The subclass sees only what is not null."""

    def prepare(self, column: pa.Array, in_row: bool) -> _Part:
        column, valid = _leaf(column, self.arrow)
        payload, lengths = self.measure(column if valid is None else column.drop_null())
        return _Part(valid, (payload, lengths), _expand(_pad8(lengths), valid))

    def write(self, out: _Buffer, part: _Part, slot: Ints, base: Ints, region: Ints) -> None:
        payload, lengths = part.payload
        if part.valid is not None:
            slot, base, region = slot[part.valid], base[part.valid], region[part.valid]
        out.words[slot >> 3] = (region - base) << 32 | lengths
        self.write_region(out, payload, region, lengths)

    def read(self, src: _Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        word = src.words[slot >> 3]
        offset, size = word >> 32, word & 0xFFFFFFFF
        if valid is not None:
            offset, size = np.where(valid, offset, 0), np.where(valid, size, 0)
        src.check((offset >= 0) & (offset & 7 == 0) & (base + offset + size <= end), slot,
                  "the value's offset and size point outside of the bytes that hold it")
        total = np.cumsum(size)
        src.check(total <= src.left, slot, "the values overlap")
        src.left -= int(total[-1]) if len(total) else 0
        start = base + offset
        if valid is not None:
            start = np.where(valid, start, len(src.bytes) - self.largest)
        return self.read_region(src, start, size, valid)

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        raise NotImplementedError

    def write_region(self, out: _Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        raise NotImplementedError

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        raise NotImplementedError


class _Bytes(_Variable):
    def __init__(self, arrow: pa.DataType):
        self.arrow = arrow

    def measure(self, column: pa.Array) -> tuple[np.ndarray, Ints]:
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets or b"\0\0\0\0", "<i4")[column.offset : column.offset + len(column) + 1]
        return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], np.diff(ends).astype(np.int64)

    def write_region(self, out: _Buffer, payload: np.ndarray, start: Ints, lengths: Ints) -> None:
        out.bytes[_ragged(start, lengths)] = payload

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        ends = np.zeros(len(size) + 1, np.int64)
        np.cumsum(size, out=ends[1:])
        if ends[-1] > 0x7FFFFFFF:
            raise ValueError("a column of more than 2 GiB: decode fewer rows at a time")
        data = src.bytes[_ragged(start, size)]
        buffers = [_bitmap(valid), pa.py_buffer(ends.astype("<i4")), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers)


class _BigDecimal(_Variable):  # (4)
    def __init__(self, arrow: pa.DataType):
        self.arrow = arrow

    def prepare(self, column: pa.Array, in_row: bool) -> _Part:
        part = super().prepare(column, in_row)
        return _Part(part.valid, part.payload, np.full(len(column), 16)) if in_row else part

    def write(self, out: _Buffer, part: _Part, slot: Ints, base: Ints, region: Ints) -> None:
        if part.sizes is not None and part.valid is not None and part.sizes.all():  # in a row a null keeps its place
            out.words[slot >> 3] = (region - base) << 32
        super().write(out, part, slot, base, region)

    def measure(self, column: pa.Array) -> tuple[np.ndarray, Ints]:
        little = np.frombuffer(column.buffers()[1] or b"", np.uint8).reshape(-1, 16)
        big = little[column.offset : column.offset + len(column), ::-1]
        sign = (big[:, :1] >> 7) * np.uint8(255)
        redundant = np.logical_and.accumulate(big == sign, axis=1).sum(axis=1).clip(max=15)
        first = np.take_along_axis(big, redundant[:, None], axis=1)
        return big, 16 - redundant + ((first >> 7) * np.uint8(255) != sign)[:, 0]

    def write_region(self, out: _Buffer, payload: np.ndarray, start: Ints, lengths: Ints) -> None:
        out.bytes[_ragged(start, lengths)] = payload[np.arange(16) >= (16 - lengths)[:, None]]

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        src.check((size > 0) & (size <= 16) | (valid is not None and ~valid), start, "a decimal of 0 or over 16 bytes")
        sign = (src.bytes[start] >> 7) * np.uint8(255)
        place = np.arange(16)
        at = start[:, None] + np.maximum(size[:, None] - 1 - place, 0)
        little = np.ascontiguousarray(np.where(place < size[:, None], src.bytes[at], sign[:, None]))
        return pa.Array.from_buffers(self.arrow, len(size), [_bitmap(valid), pa.py_buffer(little)])


class _Struct(_Variable):
    def __init__(self, schema: StructType):
        self.fields = [_field_type(f.dataType) for f in schema.fields]
        self.arrow = pa.struct([pa.field(f.name, t.arrow, f.nullable) for f, t in zip(schema.fields, self.fields)])
        self.bits = (len(self.fields) + 63) // 64 * 8
        self.fixed = self.bits + 8 * len(self.fields)
        self.largest = max([self.fixed, *(t.largest for t in self.fields)])
        self.depth = 1 + max((t.depth for t in self.fields), default=0)

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        return self.prepare_fields(column.flatten(), len(column))

    def prepare_fields(self, columns: Sequence[pa.Array | pa.ChunkedArray], n: int) -> tuple[list[_Part], Ints]:
        parts = [t.prepare(_one_chunk(c), True) for t, c in zip(self.fields, columns)]
        sizes = np.full(n, self.fixed, np.int64)
        for column, part in zip(columns, parts):
            if len(column) != n:
                raise ValueError(f"columns of different lengths: {len(column)} and {n}")
            if part.sizes is not None:
                sizes += part.sizes
        return parts, sizes

    def write_region(self, out: _Buffer, payload: list[_Part], start: Ints, lengths: Ints) -> None:
        self.write_fields(out, payload, start)

    def write_fields(self, out: _Buffer, parts: list[_Part], start: Ints) -> None:
        slot, region = start + self.bits, start + self.fixed
        for i, (t, part) in enumerate(zip(self.fields, parts)):
            if part.valid is not None:
                out.bytes[start + (i >> 3)] |= ~part.valid * np.uint8(1 << (i & 7))
            t.write(out, part, slot, start, region)
            slot = slot + 8
            if part.sizes is not None:
                region = region + part.sizes

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        if valid is not None:
            size = np.where(valid, size, self.largest)
        fields = self.read_fields(src, start, size, valid)
        return pa.Array.from_buffers(self.arrow, len(start), [_bitmap(valid)], children=fields)

    def read_fields(self, src: _Buffer, start: Ints, size: Ints, row_valid: Mask = None) -> list[pa.Array]:
        src.check(size >= self.fixed, start, f"too short for {len(self.fields)} fields")
        end, slot = start + size, start + self.bits
        any_null = [bool(src.words[(start >> 3) + w].any()) for w in range(self.bits // 8)]
        columns = []
        for i, t in enumerate(self.fields):
            valid = src.bytes[start + (i >> 3)] & np.uint8(1 << (i & 7)) == 0 if any_null[i >> 6] else None
            if row_valid is not None:  # what a null struct holds is null
                valid = row_valid if valid is None else valid & row_valid
            columns.append(t.read(src, slot, None if valid is None or valid.all() else valid, start, end))
            slot = slot + 8
        return columns


# --- (3) arrays and maps ---------------------------------------------------------------------------------------


class _Elements:
    """The array format, used by arrays and, twice, by maps."""

    def __init__(self, element: _Type):
        self.element = element

    def measure(self, values: pa.Array, ends: Ints) -> tuple[Any, Ints]:
        part = self.element.prepare(_one_chunk(values.slice(ends[0], ends[-1] - ends[0])), False)
        ends = ends - ends[0]
        counts = np.diff(ends)
        fixed = _header(counts) + _pad8(counts * self.element.width)
        if part.sizes is None:
            return (counts, part, None, fixed), fixed
        before = np.concatenate([[0], np.cumsum(part.sizes)])  # variable bytes before each element, over all arrays
        within = before[:-1] - np.repeat(before[ends[:-1]], counts)
        return (counts, part, within, fixed), fixed + before[ends[1:]] - before[ends[:-1]]

    def write(self, out: _Buffer, payload: Any, start: Ints) -> None:
        counts, part, within, fixed = payload
        out.words[start >> 3] = counts
        base, nth = np.repeat(start, counts), _nth(counts)
        if part.valid is not None:
            at, bit = base[~part.valid] + 8 + (nth[~part.valid] >> 3), nth[~part.valid] & 7
            np.bitwise_or.at(out.bytes, at, np.left_shift(1, bit).astype(np.uint8))
        slot = base + np.repeat(_header(counts), counts) + nth * self.element.width
        region = base if within is None else base + np.repeat(fixed, counts) + within
        self.element.write(out, part, slot, base, region)

    def read(self, src: _Buffer, start: Ints, size: Ints) -> tuple[np.ndarray, pa.Array]:
        src.check(size >= 8, start, "too short for an array")
        counts = src.words[start >> 3]
        small = (counts >= 0) & (counts <= size)  # first, so that the next line cannot overflow
        room = _header(np.where(small, counts, 0)) + _pad8(np.where(small, counts, 0) * self.element.width) <= size
        src.check(small & room, start, "more elements than there is room for")
        base, nth = np.repeat(start, counts), _nth(counts)
        valid = (src.bytes[base + 8 + (nth >> 3)] >> (nth & 7).astype(np.uint8)) & 1 == 0
        slot = base + np.repeat(_header(counts), counts) + nth * self.element.width
        end = np.repeat(start + size, counts)
        return counts, self.element.read(src, slot, None if valid.all() else valid, base, end)


class _Array(_Variable):
    def __init__(self, dt: ArrayType):
        element = _field_type(dt.elementType)
        self.arrow = pa.list_(pa.field("element", element.arrow, dt.containsNull))
        self.elements, self.largest, self.depth = _Elements(element), max(16, element.largest), 1 + element.depth

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        return self.elements.measure(column.values, _int64(column.offsets))

    def write_region(self, out: _Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        self.elements.write(out, payload, start)

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        counts, values = self.elements.read(src, start, size if valid is None else np.where(valid, size, 8))
        buffers = [_bitmap(valid), _list_offsets(counts)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers, children=[values])


class _Map(_Variable):
    def __init__(self, dt: MapType):
        key, value = _field_type(dt.keyType), _field_type(dt.valueType)
        self.arrow = pa.map_(pa.field("key", key.arrow, False), pa.field("value", value.arrow, dt.valueContainsNull))
        self.entries = pa.struct([self.arrow.key_field, self.arrow.item_field])
        self.keys, self.values, self.largest = _Elements(key), _Elements(value), max(24, key.largest, value.largest)
        self.depth = 1 + max(key.depth, value.depth)

    def measure(self, column: pa.Array) -> tuple[Any, Ints]:
        ends = _int64(column.offsets)
        keys, key_sizes = self.keys.measure(column.keys, ends)
        values, value_sizes = self.values.measure(column.items, ends)
        return (keys, key_sizes, values), 8 + key_sizes + value_sizes

    def write_region(self, out: _Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        keys, key_sizes, values = payload
        out.words[start >> 3] = key_sizes
        self.keys.write(out, keys, start + 8)
        self.values.write(out, values, start + 8 + key_sizes)

    def read_region(self, src: _Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        src.check((size >= 8) if valid is None else (size >= 8) | ~valid, start, "too short for a map")
        key_size = src.words[start >> 3]
        if valid is not None:  # zeros: two arrays of nothing
            key_size, size = np.where(valid, key_size, 8), np.where(valid, size, 24)
        src.check((key_size >= 8) & (key_size <= size - 16) & (key_size & 7 == 0), start, "no room for the map's keys")
        counts, keys = self.keys.read(src, start + 8, key_size)
        value_counts, values = self.values.read(src, start + 8 + key_size, size - 8 - key_size)
        src.check(counts == value_counts, start, "a map with more keys than values, or fewer")
        if keys.null_count:  # Arrow would end the process
            src.check(np.asarray(keys.is_valid()), np.repeat(start, counts), "a map with a key that is null")
        entries = pa.Array.from_buffers(self.entries, len(keys), [None], children=[keys, values])
        buffers = [_bitmap(valid), _list_offsets(counts)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers, children=[entries])


def _field_type(dt: DataType) -> _Type:
    if isinstance(dt, UserDefinedType):
        dt = dt.sqlType()
    if isinstance(dt, StructType):
        return _Struct(dt)
    if isinstance(dt, ArrayType):
        return _Array(dt)
    if isinstance(dt, MapType):
        return _Map(dt)
    if isinstance(dt, NullType):
        return _Null()
    if isinstance(dt, YearMonthIntervalType):
        return _Fixed(pa.int32(), "<i4")
    arrow = to_arrow_type(dt, timezone="UTC")
    if isinstance(dt, (StringType, BinaryType)):
        return _Bytes(arrow)
    if isinstance(dt, BooleanType):
        return _Boolean(arrow, "u1")
    if isinstance(dt, DecimalType):
        return _SmallDecimal(arrow, "<i8") if dt.precision <= MAX_LONG_DIGITS else _BigDecimal(arrow)
    if pa.types.is_struct(arrow):
        raise ValueError(f"type {dt.simpleString()} is not supported in state")
    return _Fixed(arrow, _NUMPY.get(dt.typeName(), "<f8" if pa.types.is_floating(arrow) else "<i8"))


# --- numpy and Arrow -------------------------------------------------------------------------------------------


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _leaf(column: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, Mask]:
    """`column` in the type that the row format expects, and which of its values are not null."""
    if column.type != arrow and not pa.types.is_nested(arrow):
        column = column.cast(arrow)
    if column.null_count == 0:
        return column, None
    if column.type == pa.null() or column.buffers()[0] is None:
        return column, np.asarray(column.is_valid())
    return column, _bits(column.buffers()[0], column.offset, len(column)).view(bool)


def _bits(buffer: pa.Buffer | None, offset: int, n: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(buffer or b"", np.uint8), count=offset + n, bitorder="little")[offset:]


def _bitmap(valid: Mask) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _int64(offsets: pa.Array) -> Ints:
    return np.asarray(offsets).astype(np.int64)


def _list_offsets(counts: Ints) -> pa.Buffer:
    return pa.py_buffer(np.concatenate([[0], np.cumsum(counts)]).astype("<i4"))


def _pad8(sizes: Ints) -> Ints:
    return (sizes + 7) & -8


def _header(counts: Ints) -> Ints:
    return 8 + (counts + 63) // 64 * 8


def _expand(values: Ints, valid: Mask) -> Ints:
    """The values of the rows that are not null, put at their rows, with 0 for the nulls."""
    if valid is None:
        return values
    out = np.zeros(len(valid), np.int64)
    out[valid] = values
    return out


def _nth(counts: Ints) -> Ints:
    """For counts (2, 3): 0 1 0 1 2."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _ragged(start: Ints, lengths: Ints) -> Ints:
    """For start (16, 40) and lengths (2, 3): 16 17 40 41 42."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - ends + lengths, lengths)
