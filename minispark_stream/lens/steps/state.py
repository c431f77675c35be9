"""The steps of the state: what a stateful operator does in a batch, and what maintenance does behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.lens.steps.logs import Deleted, deleted_words
from minispark_stream.lens.steps.step import Step
from minispark_stream.lens.trace.report import OperatorReport
from minispark_stream.lens.trace.rows import InMemory, RowOfState, ToldRow, Zip
from minispark_stream.lens.trace.values import at_least_0
from minispark_stream.lens.view.words import number, plain, plural, time_words, two_clocks

# -- stateOperator -------------------------------------------------------------------------------------------


class AggregateFunction(TypedDict, total=False):
    """An aggregate function, and how many buffers it has in a row of state."""

    name: str
    function: str
    buffers: int


class Decides(TypedDict, total=False):
    """The rules of an operator in a batch (`Decision` of engine/operators/explained.py)."""

    keeps: str | None
    late_ms: int | None
    leaves_ms: Sequence[int | None]
    lasts_ms: int | None
    emits: str | None
    limit: int | None
    join_type: str | None


class OperatorIns(TypedDict, total=False):
    """The operator, the version that it reads, its watermarks and its rules."""

    operatorId: int
    operator: str
    outputMode: str
    version: int
    stores: Sequence[str]
    functions: Sequence[AggregateFunction]
    watermarkLate: int | None
    watermarkEviction: int | None
    decides: Decides


class OperatorOuts(TypedDict, total=False):
    """What it did: in numbers, and with rows, what was and is in its state, and what its tasks told."""

    metrics: OperatorReport
    before: Sequence[RowOfState]
    between: Sequence[RowOfState]
    after: Sequence[RowOfState]
    rows: int
    told: Mapping[str, Sequence[ToldRow]] | None
    where: Sequence[InMemory]
    zips: Sequence[Zip]


def _changed(ins: OperatorIns, outs: OperatorOuts) -> str:
    metrics, version = outs.get("metrics", {}), ins.get("version", 0)
    counts = (
        f"{number(metrics.get('numRowsUpdated', 0))} updated, {number(metrics.get('numRowsRemoved', 0))} removed, "
        f"{number(metrics.get('numRowsDroppedByWatermark', 0))} dropped as late"
    )
    total = plural(metrics.get("numRowsTotal", 0), "row")
    done = f"version {version} read, version {version + 1} written: {counts}; {total} in the state"
    return f"{plain(ins.get('operator'))}: {done}{_bounds(ins.get('decides', {}))}"


def _bounds(decides: Decides) -> str:
    """Up to which time the rows of each side of a join are evicted."""
    leaves = map(at_least_0, decides.get("leaves_ms", ()) if decides.get("join_type") else ())
    known = {side: ms for side, ms in zip(SIDES, leaves) if ms}
    times = two_clocks(*known.values()) if len(known) == 2 else map(time_words, known.values())
    said = [f"{side} rows up to {time}" for side, time in zip(known, times)]
    return f"; {' and '.join(said)} are evicted" if said else ""


def _changed_briefly(ins: OperatorIns, outs: OperatorOuts) -> str:
    version, metrics = ins.get("version", 0), outs.get("metrics", {})
    counts = {
        "updated": metrics.get("numRowsUpdated"), "removed": metrics.get("numRowsRemoved"),
        "late": metrics.get("numRowsDroppedByWatermark"),
    }
    changes = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "unchanged"
    return f"v{version} → v{version + 1}: {changes}"


STATE_OPERATOR = Step(
    "stateOperator", "StateStoreWriter", "About state", within="addBatch", lights=("state",),
    says="read state version N, change it, write version N+1, and emit what the output mode asks for",
    why=(
        "It runs in the tasks of the job that addBatch starts. A version is never changed in place: if the batch fails now, "
        "the old version is still there, and the next try writes the new one again."
    ),
    ins=OperatorIns, outs=OperatorOuts,
    sentence=_changed,
    caption=_changed_briefly,
)


# -- maintenance ---------------------------------------------------------------------------------------------


class StoreIns(TypedDict, total=False):
    """A store of an operator in a partition."""

    operatorId: int
    partition: int
    store: str


class MaintenanceOuts(Deleted, total=False):
    """What was done for it, in which worker; `tables` are those of a zip."""

    snapshot: int | None
    bytes: int
    worker: str | None
    fromMemory: bool
    milliseconds: int
    tables: Mapping[str, Any]


def _maintained(ins: StoreIns, outs: MaintenanceOuts) -> str:
    store = f"operator {plain(ins.get('operatorId'))}, partition {plain(ins.get('partition'))}"
    snapshot = outs.get("snapshot")
    is_told = "worker" in outs  # else the trace is older than this
    source = "" if not is_told else " from memory" if outs.get("fromMemory") else " from the files"
    written = "no snapshot due" if snapshot is None else f"snapshot of version {snapshot} written{source}"
    deleted = [plain(f) for f in outs.get("deleted", ())]
    done = f"{store}: {written}, " + (f"deleted {', '.join(deleted)}" if deleted else "nothing deleted")
    return f"{done}, by the worker {plain(outs['worker'])}" if is_told else done


MAINTENANCE = Step(
    "maintenance", "StateStore.doMaintenance", "State: maintenance", lights=("state",),
    says="in the background: merge deltas into a snapshot, delete files that no version needs",
    why=(
        "To load a version means to read the newest snapshot and every delta after it; without new snapshots that would take "
        "longer with every batch."
    ),
    ins=StoreIns, outs=MaintenanceOuts,
    sentence=_maintained,
    caption=lambda ins, outs: (
        deleted_words(outs) if outs.get("snapshot") is None else f"snapshot of version {outs['snapshot']}"
    ),
)
