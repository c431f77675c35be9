"""How the golden scripts write what happened: no ids, no durations, and times of 2024-01-01 as times of day."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException


def batch_line(report: Mapping[str, Any]) -> str:
    """A progress report as one line."""
    rows = report["numInputRows"]
    rows_in = "1 row in" if rows == 1 else f"{rows or 'no'} rows in"
    line = f"batch {report['batchId']}   {rows_in:10}"
    if watermark := report["eventTime"].get("watermark"):
        line += f"   watermark {time_words(round(datetime.fromisoformat(watermark).timestamp() * 1000))}"
    if late := sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"]):
        line += f"   {late} dropped as late"
    return line


def error_line(error: PySparkException) -> str:
    """The first sentence of what went wrong, without where."""
    message = str(error).split("terminated with exception: ")[-1].split(" SQLSTATE")[0]
    return f"error: {re.split(r'[.;]*$|[.;] ', message, maxsplit=1, flags=re.MULTILINE)[0]}"


def time_words(ms: int | None) -> str:
    """Milliseconds since the epoch; `-` before there is a watermark."""
    return "-" if not ms else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def row_words(value: Any) -> str:
    """A value as a person writes it: `window=[12:00, 12:05) count=2`."""
    if isinstance(value, Mapping):
        if set(value) == {"start", "end"}:
            return f"[{value['start']}, {value['end']})"
        return " ".join(f"{name}={row_words(v)}" for name, v in value.items()) or "()"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(row_words, value))}]"
    return "null" if value is None else str(value)


def short(line: str) -> str:
    """Times of 2024-01-01 as times of day; no random names."""
    line = re.sub(r"\b1704\d{9}(000)?\b", lambda m: time_words(int(m[0][:13])), line)  # in the state, event times are numbers
    line = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", line)
    return re.sub(r"2024-01-01 (\d\d:\d\d)(?::00\b|(:\d\d))", r"\1\2", line).rstrip()
