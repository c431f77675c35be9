"""Rows of a state file for a person: columns by their names, and text that a terminal can print.

    decode_rows(codec of "word string, count long", [row])   ->   [{"word": "a", "count": 2}]
    printable(a text with a bell)                             ->   the text with \\x07 in its place

A state file is not trusted: every value that the row format can hold has a plain form
(engine/checkpointing/unsafe_row/plain.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import plain, unique_names

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def decode_rows(codec: UnsafeRowCodec, rows: Sequence[bytes]) -> list[dict[str, Any]]:
    """Each row as a dict by column name. Raises ValueError when one is not a row of the codec's schema."""
    columns = decode_columns(codec, rows)
    return [dict(zip(columns, values)) for values in zip(*columns.values())] if columns else [{} for _ in rows]


def decode_columns(codec: UnsafeRowCodec, rows: Sequence[bytes]) -> dict[str, list[Any]]:
    """The same as one list of values for each column."""
    return dict(zip(column_names(codec.schema), map(plain, codec.decode(rows))))


def column_names(schema: StructType) -> list[str]:
    """The names of the columns; the second "sum" is "sum (2)"."""
    return unique_names(schema.names)


def printable(text: str) -> str:
    """`text`, which may be JSON, without what a terminal would obey and what cannot be written as UTF-8."""
    shown = _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return shown.encode("utf-8", "replace").decode("utf-8")
