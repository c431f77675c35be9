"""Values as a person writes them in a test: how they are converted to Spark's types, and compared.

1. A text may stand for any type: "2026-03-01 12:04" for a timestamp (in the session's time zone), "1.50" for a decimal, JSON
   for an array, a map or a struct. A struct may be a dict, a tuple or a Row.
2. Rows are compared as values: two doubles are equal if twelve digits are, and two instants are equal whatever the time zones
   in which they are written.

    fitted("2026-03-01 12:04", TimestampType(), "UTC")    datetime(2026, 3, 1, 12, 4, tzinfo=timezone.utc)
    comparable(...)                                       the same for two values that are equal, and hashable
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from numbers import Integral
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from minispark_stream.lens.view.words import perhaps

__tracebackhide__ = True
DIGITS = 12
_OF_TEXT: dict[type[DataType], Callable[[str], Any]] = {
    BooleanType: lambda text: {"true": True, "false": False}[text.lower()],
    DecimalType: Decimal,
    IntegralType: int,
    FractionalType: float,
    TimestampType: datetime.fromisoformat,
    TimestampNTZType: datetime.fromisoformat,
    DateType: date.fromisoformat,
    BinaryType: str.encode,
    ArrayType: json.loads,
    MapType: json.loads,
    StructType: json.loads,
}
_OF_PYTHON: dict[type[DataType], type | tuple[type, ...]] = {
    BooleanType: bool, IntegralType: Integral, TimestampType: datetime, TimestampNTZType: datetime, DateType: date,
    BinaryType: (bytes, bytearray, memoryview),
}


def fitted(value: Any, kind: DataType, zone: str) -> Any:
    """(1) A value as a column of this type has it.

    Raises:
        ValueError: the value is not of this type, or is a struct with other fields.
    """
    if value is None:
        return None
    if isinstance(value, str) and not isinstance(kind, StringType):
        value = _of_text(value, kind, zone)
    match kind:
        case StructType():
            return fitted_row(value, kind, zone)
        case ArrayType():
            return [fitted(element, kind.elementType, zone) for element in value]
        case MapType():
            return {fitted(k, kind.keyType, zone): fitted(v, kind.valueType, zone) for k, v in dict(value).items()}
        case DecimalType():
            return Decimal(str(value))
        case FractionalType():
            return float(value)
    wanted = next((of for type_, of in _OF_PYTHON.items() if isinstance(kind, type_)), object)
    if not isinstance(value, wanted):
        raise ValueError(_is_no(value, kind))
    return value


def _of_text(text: str, kind: DataType, zone: str) -> Any:
    read = next((read for of, read in _OF_TEXT.items() if isinstance(kind, of)), None)
    if read is None:
        return text
    try:
        value = read(text)
    except (ValueError, KeyError, ArithmeticError):
        raise ValueError(_is_no(text, kind)) from None
    if isinstance(kind, TimestampType) and value.tzinfo is None:
        return value.replace(tzinfo=ZoneInfo(zone))
    return value


def fitted_row(row: Any, schema: StructType, zone: str) -> tuple[Any, ...]:
    """A row (dict, tuple, list, Row, or the value of its only column) with its values in the order of the columns."""
    if hasattr(row, "asDict"):
        row = row.asDict() if set(row.__fields__) == set(schema.names) else tuple(row)
    if isinstance(row, Mapping):
        unknown = [name for name in row if name not in schema.names]
        if unknown:
            names = ", ".join(map(str, unknown))
            near = perhaps(str(unknown[0]), schema.names)
            raise ValueError(f"there is no column {names}, but {', '.join(schema.names) or 'none'}{near}")
        values: Sequence[Any] = [row.get(name) for name in schema.names]
    else:
        values = row if isinstance(row, (tuple, list)) else [row]
    if len(values) != len(schema.names):
        wanted = f"{len(schema.names)} columns ({', '.join(schema.names)})"
        raise ValueError(f"a row has {wanted}, and {row!r} has {len(values)} values")
    found = []
    for value, field in zip(values, schema):
        try:
            found.append(fitted(value, field.dataType, zone))
        except (ValueError, TypeError, ArithmeticError) as e:
            words = str(e) if isinstance(e, ValueError) else _is_no(value, field.dataType)
            raise ValueError(f"column {field.name}: {words}") from None
    return tuple(found)


def each(rows: Sequence[Any], fit: Callable[[Any], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """All rows, each fitted; the error of a row has its number.

    Raises:
        ValueError: a row does not fit.
    """
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(fit(row))
        except ValueError as e:
            raise ValueError(f"row {number}: {e}" if len(rows) > 1 else str(e)) from None
    return found


def _is_no(value: Any, kind: DataType) -> str:
    name = kind.simpleString()
    return f"{value!r} is not {'an' if name[0] in 'aeiou' else 'a'} {name}"


def comparable(value: Any, kind: DataType) -> Any:
    """(2) Something hashable that is the same for all equal values; `value` must fit its type."""
    if value is None:
        return None
    match kind:
        case StructType():
            return tuple(comparable(v, field.dataType) for v, field in zip(value, kind))
        case ArrayType():
            return tuple(comparable(v, kind.elementType) for v in value)
        case MapType():
            return frozenset((comparable(k, kind.keyType), comparable(v, kind.valueType)) for k, v in value.items())
        case TimestampType():
            return value.astimezone(timezone.utc)  # a value without a time zone is in that of this machine, as in `collect()`
        case DecimalType():
            return Decimal(value)
        case FractionalType():
            return "NaN" if math.isnan(value) else float(f"{value:.{DIGITS}g}")
        case BinaryType():
            return bytes(value)
    return value


def text_table(text: str) -> list[dict[str, str | None]]:
    """The rows of a table: the names of the columns are in the first line, `|` is between cells, and `null` means no value."""
    lines = [line.strip().strip("|") for line in text.strip().splitlines() if line.strip() and set(line.strip()) - set("|-+: ")]
    head, *rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    if uneven := next((row for row in rows if len(row) != len(head)), None):
        raise ValueError(f"the table has {len(head)} columns ({', '.join(head)}), and a line has {len(uneven)} cells: {uneven}")
    return [dict(zip(head, (None if cell == "null" else cell for cell in row))) for row in rows]
