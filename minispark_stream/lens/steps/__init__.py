"""What the steps of a streaming query are: each phase that the source documents explain, declared once.

Everything about a step is in its `Step` (step.py): its name, the Spark class and method that does it, the section of the
documents, what it does and why it exists, what a trace has of it and of which types, its sentence and its caption. The steps
of a phase share a file, because they share words and the shapes of values: both logs have entries, and three steps deal with
the offsets of a source. A new step is a `Step`, in one of these files or in a new one, and a line of `STEPS`, which is in the
order of the page's list. The engine's functions say which step they are (engine/observer.py), and
tests/unit/lens/steps/test_steps.py says what a step lacks.

Three things are not here. What is read off the engine's objects needs the engine, and the page of a saved trace does not: it is
in lens/recording/recorded.py. What a learner sees change (lens/view/world_changes.py), and what is asked before a step
(lens/view/questions.py), follow something through all steps, and are read from top to bottom.

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

from minispark_stream.lens.steps import batch, continuous, logs, sources, state, triggers
from minispark_stream.lens.steps.step import Step

STEPS: Mapping[str, Step] = {
    step.name: step
    for step in (
        triggers.START_QUERY,
        triggers.POPULATE_START_OFFSETS,
        triggers.TRIGGER,
        sources.LATEST_OFFSET,
        triggers.CONSTRUCT_NEXT_BATCH,
        logs.WAL_COMMIT,
        sources.COMMIT_SOURCE,
        logs.PURGE,
        triggers.RUN_BATCH,
        sources.GET_BATCH,
        batch.QUERY_PLANNING,
        batch.ADD_BATCH,
        state.STATE_OPERATOR,
        batch.UPDATE_WATERMARK,
        logs.COMMIT_OFFSETS,
        triggers.FINISH_TRIGGER,
        continuous.GET_START_OFFSET,
        continuous.RUN_CONTINUOUS,
        continuous.ADD_OFFSET,
        continuous.COMMIT_EPOCH,
        state.MAINTENANCE,
    )
}


def inside(name: str) -> Iterator[str]:
    """The steps that are listed under a step, and those under them."""
    for step in STEPS.values():
        if step.within == name:
            yield step.name
            yield from inside(step.name)
