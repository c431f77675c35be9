"""What the events of a batch say, collected: which rows arrived, which watermarks it had, what the operators did.

The fates of the rows (fates.py), and the pictures and questions that are made from them, begin with these facts.

    batch 4   arrivals: 12:05 "a", 12:40 "f"     late 12:11, eviction 12:20, next 12:30     operator 0: stateStoreSave, append

A batch that failed has no facts: what it did is done again by the batch that runs after the restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.events import MAX_ARRIVALS
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.trace.report import OperatorReport, ProgressReport
from minispark_stream.lens.trace.rows import Arrival, RowOfState, ToldRow
from minispark_stream.lens.trace.values import at_least_0

# What the tasks tell about a row or a key, and about what is in the state (engine/operators/told.py).
LATE, KEPT, DUPLICATE, BEYOND, PASSED = "late", "kept", "duplicate", "beyond the limit", "passed"
TURNED_AWAY, OWN_WORDS = "turned away", "own words"  # by an operator of one's own, which says in its own words why
REMOVED, EMITTED, FIRED = "removed", "emitted", "fired"
MOST_TOLD = 1000  # a task that has so many rows or keys of a kind, or more, does not tell them
AGGREGATES = ("groups", "sessions")  # what operators keep for which Spark merges the rows of a key into one row


@dataclass(frozen=True)
class OperatorFacts:
    """A stateful operator in a batch, with its watermarks; `before` and `after` are its state rows.

    The operator has recorded its own rules (operators/explained.py): `keeps` is what it keeps of a row (None if the trace does
    not say it), `drops_ms` the time up to which rows are late, `leaves_ms` the time up to which state is evicted (by side;
    state ends `lasts_ms` after the time of its row), and `emits` what it emits. `told` is what its tasks decided, about which
    keys, rows or pairs (lens/recording/told.py); None if they did not tell.
    """

    operator_id: int
    operator: str
    mode: str
    late_ms: int | None
    eviction_ms: int | None
    keeps: str | None
    drops_ms: int | None
    leaves_ms: Sequence[int | None]
    lasts_ms: int | None
    emits: str | None
    limit: int | None
    join_type: str | None
    metrics: OperatorReport
    before: Sequence[RowOfState]
    after: Sequence[RowOfState]
    told: Mapping[str, Sequence[ToldRow]] | None = None

    def told_of(self, what: str) -> Sequence[ToldRow]:
        """The keys, rows or pairs about which the tasks told this."""
        return (self.told or {}).get(what, ())

    def leaves(self, side: int) -> int | None:
        """The time up to which the state of one side is evicted; None if it never is."""
        return self.leaves_ms[side] if side < len(self.leaves_ms) else None


@dataclass(frozen=True)
class BatchFacts:
    """A batch that ended well, with the `trigger` of its events. `number` counts these batches from 0.

    `arrivals` is None if rows were not recorded. `onward` says which operators the rows reached that an operator emitted.
    `offsets` are (start, end) by source. `late_ms` and `eviction_ms` are the watermarks that enter the plan in this batch,
    `next_ms` is the next one; 0 means that there is none yet. `clock_ms` is the batch's own time, at which timers in processing
    time fire. `above` has, for each stateful operator, the one above it. `is_real_time`: whether it is of real-time mode.
    """

    number: int
    trigger: int | None
    batch_id: int
    arrivals: Sequence[Arrival] | None
    onward: Sequence[Arrival]
    offsets: Mapping[str, tuple[Any, Any]]
    late_ms: int | None
    eviction_ms: int | None
    next_ms: int | None
    clock_ms: int | None
    operators: Mapping[int, OperatorFacts]
    above: Mapping[int, int]
    rows_out: Sequence[Any] | None
    progress: ProgressReport
    is_real_time: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is known that all rows that arrived were recorded, not only the first ones of a source."""
        return max(Counter(str(one.get("source")) for one in self.arrivals or ()).values(), default=0) < MAX_ARRIVALS

    @property
    def event_times(self) -> Mapping[str, int]:
        """"min", "avg" and "max" of the event times, as far as the progress report has them."""
        told = self.progress.get("eventTime", {})
        times = {name: iso_ms(told.get(name)) for name in ("min", "avg", "max")}
        return {name: ms for name, ms in times.items() if ms is not None}


def batch_facts(recording: Recording) -> tuple[BatchFacts, ...]:
    """The facts of every batch that ended well, in the order in which they ran."""
    finished = [batch for batch in recording.batches if batch.progress and batch.error is None]
    return tuple(_facts(number, batch) for number, batch in enumerate(finished))


def _facts(number: int, batch: Batch) -> BatchFacts:
    ins, outs = ({e.step: values(e) for e in batch.events} for values in (lambda e: e.inputs, lambda e: e.outputs))
    planning, added = ins.get("queryPlanning", {}), outs.get("addBatch", {})
    late_ms, eviction_ms = (at_least_0(planning.get(name)) for name in ("watermarkLate", "watermarkEviction"))
    operators = [_operator(e.inputs, e.outputs, late_ms, eviction_ms) for e in batch.events if e.step == "stateOperator"]
    return BatchFacts(
        number=number,
        trigger=batch.trigger,
        batch_id=batch.batch_id,
        arrivals=added.get("arrivals"),
        onward=added.get("onward") or (),
        offsets={
            str(e.inputs.get("source")): (e.inputs.get("start"), e.inputs.get("end"))
            for e in batch.events if e.step == "getBatch"
        },
        late_ms=late_ms,
        eviction_ms=eviction_ms,
        next_ms=at_least_0(outs.get("updateWatermark", {}).get("watermark")),
        clock_ms=planning.get("timestamp"),
        operators={operator.operator_id: operator for operator in operators},
        above=dict(_above(outs.get("queryPlanning", {}).get("tree"))),
        is_real_time=batch.is_real_time,
        rows_out=added.get("rows"),
        progress=batch.progress,
    )


def _above(tree: Mapping[str, Any] | None, parent: int | None = None) -> Iterator[tuple[int, int]]:
    """(operator, the one above it), from a plan as the step queryPlanning records it."""
    number = (tree or {}).get("operatorId")
    if number is not None and parent is not None:
        yield number, parent
    for child in (tree or {}).get("below", ()):
        yield from _above(child, parent if number is None else number)


def _operator(ins: Mapping[str, Any], outs: Mapping[str, Any], late_ms: int | None, eviction_ms: int | None) -> OperatorFacts:
    decides = ins.get("decides", {})
    own_late, own_eviction = at_least_0(ins.get("watermarkLate")), at_least_0(ins.get("watermarkEviction"))
    return OperatorFacts(
        operator_id=ins.get("operatorId", 0),
        operator=str(ins.get("operator")),
        mode=str(ins.get("outputMode")).lower(),
        late_ms=late_ms if own_late is None else own_late,
        eviction_ms=eviction_ms if own_eviction is None else own_eviction,
        keeps=decides.get("keeps"),
        drops_ms=at_least_0(decides.get("late_ms")),
        leaves_ms=tuple(map(at_least_0, decides.get("leaves_ms", ()))),
        lasts_ms=decides.get("lasts_ms"),
        emits=decides.get("emits"),
        limit=decides.get("limit"),
        join_type=decides.get("join_type"),
        metrics=outs.get("metrics", {}),
        before=outs.get("before", ()),
        after=outs.get("after", ()),
        told=outs.get("told"),
    )
