"""The value of a row of state in the words of the query, before and after a batch, with each part said once.

1. The columns of an aggregation's state are the buffers of its functions. The trace says which function has how many of them,
   and what the query calls its result.
2. A session begins with its window. A deduplication remembers that it has seen a key, and some until when; a limit counts rows.
3. Any other value is said column by column, without what its key already says.
4. A part that the batch has changed is said twice, as it was and as it is; any other part once.

    {"count": 2, "sum": -26.0, "count (2)": 8}    -> n: 2 · average: -26.0 over 8
    {"count": 2} and then {"count": 3}            -> count: 2 → 3
    {"__dummy__": None}                           -> seen
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minispark_stream.engine.times import is_window
from minispark_stream.lens.trace.values import as_map
from minispark_stream.lens.view.words import clock_words, plain, plural
from minispark_stream.lens.view.world import OperatorView, StateRow

START = "sessionStartTime"  # in the key of a session


def key_words(row: StateRow) -> str:
    """The key; of a session without its start, which is that of its window."""
    key = {name: value for name, value in row.key.items() if name != START}
    return " ".join(map(plain, key.values())) if key else plain(row.key)


def value_words(view: OperatorView, row: StateRow) -> str:
    """What became of the value in the batch."""
    was, put, now = (None if value is None else _parts(view, row, value) for value in (row.before, row.between, row.after))
    words = _changed(was, put or now)
    return f"{words}, then removed" if put is not None else words


def _changed(was: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:  # (4)
    old, new = was or now or {}, now or was or {}
    return " · ".join(
        name + (words if old.get(name, words) == words else f"{old[name]} → {words}") for name, words in new.items()
    )


def _parts(view: OperatorView, row: StateRow, value: Any) -> dict[str, str]:
    """What stands before each part of a value, and its words."""
    columns = as_map(value)
    sizes = [one.get("buffers") or 0 for one in view.functions]
    if not columns:
        return {"": plain(value)}
    if sizes and all(sizes) and sum(sizes) <= len(columns):
        return _aggregated(view.functions, sizes, list(columns.items()))
    match view.operator, list(columns.values()):  # (2)
        case "dedupe", _:
            return {"": "seen"}
        case "dedupeWithinWatermark", [int(micros)]:
            return {"seen, remembered until ": clock_words(micros // 1000)}
        case "globalLimit", [int(rows)]:
            return {"": f"{plural(rows, 'row')} so far"}
    key = row.key
    return {f"{name}=": plain(one) for name, one in columns.items() if name not in key or key[name] != one}  # (3)


def _aggregated(functions: Sequence[Any], sizes: Sequence[int], columns: Sequence[tuple[str, Any]]) -> dict[str, str]:  # (1)
    first = len(columns) - sum(sizes)
    windows = [plain(value) for _, value in columns[:first] if is_window(value)]  # (2)
    parts = {"": windows[0]} if windows else {}
    for function, size in zip(functions, sizes):
        parts[f"{plain(function.get('name'))}: "] = _buffers(function.get("function"), dict(columns[first:first + size]))
        first += size
    return parts


def _buffers(function: Any, buffers: Mapping[str, Any]) -> str:
    match function, list(buffers.values()):
        case _, [only]:
            return plain(only)
        case "avg" | "try_avg", [total, count]:
            return f"{plain(total)} over {plain(count)}"
        case "sum" | "try_sum", [total, _]:  # of decimals; the other buffer says whether there was one
            return plain(total)
    return plain(buffers)
