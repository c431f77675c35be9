"""How long the phases of a trigger took, and the reports of the last triggers.

Models: ProgressReporter and ProgressContext (SIGMOD'18 paper, section 7.4). finish_trigger.py puts a report together.

    timed("getBatch") 4 ms, timed("getBatch") 2 ms  ->   durationMs {"getBatch": 6, ...}

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

from minispark_stream.engine.gauges import gauges

if TYPE_CHECKING:  # saved reports are read without PySpark, too
    from minispark_stream.engine.jvm.metrics_system import Gauges

# The phases that Spark reports under durationMs; the other steps only show in the trace.
PHASES = frozenset(("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets"))


class ProgressReporter:
    """The durations of the current trigger's phases, and the reports of the last triggers, as Spark's JSON.

    `keep` is `spark.sql.streaming.numRecentProgressUpdates`; as in Spark, one report less is kept. `query` has the id, runId
    and name of the query.
    """

    def __init__(self, keep: int, **query: str | None):
        self.query = query
        self._keep = keep
        self.recent: deque[dict[str, Any]] = deque(maxlen=max(0, keep - 1))
        self.last_report_ms: int | None = None
        self.gauges: Gauges | None = None  # in Spark's metrics system, if metricsEnabled is set
        self.trigger_start_ms = -1
        self._last_trigger_start_ms = -1
        self._durations: dict[str, int] = {}
        self._began = 0.0

    def start_trigger(self, now_ms: int) -> None:
        self._last_trigger_start_ms, self.trigger_start_ms = self.trigger_start_ms, now_ms
        self._durations, self._began = {}, time.monotonic()

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Surrounds a step. If the step is a phase of `durationMs`, its time is added to that phase."""
        began = time.monotonic()
        yield
        if name in PHASES:
            self._durations[name] = self._durations.get(name, 0) + _milliseconds_since(began)

    def move(self, milliseconds: int, begin: str, end: str) -> None:
        """Move some time from the phase `begin`, in which it passed, to the phase `end`, to which it belongs."""
        for name, change in ((begin, -milliseconds), (end, milliseconds)):
            self._durations[name] = self._durations.get(name, 0) + change

    def durations(self) -> dict[str, int]:
        """`durationMs` of the trigger so far. A batch always has `getBatch`, even if no source had new data."""
        asked = {"getBatch": 0} if "addBatch" in self._durations else {}
        return dict(sorted({**asked, **self._durations, "triggerExecution": _milliseconds_since(self._began)}.items()))

    def add(self, progress: dict[str, Any], now_ms: int) -> None:
        """Keep a report. Raises LookupError if `keep` is 0 or less: Spark then drops more reports than there are, and fails."""
        self.recent.append(progress)
        if self.gauges is not None:
            self.gauges.set(gauges(progress))
        if self._keep <= 0:
            raise LookupError("empty collection")
        self.last_report_ms = now_ms

    def rates(self, rows: int, now_ms: int) -> dict[str, float]:
        """Rows per second: of input, over the time since the last trigger began; processed, over the time of this trigger."""
        between = self.trigger_start_ms - self._last_trigger_start_ms if self._last_trigger_start_ms >= 0 else None
        spent = max(1, now_ms - self.trigger_start_ms)
        return {
            "inputRowsPerSecond": _rounded(rows * 1000 / between) if between else 0.0,
            "processedRowsPerSecond": _rounded(rows * 1000 / spent),
        }


def _rounded(rate: float) -> float:
    """Rounded half up to one decimal, as in the JSON of a report."""
    return float(Decimal(rate).quantize(Decimal("0.1"), ROUND_HALF_UP))


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def status_message(has_data: bool) -> str:
    """What the status of a query says while it runs a batch."""
    return "Processing new data" if has_data else "No new data but cleaning up state"
