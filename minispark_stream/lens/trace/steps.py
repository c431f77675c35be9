"""What a step of a streaming query is, declared once.

Every phase that the source documents explain is one `Step` in `STEPS`, in the order of the page's list: its name, the Spark
class and method that does it, the document section that explains it, what goes in and what comes out, what it does, and why
the step exists at all. The list, the flow diagram and the panels of a page are made from this table. Only what needs the
values of a run is elsewhere, under the name of the step: what is recorded (lens/recording/recorded.py), its sentence
(lens/view/sentences.py), its caption (lens/view/captions.py) and what it changes on the page (lens/view/world_changes.py).
tests/unit/lens/trace/test_steps.py says what a new step still needs. The engine's functions say which step they are
(engine/observer.py).

How the steps nest while they run:

    startQuery                                the user's call of start()
    populateStartOffsets                      once, before the first trigger
    trigger                                   the trigger has fired: at most one batch
    ├─ constructNextBatch
    │  ├─ latestOffset                        once per source
    │  └─ walCommit                           offsets/N
    │     ├─ commitSource                     what batch N-1 read may be discarded
    │     └─ purge                            old log entries
    ├─ runBatch
    │  ├─ getBatch                            once per source with new data
    │  ├─ queryPlanning                       template plan + new data -> one batch plan
    │  ├─ addBatch                            the step in which Spark computes the batch
    │  │  └─ stateOperator                    once per stateful operator: restore, merge, save, evict, emit
    │  ├─ updateWatermark
    │  └─ commitOffsets                       commits/N
    └─ finishTrigger                          the progress report
    maintenance                               on a thread of its own

    getStartOffset                            in a continuous query, before each of its jobs
    runContinuous                             the job, until the query ends
    addOffset                                 offsets/N, when epoch N has been read
    commitEpoch                               commits/N, when it has been written
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One phase of the engine, as the documents name it.

    name: also Spark's key in `durationMs` where Spark reports that phase.
    ins, outs: the entries of `Event.inputs` and `Event.outputs`.
    says, why: what the step does; what would go wrong without it.
    lights: the panels of the page that are highlighted while the step is shown.
    within: the step under which the page lists it.
    frame: whether it does nothing by itself, so that any error in it is one of a step inside.
    continuous: whether only a continuous query has it.
    """

    name: str
    spark: str
    document: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    says: str
    why: str
    lights: tuple[str, ...] = ()
    within: str | None = None
    frame: bool = False
    continuous: bool = False


