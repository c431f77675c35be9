"""When the loop is asked to run a batch, on a clock that only moves when the test says so."""

from __future__ import annotations

import logging
import threading

import pytest

from minispark_stream.engine.clock import ManualClock
from minispark_stream.engine.runtime.trigger_executor import (
    AvailableNowTrigger,
    OneTimeTrigger,
    ProcessingTimeTrigger,
    Trigger,
    execute,
    next_batch_time,
)


@pytest.mark.parametrize(
    "now_ms, interval_ms, next_ms",
    [
        (300, 1000, 1000),
        (999, 1000, 1000),
        (1000, 1000, 2000),  # a trigger at a point of the grid is followed by the next point
        (2100, 1000, 3000),  # missed points are not made up for
        (1234, 0, 1234),  # no interval: at once
    ],
)
def test_the_next_trigger_is_the_next_point_of_the_grid(now_ms: int, interval_ms: int, next_ms: int) -> None:
    assert next_batch_time(now_ms, interval_ms) == next_ms


class Skipping(ManualClock):
    """A clock that is at the time that somebody waits for."""

    def wait_till_time(self, target_ms: int, stopped: threading.Event) -> None:
        self.advance(max(0, target_ms - self.get_time_millis()))


def times(trigger: Trigger, batches_ms: list[int], begin_ms: int = 0) -> list[int]:
    """When the batches begin, if they take `batches_ms`; after the last one the query ends."""
    clock, began, left = Skipping(begin_ms), [], list(batches_ms)

    def execute_one_batch() -> bool:
        began.append(clock.get_time_millis())
        clock.advance(left.pop(0))
        return bool(left)

    execute(trigger, execute_one_batch, clock, threading.Event())
    return began


@pytest.mark.parametrize(
    "behaviour, trigger, batches_ms, began",
    [
        ("once is once, even if there is more", OneTimeTrigger(), [10, 10], [0]),
        ("available now runs batch after batch", AvailableNowTrigger(), [10, 20, 30], [0, 10, 30]),
        ("without an interval the next batch begins at once", ProcessingTimeTrigger(0), [10, 20, 30], [0, 10, 30]),
        ("with an interval the loop waits for the grid", ProcessingTimeTrigger(1000), [300, 300, 300], [0, 1000, 2000]),
        ("a slow batch skips points of the grid", ProcessingTimeTrigger(1000), [2100, 10], [0, 2100]),
    ],
)
def test_when_batches_begin(behaviour: str, trigger: Trigger, batches_ms: list[int], began: list[int]) -> None:
    assert times(trigger, batches_ms) == began, behaviour


def test_the_grid_does_not_begin_when_the_query_does() -> None:
    assert times(ProcessingTimeTrigger(1000), [10, 10, 10], begin_ms=300) == [300, 1000, 2000]


@pytest.mark.parametrize("batch_ms, warned", [(1000, False), (1001, True)])
def test_a_batch_longer_than_the_interval_is_falling_behind(
    batch_ms: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        times(ProcessingTimeTrigger(1000), [batch_ms])
    assert ("falling behind" in caplog.text) == warned
