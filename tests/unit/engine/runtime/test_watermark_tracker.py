"""How a watermark moves, as tables: what the operators saw in each batch, and the watermark after it. Times in minutes."""

from __future__ import annotations

import pytest

from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats, MeasuredWatermark, WatermarkTracker

SILENT = None  # an operator that saw no row


def saw(node_id: str, newest: int | None, delay: int) -> MeasuredWatermark:
    at = newest or 0
    return MeasuredWatermark(node_id, EventTimeStats(max=at, min=at, avg=float(at), count=0 if newest is SILENT else 1), delay)


@pytest.mark.parametrize(
    "behaviour, batches, watermarks",
    [
        # batches: the newest event time that the one operator (delay 10) saw in each
        ("it is the newest event time less the delay", [27, 34], [17, 24]),
        ("it never goes back", [34, 28, 34], [24, 24, 24]),
        ("a batch without rows leaves it where it is", [34, SILENT], [24, 24]),
        ("without any row it stays at the beginning of time", [SILENT], [0]),
        ("it does not begin before the beginning of time", [7], [0]),
    ],
)
def test_the_watermark_of_one_operator(behaviour: str, batches: list[int | None], watermarks: list[int]) -> None:
    tracker = WatermarkTracker("min", {"ts": None})
    found = []
    for newest in batches:
        tracker = tracker.update_watermark([saw("ts", newest, delay=10)])
        found.append(tracker.current_watermark)
    assert found == watermarks, behaviour


@pytest.mark.parametrize(
    "behaviour, policy, batches, watermarks",
    [
        # batches: the newest event times at the left (delay 10) and at the right (delay 20)
        ("min waits for the slower side", "min", [(34, 34), (50, 36)], [14, 16]),
        ("max follows the faster side", "max", [(34, 34), (50, 36)], [24, 40]),
        ("a side that never saw a row holds min back", "min", [(34, SILENT), (50, SILENT)], [0, 0]),
        ("a side that never saw a row does not hold max back", "max", [(34, SILENT)], [24]),
        ("a side that fell silent keeps what it reached", "min", [(34, 60), (SILENT, 70)], [24, 24]),
    ],
)
def test_the_watermark_of_two_operators(
    behaviour: str, policy: str, batches: list[tuple[int | None, int | None]], watermarks: list[int]
) -> None:
    tracker = WatermarkTracker(policy, {"left": None, "right": None})
    found = []
    for left, right in batches:
        tracker = tracker.update_watermark([saw("left", left, delay=10), saw("right", right, delay=20)])
        found.append(tracker.current_watermark)
    assert found == watermarks, behaviour


def test_after_a_restart_the_watermark_of_the_logs_holds_until_the_operators_pass_it() -> None:
    tracker = WatermarkTracker("min", {"ts": None}).set_watermark(24)
    assert tracker.update_watermark([saw("ts", 28, delay=10)]).current_watermark == 24
    assert tracker.update_watermark([saw("ts", 40, delay=10)]).current_watermark == 30


def test_a_query_without_watermark_stays_at_the_beginning_of_time() -> None:
    assert WatermarkTracker().update_watermark([]).current_watermark == 0
