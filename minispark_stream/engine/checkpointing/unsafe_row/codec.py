"""Whole rows: the columns of a schema as UnsafeRows, and back.

Models: UnsafeProjection and UnsafeRow (About state: state files). The docstring of the package describes the format.

1. `encode` asks each field how many bytes its values need, so it knows where each row begins; then it writes column by column.
2. `decode` joins the rows into one buffer and reads that column by column.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.budget import BYTES_PER_VALUE, Budget
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row.columns import Buffer, Ints, Part
from minispark_stream.engine.checkpointing.unsafe_row.nested import Struct
from minispark_stream.engine.checkpointing.unsafe_row.rows import MOST_ROOM, Rows, Shape


class UnsafeRowCodec:
    """Turns Arrow columns into UnsafeRows and back, for one schema."""

    def __init__(self, schema: StructType):
        self.schema = schema
        self.row = Struct(schema)

    @property
    def arrow_types(self) -> list[pa.DataType]:
        """The Arrow type of each column that `decode` returns."""
        return [t.arrow for t in self.row.fields]

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None = None) -> list[bytes]:
        """One UnsafeRow per row of `columns` (one Arrow array per field, all of the same length).

        `num_rows` is needed only for a schema without fields.
        """
        return self._in_a_row(*self._prepared(columns, num_rows))

    def encode_rows(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None = None) -> Sequence[bytes]:
        """One UnsafeRow per row of `columns`, as `encode` makes them: as a table (`Rows`) if it suits them, else a list."""
        parts, sizes = self._prepared(columns, num_rows)
        if not len(sizes):
            return []
        shape = Shape.of(sizes)
        if shape is None:
            return self._in_a_row(parts, sizes)
        table = Rows.zeros(shape, sizes)
        self.row.write_fields(Buffer(table.table.reshape(-1)), parts, np.arange(len(sizes)) * shape.width)
        return table

    def _prepared(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None) -> tuple[list[Part], Ints]:
        """(1) Each column made ready for writing, and the size of each row."""
        if len(columns) != len(self.row.fields):
            raise ValueError(f"{len(columns)} columns for a schema of {len(self.row.fields)} fields")
        return self.row.prepare_fields(columns, len(columns[0]) if columns else (num_rows or 0))

    def _in_a_row(self, parts: list[Part], sizes: Ints) -> list[bytes]:
        starts = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        out = Buffer(np.zeros(int(starts[-1]), np.uint8))
        self.row.write_fields(out, parts, starts[:-1])
        buffers = [None, pa.py_buffer(starts), pa.py_buffer(out.bytes)]
        rows: list[bytes] = pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers).to_pylist()
        return rows

    def decode(
        self, rows: Sequence[bytes], only: Collection[int] | None = None, budget: Budget | None = None
    ) -> list[pa.Array]:
        """The columns of `rows`. With `only`, all columns but these are None.

        Raises:
            ValueError: a row is not a row of this schema; the text says which row, and at which byte.
            LimitExceeded: their values need more memory than the budget has.
        """
        if budget is not None:
            budget.take(sum(map(len, rows)) + BYTES_PER_VALUE * len(rows))
        data, starts, sizes = self._joined(rows)
        if (sizes & 7).any():
            row = int(np.flatnonzero(sizes & 7)[0])
            raise ValueError(f"row {row} is not an UnsafeRow: its size {sizes[row]} is not a multiple of 8")
        return self.row.read_fields(Buffer(data, starts, self.row.depth - 1, budget), starts, sizes, only=only)

    def _joined(self, rows: Sequence[bytes]) -> tuple[np.ndarray, Ints, Ints]:  # (2)
        """All rows in one buffer, and the start and the size of each.

        Zeros at the end of the buffer are what nulls are read from, and room behind the last values (`Buffer.read`).
        """
        zeros = max(self.row.largest, MOST_ROOM)
        if isinstance(rows, Rows):
            data = np.concatenate([rows.table.reshape(-1), np.zeros(zeros, np.uint8)])
            return data, np.arange(len(rows), dtype=np.int64) * rows.shape.width, rows.sizes
        _, offsets, joined = pa.array([*rows, bytes(zeros)], pa.large_binary()).buffers()
        ends = np.frombuffer(offsets, np.int64, len(rows) + 2)
        return np.frombuffer(joined, np.uint8, ends[-1]), ends[:-2], np.diff(ends[:-1])
