"""The steps in which a batch is planned and computed, and in which its watermark moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from minispark_stream.lens.steps.step import Step
from minispark_stream.lens.trace.measured import Measured, MeasuredNode, measured
from minispark_stream.lens.trace.rows import Arrival, Row, Tasks
from minispark_stream.lens.trace.values import at_least_0
from minispark_stream.lens.view.words import delay_words, plain, plural, short, short_clock, time_words, two_clocks

# What the watermarks of a batch mean, here and in the panel of the watermarks (view/panels.py).
LATE_MEANS = "rows up to then, or in windows that end by then, may be dropped"
EVICTION_MEANS = "state that ends by then may be evicted"
WITHOUT_WATERMARK = "event time makes no row late, and evicts no state"
NO_EVENT_TIME = "no event time that gives a watermark"


# -- queryPlanning -------------------------------------------------------------------------------------------


class _PlanningIns(TypedDict, total=False):
    watermarkLate: int | None
    watermarkEviction: int | None
    timestamp: int | None


class PlanOperator(TypedDict, total=False):
    """A stateful operator of a plan."""

    operatorId: int
    operator: str


class PlanTree(PlanOperator, total=False):
    """A plan from the sink down, as far as watermarks go: a source, a `withWatermark`, an operator that promises `output`."""

    source: str
    watermark: str
    delayMs: int
    output: int | None
    below: Sequence[PlanTree]


class _PlanningOuts(TypedDict, total=False):
    plan: str | None
    operators: Sequence[PlanOperator]
    tree: PlanTree | None


def _planned(ins: _PlanningIns, outs: _PlanningOuts) -> str:
    eviction = ins.get("watermarkEviction")
    if eviction is None:
        return "the new data is in the template plan; no state in this query"
    if not eviction:
        return f"no watermark: {WITHOUT_WATERMARK}"
    late = at_least_0(ins.get("watermarkLate"))
    dropped = f"late watermark {time_words(late)}: {LATE_MEANS}" if late else "no late watermark yet"
    return f"{dropped}; eviction watermark {time_words(eviction)}: {EVICTION_MEANS}{_of_their_own(outs)}"


def _of_their_own(outs: _PlanningOuts) -> str:
    """Why operators may have other bounds than the query."""
    names = [one.get("operator") for one in outs.get("operators", ())]
    if "symmetricHashJoin" in names:
        return ", but each side of a join has a bound of its own"
    return ", as far as the operators below let the watermark through" if len(names) > 1 else ""


def _planned_briefly(ins: _PlanningIns, outs: _PlanningOuts) -> str:
    eviction = ins.get("watermarkEviction")
    if not eviction:
        return "no state" if eviction is None else "no watermark"
    late = f"late {short_clock(ins.get('watermarkLate'))}" if ins.get("watermarkLate") else "none late"
    return f"{late}, evict {short_clock(eviction)}"


QUERY_PLANNING = Step(
    "queryPlanning", "IncrementalExecution", "Execution flow (5) to (8)", within="runBatch", lights=("watermark",),
    says="put the new data into the template plan and plan one batch job",
    why=(
        "Every batch plans the same query over other data. Late rows are judged by the watermark of the batch before and state "
        "by that of this batch, so that what one operator emits is not late for the next."
    ),
    ins=_PlanningIns, outs=_PlanningOuts,
    sentence=_planned,
    caption=_planned_briefly,
)


# -- addBatch ------------------------------------------------------------------------------------------------


class _AddIns(TypedDict, total=False):
    sink: str
    batchId: int


class ManifestFile(TypedDict, total=False):
    """The entry of a file sink's manifest; `skipped`: an earlier run had already written it."""

    file: str
    added: Sequence[str]
    skipped: bool


class _AddOuts(TypedDict, total=False):
    numOutputRows: int | None
    rows: Sequence[Row] | None
    emitted: int | None
    arrivals: Sequence[Arrival] | None
    onward: Sequence[Arrival] | None
    read: Mapping[str, Sequence[Row]]
    written: ManifestFile | None
    tasks: Tasks


def _out_rows(outs: _AddOuts) -> str:
    """`3 rows out`, or nothing if the trace does not say."""
    emitted, rows = outs.get("emitted"), outs.get("rows")
    if emitted is None:
        emitted = outs.get("numOutputRows") if rows is None else len(rows)
    return f"{plural(emitted, 'row')} out" if emitted is not None and emitted >= 0 else ""


def _added(ins: _AddIns, outs: _AddOuts) -> str:
    batch, sink = f"batch {plain(ins.get('batchId'))}", short(plain(ins.get("sink")))
    if not outs:
        return f"{batch} is handed to {sink}, which asks for its rows"
    return ": ".join(filter(None, [f"{batch} is computed, and {sink} has it", _out_rows(outs)]))


ADD_BATCH = Step(
    "addBatch", "Sink.addBatch", "Execution flow (9)", within="runBatch", lights=("rows-in", "rows-out"),
    says="hand the batch to the sink: only now does Spark read, compute and write",
    why=(
        "Spark is lazy, and only this call starts a job. Reading, computing, the state operators and writing all happen inside "
        "it. A sink that asks for the rows twice computes them twice."
    ),
    ins=_AddIns, outs=_AddOuts,
    sentence=_added,
    caption=lambda ins, outs: _out_rows(outs),
)


# -- updateWatermark -----------------------------------------------------------------------------------------


class _UpdateIns(TypedDict, total=False):
    policy: str
    watermark: int | None


class _UpdateOuts(TypedDict, total=False):
    watermark: int | None
    operators: Sequence[MeasuredNode]


def _moved(ins: _UpdateIns, outs: _UpdateOuts) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    nodes = measured(outs)
    if not nodes and "operators" in outs:
        return "no watermark in this query"
    seen = [one for one in nodes if one.newest_ms is not None]
    sums = "; ".join(map(_reached, seen)) + "; " if seen else ""
    if nodes and not seen:
        sums = "no row with an event time in this batch; "
    if len(nodes) > 1:
        sums += f"the {plain(ins.get('policy'))}imum of all operators counts; "
    if before == after:
        return f"{sums}" + (f"the watermark stays at {time_words(after)}" if after else "there is no watermark")
    if not before:
        return f"{sums}the first watermark is {time_words(after)}"
    return f"{sums}the watermark goes from {' to '.join(two_clocks(before, after))}"


def _reached(one: Measured) -> str:
    if one.reached_ms is None:
        return NO_EVENT_TIME
    newest, reached = two_clocks(one.newest_ms, one.reached_ms)
    return f"{newest} - {delay_words(one.delay_ms)} = {reached}"


def _moved_briefly(ins: _UpdateIns, outs: _UpdateOuts) -> str:
    before, after = ins.get("watermark"), outs.get("watermark")
    if not after:
        return ""
    if before == after:
        return f"stays {short_clock(after)}"
    return f"{short_clock(before)} → {short_clock(after)}" if before else f"first: {short_clock(after)}"


UPDATE_WATERMARK = Step(
    "updateWatermark", "WatermarkTracker.updateWatermark", "About watermark", within="runBatch", lights=("watermark",),
    says="the newest event time seen minus the delay; it never goes back",
    why=(
        "The watermark moves only between batches, so that all tasks of a batch agree on it. That is why a window is emitted "
        "one batch after the row that closed it."
    ),
    ins=_UpdateIns, outs=_UpdateOuts,
    sentence=_moved,
    caption=_moved_briefly,
)
