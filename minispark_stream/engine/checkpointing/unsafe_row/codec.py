"""Whole rows: the columns of a schema as UnsafeRows, and back.

Models: UnsafeProjection and UnsafeRow (About state: state files). The package tells the format.

1. `encode` asks each field how much room its values need, so it knows where each row begins, and writes column by column.
2. `decode` joins the rows to one buffer and reads it column by column.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row.columns import Buffer
from minispark_stream.engine.checkpointing.unsafe_row.nested import Struct
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows


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
        rows: list[bytes] = self.encode_array(columns, num_rows).to_pylist()
        return rows

    def encode_rows(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None = None) -> Sequence[bytes]:
        """The same as one table, if the rows are all of one size."""
        return rows_of(self.encode_array(columns, num_rows))

    def encode_array(self, columns: Sequence[pa.Array | pa.ChunkedArray], num_rows: int | None = None) -> pa.LargeBinaryArray:
        """The same as one Arrow array."""
        if len(columns) != len(self.row.fields):
            raise ValueError(f"{len(columns)} columns for a schema of {len(self.row.fields)} fields")
        n = len(columns[0]) if columns else (num_rows or 0)
        parts, sizes = self.row.prepare_fields(columns, n)
        starts = np.zeros(n + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        out = Buffer(np.zeros(int(starts[-1]), np.uint8))
        self.row.write_fields(out, parts, starts[:-1])
        return pa.Array.from_buffers(pa.large_binary(), n, [None, pa.py_buffer(starts), pa.py_buffer(out.bytes)])

    def decode(self, rows: Sequence[bytes], only: int | None = None) -> list[pa.Array]:
        """The columns of `rows`; with `only`, None for all columns but one.

        Raises ValueError, naming row and byte, when a row is not a row of this schema.
        """
        data, ends = self._joined(rows)
        starts, sizes = ends[:-1], np.diff(ends)
        if (sizes & 7).any():
            row = int(np.flatnonzero(sizes & 7)[0])
            raise ValueError(f"row {row} is not an UnsafeRow: its size {sizes[row]} is not a multiple of 8")
        return self.row.read_fields(Buffer(data, starts, self.row.depth - 1), starts, sizes, only=only)

    def _joined(self, rows: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """All rows in one buffer, and where each begins and the last one ends. Null structs, arrays and maps point to the zeros
        behind them."""
        if isinstance(rows, Rows):
            data = np.concatenate([rows.table.ravel(), np.zeros(self.row.largest, np.uint8)])
            return data, np.arange(len(rows) + 1, dtype=np.int64) * rows.size
        _, offsets, joined = pa.array([*rows, bytes(self.row.largest)], pa.large_binary()).buffers()
        ends = np.frombuffer(offsets, np.int64, len(rows) + 2)
        return np.frombuffer(joined, np.uint8, ends[-1]), ends[:-1]


def rows_of(array: pa.LargeBinaryArray) -> Sequence[bytes]:
    """What `encode_array` gives, as a table if the rows are all of one size, else as a list."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    sizes = np.diff(ends)
    if len(sizes) == 0 or sizes[0] == 0 or (sizes != sizes[0]).any():
        rows: list[bytes] = array.to_pylist()
        return rows
    return Rows(np.frombuffer(data, np.uint8, ends[-1] - ends[0], ends[0]).reshape(len(array), sizes[0]))
