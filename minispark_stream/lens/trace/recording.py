"""What was recorded of a query: its events, cut into batches, and a few words about it.

Everything that is drawn is drawn from a `Recording`. It is plain data, and knows nothing about a running engine.

    recording.batches[2].progress["numInputRows"]
    recording.batches[3].error        'OSError: No space left on device'
    recording.batches[4].rerun        True: batch 3 again, after a restart

Differs from Spark: Spark keeps no such record; `recentProgress` is the nearest thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.report import ProgressReport


@dataclass(frozen=True)
class Batch:
    """The events of one trigger that ran a batch (in the order in which they ended)."""

    trigger: int | None
    batch_id: int
    events: tuple[Event, ...]

    @property
    def progress(self) -> ProgressReport:
        """The progress report, as Spark's JSON; empty if the batch did not get that far."""
        return next((e.outputs["progress"] for e in reversed(self.events) if "progress" in e.outputs), ProgressReport())

    @property
    def durations(self) -> dict[str, float]:
        """Milliseconds of each phase that Spark reports under `durationMs`, from the progress report."""
        return {phase: float(ms) for phase, ms in self.progress.get("durationMs", {}).items()}

    @property
    def rerun(self) -> bool:
        """Whether this is a batch that an earlier run had logged but not finished."""
        return any(is_rerun(e) for e in self.events)

    @property
    def is_real_time(self) -> bool:
        """Whether it is a batch of real-time mode."""
        return any(map(is_real_time, self.events))

    @property
    def error(self) -> str | None:
        """The message of the first step that failed; None if the batch ended well."""
        return next((e.error for e in self.events if e.error is not None), None)


@dataclass(frozen=True)
class Recording:
    """The steps of a query. `engine` is "model" or "spark", `plan` the analysed plan as text; `note` says what is missing.

    `query` has the lines in which the user has written the query, as far as they are known.
    """

    events: tuple[Event, ...]
    engine: str = "model"
    name: str | None = None
    plan: str | None = None
    note: str | None = None
    query: str | None = None

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The triggers that ran a batch. A batch that was run again after a restart is there twice."""
        found = []
        for trigger, group in groupby(self.events, key=lambda e: e.trigger):
            events = tuple(group)
            ids = [e.batch_id for e in events if e.step in ("runBatch", "trigger") and e.batch_id is not None]
            if ids:
                found.append(Batch(trigger, ids[-1], events))
        return tuple(found)


def is_rerun(event: Event) -> bool:
    """Whether this step found a batch that an earlier run had logged but not finished."""
    return event.step == "populateStartOffsets" and event.outputs.get("rerun") is True


def is_real_time(event: Event) -> bool:
    """Whether this step began a batch of real-time mode."""
    return event.step == "constructNextBatch" and event.outputs.get("realTime") is True


def has_watermark(events: Sequence[Event]) -> bool | None:
    """Whether the query has a watermark (None: not known): every report of its batches has one if there is a withWatermark."""
    reports = [event.outputs.get("progress", {}) for event in events if event.step == "finishTrigger"]
    return any("watermark" in report.get("eventTime", {}) for report in reports) if any(reports) else None
