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
from pyspark.sql.types import StructType

from minispark_stream.checkpointing.unsafe_row.columns import Buffer
from minispark_stream.checkpointing.unsafe_row.nested import Struct


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
        if len(columns) != len(self.row.fields):
            raise ValueError(f"{len(columns)} columns for a schema of {len(self.row.fields)} fields")
        n = len(columns[0]) if columns else (num_rows or 0)
        parts, sizes = self.row.prepare_fields(columns, n)
        starts = np.empty(n + 1, np.int64)
        starts[0] = 0
        np.cumsum(sizes, out=starts[1:])
        out = Buffer(np.zeros(int(starts[-1]), np.uint8))
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
        return self.row.read_fields(Buffer(data, starts, self.row.depth - 1), starts, sizes)


def _split_evenly(data: bytes, size: int, n: int) -> list[bytes]:
    return [data[a : a + size] for a in range(0, n * size, size)] if size else [b""] * n
