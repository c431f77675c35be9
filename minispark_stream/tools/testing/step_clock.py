"""A clock whose time goes on when a test says so, and which gives a query one trigger at a time.

    clock = StepClock(now_ms)
    clock.until_it_waits(is_active)      the trigger with which a query starts has run
    clock.fire()                         one trigger more; time stands still
    clock.advance(300_000)               time goes on, and no trigger fires

A query with a processing-time trigger asks its clock to wait from one trigger to the next. This clock wakes it when the test
wants the next one, whatever time it is. So each trigger finds what the test has prepared, however fast the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from minispark_stream.engine.clock import ManualClock

LOOK_S = 0.05  # how often somebody who waits for the query looks whether it is still there
PATIENCE_S = 300  # a trigger that takes longer hangs


class StepClock(ManualClock):
    """Time and triggers by hand."""

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
        """Let the query that waits have its next trigger."""
        with self._moved:
            self._waits = False
            self._moved.notify_all()

    def until_it_waits(self, is_active: Callable[[], bool]) -> bool:
        """Wait until the query has done with its trigger. False when it has ended.

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
