"""Values that somebody has given as JSON become columns of the types that a state has, and its rows get them.

1. Arrow's JSON reader takes a value for the type of its column, or refuses it: 1.5 is no long, and neither is "1". Times are
   texts in UTC; a date is the number of its day.
2. Rows get new values in some columns by being decoded and encoded again. The columns that stay must come out byte by byte as
   they were; otherwise it is refused.

    {"count": 7} for (count long, sum decimal(30,2))      the column [7]; every row of the state keeps its sum

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_edit_state.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec


class EditRefused(ValueError):
    """The rows cannot be changed; the text says why."""


def part(schema: StructType, names: Iterable[str]) -> StructType:
    """Some columns of a schema."""
    if len(set(schema.names)) < len(schema.names):
        raise EditRefused("two columns have one name")
    by_name = dict(zip(schema.names, schema.fields))
    if unknown := [name for name in names if name not in by_name]:
        raise EditRefused(f"there is no column {', '.join(unknown)}, but {', '.join(by_name)}")
    return StructType([by_name[name] for name in names])


def as_columns(rows: Sequence[Mapping[str, Any]], schema: StructType) -> list[pa.Array]:  # (1)
    """The columns of rows, each of which has all of them and no others."""
    for row in rows:
        if missing := [name for name in schema.names if name not in row]:
            raise EditRefused(f"the row {row} lacks {', '.join(missing)}")
    types = pa.schema(list(zip(schema.names, UnsafeRowCodec(schema).arrow_types)))
    text = "\n".join(json.dumps(row, default=str) for row in rows).encode()
    options = arrow_json.ParseOptions(explicit_schema=types, unexpected_field_behavior="error")
    try:
        table = arrow_json.read_json(io.BytesIO(text), parse_options=options)
    except (pa.ArrowException, NotImplementedError) as e:
        kinds = ", ".join(f"{field.name} {field.type}" for field in types)
        raise EditRefused(f"the values do not fit the types of the state ({kinds}): {e}") from e
    columns = [table[name].combine_chunks() for name in schema.names]
    for field, column in zip(schema.fields, columns):
        if column.null_count and not field.nullable:
            raise EditRefused(f"{field.name} cannot be null")
    return columns


def with_values(schema: StructType, rows: list[bytes], new: Mapping[str, pa.Array]) -> list[bytes]:  # (2)
    """Rows of which each has the one value of `new` in these columns."""
    codec = UnsafeRowCodec(schema)
    columns = codec.decode(rows)
    if codec.encode(columns) != rows:
        raise EditRefused("a value of the state is not encoded as this engine encodes it")
    same = pa.array([0] * len(rows))
    return codec.encode([new[name].take(same) if name in new else column for name, column in zip(schema.names, columns)])
