"""Decoded columns as plain values that JSON can express, whatever bytes they were read from.

    timestamp, timestamp_ntz   "2024-01-01 12:05:00" (UTC), any year that 64 bits can hold
    date                       "2024-01-01"
    decimal                    "1.50"
    double that is not finite  "NaN", "Infinity", "-Infinity"
    binary                     "0xff00"
    string                     its text, with U+FFFD in place of bytes that are not UTF-8
    interval                   as show() prints it: "INTERVAL '1-2' YEAR TO MONTH", "1 months 2 days"
    variant                    its JSON as a text, in ASCII; its bytes if PySpark, which can read it, is missing
    struct                     {"start": ..., "end": ...}; a second field called "sum" becomes "sum (2)"
    map                        [[key, value], ...]

Arrow's own `to_pylist` raises an error for a year 10000 or a string that is not UTF-8; here, every value that the row format
can hold has a form.

Models: nothing of Spark.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from minispark_stream.engine.checkpointing.budget import BYTES_PER_VALUE, Budget, LimitExceeded
from minispark_stream.engine.checkpointing.spark_types import stored_type
from minispark_stream.engine.checkpointing.unsafe_row.codec import UnsafeRowCodec


def plain(column: pa.Array, kind: Any, budget: Budget | None = None) -> list[Any]:
    """The values of an Arrow array of Spark's type `kind`; None for null."""
    if pa.types.is_null(column.type):
        return [None] * len(column)
    values = _plain_values(column, stored_type(kind), budget)
    if column.null_count == 0:
        return values
    valid = np.asarray(column.is_valid())
    return [v if ok else None for v, ok in zip(values, valid)]


def _plain_values(column: pa.Array, spark_type: Any, budget: Budget | None) -> list[Any]:
    match spark_type.typeName():
        case "struct":
            names = unique_names(spark_type.names)
            children = [plain(column.field(i), field.dataType, budget) for i, field in enumerate(spark_type.fields)]
            return [dict(zip(names, values)) for values in zip(*children)] if children else [{} for _ in range(len(column))]
        case "map":
            keys = plain(column.keys, spark_type.keyType, budget)
            values = plain(column.items, spark_type.valueType, budget)
            return _lists([[k, v] for k, v in zip(keys, values)], column)
        case "array":
            return _lists(plain(column.values, spark_type.elementType, budget), column)
        case "yearmonthinterval":
            return [_year_month(months, spark_type) for months in _words(column, "<i4").tolist()]
        case "daytimeinterval":
            return [_day_time(micros, spark_type) for micros in _words(column, "<i8").tolist()]
        case "interval":
            return [None if v is None else _calendar_interval(v) for v in column.to_pylist()]
        case "variant":
            return [None if v is None else _variant(v, budget) for v in column.to_pylist()]
    kind = column.type
    if pa.types.is_timestamp(kind):
        texts = np.datetime_as_string(_words(column, "<i8").view("datetime64[us]"), unit="us").tolist()
        return [text.replace("T", " ").removesuffix(".000000") for text in texts]
    if pa.types.is_date(kind):
        return np.datetime_as_string(_words(column, "<i4").astype("<i8").view("datetime64[D]")).tolist()
    if pa.types.is_decimal(kind):
        return [None if v is None else str(v) for v in column.to_pylist()]
    if pa.types.is_string(kind):
        return [None if v is None else v.decode("utf-8", "replace") for v in column.cast(pa.binary()).to_pylist()]
    if pa.types.is_binary(kind):
        return [None if v is None else _hex(v) for v in column.to_pylist()]
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


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _year_month(months: int, kind: Any) -> str:
    sign, months = "-" if months < 0 else "", abs(months)
    parts = {(0, 0): f"{months // 12}", (1, 1): f"{months}", (0, 1): f"{months // 12}-{months % 12}"}
    return f"INTERVAL '{sign}{parts[kind.startField, kind.endField]}' {kind.simpleString().removeprefix('interval ').upper()}"


