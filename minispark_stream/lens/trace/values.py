"""Small questions about the values of a trace, and about values that have no declared shape.

    as_map([1])    -> {}
    as_int("7")    -> None
    at_least_0(-900001)    -> 0
    name_of({"b": 1, "a": 2}) == name_of({"a": 2, "b": 1})
    state_mark(None, 3)    -> "+"
    entry_metadata('v1\n{"batchWatermarkMs":0}\n3')    -> {"batchWatermarkMs": 0}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from minispark_stream.lens.trace.shapes import fits


def as_map(value: Any) -> Mapping[str, Any]:
    """`value`, or an empty mapping if it is not a mapping."""
    return value if isinstance(value, Mapping) else {}


def as_int(value: Any) -> int | None:
    """A whole number of at most 64 bits, as all of Spark's are."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def at_least_0(ms: int | None) -> int | None:
    """A watermark in ms; 0 as long as there is none, also for an operator that keeps rows for longer and subtracts from it."""
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


class EntryMetadata(TypedDict, total=False):
    """What the offset log (the first two) and the commit log say of a batch besides its offsets."""

    batchWatermarkMs: int
    batchTimestampMs: int
    nextBatchWatermarkMs: int


def entry_metadata(text: str | None) -> EntryMetadata:
    """The JSON line of an entry of the offset log or the commit log: its second line."""
    lines = (text or "").split("\n")
    try:
        found: EntryMetadata = json.loads(lines[1]) if len(lines) > 1 else {}
        return found if fits(found, EntryMetadata) else {}
    except (ValueError, RecursionError):
        return {}
