"""Where Spark ends each of the Arrow batches in which it sends rows to a Python worker.

Models: BaseStreamingArrowWriter, ApplyInPandasWithStateWriter, and the sizes in ArrowWriter (SIGMOD'18 paper, 4.3.2: stateful
processing operators).

1. A row begins a new batch when the batch before it has `spark.sql.execution.arrow.maxRecordsPerBatch` rows, or when the
   buffers of its columns have `arrow.maxBytesPerBatch` bytes.
2. The buffers of a column are a bitmap that says which rows are null, the offsets of texts and lists, and the values. A null
   has room for a value, which counts like any other.
3. The worker measures what has arrived, too, and comes to other numbers: it does not get the bitmap of a column without nulls,
   and where all lists of texts are empty, it gets one offset, which Java does not count.

    (1, "ab"), (2, null), (3, "c")      numbers: 1 + 3 * 4 bytes    texts: 1 + 4 * 4 + 3 bytes    33; the worker measures 32

Differs from Spark: nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

kinds = pa.types


def batch_ends(columns: Sequence[pa.Array], num_rows: int, most_rows: int, most_bytes: int) -> Iterator[int]:
    """The end of each batch: the number of the first row after it. The last one is `num_rows`."""
    begin = 0
    while begin < num_rows:
        end = min(begin + most_rows, num_rows)  # (1)
        size_until = partial(buffer_bytes, columns, begin)
        if size_until(end) >= most_bytes:
            enough = begin + 1
            while size_until(enough) < most_bytes:
                enough = min(begin + 2 * (enough - begin), end)
            end = bisect_left(range(enough), most_bytes, lo=begin + 1, key=size_until)
        yield end
        begin = end


def buffer_bytes(columns: Iterable[pa.Array], begin: int, end: int, in_java: bool = True) -> int:
    """Bytes of the buffers of the rows from `begin` to before `end`, as Java counts them or (3) as the worker measures them."""
    return sum(_size(column, begin, end, in_java) for column in columns)


def _size(column: Any, begin: int, end: int, in_java: bool) -> int:  # (2)
    rows, kind = end - begin, column.type
    if kinds.is_null(kind) or (in_java and not rows):
        return 0
    bitmap = -(-rows // 8) if in_java or column.slice(begin, rows).null_count else 0
    if kinds.is_struct(kind):
        fields = (column.field(i) for i in range(kind.num_fields))
        return bitmap + sum(_size(field, begin, end, in_java) for field in fields)
    offsets = (rows + 1) * (8 if kinds.is_large_list(kind) or kinds.is_large_string(kind) or kinds.is_large_binary(kind) else 4)
    if kinds.is_map(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
        first, last = column.offsets[begin].as_py(), column.offsets[end].as_py()
        values = [column.keys, column.items] if kinds.is_map(kind) else [column.values]
        entries = -(-(last - first) // 8) if kinds.is_map(kind) and in_java else 0
        return bitmap + offsets + entries + sum(_size(part, first, last, in_java) for part in values)
    if kinds.is_primitive(kind) or kinds.is_decimal(kind):
        return bitmap + -(-rows * kind.bit_width // 8)
    return bitmap + offsets + (pc.sum(pc.binary_length(column.slice(begin, rows))).as_py() or 0)
