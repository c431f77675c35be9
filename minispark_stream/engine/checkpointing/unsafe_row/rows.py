"""Many rows in one table, one below the other: a table of bytes that is a sequence of rows, too.

Models: nothing of Spark, where the rows of a state are objects of the JVM.

A `bytes` object for each of a million rows takes time to make and two or three times their memory. Here

1. `table` is all of them, for numpy: a line is a row. Rows without strings or other variable parts are all of one size.
2. If rows *differ* in size, a line has room for the largest one: behind a smaller row come zeros, and the last word of each
   line is the size of its row. So two lines are equal when the rows are, and only then.
3. What a line is, is its `Shape`. The room of rows that differ is a multiple of 32 bytes, so that two tables often have one
   shape; `in_shape` gives the same rows in another one.
4. For everybody else they are a sequence of `bytes`, which are made when somebody asks.

    Rows([[1, 2], [3, 4], [5, 6]])     rows[1] == b"\\3\\4"     chosen(rows, [True, False, True])     b"\\1\\2", b"\\5\\6"
    Rows.of([b"ab", b"c"])             a b 0 ... 0  2            (a line of 40 bytes)
                                       c 0 0 ... 0  1

Rows that differ and of which one is larger than 256 bytes are a list: the table would be mostly zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

Table = np.ndarray[Any, Any]

STEP, MOST_ROOM = 32, 256  # bytes: the rooms for rows that differ are the multiples of STEP
SIZE = 8  # bytes of the word that says how large a row is


class Shape(NamedTuple):
    """(3) The lines of a table: how many bytes each has, and whether the rows in them differ in size."""

    width: int
    differ: bool

    @property
    def room(self) -> int:
        """The bytes of the largest row."""
        return self.width - SIZE if self.differ else self.width

    @staticmethod
    def of(sizes: Table) -> Shape | None:
        """The shape for rows of these sizes; None for no rows, empty rows, and rows that are better a list."""
        largest = int(sizes.max(initial=0))
        if largest == 0 or (sizes == largest).all():
            return Shape(largest, False) if largest else None
        return Shape._with_room(largest)

    def for_both(self, other: Shape) -> Shape | None:
        """The shape in which the rows of both fit; None where they are better a list."""
        return self if self == other else Shape._with_room(max(self.room, other.room))

    @staticmethod
    def _with_room(largest: int) -> Shape | None:
        return Shape(-(-largest // STEP) * STEP + SIZE, True) if largest <= MOST_ROOM else None


class Rows(Sequence[bytes]):
    """`table`: uint8, a line for each row, at least one column. `differ`: the last word of each line is the row's size (2)."""

    def __init__(self, table: Table, differ: bool = False):
        self.table = np.ascontiguousarray(table)
        self.differ = differ

    @staticmethod
    def of(rows: Sequence[bytes]) -> Sequence[bytes]:
        """Rows as a table where they are better one, else as they are."""
        if isinstance(rows, Rows):
            return rows
        made = Rows.of_bytes(b"".join(rows), np.fromiter(map(len, rows), np.int64, len(rows)))
        return rows if made is None else made

    @staticmethod
    def of_bytes(data: Any, sizes: Table) -> Rows | None:
        """Rows that lie one behind the other; None where they are better no table."""
        if (shape := Shape.of(sizes)) is None:
            return None
        if not shape.differ:  # (1)
            return Rows(np.frombuffer(data, np.uint8).reshape(len(sizes), shape.width))
        rows = Rows.zeros(shape, sizes)
        unit, mask = rows._cells()
        rows.table.view(unit)[mask] = np.frombuffer(data, unit)
        return rows

    @staticmethod
    def zeros(shape: Shape, sizes: Table) -> Rows:
        """Rows of these sizes, all bytes of which are 0."""
        rows = Rows(np.zeros((len(sizes), shape.width), np.uint8), shape.differ)
        if shape.differ:
            rows.table.view(np.int64)[:, -1] = sizes
        return rows

    @property
    def shape(self) -> Shape:
        return Shape(int(self.table.shape[1]), self.differ)

    @property
    def sizes(self) -> Table:
        """The bytes of each row."""
        return self.table.view(np.int64)[:, -1] if self.differ else np.full(len(self), self.table.shape[1])

    def fit(self, shape: Shape) -> Table:
        """(3) Which rows can be lines of another shape."""
        return self.sizes <= shape.room if shape.differ else self.sizes == shape.width

    def in_shape(self, shape: Shape) -> Rows:
        """(3) The same rows, all of which fit, as lines of another shape."""
        if shape == self.shape:
            return self
        rows, room = Rows.zeros(shape, self.sizes), min(shape.room, self.shape.room)
        rows.table[:, :room] = self.table[:, :room]
        return rows

    def joined(self) -> Table:
        """The bytes of all rows, one behind the other."""
        if not self.differ:
            return self.table.reshape(-1)
        unit, mask = self._cells()
        return self.table.view(unit)[mask].view(np.uint8)

    def some(self, which: Table) -> Rows:
        """Those that a mask or positions choose: `table[which]`, for which numpy takes ten times as long."""
        return Rows((self.table.compress if which.dtype == np.bool_ else self.table.take)(which, axis=0), self.differ)

    def _cells(self) -> tuple[type, Table]:
        """(2) Which units of each line are the row: words, if all rows are whole words, else bytes."""
        unit, bytes_of = (np.uint8, 1) if (self.sizes & 7).any() else (np.uint64, 8)
        return unit, np.arange(self.table.shape[1] // bytes_of) < (self.sizes // bytes_of)[:, None]

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Rows: ...
    def __getitem__(self, at: int | slice) -> bytes | Rows:
        if isinstance(at, slice):
            return Rows(self.table[at], self.differ)
        line = self.table[at]
        return line[: int(line[-SIZE:].view(np.int64)[0])].tobytes() if self.differ else line.tobytes()

    def __iter__(self) -> Iterator[bytes]:  # (4)
        if self.differ:
            return iter(as_arrow(self).to_pylist())
        return map(itemgetter(0), struct.iter_unpack(f"{self.table.shape[1]}s", self.table.data))


def as_arrow(rows: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Rows as an Arrow array; those of one size are not copied."""
    if not isinstance(rows, Rows):
        return pa.array(rows, pa.large_binary())
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows.sizes, out=ends[1:])
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(rows.joined())])


def chosen(rows: Sequence[bytes], which: Table) -> Sequence[bytes]:
    """The rows that a mask or positions choose."""
    if isinstance(rows, Rows):
        return rows.some(which)
    return list(compress(rows, which)) if which.dtype == np.bool_ else list(map(rows.__getitem__, which.tolist()))
