"""What is known about a query that emitted nothing, in order to say why: its checkpoint, its reports, its trace, its plan.

    Asked(report, progress, mode="append")          of real Spark: its plan says which sources it has
    Asked(report, ..., inputs, shifts, joins)       of the model: its trace has what was measured and decided

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minispark_stream.engine.state.operator_state_metadata import AGGREGATION_IN_REAL_TIME
from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.events import Event
from minispark_stream.tools.inspection.held import Held
from minispark_stream.tools.inspection.inputs import join_types
from minispark_stream.tools.inspection.report import CheckpointReport

Shifts = Mapping[tuple[int, int], int]  # (operator, side) -> ms
GONE = "is gone (a temporary one is deleted when its query ends)"
OUTER = {"LeftOuter": (0,), "RightOuter": (1,), "FullOuter": (0, 1)}  # the sides whose rows are emitted without a partner, too


def shifts(events: Iterable[Event]) -> Shifts:
    """By how many ms the watermark that evicts an operator's state, by side, is ahead of the query's; below 0 if behind it.

    Args:
        events: the trace. In a batch, the step queryPlanning has the query's watermark, and stateOperator has its decision.
    """
    found: dict[tuple[int, int], int] = {}
    now_ms = None
    for event in events:
        if event.step == "queryPlanning":
            now_ms = event.inputs.get("watermarkEviction")
        elif event.step == "stateOperator" and now_ms is not None:
            for side, ms in enumerate(event.inputs.get("decides", {}).get("leaves_ms", ())):
                if ms is not None:
                    found[event.inputs.get("operatorId") or 0, side] = ms - now_ms
    return found


def joins(events: Iterable[Event]) -> Mapping[int, str]:
    """The type of each join, by the number of its operator."""
    decided = ((e.inputs.get("operatorId"), e.inputs.get("decides", {}).get("join_type")) for e in events)
    return {number: str(kind) for number, kind in decided if number is not None and kind}


class Known(NamedTuple):
    """What a query tells of itself; None and empty values are not known.

    The fields are those of `engine.jvm.queries.SparkQuery`. `watermarks` is what each `withWatermark` has measured, by its id
    in the plan; `interval_ms` that of a processing-time trigger; `real_time_ms` how long a batch of real-time mode lasts; and
    `sink` the class of the sink.
    """

    checkpoint: str | None = None
    output_mode: str | None = None
    plan: str = ""
    source_names: tuple[str, ...] = ()
    watermarks: Mapping[str, int | None] = {}
    interval_ms: int = 0
    real_time_ms: int = 0
    sink: str = ""


@dataclass(frozen=True)
class Asked:
    """What is known about the query.

    `report` is what is in the checkpoint, None if there is none yet; `progress` are the newest reports of the run, the oldest
    first; `mode` is the output mode, which no checkpoint has; `error` is what ended the query. What the `withWatermark`
    operators measured (`inputs`: `node`, `delayMs`, `watermark`, `sources`), the `shifts` and the types of the `joins` are
    known if a trace was recorded. The `plan` is that of a query, as Spark prints it; it has inputs, joins and timers, too.
    `is_active` is None for a checkpoint or reports alone; `interval_ms` is that of the trigger for which the query waits;
    `real_time_ms` is how long a batch of a query in real-time mode lasts (0: not known, or another trigger), and `sink` the
    class of its sink; `no_report` says why there is no `report`.
    """

    report: CheckpointReport | None
    progress: Sequence[Mapping[str, Any]] = ()
    mode: str | None = None
    inputs: Sequence[Mapping[str, Any]] = ()
    shifts: Shifts = field(default_factory=dict)
    joins: Mapping[int, str] = field(default_factory=dict)
    plan: str = ""
    error: str | None = None
    is_active: bool | None = None
    interval_ms: int = 0
    real_time_ms: int = 0
    sink: str = ""
    no_report: str = GONE

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of the next batch: the greatest that the commits and the reports have."""
        batches = self.report.batches if self.report is not None else ()
        told = [iso_ms(p.get("eventTime", {}).get("watermark")) for p in self.progress]
        return max((ms for ms in [*(b.next_watermark_ms for b in batches), *told] if ms is not None), default=None)

    @property
    def last_times(self) -> Mapping[str, Any]:
        """The watermark and the event times of the last report; empty if the query has no watermark."""
        return self.progress[-1].get("eventTime", {}) if self.progress else {}

    @property
    def batch_ms(self) -> int | None:
        """The time of the newest batch."""
        batches = self.report.batches if self.report is not None else ()
        told = [iso_ms(p.get("timestamp")) for p in self.progress]
        return max((ms for ms in [*(b.timestamp_ms for b in batches), *told] if ms is not None), default=None)

    @property
    def is_real_time(self) -> bool:
        """Whether the query is known to run, or to have run, in real-time mode."""
        operators = [one.get("operatorName") for p in self.progress[-1:] for one in p.get("stateOperators", ())]
        if not self.progress and self.report is not None:
            operators += [one.name for one in self.report.operators]
        return self.real_time_ms > 0 or AGGREGATION_IN_REAL_TIME in operators

    @property
    def sources(self) -> Sequence[Any]:
        if self.progress:
            return self.progress[-1].get("sources", ())
        return self.report.sources if self.report is not None else ()

    def needed_ms(self, held: Held) -> float:
        """The watermark at which the first of what is held is evicted."""
        shift = self.shifts.get((held.operator.operator_id, held.side or 0), 0)
        return (held.until_ms or 0) - shift + held.is_timer  # a timer is due when the watermark is past it

    def goes_out(self, held: Held) -> bool | None:
        """Whether what is evicted from this state is emitted; None if this is not known."""
        if held.side is None:
            return True
        own = self.joins.get(held.operator.operator_id)
        types = {own} if own else join_types(self.plan)
        sides = {held.side in OUTER.get(kind, ()) for kind in types}
        return sides.pop() if len(sides) == 1 else None
