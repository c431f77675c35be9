"""Rows that PySpark collected, as the model's own trace shows them (lens/recording/previews.py): JSON values, times as text.

    Row(window=Row(start=datetime(2024, 1, 1, 12, 0), end=datetime(2024, 1, 1, 12, 5)), count=2)
    ->  {"window": {"start": "2024-01-01 12:00:00", "end": "2024-01-01 12:05:00"}, "count": 2}
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType


def shown_row(row: Sequence[Any], schema: StructType, zone: str) -> dict[str, Any]:
    """A collected row, its times in a time zone."""
    return {field.name: _shown(value, field.dataType, zone) for field, value in zip(schema, row)}


def _shown(value: Any, kind: DataType, zone: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    match kind:
        case StructType():
            return shown_row(value, kind, zone)
        case ArrayType():
            return [_shown(element, kind.elementType, zone) for element in value]
        case MapType():
            return {str(_shown(k, kind.keyType, zone)): _shown(v, kind.valueType, zone) for k, v in value.items()}
    if isinstance(value, datetime):
        return _time(value, zone if isinstance(kind, TimestampType) else None)
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)


def _time(value: datetime, zone: str | None) -> str:
    """Without the zeros at the end of a fraction of a second; `collect` gives an instant in the zone of this machine."""
    moment = value if zone is None else value.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    text = moment.isoformat(" ")
    return text.rstrip("0") if moment.microsecond else text
