"""Many rows in one table of bytes, which can also be used as a sequence of rows.

Models: nothing of Spark, where the rows of a state are objects of the JVM.

If each of a million rows were a `bytes` object, making them would take time, and two or three times the memory. Here

1. `table` is a numpy array with all rows: each line is a row. Rows without strings or other variable parts all have one size.
2. If rows *differ* in size, a line has room for the largest one: a smaller row is followed by zeros, and the last word of each
   line is the size of its row. So two lines are equal if and only if their rows are.
3. The `Shape` of a table is the form of its lines. The room for rows that differ is a multiple of 32 bytes, so two tables often
   have the same shape; `in_shape` converts rows to another shape.
4. Other code uses the rows as a sequence of `bytes`, each of which is made when it is asked for.

    Rows([[1, 2], [3, 4], [5, 6]])     rows[1] == b"\\3\\4"     chosen(rows, [True, False, True])     b"\\1\\2", b"\\5\\6"
    Rows.of([b"ab", b"c"])             a b 0 ... 0  2            (a line of 40 bytes)
                                       c 0 0 ... 0  1

If rows differ and one of them is larger than 256 bytes, they are a list of `bytes`: a table would be mostly zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Table = np.ndarray[Any, Any]

STEP, MOST_ROOM = 32, 256  # bytes: the room for rows that differ is a multiple of STEP
CACHE = 1 << 20  # bytes; about what a core has of its own
SIZE = 8  # bytes of the word that says how large a row is


class Shape(NamedTuple):
    """(3) The form of a table's lines: how many bytes each has, and whether the rows in them differ in size."""

    width: int
    differ: bool

    @property
    def room(self) -> int:
        """The bytes of the largest row."""
        return self.width - SIZE if self.differ else self.width

    @staticmethod
    def of(sizes: Table) -> Shape | None:
        """The shape for rows of these sizes; None if there are no rows or only empty ones, or if a list suits them better."""
        largest = int(sizes.max(initial=0))
        if largest == 0 or (sizes == largest).all():
            return Shape(largest, False) if largest else None
        return Shape._with_room(largest)

    def for_both(self, other: Shape) -> Shape | None:
        """A shape that rows of both shapes fit into; None if a list suits them better."""
        return self if self == other else Shape._with_room(max(self.room, other.room))

    @staticmethod
    def _with_room(largest: int) -> Shape | None:
        return Shape(-(-largest // STEP) * STEP + SIZE, True) if largest <= MOST_ROOM else None


class Rows(Sequence[bytes]):
    """`table`: uint8, one line per row, at least one column. `differ`: the last word of a line is the size of its row (2)."""

    def __init__(self, table: Table, differ: bool = False):
        self.table = np.ascontiguousarray(table)
        self.differ = differ

    @staticmethod
    def of(rows: Sequence[bytes]) -> Sequence[bytes]:
        """Rows as a table if that suits them, else unchanged."""
        if isinstance(rows, Rows):
            return rows
        made = Rows.of_bytes(b"".join(rows), np.fromiter(map(len, rows), np.int64, len(rows)))
        return rows if made is None else made

    @staticmethod
    def of_bytes(data: Any, sizes: Table) -> Rows | None:
        """A table of the rows whose bytes are `data`, one after the other; None if a list suits them better."""
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
        """Rows of these sizes; all of their bytes are 0."""
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
        """(3) Which of the rows fit into another shape."""
        return self.sizes <= shape.room if shape.differ else self.sizes == shape.width

    def in_shape(self, shape: Shape) -> Rows:
        """(3) The same rows, all of which must fit, as lines of another shape."""
        if shape == self.shape:
            return self
        rows, room = Rows.zeros(shape, self.sizes), min(shape.room, self.shape.room)
        rows.table[:, :room] = self.table[:, :room]
        return rows

    def tight(self) -> Rows:
        """These rows as lines that have no more room than they need."""
        shape = Shape.of(self.sizes)
        return self if shape is None else self.in_shape(shape)

    def joined(self) -> Table:
        """The bytes of all rows, one after the other."""
        if not self.differ:
            return self.table.reshape(-1)
        unit, mask = self._cells()
        return self.table.view(unit)[mask].view(np.uint8)

    def some(self, which: Table) -> Rows:
        """The rows that a mask or positions choose. (numpy would need ten times as long for `table[which]`.)"""
        return Rows((self.table.compress if which.dtype == np.bool_ else self.table.take)(which, axis=0), self.differ)

    def _cells(self) -> tuple[type, Table]:
        """(2) Which cells of each line belong to its row; a cell is a word if all rows consist of whole words, else a byte."""
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
    """Rows as an Arrow array; a table of rows of one size is not copied."""
    if not isinstance(rows, Rows):
        return pa.array(rows, pa.large_binary())
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows.sizes, out=ends[1:])
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(rows.joined())])


def pieces(count: int, width: int) -> Iterator[slice]:
    """This many lines of a width, a piece at a time: what is done with a piece finds it in the processor's cache."""
    at_once = max(1, CACHE // width)
    return (slice(begin, begin + at_once) for begin in range(0, count, at_once))


def comparable(rows: Sequence[bytes]) -> pa.Array:
    """An Arrow array in which values are equal if the rows are: the lines of a table, which need not be copied, or the rows."""
    if not isinstance(rows, Rows):
        return as_arrow(rows)
    return pa.Array.from_buffers(pa.binary(rows.shape.width), len(rows), [None, pa.py_buffer(rows.table)])


def are_among(rows: Sequence[bytes], others: Sequence[bytes]) -> Table:
    """Which of the rows are among the others, too."""
    if isinstance(rows, Rows) and isinstance(others, Rows) and (shape := rows.shape.for_both(others.shape)) is not None:
        return np.asarray(pc.is_in(comparable(rows.in_shape(shape)), comparable(others.in_shape(shape))))
    return np.asarray(pc.is_in(as_arrow(rows), as_arrow(others)))


def chosen(rows: Sequence[bytes], which: Table) -> Sequence[bytes]:
    """The rows that a mask or positions choose."""
    if isinstance(rows, Rows):
        return rows.some(which)
    return list(compress(rows, which)) if which.dtype == np.bool_ else list(map(rows.__getitem__, which.tolist()))
