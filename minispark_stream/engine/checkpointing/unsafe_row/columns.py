"""What the UnsafeRow codec needs of numpy and Arrow: null bitmaps, byte positions, and the buffer that holds all rows.

Models: Platform, with which Spark reads and writes raw memory, one value at a time; here, whole columns at a time.

1. `Buffer` contains all rows, one after the other. Words of any width are read and written at arrays of byte positions.
2. `Part` is a column made ready for writing: which values are not null, their bytes, and how many bytes each needs.
3. Each of the small functions below answers one question about positions or bitmaps.

    numbered(counts (2, 3))     0 1 0 1 2

Differs from Spark: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import as_strided

from minispark_stream.engine.checkpointing.budget import BYTES_PER_VALUE, Budget
from minispark_stream.engine.checkpointing.unsafe_row.rows import MOST_ROOM, pieces

Ints: TypeAlias = np.ndarray  # of int64
Count = TypeVar("Count", int, np.ndarray)
Mask: TypeAlias = np.ndarray | None  # of bool: which values are not null; None if none of them is
_FIRST_BYTES = np.tri(8, dtype=np.bool_)  # row n marks the first n + 1 bytes of a word


class Buffer:
    """All rows, one after the other, seen as words of any width (every value is aligned to its own width)."""

    def __init__(self, data: np.ndarray, row_starts: Ints | None = None, depth: int = 1, budget: Budget | None = None):
        self.bytes = data
        self.budget = budget
        self.row_starts = row_starts
        self.left = len(data) * depth  # bytes of variable values that may still be read

    def view(self, dtype: str) -> np.ndarray:
        return self.bytes.view(dtype)

    @cached_property
    def words(self) -> np.ndarray:
        return self.bytes.view("<i8")

    def read(self, start: Ints, sizes: Ints) -> np.ndarray:
        """The bytes of the values that begin at `start`, one after the other, without the zeros that fill their last words."""
        if (room := _room(sizes)) and int(start.max()) + room <= len(self.bytes):
            return np.concatenate([
                _windows(self.bytes, room, start[some], 8)[_is_value(sizes[some], room)] for some in pieces(len(start), room)
            ])
        at, is_value = _words_of(start, sizes)
        return self.words.take(at).view(np.uint8)[is_value]

    def write(self, start: Ints, sizes: Ints, data: np.ndarray) -> None:
        """Write the bytes of values, given as `read` returns them; there must be zeros where they are written."""
        if (room := _room(sizes)) and room <= (step := _step(start)) and int(start[-1]) + room <= len(self.bytes):
            padded, begins = np.concatenate([data, np.zeros(room, np.uint8)]), np.cumsum(sizes) - sizes
            out = as_strided(self.words[int(start[0]) >> 3 :], (len(sizes), room >> 3), (step, 8))
            for some in pieces(len(start), room):
                lines = _windows(padded, room, begins[some], 1)
                lines *= _is_value(sizes[some], room)
                out[some] |= lines.view("<i8")
            return
        at, is_value = _words_of(start, sizes)
        padded = np.zeros(8 * len(at), np.uint8)
        padded[is_value] = data
        self.words[at] = padded.view("<i8")

    def take(self, values: int, size: int = 0) -> None:
        """Called before so many values are read, or values of so many bytes."""
        if self.budget is not None:
            self.budget.take(BYTES_PER_VALUE * values + 3 * size)  # the bytes in Arrow, and a text of two bytes a character

    def check(self, ok: np.ndarray, position: Ints, what: str) -> None:
        """Raise ValueError for the first value that is not `ok`; `position` has the byte at which each value was read."""
        if not ok.all():
            at = int(position[np.flatnonzero(~ok)[0]])
            starts = self.row_starts if self.row_starts is not None else np.zeros(1, np.int64)
            row = int(np.searchsorted(starts, at, "right")) - 1
            raise ValueError(f"row {row} is not an UnsafeRow of this schema: at byte {at - int(starts[row])}: {what}")


@dataclass(frozen=True)
class Part:
    """A column made ready for writing. `sizes`: bytes of each value in the variable region (None if it never has any there)."""

    valid: Mask
    payload: Any
    sizes: Ints | None = None


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def leaf(column: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, Mask]:
    """`column` in the type that the row format expects, and which of its values are not null."""
    if column.type != arrow and not pa.types.is_nested(arrow):
        column = column.cast(arrow)
    if column.null_count == 0:
        return column, None
    if column.type == pa.null() or column.buffers()[0] is None:
        return column, np.asarray(column.is_valid())
    return column, bits(column.buffers()[0], column.offset, len(column)).view(bool)


def bits(buffer: pa.Buffer | None, offset: int, n: int) -> np.ndarray:
    return np.unpackbits(np.frombuffer(buffer or b"", np.uint8), count=offset + n, bitorder="little")[offset:]


def bitmap(valid: Mask) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def int64(offsets: pa.Array) -> Ints:
    return np.asarray(offsets).astype(np.int64)


def list_offsets(counts: Ints) -> pa.Buffer:
    return pa.py_buffer(np.concatenate([[0], np.cumsum(counts)]).astype("<i4"))


def pad8(sizes: Ints) -> Ints:
    return (sizes + 7) & -8


def null_bytes(fields: Count) -> Count:
    """How many bytes the null bits of a row of so many fields have; of an array, those of each number in it."""
    return (fields + 63) // 64 * 8


def header(counts: Ints) -> Ints:
    return 8 + null_bytes(counts)


def expand(values: Ints, valid: Mask) -> Ints:
    """Values of the rows that are not null, spread over all rows, with 0 for the nulls."""
    if valid is None:
        return values
    out = np.zeros(len(valid), np.int64)
    out[valid] = values
    return out


def numbered(counts: Ints) -> Ints:
    """For counts (2, 3): 0 1 0 1 2."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _room(sizes: Ints) -> int:
    """The bytes of a line that has room for each of some values, if most of them are small and much alike; else 0."""
    room = int(pad8(sizes.max(initial=0)))
    return room if room <= MOST_ROOM and room * len(sizes) <= 4 * sizes.sum() else 0


def _step(start: Ints) -> int:
    """How far each start is from the one before; 0 if that differs."""
    steps = np.diff(start)
    return int(steps[0]) if len(steps) and (steps == steps[0]).all() else 0


def _windows(data: np.ndarray, room: int, start: Ints, unit: int) -> np.ndarray:
    """The `room` bytes at each start, as lines. numpy copies a line in one piece, which is faster than word by word."""
    items = np.ndarray((len(data) - room) // unit + 1, np.dtype((np.void, room)), data, 0, (unit,))
    return items[start // unit].view(np.uint8).reshape(len(start), room)


def _is_value(sizes: Ints, room: int) -> np.ndarray:
    """Which bytes of the lines belong to the values."""
    return np.tri(room + 1, room, -1, np.bool_).take(sizes, axis=0)


def _words_of(start: Ints, sizes: Ints) -> tuple[Ints, np.ndarray]:
    """The words that contain the values, and which bytes of these words belong to the values.

    For start (16, 40) and sizes (9, 2): words 2, 3 and 5; of their 24 bytes, the first nine, and the two after the sixteenth.
    """
    words = (sizes + 7) >> 3
    ends = np.cumsum(words)
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat((start >> 3) - ends + words, words)
    is_value = np.ones((len(at), 8), np.bool_)
    some = sizes > 0
    is_value[ends[some] - 1] = _FIRST_BYTES[(sizes[some] - 1) & 7]
    return at, is_value.reshape(-1)
