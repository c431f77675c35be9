"""The kit over Spark Connect: when a query has done what was to be done, as its reports tell it."""

from __future__ import annotations

from typing import Any

from minispark_stream.tools.testing.connect_query import is_quiet

AT = 1_704_110_400_000  # 2024-01-01T12:00:00Z


def report(seconds: int, batch: bool = True, rows: int = 0, updated: int = 0, watermark: str = "12:00") -> dict[str, Any]:
    return {
        "timestamp": f"2024-01-01T12:00:{seconds:02}.000Z", "durationMs": {"addBatch": 1} if batch else {}, "numInputRows": rows,
        "stateOperators": [{"numRowsUpdated": updated, "numRowsRemoved": 0}],
        "eventTime": {"watermark": f"2024-01-01T{watermark}:00.000Z"},
    }


IDLE = report(2, batch=False)


def test_a_trigger_that_found_nothing_to_do_is_the_end():
    assert is_quiet([report(1, rows=3), IDLE], AT)
    assert not is_quiet([report(1, rows=3), report(2)], AT)


def test_a_trigger_that_began_before_the_rows_were_there_tells_nothing():
    assert not is_quiet([IDLE], AT + 2_001) and is_quiet([IDLE], AT + 2_000)


def test_of_batches_without_end_two_that_change_nothing_are_the_end():
    assert is_quiet([report(1, rows=3), report(2), report(3)], AT)
    assert not is_quiet([report(1, rows=3), report(2), report(3, updated=1)], AT)  # a timer
    assert not is_quiet([report(2), report(3, watermark="12:05")], AT)  # the second one may begin what a third one ends
