"""Rows for the trace (level "rows"): the first rows of the input and the output of a batch.

Models: nothing of Spark, which does not keep rows to show them.

They cost an extra Spark job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.lens.trace.events import MAX_ROWS
from minispark_stream.lens.trace.values import without_values

logger = logging.getLogger(__name__)
T = TypeVar("T")


class PreviewSink(Sink):
    """A sink that keeps the first rows of the batch that it passes on.

    The batch is computed once: its rows are cached for as long as the other sink works. A user's function may cache and uncache
    the batch as if they were not cached. If it did not read the whole batch, the rest is not computed only to be shown: no rows
    are shown then. `taken` are the first rows that the batch reads, by the number of their source (arrivals.py); `ran_ms` says
    when the other sink began and ended, in ms since the epoch.
    """

    def __init__(self, sink: Sink):
        self.taken: dict[int, Any] = {}
        self._sink = sink
        self.description = sink.description
        self.calls_function = sink.calls_function
        self.shown: dict[str, Any] = {}
        self.ran_ms = (0.0, 0.0)

    @property
    def writer(self) -> str | None:  # type: ignore[override]
        return self._sink.writer

    def add_batch(self, batch_id: int, data: DataFrame) -> int | None:
        cache = plans.cache(data)
        rows = plans.of_rows(data.sparkSession, cache)
        try:
            began = time.time()
            num_output_rows = self._sink.add_batch(batch_id, rows)
            self.ran_ms = began * 1000 - 1, time.time() * 1000
            was_read = not self.calls_function or plans.is_filled(cache)
            self.shown = (harmless(lambda: _shown(rows)) if was_read else None) or {}
            self.written = self._sink.written
        finally:
            data.unpersist()
        return num_output_rows


def _shown(data: DataFrame) -> dict[str, Any]:
    rows = preview(data)
    return {"rows": rows, "emitted": len(rows) if len(rows) < MAX_ROWS else data.count()}


def harmless(look: Callable[[], T], warning: str = "rows cannot be shown") -> T | None:
    """Run `look`; on an error, log a warning and return None, so that the query continues."""
    try:
        return look()
    except Exception:
        logger.warning(warning, exc_info=True)
        return None


def preview(data: DataFrame, rows_at_most: int = MAX_ROWS) -> list[dict[str, Any]]:
    """The first rows as JSON values.

    Times are texts as Spark prints them, because Python's own end with the year 9999. They are in UTC, like the watermarks and
    the state of a trace, whatever the time zone of the session is: in some zones, two moments of a year have the same text.
    """
    numbered = data.limit(rows_at_most).toDF(*map(str, range(len(data.columns))))
    attributes = dict(zip(numbered.columns, scala.items(plans.analyzed(numbered).output())))
    texts = {
        f.name: expressions.cast(data.sparkSession, attributes[f.name], kind, "UTC")
        for f in numbered.schema if (kind := times_as_text(f.dataType)) != f.dataType
    }
    rows = (numbered.withColumns(texts) if texts else numbered).collect()
    return [dict(zip(data.columns, _json(list(row.asDict(recursive=True).values())))) for row in rows]


def warn_of_nulls(rows: Sequence[Mapping[str, Any]], source: str) -> None:
    """Warn of columns that have no value in any of the first rows of a source, which a wrong type in a schema causes."""
    empty = without_values(rows)
    if empty:
        logger.warning(
            "In the first batch of %s, %s null in every row: if the files have values there, the schema has another type for "
            "them.", source, f"{empty[0]} is" if len(empty) == 1 else f"{', '.join(empty)} are",
        )


def times_as_text(kind: DataType) -> DataType:
    """A type with a string in the place of every date, timestamp, and interval that Python has no type for."""
    match kind:
        case DateType() | TimestampType() | TimestampNTZType() | YearMonthIntervalType() | CalendarIntervalType():
            return StringType()
        case ArrayType():
            return ArrayType(times_as_text(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(times_as_text(kind.keyType), times_as_text(kind.valueType), kind.valueContainsNull)
        case StructType():
            return StructType([StructField(f.name, times_as_text(f.dataType), f.nullable) for f in kind])
        case _:
            return kind


def in_ms(micros: int | None) -> float | None:
    """A time in milliseconds, as an int if it is a whole number."""
    return None if micros is None else micros // 1000 if micros % 1000 == 0 else micros / 1000


def _json(value: Any) -> Any:
    """Any value of a row as something that JSON can represent and a person can read."""
    if isinstance(value, dict):
        return {str(k): _json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
