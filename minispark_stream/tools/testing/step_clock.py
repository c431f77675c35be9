"""A clock whose time passes only when a test says so, and which gives a query one trigger at a time.

    clock = StepClock(now_ms)
    clock.until_it_waits(is_active)      the trigger with which a query starts has run
    clock.fire()                         one more trigger; no time passes
    clock.advance(300_000)               time passes, and no trigger fires

A query with a processing-time trigger asks its clock to wait from one trigger to the next. This clock wakes it when the test
wants the next trigger, whatever the time is. So each trigger finds what the test has prepared, however fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from minispark_stream.engine.clock import ManualClock

LOOK_S = 0.05  # while waiting for a query: seconds between two checks that it is still active
PATIENCE_S = 300  # a trigger that takes longer is taken to hang


class StepClock(ManualClock):
    """A clock whose time and triggers are controlled by hand."""

    def __init__(self, now_ms: int = 0):
        super().__init__(now_ms)
        self._waits = False

    def wait_till_time(self, target_ms: int, stopped: Event) -> None:
        with self._moved:
            self._waits = True
            self._moved.notify_all()
            while self._waits and not stopped.is_set():
                self._moved.wait(0.01)
            self._waits = False

    def fire(self) -> None:
        """Let the waiting query have its next trigger."""
        with self._moved:
            self._waits = False
            self._moved.notify_all()

    def until_it_waits(self, is_active: Callable[[], bool]) -> bool:
        """Wait until the query has finished its trigger; returns False if the query has ended.

        Raises:
            TimeoutError: the trigger takes longer than `PATIENCE_S`.
        """
        deadline = time.monotonic() + PATIENCE_S
        with self._moved:
            while not self._waits:
                if not self._moved.wait(LOOK_S) and not is_active():
                    return False
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the query has not finished its trigger within {PATIENCE_S} seconds")
        return True
