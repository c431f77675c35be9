"""What a step of a streaming query is, declared once.

Every phase that the source documents explain is one `Step` in `STEPS`: its name, the Spark class and method that
does it, the document section that explains it, and what goes in and what comes out. The engine's functions say which step
they are (lens/recording/recorded.py); the recorder, the flow diagram, the page of a trace and tests read this table.

A step that has happened is an `Event`: plain JSON values, frozen, in the order in which the steps *ended*.
`Event.depth` gives the nesting (a `latestOffset` happens inside `constructNextBatch`, which happens inside `trigger`).

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

    getStartOffset                            a continuous query, for each of its jobs
    runContinuous                             the job, until the query ends
    addOffset                                 offsets/N, when epoch N has been read
    commitEpoch                               commits/N, when it has been written
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_ROWS = 50  # how many rows of a batch, or of a state store, an event shows


@dataclass(frozen=True)
class Step:
    """One phase of the engine, as the documents name it.

    `name` is also Spark's key in `durationMs` where Spark reports that phase.
    `ins` and `outs` name the entries of `Event.inputs` and `Event.outputs`.
    """

    name: str
    spark: str
    document: str
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    says: str


STEPS: Mapping[str, Step] = {
    s.name: s
    for s in (
        Step("startQuery", "StreamingQueryManager.startQuery", "Execution flow; From query to the plan",
             ("name", "outputMode", "sink", "checkpoint"), ("id", "runId", "plan"),
             "create the sink, analyse the plan once, register the query and start its thread"),
        Step("populateStartOffsets", "MicroBatchExecution.populateStartOffsets", "Execution flow (1)",
             ("offsetLog", "commitLog"), ("batchId", "start", "end", "rerun", "watermark"),
             "compare the last entries of the offset log and the commit log: resume, re-run or begin"),
        Step("trigger", "MicroBatchExecution.executeOneBatch", "About Trigger",
             ("trigger",), ("ran", "message"),
             "the trigger has fired: decide whether there is a batch, and run it"),
        Step("constructNextBatch", "MicroBatchExecution.constructNextBatch", "Execution flow (2), (3)",
             ("start",), ("end", "newData", "anotherBatch", "run", "watermark"),
             "ask every source how far it could read; decide whether a batch runs at all"),
        Step("latestOffset", "SupportsAdmissionControl.latestOffset", "Source: latestOffset",
             ("source", "start", "limit"), ("end", "files", "listed", "left", "leftCount", "kept"),
             "the newest offset that this source may read up to under its read limit"),
        Step("walCommit", "OffsetSeqLog.add", "Execution flow (3)",
             ("file",), ("text",),
             "write down what the batch will read before it reads anything"),
        Step("commitSource", "Source.commit", "Source: commit",
             ("source", "end"), (),
             "batch N is in the log, so what batch N-1 read will never be asked for again"),
        Step("purge", "HDFSMetadataLog.purge", "State: maintenance",
             ("before",), ("deleted",),
             "delete log entries that no restart can need"),
        Step("runBatch", "MicroBatchExecution.runBatch", "Execution flow (4) to (10)",
             ("batchId", "start", "end"), (),
             "run one batch: steps (4) to (10) of the execution flow"),
        Step("getBatch", "Source.getBatch", "Execution flow (4)",
             ("source", "start", "end"), ("files", "rows"),
             "a plan for the new data; nothing is read yet"),
        Step("queryPlanning", "IncrementalExecution", "Execution flow (5) to (8)",
             ("watermarkLate", "watermarkEviction", "timestamp"), ("plan", "operators", "tree"),
             "put the new data into the template plan and plan one batch job"),
        Step("addBatch", "Sink.addBatch", "Execution flow (9)",
             ("sink", "batchId"), ("rows", "emitted", "numOutputRows", "arrivals", "written"),
             "hand the batch to the sink: only now does Spark read, compute and write"),
        Step("stateOperator", "StateStoreWriter", "About state",
             ("operatorId", "operator", "outputMode", "version", "stores", "watermarkLate", "watermarkEviction", "decides"),
             ("metrics", "before", "after", "rows", "pairs"),
             "read state version N, change it, write version N+1, and emit what the output mode asks for"),
        Step("updateWatermark", "WatermarkTracker.updateWatermark", "About watermark",
             ("policy", "watermark"), ("operators", "watermark"),
             "the newest event time seen minus the delay; it never goes back"),
        Step("commitOffsets", "CommitLog.add", "Execution flow (10)",
             ("file",), ("text",),
             "the batch is done: a restart will not run it again"),
        Step("finishTrigger", "ProgressReporter.finishTrigger", "Monitoring",
             (), ("progress",),
             "report what happened, as StreamingQueryProgress"),
        Step("getStartOffset", "ContinuousExecution.getStartOffsets", "Continuous processing",
             ("commitLog",), ("epoch", "start"),
             "begin after the last epoch that was committed; later offsets are deleted"),
        Step("runContinuous", "ContinuousExecution.runContinuous", "Continuous processing",
             (), (),
             "the one job of a continuous query: its tasks read, compute and write until the query ends"),
        Step("addOffset", "ContinuousExecution.addOffset", "Continuous processing",
             ("epoch", "file"), ("text",),
             "all readers have passed the end of an epoch: write down what was read"),
        Step("commitEpoch", "ContinuousExecution.commit", "Continuous processing",
             ("epoch", "end", "writers", "sink", "file"), (),
             "all writers have passed it, too: the sink commits, then the log"),
        Step("maintenance", "StateStore.doMaintenance", "State: maintenance",
             ("operatorId", "partition", "store"), ("snapshot", "deleted"),
             "in the background: merge deltas into a snapshot, delete files that no version needs"),
    )
}


@dataclass(frozen=True)
class Event:
    """One step that happened, in plain JSON values.

    `engine` is "model" or "spark"; `trigger` counts the triggers that ran something, from 0 (None: not known);
    `start_ms` is relative to the start of the query; `error` is the message when the step raised.
    """

    step: str
    engine: str
    trigger: int | None
    batch_id: int | None
    depth: int
    start_ms: float
    duration_ms: float
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Event:
        if value.get("step") not in STEPS:
            raise ValueError(f"not a trace event: unknown step {value.get('step')!r}; known steps: {', '.join(STEPS)}")
        return Event(**value)
