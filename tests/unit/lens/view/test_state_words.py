"""The value of a row of state, in the words of the query."""

from __future__ import annotations

from typing import Any

import pytest

from minispark_stream.lens.view.state_words import key_words, value_words
from minispark_stream.lens.view.world import OperatorView, StateRow

COUNT, AVERAGE = {"name": "n", "function": "count", "buffers": 1}, {"name": "average", "function": "avg", "buffers": 2}
SUM = {"name": "total", "function": "sum", "buffers": 2}  # of decimals
SESSION = {"session_window": {"start": "2024-01-01 12:01:00", "end": "2024-01-01 12:06:00"}, "k": "a", "count": 2}
LONGER = {"session_window": {"start": "2024-01-01 12:01:00", "end": "2024-01-01 12:09:00"}, "k": "a", "count": 3}


def row(before: Any, after: Any, between: Any = None) -> StateRow:
    return StateRow("default", 0, {"k": "a"}, before, after, "~", between)


@pytest.mark.parametrize(("operator", "functions", "of", "words"), [
    ("stateStoreSave", [COUNT, AVERAGE], row(None, {"count": 8, "sum": -26.0, "count (2)": 8}), "n: 8 · average: -26.0 over 8"),
    ("stateStoreSave", [COUNT], row({"count": 2}, {"count": 2}), "n: 2"),
    ("stateStoreSave", [COUNT], row({"count": 2}, {"count": 3}), "n: 2 → 3"),
    ("stateStoreSave", [COUNT], row({"count": 2}, None), "n: 2"),
    ("stateStoreSave", [COUNT], row({"count": 2}, None, {"count": 5}), "n: 2 → 5, then removed"),
    ("stateStoreSave", [SUM, COUNT], row({"sum": "1.00", "isEmpty": False, "count": 1}, {"sum": "4.50", "isEmpty": False, "count": 1}),
     "total: 1.00 → 4.50 · n: 1"),
    ("stateStoreSave", [], row({"count": 2}, {"count": 3}), "count=2 → 3"),  # a trace that does not tell the functions
    ("sessionWindowStateStoreSaveExec", [COUNT], row(SESSION, LONGER),
     "[2024-01-01 12:01, 12:06) → [2024-01-01 12:01, 12:09) · n: 2 → 3"),
    ("dedupe", [], row({"__dummy__": None}, {"__dummy__": None}), "seen"),
    ("dedupeWithinWatermark", [], row(None, {"expiresAtMicros": 1704111060000000}), "seen, remembered until 12:11:00"),
    ("globalLimit", [], row({"value": 2}, {"value": 3}), "2 rows so far → 3 rows so far"),
    ("transformWithState", [], row("7", "8"), "7 → 8"),
])
def test_a_value_is_said_once_and_what_has_changed_twice(operator: str, functions: list[Any], of: StateRow, words: str) -> None:
    assert value_words(OperatorView(0, operator, functions=tuple(functions)), of) == words


def test_the_key_of_a_session_is_said_without_the_start_that_its_window_says() -> None:
    assert key_words(StateRow("default", 0, {"k": "a", "sessionStartTime": "2024-01-01 12:01:00"}, None, LONGER, "+")) == "a"