STEPS: Mapping[str, Step] = {
    step.name: step
    for step in (
        Step(
            "startQuery", "StreamingQueryManager.startQuery", "Execution flow; From query to the plan", frame=True,
            ins=("name", "outputMode", "sink", "checkpoint"), outs=("id", "runId", "plan"),
            says="create the sink, analyse the plan once, register the query and start its thread",
            why=(
                "The plan is analysed once: every batch runs the same query, and a query that cannot be computed "
                "batch by batch is refused here, before any data is read."
            ),
        ),
        Step(
            "populateStartOffsets", "MicroBatchExecution.populateStartOffsets", "Execution flow (1)",
            ins=("offsetLog", "commitLog"), outs=("batchId", "start", "end", "rerun", "watermark"),
            lights=("logs",),
            says="compare the last entries of the offset log and the commit log: resume, re-run or begin",
            why=(
                "Once, before the first trigger. Memory is gone after a crash; these two logs are what is left. A "
                "batch that is in the offset log but not in the commit log may be half written: it runs again, with "
                "the same offsets."
            ),
        ),
        Step(
            "trigger", "MicroBatchExecution.executeOneBatch", "About Trigger", frame=True,
            ins=("trigger",), outs=("ran", "message"),
            says="the trigger has fired: decide whether there is a batch, and run it",
            why="A stream has no end, so something has to decide when the data that has arrived makes a batch.",
        ),
        Step(
            "latestOffset", "SupportsAdmissionControl.latestOffset", "Source: latestOffset", within="trigger",
            ins=("source", "start", "limit"), outs=("end", "files", "listed", "left", "leftCount", "kept"),
            lights=("sources",),
            says="the newest offset that this source may read up to under its read limit",
            why="The batch needs a fixed end. What arrives from now on waits for the next batch.",
        ),
        Step(
            "constructNextBatch", "MicroBatchExecution.constructNextBatch", "Execution flow (2), (3)", within="trigger",
            ins=("start",), outs=("end", "newData", "anotherBatch", "run", "watermark"),
            lights=("sources", "watermark"),
            says="ask every source how far it could read; decide whether a batch runs at all",
            why=(
                "Even an empty batch costs a Spark job. So there is one only for new data, or when a stateful operator has "
                "work without any: most often, the watermark has moved, and finished state waits to be emitted."
            ),
        ),
        Step(
            "walCommit", "OffsetSeqLog.add", "Execution flow (3)", within="trigger", frame=True,
            ins=("file",), outs=("text",),
            lights=("logs",),
            says="write down what the batch will read before it reads anything",
            why=(
                "Written before anything is read: after a crash, exactly this batch can be run again. That is the "
                "first half of exactly-once (a repeatable source and a sink that knows the batch id are the other)."
            ),
        ),
        Step(
            "commitSource", "Source.commit", "Source: commit", within="trigger",
            ins=("source", "end"), outs=(),
            lights=("sources",),
            says="batch N is in the log, so what batch N-1 read will never be asked for again",
            why="This batch is in the log, so no restart can ask for the data of the batch before: the source may forget it.",
        ),
        Step(
            "purge", "HDFSMetadataLog.purge", "State: maintenance", within="trigger",
            ins=("before",), outs=("deleted",),
            lights=("logs",),
            says="delete log entries that no restart can need",
            why="A restart needs only the newest entries; the logs of a query that runs for years must not grow for ever.",
        ),
        Step(
            "runBatch", "MicroBatchExecution.runBatch", "Execution flow (4) to (10)", within="trigger", frame=True,
            ins=("batchId", "start", "end"), outs=(),
            says="run one batch: steps (4) to (10) of the execution flow",
            why=(
                "From here on everything can be repeated: two offsets fix what is read, and state and output carry "
                "the batch id."
            ),
        ),
        Step(
            "getBatch", "Source.getBatch", "Execution flow (4)", within="runBatch",
            ins=("source", "start", "end"), outs=("files", "rows"),
            lights=("sources", "rows-in"),
            says="a plan for the new data; nothing is read yet",
            why=(
                "Spark is lazy: this only describes the data after the start offset up to the end offset. The files "
                "are read when the sink asks for rows."
            ),
        ),
        Step(
            "queryPlanning", "IncrementalExecution", "Execution flow (5) to (8)", within="runBatch",
            ins=("watermarkLate", "watermarkEviction", "timestamp"), outs=("plan", "operators", "tree"),
            lights=("watermark",),
            says="put the new data into the template plan and plan one batch job",
            why=(
                "Every batch plans the same query over other data. Late rows are judged by the watermark of the batch "
                "before and state by that of this batch, so that what one operator emits is not late for the next."
            ),
        ),
        Step(
            "addBatch", "Sink.addBatch", "Execution flow (9)", within="runBatch",
            ins=("sink", "batchId"),
            outs=("rows", "emitted", "numOutputRows", "arrivals", "onward", "read", "written", "tasks"),
            lights=("rows-in", "rows-out"),
            says="hand the batch to the sink: only now does Spark read, compute and write",
            why=(
                "Spark is lazy, and only this call starts a job. Reading, computing, the state operators and writing "
                "all happen inside it. A sink that asks for the rows twice computes them twice."
            ),
        ),
        Step(
            "stateOperator", "StateStoreWriter", "About state", within="addBatch",
            ins=(
                "operatorId", "operator", "outputMode", "version", "stores", "functions", "watermarkLate", "watermarkEviction",
                "decides",
            ),
            outs=("metrics", "before", "between", "after", "rows", "told", "where", "zips"),
            lights=("state",),
            says="read state version N, change it, write version N+1, and emit what the output mode asks for",
            why=(
                "It runs in the tasks of the job that addBatch starts. A version is never changed in place: if the "
                "batch fails now, the old version is still there, and the next try writes the new one again."
            ),
        ),
        Step(
            "updateWatermark", "WatermarkTracker.updateWatermark", "About watermark", within="runBatch",
            ins=("policy", "watermark"), outs=("operators", "watermark"),
            lights=("watermark",),
            says="the newest event time seen minus the delay; it never goes back",
            why=(
                "The watermark moves only between batches, so that all tasks of a batch agree on it. That is why a "
                "window is emitted one batch after the row that closed it."
            ),
        ),
        Step(
            "commitOffsets", "CommitLog.add", "Execution flow (10)", within="runBatch",
            ins=("file",), outs=("text",),
            lights=("logs",),
            says="the batch is done: a restart will not run it again",
            why="With this entry the batch is over; without it, a restart runs the batch again.",
        ),
        Step(
            "finishTrigger", "ProgressContext.finishTrigger", "Monitoring", within="trigger",
            ins=(), outs=("progress",),
            says="report what happened, as StreamingQueryProgress",
            why="This is what lastProgress and the listeners show: the same numbers that Spark reports.",
        ),
        Step(
            "getStartOffset", "ContinuousExecution.getStartOffsets", "Continuous processing", continuous=True,
            ins=("commitLog",), outs=("epoch", "start"),
            lights=("logs", "sources"),
            says="begin after the last epoch that was committed; later offsets are deleted",
            why=(
                "The commit log alone counts here: an offset that was written without a commit says what was read, "
                "but not that it was written."
            ),
        ),
        Step(
            "runContinuous", "ContinuousExecution.runContinuous", "Continuous processing", continuous=True,
            ins=(), outs=(),
            says="the one job of a continuous query: its tasks read, compute and write until the query ends",
            why=(
                "To start a job takes longer than to process a row. So there is one job for all rows, and each row "
                "goes through it by itself as soon as it arrives."
            ),
        ),
        Step(
            "addOffset", "ContinuousExecution.addOffset", "Continuous processing", within="runContinuous", continuous=True,
            ins=("epoch", "file"), outs=("text",),
            lights=("logs",),
            says="all readers have passed the end of an epoch: write down what was read",
            why=(
                "Nobody knows beforehand how many rows an epoch will have. So its end is written down when the "
                "readers have passed it, and it cannot be run again as a batch can."
            ),
        ),
        Step(
            "commitEpoch", "ContinuousExecution.commit", "Continuous processing", within="runContinuous", continuous=True,
            ins=("epoch", "end", "writers", "sink", "file"), outs=(),
            lights=("logs",),
            says="all writers have passed it, too: the sink commits, then the log",
            why=(
                "Rows of an epoch that is not committed are read again after a crash, and some of them are then "
                "written twice: at least once."
            ),
        ),
        Step(
            "maintenance", "StateStore.doMaintenance", "State: maintenance",
            ins=("operatorId", "partition", "store"),
            outs=("snapshot", "deleted", "bytes", "worker", "fromMemory", "milliseconds", "tables"), lights=("state",),
            says="in the background: merge deltas into a snapshot, delete files that no version needs",
            why=(
                "To load a version means to read the newest snapshot and every delta after it; without new snapshots "
                "that would take longer with every batch."
            ),
        ),
    )
}


def inside(name: str) -> Iterator[str]:
    """The steps that are listed under a step, and those under them."""
    for step in STEPS.values():
        if step.within == name:
            yield step.name
            yield from inside(step.name)
