"""When to look for new data.

Models: Trigger and TriggerExecutor (the StructuredStreaming analysis, "About Trigger").

    ProcessingTime(i)   every i ms, on a grid: after a trigger at `now`, the next one is at (now / i) * i + i.
                        If i = 0, the next one comes at once. If a batch takes longer than i, a warning says that
                        it is falling behind, and the next trigger comes at once; missed ones are not made up for.
    Once                one batch with everything there is, then stop (deprecated; no batch without data follows).
    AvailableNow        batch after batch under the sources' limits, until everything that was there at the start
                        has been read.
    Continuous(i)       no batches, but tasks that run all the time; an epoch ends every i ms, on the same grid
                        (extras/continuous).
    RealTime(i)         batches that last i ms, one after the other (extras/real_time).

    i = 1000, batch from 12:00:00.300 to 12:00:00.800   ->  next trigger at 12:00:01.000
    i = 1000, batch from 12:00:00.300 to 12:00:02.100   ->  next trigger at 12:00:02.100, the one after it at 12:00:03.000

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.clock import Clock

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProcessingTimeTrigger:
    interval_ms: int = 0


@dataclass(frozen=True)
class OneTimeTrigger:
    pass


@dataclass(frozen=True)
class AvailableNowTrigger:
    pass


@dataclass(frozen=True)
class ContinuousTrigger:
    interval_ms: int

    def __str__(self) -> str:
        return f"ContinuousTrigger({self.interval_ms})"


@dataclass(frozen=True)
class RealTimeTrigger:
    batch_ms: int


Trigger = ProcessingTimeTrigger | OneTimeTrigger | AvailableNowTrigger | ContinuousTrigger | RealTimeTrigger


def from_java(trigger: Any) -> Trigger:
    """The trigger that Spark's own `Trigger` factory made of the user's arguments."""
    match str(trigger.getClass().getSimpleName()).rstrip("$"):
        case "ProcessingTimeTrigger":
            return ProcessingTimeTrigger(trigger.intervalMs())
        case "OneTimeTrigger":
            return OneTimeTrigger()
        case "AvailableNowTrigger":
            return AvailableNowTrigger()
        case "ContinuousTrigger":
            return ContinuousTrigger(trigger.intervalMs())
        case _:
            return RealTimeTrigger(trigger.batchDurationMs())


def execute(trigger: Trigger, execute_one_batch: Callable[[], bool], clock: Clock, stopped: threading.Event) -> None:
    """Call `execute_one_batch` whenever the trigger says so, until it returns False.

    Args:
        execute_one_batch: runs at most one batch, and returns False if the query shall end.
        stopped: is set when the query is stopped from outside, and ends a wait.

    Raises:
        RuntimeError: the trigger is continuous, but the sink can only write batches.
    """
    match trigger:
        case ContinuousTrigger():
            raise RuntimeError(f"Unknown type of trigger: {trigger}")
        case OneTimeTrigger():
            execute_one_batch()
        case AvailableNowTrigger() | ProcessingTimeTrigger(interval_ms=0) | RealTimeTrigger():
            while execute_one_batch():
                pass
        case ProcessingTimeTrigger(interval_ms=interval_ms):
            while True:
                began = clock.get_time_millis()
                active = execute_one_batch()
                elapsed = clock.get_time_millis() - began
                if elapsed > interval_ms:
                    logger.warning(
                        "Current batch is falling behind. The trigger interval is %d milliseconds, but spent %d milliseconds",
                        interval_ms, elapsed,
                    )
                if not active:
                    return
                clock.wait_till_time(next_batch_time(began, interval_ms), stopped)


def next_batch_time(now_ms: int, interval_ms: int) -> int:
    """The next point of the grid after `now_ms`."""
    return now_ms if interval_ms == 0 else now_ms // interval_ms * interval_ms + interval_ms
