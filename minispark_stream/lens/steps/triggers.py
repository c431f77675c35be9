"""The steps of a query and of its triggers: what begins and ends around a batch.

    startQuery, populateStartOffsets             once
    trigger, constructNextBatch, finishTrigger   once for each batch
    runBatch                                     steps (4) to (10)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from minispark_stream.lens.steps.step import LoggedOffset, Step
from minispark_stream.lens.trace.report import ProgressReport
from minispark_stream.lens.view.words import plain, plural, short

BySource = Mapping[str, LoggedOffset]


# -- startQuery ----------------------------------------------------------------------------------------------


class _StartQueryIns(TypedDict, total=False):
    name: str | None
    outputMode: str
    sink: str
    checkpoint: str | None


class _StartQueryOuts(TypedDict, total=False):
    id: str
    runId: str
    plan: str | None


def _started(ins: _StartQueryIns, outs: _StartQueryOuts) -> str:
    name = f'query "{plain(ins["name"])}"' if ins.get("name") else "a query without a name"
    return f"{name} starts: output mode {plain(ins.get('outputMode'))}, sink {short(plain(ins.get('sink')))}"


START_QUERY = Step(
    "startQuery", "StreamingQueryManager.startQuery", "Execution flow; From query to the plan", frame=True,
    says="create the sink, analyse the plan once, register the query and start its thread",
    why=(
        "The plan is analysed once: every batch runs the same query, and a query that cannot be computed batch by batch is "
        "refused here, before any data is read."
    ),
    ins=_StartQueryIns, outs=_StartQueryOuts,
    sentence=_started,
    caption=lambda ins, outs: f"output mode {plain(ins.get('outputMode'))}",
)


# -- populateStartOffsets ------------------------------------------------------------------------------------


class _PopulateIns(TypedDict, total=False):
    offsetLog: int | None
    commitLog: int | None


class _PopulateOuts(TypedDict, total=False):
    batchId: int
    start: BySource | None
    end: BySource | None
    rerun: bool
    watermark: int | None


def _resumed(ins: _PopulateIns, outs: _PopulateOuts) -> str:
    logged, committed, batch = ins.get("offsetLog"), ins.get("commitLog"), plain(outs.get("batchId"))
    if "offsetLog" not in ins:
        return f"run batch {batch} again, with the offsets in the log" if outs.get("rerun") else f"begin with batch {batch}"
    if logged is None:
        return "the offset log is empty: a new query, begin with batch 0"
    ends = f"the offset log ends at batch {logged}, the commit log "
    ends += "is empty" if committed is None else f"at {committed}"
    if outs.get("rerun"):
        return f"{ends}: batch {batch} was planned but not finished, run it again with the offsets in the log"
    return f"{ends}: batch {logged} is done, continue with batch {batch}"


def _resumed_briefly(ins: _PopulateIns, outs: _PopulateOuts) -> str:
    if "offsetLog" not in ins:
        return ""
    if ins["offsetLog"] is None:
        return "new query"
    return f"batch {plain(outs.get('batchId'))}{' again' if outs.get('rerun') else ' is next'}"


POPULATE_START_OFFSETS = Step(
    "populateStartOffsets", "MicroBatchExecution.populateStartOffsets", "Execution flow (1)", lights=("logs",),
    says="compare the last entries of the offset log and the commit log: resume, re-run or begin",
    why=(
        "Once, before the first trigger. Memory is gone after a crash; these two logs are what is left. A batch that is in the "
        "offset log but not in the commit log may be half written: it runs again, with the same offsets."
    ),
    ins=_PopulateIns, outs=_PopulateOuts,
    sentence=_resumed,
    caption=_resumed_briefly,
)


# -- trigger -------------------------------------------------------------------------------------------------


class _TriggerIns(TypedDict, total=False):
    trigger: str


class _TriggerOuts(TypedDict, total=False):
    ran: bool
    message: str


TRIGGER = Step(
    "trigger", "MicroBatchExecution.executeOneBatch", "About Trigger", frame=True,
    says="the trigger has fired: decide whether there is a batch, and run it",
    why="A stream has no end, so something has to decide when the data that has arrived makes a batch.",
    ins=_TriggerIns, outs=_TriggerOuts,
    sentence=lambda ins, outs: ": ".join(
        filter(None, (plain(ins.get("trigger", "")), plain(outs.get("message", "")).lower()))
    ) or "a trigger",
    caption=lambda ins, outs: plain(ins.get("trigger", "")).replace("Trigger", ""),
)


# -- constructNextBatch --------------------------------------------------------------------------------------


class _ConstructIns(TypedDict, total=False):
    start: BySource | None


class _ConstructOuts(TypedDict, total=False):
    end: BySource | None
    newData: bool
    anotherBatch: bool
    run: bool
    watermark: int | None
    realTime: bool


def _decided(ins: _ConstructIns, outs: _ConstructOuts) -> str:
    if outs.get("realTime"):
        return "real-time mode: there is always a batch, and how far it reads is known and logged when it ends"
    if outs.get("newData"):
        return "there is new data: run a batch"
    if outs.get("anotherBatch"):
        return (
            "no new data, but a stateful operator has work, because the watermark has moved or it has timers in processing "
            "time: run a batch without data, to emit and evict the state that is finished now"
        )
    return "no new data: wait"


def _decided_briefly(ins: _ConstructIns, outs: _ConstructOuts) -> str:
    if outs.get("newData"):
        return "new data"
    return "work without data" if outs.get("run") else "nothing new"


CONSTRUCT_NEXT_BATCH = Step(
    "constructNextBatch", "MicroBatchExecution.constructNextBatch", "Execution flow (2), (3)", within="trigger",
    lights=("sources", "watermark"),
    says="ask every source how far it could read; decide whether a batch runs at all",
    why=(
        "Even an empty batch costs a Spark job. So there is one only for new data, or when a stateful operator has "
        "work without any: most often, the watermark has moved, and finished state waits to be emitted."
    ),
    ins=_ConstructIns, outs=_ConstructOuts,
    sentence=_decided,
    caption=_decided_briefly,
)


# -- runBatch ------------------------------------------------------------------------------------------------


class _RunIns(TypedDict, total=False):
    batchId: int
    start: BySource | None
    end: BySource | None


RUN_BATCH = Step(
    "runBatch", "MicroBatchExecution.runBatch", "Execution flow (4) to (10)", within="trigger", frame=True,
    says="run one batch: steps (4) to (10) of the execution flow",
    why="From here on everything can be repeated: two offsets fix what is read, and state and output carry the batch id.",
    ins=_RunIns,
    sentence=lambda ins, outs: f"batch {plain(ins.get('batchId'))} begins",
    caption=lambda ins, outs: f"batch {plain(ins.get('batchId'))}",
)


# -- finishTrigger -------------------------------------------------------------------------------------------


class _FinishOuts(TypedDict, total=False):
    progress: ProgressReport


FINISH_TRIGGER = Step(
    "finishTrigger", "ProgressContext.finishTrigger", "Monitoring", within="trigger",
    says="report what happened, as StreamingQueryProgress",
    why="This is what lastProgress and the listeners show: the same numbers that Spark reports.",
    outs=_FinishOuts,
    sentence=lambda ins, outs: (
        f"batch {plain(outs.get('progress', {}).get('batchId'))}: {_rows_in(outs)}"
    ),
    caption=lambda ins, outs: _rows_in(outs),
)


def _rows_in(outs: _FinishOuts) -> str:
    return f"{plural(outs.get('progress', {}).get('numInputRows'), 'row')} in"
