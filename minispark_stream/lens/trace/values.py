"""Values of events whose shape is not trusted.

A trace may come from a file that somebody else wrote. Code that reads the inputs and outputs of an event asks for the shape
that it needs, and a value of another shape counts as empty:

    as_map([1])    -> {}
    as_list({})    -> ()
    as_int("7")    -> None
    as_watermark(-900001)    -> 0
    name_of({"b": 1, "a": 2}) == name_of({"a": 2, "b": 1})
    state_mark(None, 3)    -> "+"
    entry_metadata('v1\n{"batchWatermarkMs":0}\n3')    -> {"batchWatermarkMs": 0}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def as_map(value: Any) -> Mapping[str, Any]:
    """`value`, or an empty mapping if it is not a mapping."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """`value`, or an empty sequence if it is not a list."""
    return value if isinstance(value, (list, tuple)) else ()


def as_int(value: Any) -> int | None:
    """A whole number of at most 64 bits, as all of Spark's are."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def as_ms(value: Any) -> float | None:
    """A time or a duration in ms, which may have a fraction."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 2**53 else None


def as_watermark(value: Any) -> int | None:
    """A watermark in ms; 0 as long as there is none. An operator that keeps rows for longer subtracts from this 0, too."""
    ms = as_int(value)
    return None if ms is None else max(ms, 0)


def name_of(value: Any) -> str:
    """A key, a row or a whole row of state as a text, which is the same for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def state_mark(was: Any, now: Any) -> str:
    """How a row of state has changed, from its value in two versions (None: no row): `+` added, `~` changed, `-` removed."""
    return "+" if was is None else "-" if now is None else "" if was == now else "~"


def without_values(rows: Sequence[Any]) -> list[str]:
    """The columns that have no value in any of several rows, which a wrong type in a schema causes."""
    return [name for name in as_map(rows[0]) if all(as_map(row).get(name) is None for row in rows)] if len(rows) > 1 else []


def entry_metadata(text: Any) -> Mapping[str, Any]:
    """The JSON line of an entry of the offset log or the commit log: its second line."""
    lines = str(text).split("\n")
    try:
        return as_map(json.loads(lines[1])) if len(lines) > 1 else {}
    except (ValueError, RecursionError):
        return {}
