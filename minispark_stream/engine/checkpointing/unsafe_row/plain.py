"""Decoded columns as plain values, made of what JSON has, whatever the bytes were.

    timestamp, timestamp_ntz   "2024-01-01 12:05:00" (UTC), any year that 64 bits can hold
    date                       "2024-01-01"
    decimal                    "1.50"            double NaN, infinity: "NaN", "Infinity", "-Infinity"
    binary                     "0xff00"          a string that is not UTF-8: its bytes with U+FFFD in the place of the others
    struct                     {"start": ..., "end": ...}; a second column of a name is called "sum (2)"
    map                        [[key, value], ...]

Arrow's own `to_pylist` raises for a year 10000 or a string that is not UTF-8; here every value that the row format can hold has
a form.

Models: nothing of Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec


def plain(column: pa.Array) -> list[Any]:
    """The values of an Arrow array; None for null."""
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    values = _plain_values(column)
    if column.null_count == 0:
        return values
    valid = np.asarray(column.is_valid())
    return [v if ok else None for v, ok in zip(values, valid)]


def _plain_values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_struct(kind):
        names = unique_names(field.name for field in kind)
        children = [plain(column.field(i)) for i in range(kind.num_fields)]
        return [dict(zip(names, values)) for values in zip(*children)] if children else [{} for _ in range(len(column))]
    if pa.types.is_map(kind):
        pairs = [[k, v] for k, v in zip(plain(column.keys), plain(column.items))]
        return _lists(pairs, column)
    if pa.types.is_list(kind):
        return _lists(plain(column.values), column)
    if pa.types.is_timestamp(kind):
        texts = np.datetime_as_string(_words(column, "<i8").view("datetime64[us]"), unit="us").tolist()
        return [text.replace("T", " ").removesuffix(".000000") for text in texts]
    if pa.types.is_date(kind):
        return np.datetime_as_string(_words(column, "<i4").astype("<i8").view("datetime64[D]")).tolist()
    if pa.types.is_duration(kind):
        return [f"{micros} us" for micros in _words(column, "<i8").tolist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_string(kind):
        return [None if v is None else v.decode("utf-8", "replace") for v in column.cast(pa.binary()).to_pylist()]
    if pa.types.is_binary(kind):
        return [None if v is None else "0x" + v.hex() for v in column.to_pylist()]
    if pa.types.is_floating(kind):
        return [v if v is None or math.isfinite(v) else _not_finite(v) for v in column.to_pylist()]
    return column.to_pylist()


def _words(column: pa.Array, dtype: str) -> np.ndarray:
    return np.frombuffer(column.buffers()[1] or b"", dtype)[column.offset : column.offset + len(column)]


def _lists(items: list[Any], column: pa.Array) -> list[Any]:
    ends = column.offsets.to_pylist()
    return [items[a:b] for a, b in zip(ends, ends[1:])]


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def unique_names(names: Iterable[str]) -> list[str]:
    """The second "sum" is "sum (2)"."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def decode_columns(codec: UnsafeRowCodec, rows: Sequence[bytes]) -> dict[str, list[Any]]:
    """The columns of some rows by their names; the second "sum" is "sum (2)"."""
    return dict(zip(unique_names(codec.schema.names), map(plain, codec.decode(rows))))


def decode_rows(codec: UnsafeRowCodec, rows: Sequence[bytes]) -> list[dict[str, Any]]:
    """Each row as a dict by column name. Raises ValueError when one is not a row of the codec's schema."""
    columns = decode_columns(codec, rows)
    return [dict(zip(columns, values)) for values in zip(*columns.values())] if columns else [{} for _ in rows]
