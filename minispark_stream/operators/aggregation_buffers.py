"""The aggregation buffers of a query, all functions side by side: merge two rows into one, unpack rows for Spark.

Models: the PartialMerge mode of Spark's aggregation operators (SIGMOD'18 paper, section 5.2; AggUtils).

1. Each function owns as many columns as it has buffers; each is merged by its own entry in `MERGES`.
2. The buffer of collect_list and collect_set is a serialised array. It is unpacked to be merged and to be emitted.

    functions          avg(x)            count(*)
    left               sum 6.0, count 3  count 3
    right              sum 4.0, count 1  count 1
    merge              sum 10.0, count 4 count 4

Differs from Spark: nothing; operators/aggregates.py says which functions there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from minispark_stream.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.operators.aggregates import COLLECTIONS, MERGES, AggregateFunction
from minispark_stream.operators.columns import Columns


def merge_buffers(functions: Sequence[AggregateFunction], left: Columns, right: Columns) -> Columns:
    """(1) Row i of both sides belongs to one group; `left` is the earlier one."""
    merged: Columns = []
    for function in functions:
        span = slice(len(merged), len(merged) + function.width)
        merge = _merge_collections(function) if function.name in COLLECTIONS else MERGES[function.name]
        together = merge(left[span], right[span])
        merged += [m.cast(r.type) if m.type != r.type else m for m, r in zip(together, right[span])]
    return merged


def unpack_buffers(functions: Sequence[AggregateFunction], values: Columns) -> Columns:
    """(2) Buffers as they leave the task: collected arrays are unpacked, all others are evaluated by Spark."""
    out: Columns = []
    at = 0
    for function in functions:
        buffers = values[at : at + function.width]
        at += function.width
        if function.result is None:
            out += buffers
        else:
            out += UnsafeRowCodec(function.result).decode(buffers[0].to_pylist())
    return out


def _merge_collections(function: AggregateFunction) -> Callable[[Columns, Columns], Columns]:
    """collect_list: the old elements, then the new; collect_set: each element once."""
    codec = UnsafeRowCodec(StructType([StructField("array", function.result.fields[0].dataType)]))  # type: ignore[union-attr]

    def merge(left: Columns, right: Columns) -> Columns:
        old, new = (codec.decode(side[0].to_pylist())[0] for side in (left, right))
        together = [a + b for a, b in zip(old.to_pylist(), new.to_pylist())]
        if function.name == "CollectSet":
            together = [list({repr(v): v for v in row}.values()) for row in together]
        return [pa.array(codec.encode([pa.array(together, old.type)]), pa.binary())]

    return merge
