"""How the values of a field are written into UnsafeRows and read from them, for types without parts.

Models: the setters and getters of UnsafeRowWriter and UnsafeRow (About state: state files). These are lines 1, 2, 4 and 5 of
the format, see the docstring of the package.

1. `Fixed`, `Boolean` and `SmallDecimal` keep a value in its slot; `Null` keeps nothing.
2. `Varying` puts `offset << 32 | size` into the slot and the value into the variable region; `Bytes` is a string or binary
   value, `BigDecimal` a decimal of more than 18 digits, `Interval` a calendar interval.

    the string 'ab' in a row whose variable region begins at byte 24     slot 0200000018000000, at byte 24: 6162000000000000

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.unsafe_row.columns import (
    Buffer,
    Ints,
    Mask,
    Part,
    bitmap,
    bits,
    expand,
    leaf,
    pad8,
)


class FieldType:
    """How values of one type are written and read. `width`: bytes of an array element; a slot in a row has 8."""

    arrow: pa.DataType
    width = 8
    largest = 16  # bytes of the widest fixed part of this type or a type within it
    depth = 1  # levels of nesting, this one included

    def prepare(self, column: pa.Array, in_row: bool) -> Part:
        raise NotImplementedError

    def write(self, out: Buffer, part: Part, slot: Ints, base: Ints, region: Ints) -> None:
        """Write each value into the slot at byte `slot` of `out`, its variable part at `region`; offsets begin at `base`."""
        raise NotImplementedError

    def read(self, src: Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        """The values in the slots at bytes `slot`, within containers that reach from `base` to `end`."""
        raise NotImplementedError


# --- (1) fixed-width values ------------------------------------------------------------------------------------


class Fixed(FieldType):
    def __init__(self, arrow: pa.DataType, dtype: str):
        self.arrow, self.dtype, self.width = arrow, dtype, np.dtype(dtype).itemsize

    def prepare(self, column: pa.Array, in_row: bool) -> Part:
        column, valid = leaf(column, self.arrow)
        values = self.to_numpy(column)
        return Part(valid, values if valid is None else np.where(valid, values, values.dtype.type(0)))

    def write(self, out: Buffer, part: Part, slot: Ints, base: Ints, region: Ints) -> None:
        out.view(self.dtype)[slot // self.width] = part.payload

    def read(self, src: Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        return self.to_arrow(src.view(self.dtype)[slot // self.width], valid)

    def to_numpy(self, column: pa.Array) -> np.ndarray:
        return np.frombuffer(column.buffers()[1] or b"", self.dtype)[column.offset : column.offset + len(column)]

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, len(values), [bitmap(valid), pa.py_buffer(values)])


class Boolean(Fixed):
    def to_numpy(self, column: pa.Array) -> np.ndarray:
        return bits(column.buffers()[1], column.offset, len(column))

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, len(values), [bitmap(valid), bitmap(values != 0)])


class SmallDecimal(Fixed):
    def to_numpy(self, column: pa.Array) -> np.ndarray:
        halves = np.frombuffer(column.buffers()[1] or b"", "<i8").reshape(-1, 2)
        return halves[column.offset : column.offset + len(column), 0]

    def to_arrow(self, values: np.ndarray, valid: Mask) -> pa.Array:
        halves = np.stack([values, values >> 63], axis=1)
        return pa.Array.from_buffers(self.arrow, len(values), [bitmap(valid), pa.py_buffer(halves)])


class Null(FieldType):
    arrow = pa.null()

    def prepare(self, column: pa.Array, in_row: bool) -> Part:
        return Part(np.zeros(len(column), bool), None)

    def write(self, out: Buffer, part: Part, slot: Ints, base: Ints, region: Ints) -> None:
        pass

    def read(self, src: Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        return pa.nulls(len(slot))


# --- (2) values in the variable region -------------------------------------------------------------------------


class Varying(FieldType):
    """A type whose values are in the variable region. Nulls take no room there, and `measure` is not given any."""

    def prepare(self, column: pa.Array, in_row: bool) -> Part:
        column, valid = leaf(column, self.arrow)
        payload, lengths = self.measure(column if valid is None else column.drop_null())
        return Part(valid, (payload, lengths), expand(pad8(lengths), valid))

    def write(self, out: Buffer, part: Part, slot: Ints, base: Ints, region: Ints) -> None:
        payload, lengths = part.payload
        if part.valid is not None:
            slot, base, region = slot[part.valid], base[part.valid], region[part.valid]
        out.words[slot >> 3] = (region - base) << 32 | lengths
        self.write_region(out, payload, region, lengths)

    def read(self, src: Buffer, slot: Ints, valid: Mask, base: Ints, end: Ints) -> pa.Array:
        word = src.words[slot >> 3]
        offset, size = word >> 32, word & 0xFFFFFFFF
        if valid is not None:
            offset, size = np.where(valid, offset, slot + 8 - base), np.where(valid, size, 0)
        src.check((base + offset > slot) & (offset & 7 == 0) & (base + offset + size <= end), slot,
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

    def write_region(self, out: Buffer, payload: Any, start: Ints, lengths: Ints) -> None:
        raise NotImplementedError

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        raise NotImplementedError


class Bytes(Varying):
    def __init__(self, arrow: pa.DataType):
        self.arrow = arrow

    def measure(self, column: pa.Array) -> tuple[np.ndarray, Ints]:
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets or b"\0\0\0\0", "<i4")[column.offset : column.offset + len(column) + 1]
        return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], np.diff(ends).astype(np.int64)

    def write_region(self, out: Buffer, payload: np.ndarray, start: Ints, lengths: Ints) -> None:
        out.write(start, lengths, payload)

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        ends = np.zeros(len(size) + 1, np.int64)
        np.cumsum(size, out=ends[1:])
        if ends[-1] > 0x7FFFFFFF:
            raise ValueError("a column of more than 2 GiB: decode fewer rows at a time")
        src.take(0, int(ends[-1]))
        data = src.read(start, size)
        buffers = [bitmap(valid), pa.py_buffer(ends.astype("<i4")), pa.py_buffer(data)]
        return pa.Array.from_buffers(self.arrow, len(size), buffers)


class KeepsItsPlace(Varying):
    """A type for whose values a row reserves 16 bytes, even for a null. `null_size` is the size in the slot of a null."""

    null_size = 0

    def prepare(self, column: pa.Array, in_row: bool) -> Part:
        part = super().prepare(column, in_row)
        return Part(part.valid, part.payload, np.full(len(column), 16)) if in_row else part

    def write(self, out: Buffer, part: Part, slot: Ints, base: Ints, region: Ints) -> None:
        if part.sizes is not None and part.valid is not None and part.sizes.all():
            out.words[slot >> 3] = (region - base) << 32 | self.null_size
        super().write(out, part, slot, base, region)


class Interval(KeepsItsPlace, Bytes):
    """A calendar interval: the 16 bytes of its months, days and microseconds."""

    null_size = 16

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        src.check((size == 16) | (valid is not None and ~valid), start, "a calendar interval has 16 bytes")
        return super().read_region(src, start, size, valid)


class BigDecimal(KeepsItsPlace):
    def __init__(self, arrow: pa.DataType):
        self.arrow = arrow

    def measure(self, column: pa.Array) -> tuple[np.ndarray, Ints]:
        little = np.frombuffer(column.buffers()[1] or b"", np.uint8).reshape(-1, 16)
        big = little[column.offset : column.offset + len(column), ::-1]
        sign = (big[:, :1] >> 7) * np.uint8(255)
        redundant = np.logical_and.accumulate(big == sign, axis=1).sum(axis=1).clip(max=15)
        first = np.take_along_axis(big, redundant[:, None], axis=1)
        return big, 16 - redundant + ((first >> 7) * np.uint8(255) != sign)[:, 0]

    def write_region(self, out: Buffer, payload: np.ndarray, start: Ints, lengths: Ints) -> None:
        out.write(start, lengths, payload[np.arange(16) >= (16 - lengths)[:, None]])

    def read_region(self, src: Buffer, start: Ints, size: Ints, valid: Mask) -> pa.Array:
        src.check((size > 0) & (size <= 16) | (valid is not None and ~valid), start, "a decimal of 0 or over 16 bytes")
        sign = (src.bytes[start] >> 7) * np.uint8(255)
        place = np.arange(16)
        at = start[:, None] + np.maximum(size[:, None] - 1 - place, 0)
        little = np.ascontiguousarray(np.where(place < size[:, None], src.bytes[at], sign[:, None]))
        return pa.Array.from_buffers(self.arrow, len(size), [bitmap(valid), pa.py_buffer(little)])
