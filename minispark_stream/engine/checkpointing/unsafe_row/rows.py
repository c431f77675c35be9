"""Rows of one size, one behind the other: a table of bytes that is a sequence of rows, too.

Models: nothing of Spark, where the rows of a state are objects of the JVM.

Rows without strings or other variable parts are all of one size. A `bytes` object for each of a million rows takes time to make
and two or three times their memory. Here

1. `table` is all of them, for numpy: a line is a row.
2. For everybody else they are a sequence of `bytes`, which are made when somebody asks.

    Rows([[1, 2], [3, 4], [5, 6]])     rows[1] == b"\\3\\4"     chosen(rows, [True, False, True])     b"\\1\\2", b"\\5\\6"
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, overload

import numpy as np
import pyarrow as pa

Table = np.ndarray[Any, Any]


class Rows(Sequence[bytes]):
    """`table`: uint8, a line for each row, at least one column."""

    def __init__(self, table: Table):
        self.table = np.ascontiguousarray(table)

    @staticmethod
    def of(rows: Sequence[bytes]) -> Sequence[bytes]:
        """Rows that are all of one size as a table; any others as they are."""
        if isinstance(rows, Rows) or not rows or len(sizes := set(map(len, rows))) > 1 or sizes == {0}:
            return rows
        return Rows(np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), *sizes))

    @property
    def size(self) -> int:
        return int(self.table.shape[1])

    def some(self, which: Table) -> Rows:
        """Those that a mask or positions choose: `table[which]`, for which numpy takes ten times as long."""
        return Rows((self.table.compress if which.dtype == np.bool_ else self.table.take)(which, axis=0))

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Rows: ...
    def __getitem__(self, at: int | slice) -> bytes | Rows:
        return Rows(self.table[at]) if isinstance(at, slice) else self.table[at].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return map(itemgetter(0), struct.iter_unpack(f"{self.size}s", self.table.data))


def as_arrow(rows: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Rows as an Arrow array; those of a table are not copied."""
    if not isinstance(rows, Rows):
        return pa.array(rows, pa.large_binary())
    ends = np.arange(len(rows) + 1, dtype=np.int64) * rows.size
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(rows.table)])


def chosen(rows: Sequence[bytes], which: Table) -> Sequence[bytes]:
    """The rows that a mask or positions choose."""
    if isinstance(rows, Rows):
        return rows.some(which)
    return list(compress(rows, which)) if which.dtype == np.bool_ else list(map(rows.__getitem__, which.tolist()))
