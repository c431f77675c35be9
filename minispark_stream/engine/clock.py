"""Clocks. The engine is given one instead of asking the system for the time, so that a test can make time stand still.

In Spark, these are Clock, SystemClock and ManualClock of org.apache.spark.util.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since the epoch, and a wait that a stop can cut short."""

    def get_time_millis(self) -> int: ...

    def wait_till_time(self, target_ms: int, stopped: threading.Event) -> None: ...


class SystemClock:
    """The wall clock."""

    def get_time_millis(self) -> int:
        return int(time.time() * 1000)

    def wait_till_time(self, target_ms: int, stopped: threading.Event) -> None:
        """Looks at the clock repeatedly, because meanwhile it may be set, and it runs on while the machine sleeps."""
        look_ms = max((target_ms - self.get_time_millis()) // 10, 25)
        while (rest_ms := target_ms - self.get_time_millis()) > 0:
            if stopped.wait(min(rest_ms, look_ms) / 1000):
                return


class ManualClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, now_ms: int = 0):
        self._now = now_ms
        self._moved = threading.Condition()

    def get_time_millis(self) -> int:
        with self._moved:
            return self._now

    def advance(self, ms: int) -> None:
        with self._moved:
            self._now += ms
            self._moved.notify_all()

    def wait_till_time(self, target_ms: int, stopped: threading.Event) -> None:
        with self._moved:
            while self._now < target_ms and not stopped.is_set():
                self._moved.wait(0.01)
