"""What a trigger did, in Spark's words.

Models: ProgressReporter and StreamingQueryProgress (SIGMOD'18 paper, section 7.4; the JSON is Spark's, key by key).

A `ProgressReporter` times the phases of one trigger (`durationMs`) through the same `step` that records the trace, and
puts the numbers of the batch together when it ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from minispark_stream.runtime.watermark_tracker import EventTimeStats
from minispark_stream.trace.recorder import NullRecorder, OpenStep

# The phases that Spark reports under durationMs; the other steps only show in the trace.
PHASES = frozenset(
    ("triggerExecution", "latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
)


class ProgressReporter:
    """Phases of the current trigger, and the progress of the last triggers."""

    def __init__(self, recorder: NullRecorder, keep: int):
        self.recorder = recorder
        self.recent: deque[dict[str, Any]] = deque(maxlen=keep)
        self.durations: dict[str, int] = {}
        self.trigger_start_ms = -1
        self.last_trigger_start_ms = -1

    def start_trigger(self, now_ms: int) -> None:
        self.last_trigger_start_ms, self.trigger_start_ms = self.trigger_start_ms, now_ms
        self.durations = {}

    @contextmanager
    def step(self, name: str, /, **inputs: Any) -> Iterator[OpenStep]:
        """Record a step; a phase of `durationMs` is also timed (several calls add up)."""
        began = time.monotonic()
        with self.recorder.step(name, **inputs) as step:
            yield step
        if name in PHASES:
            self.add_duration(name, time.monotonic() - began)

    def add_duration(self, phase: str, seconds: float) -> None:
        self.durations[phase] = self.durations.get(phase, 0) + round(seconds * 1000)

    def rates(self, rows: int, now_ms: int) -> dict[str, float]:
        """Rows per second: of input, over the time between two triggers; processed, over the time of this one."""
        between = self.trigger_start_ms - self.last_trigger_start_ms if self.last_trigger_start_ms >= 0 else None
        spent = now_ms - self.trigger_start_ms
        return {
            "inputRowsPerSecond": rows * 1000 / between if between else 0.0,
            "processedRowsPerSecond": rows * 1000 / spent if spent else 0.0,
        }


def format_timestamp(ms: float) -> str:
    """ISO 8601 in UTC with milliseconds, as Spark prints event times."""
    moment = datetime.fromtimestamp(int(ms) // 1000, tz=timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(ms) % 1000:03d}Z"


def event_time(stats: Sequence[EventTimeStats], watermark_ms: int, has_watermark: bool) -> Mapping[str, str]:
    """The `eventTime` entry: what the batch saw, and the watermark that it ran under."""
    if not has_watermark:
        return {}
    report: dict[str, str] = {}
    for seen in stats:
        if seen.count > 0:  # of several operators, Spark reports the first that saw a row
            times = {"avg": seen.avg, "max": seen.max, "min": seen.min}
            report = {name: format_timestamp(ms) for name, ms in times.items()}
            break
    return {**report, "watermark": format_timestamp(watermark_ms)}