def _day_time(micros: int, kind: Any) -> str:
    """The interval in its units from the first to the last; the first one may be larger than a clock shows it ("25" hours)."""
    sign, rest, shown = "-" if micros < 0 else "", abs(micros), ""
    for field, (unit, before) in enumerate([(86_400_000_000, ""), (3_600_000_000, " "), (60_000_000, ":"), (1_000_000, ":")]):
        if kind.startField <= field <= kind.endField:
            shown += (before if shown else "") + (str(rest // unit) if field == 0 else f"{rest // unit:02d}")
            rest %= unit
    return f"INTERVAL '{sign}{shown}{_fraction(rest)}' {kind.simpleString().removeprefix('interval ').upper()}"


def _calendar_interval(value: bytes) -> str:
    months, days, micros = struct.unpack("<iiq", value)
    parts = [*_parts(months, years=12, months=1), (days, "days"), *_parts(micros, hours=3_600_000_000, minutes=60_000_000)]
    seconds, rest = divmod(abs(micros) % 60_000_000, 1_000_000)
    if seconds or rest:
        parts.append((f"{'-' if micros < 0 else ''}{seconds}{_fraction(rest)}", "seconds"))
    return " ".join(f"{n} {unit}" for n, unit in parts if n) or "0 seconds"


def _parts(number: int, **units: int) -> list[tuple[int | str, str]]:
    sign, rest, parts = -1 if number < 0 else 1, abs(number), list[tuple[int | str, str]]()
    for name, unit in units.items():
        parts.append((sign * (rest // unit), name))
        rest %= unit
    return parts


def _fraction(micros: int) -> str:
    return f".{micros:06d}".rstrip("0") if micros else ""


def _variant(value: bytes, budget: Budget | None) -> str:
    """A variant as JSON. Its bytes are the size of its value, the value, and its metadata (the names of fields).

    If they are not a variant, or if PySpark is missing, they are shown in hexadecimal.
    """
    size = int.from_bytes(value[:4], "little")
    try:
        from pyspark.sql.types import VariantVal

        if budget is not None:
            _take_variant(value[4 : 4 + size], 0, len(value), budget)
        return str(VariantVal(value[4 : 4 + size], value[4 + size :]))
    except LimitExceeded:
        raise
    except Exception:
        return _hex(value)


def _take_variant(value: bytes, at: int, longest: int, budget: Budget) -> None:
    """Take what the variant at a byte becomes; `longest`: of a text, or of the name of a field.

    Many elements may be at one place, and their elements, too, so a few bytes may stand for millions of values.
    """
    header = value[at] if at < len(value) else 0
    kind, of_offset = header & 3, 1 + (header >> 2 & 3)
    if kind < 2:
        is_text = header >> 2 == 16 or kind == 1
        budget.take(BYTES_PER_VALUE + (min(longest, int.from_bytes(value[at + 1 : at + 5], "little")) if is_text else 0))
        return
    is_object = kind == 2  # the numbers of the names of its fields come before the places of their values
    of_id = 1 + (header >> 4 & 3) if is_object else 0
    of_count = 4 if header >> (6 if is_object else 4) & 1 else 1
    count = int.from_bytes(value[at + 1 : at + 1 + of_count], "little")
    places = at + 1 + of_count + count * of_id
    for place in range(places, min(places + count * of_offset, len(value)), of_offset):
        budget.take(BYTES_PER_VALUE + (longest if is_object else 0))
        begin = places + (count + 1) * of_offset + int.from_bytes(value[place : place + of_offset], "little")
        _take_variant(value, begin, longest, budget)


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, with a number after those that were there before: the second "sum" becomes "sum (2)"."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def decode_columns(codec: UnsafeRowCodec, rows: Sequence[bytes], budget: Budget | None = None) -> dict[str, list[Any]]:
    """The columns of some rows by their unique names. Raises ValueError, LimitExceeded."""
    columns = codec.decode(rows, budget=budget)
    shown = (plain(column, field.dataType, budget) for column, field in zip(columns, codec.schema.fields))
    return dict(zip(unique_names(codec.schema.names), shown))


def decode_rows(codec: UnsafeRowCodec, rows: Sequence[bytes], budget: Budget | None = None) -> list[dict[str, Any]]:
    """Each row as a dict by column name. Raises ValueError if one is not a row of the codec's schema; LimitExceeded."""
    columns = decode_columns(codec, rows, budget)
    return [dict(zip(columns, values)) for values in zip(*columns.values())] if columns else [{} for _ in rows]
