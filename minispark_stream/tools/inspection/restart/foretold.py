"""What a restart of the same query does: it is refused, it runs a batch again, or it begins a new one.

Models: a start up to the first commit: StreamExecution, MicroBatchExecution.populateStartOffsets, IncrementalExecution.

1. start() reads `metadata` (of_logs.py).
2. The sources are made: a source of files reads its whole log (of_sources.py).
3. The last entries of both logs are read, and engine/checkpointing/recovery.py decides which batch comes first.
4. The logged confs are set, and the sources are given their last offsets.
5. A new batch is written to the offset log. Metadata and schemas of the operators are read, and state is loaded (of_state.py).
6. After the sink has the rows, the batch is written to the commit log.

The first step that fails is the answer. It is told from what is on the disk alone, for a query that has not changed; its input,
brokers, the sink and the session are not looked at.

    offsets/ 0 1 2   commits/ 0 1 2   state/0/0/ 1.delta 2.delta      batch 3 next. It fails: version 3 of the state is missing

Differs from Spark: nothing in what it decides. The order of two failures may be another one.
Shown by tests/spark/test_restart_foretold.py::test_foretold_is_what_spark_does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minispark_stream.engine.checkpointing.recovery import LogState
from minispark_stream.engine.state.operator_state_metadata import AGGREGATION_IN_REAL_TIME
from minispark_stream.tools.inspection.contents import END, FIRST, NextBatch, Reasons, Refusal, SourceLog, Unknown
from minispark_stream.tools.inspection.logs import Logs
from minispark_stream.tools.inspection.operators import FoundOperators
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.restart.of_logs import is_continuous, may_be_real_time, of_logs, of_start
from minispark_stream.tools.inspection.restart.of_sources import of_logs_of_files, of_next_entry, of_offsets
from minispark_stream.tools.inspection.restart.of_state import NO_STATE, has_state, of_state

OF_A_CHECKPOINT = ("metadata", "offsets", "commits", "sources", "state")
TAKEN = "CONCURRENT_STREAM_LOG_UPDATE"


def foretell(files: ReadOnlyFiles, logs: Logs, sources: Sequence[SourceLog], state: FoundOperators) -> NextBatch:
    """What a restart of the same query does first."""
    with files.budget.lent():
        found = decision(files, logs, sources, state)
    can_start = found.refused is None and found.unknown is None and not is_continuous(logs)
    is_done = logs.restart.logs is LogState.DONE and may_be_real_time(logs)
    return replace(found, says=found.says + _written_again(state)) if can_start and is_done else found


def decision(files: ReadOnlyFiles, logs: Logs, sources: Sequence[SourceLog], state: FoundOperators) -> NextBatch:
    """The steps in their order; the first one that fails decides."""
    not_listed = next((Unknown(name, reason) for name, reason in files.not_listed.items()
                       if name.split("/")[0] in OF_A_CHECKPOINT), None)
    before = not_listed or _decisive([
        *of_start(files, logs),  # (1)
        *of_logs_of_files(files, sources),  # (2)
        *of_logs(files, logs),  # (3)
    ])
    if before is None and logs.offsets and not is_continuous(logs):
        before = _decisive(of_offsets(logs, sources))  # (4)
    if isinstance(before, Refusal):
        return NextBatch(None, False, f"no batch: a restart fails {before.when}, because of {before}", refused=before)
    if before is not None:
        return NextBatch(None, False, f"cannot be told: {before}", unknown=before)
    if is_continuous(logs):
        return _continuous(logs)
    batch_id, again = logs.restart.batch_id, logs.restart.again
    says = _words(logs, files)
    begins = () if again else _begins(files, sources, batch_id)
    reason = _decisive([*begins, *of_state(files, logs, state, batch_id), *_ends(files, batch_id)])
    if isinstance(reason, Refusal):
        return NextBatch(batch_id, again, f"{says}. It fails {reason.when}: {reason}", refused=reason)
    if reason is not None:
        return NextBatch(batch_id, again, f"{says}. Whether it fails cannot be told: {reason}", unknown=reason)
    return NextBatch(batch_id, again, says)


def _decisive(reasons: Reasons | Sequence[Refusal | Unknown]) -> Refusal | Unknown | None:
    """The first refusal; if there is none, the first thing that is not known."""
    every = list(reasons)
    return next((one for one in every if isinstance(one, Refusal)), every[0] if every else None)


def _begins(files: ReadOnlyFiles, sources: Sequence[SourceLog], batch_id: int) -> Reasons:  # (5)
    if f"offsets/{batch_id}" in files.folders:
        yield Refusal(FIRST, f"offsets/{batch_id}", "it is a folder in the place of the next entry", TAKEN)
    yield from of_next_entry(files, sources)


def _ends(files: ReadOnlyFiles, batch_id: int) -> Reasons:  # (6)
    if "commits" in files.files:
        yield Refusal(END, "commits", "it is a file", message="parent is not a dir")
    elif f"commits/{batch_id}" in files.folders or f"commits/{batch_id}" in files.files:
        yield Refusal(END, f"commits/{batch_id}", "it exists already, so the batch cannot be committed", TAKEN)


def _words(logs: Logs, files: ReadOnlyFiles) -> str:
    restart = logs.restart
    no_state = "" if has_state(files) else (
        f". There is no state/, which is right for a query without stateful operators; any other one is refused: [{NO_STATE}]"
    )
    if restart.logs is LogState.NEW:
        return "batch 0 next: nothing was planned yet"
    last = max(logs.offsets)
    if restart.logs is LogState.DONE:
        says = f"batch {last + 1} next, a new one: batch {last} is in both logs, so it is done. "
        return f"{says}It begins where offsets/{last} ends{no_state}"
    says = f"batch {last} next, again: offsets/{last} says what it reads"
    if last not in logs.commits:
        says += f", but commits/{last} is missing, so it did not finish"
    if not logs.commits and restart.logs is LogState.COMMITS_LOST:
        says += f". commits/ is empty, although batch {last - 1} must have been committed before batch {last} was planned"
    elif restart.logs is not LogState.UNFINISHED:
        newest = max(logs.commits)
        says += f". The last entry of commits/ is {newest}, although it should be {last - 1} or {last}: the logs disagree"
    elif may_be_real_time(logs):
        says += f". With a real-time trigger, offsets/{last} is deleted, and batch {last} begins anew, perhaps with more rows"
    return says + (no_state if last > 0 else "")


def _written_again(state: FoundOperators) -> str:
    """What real-time mode may have written of a batch that is in no log."""
    known = any(operator.name == AGGREGATION_IN_REAL_TIME for operator in state.operators)
    ran, so = ("It ran", "so ") if known else ("If it ran", "")
    once = ", and its state has each row once" if state.operators else ""
    return (
        f". {ran} in real-time mode, which logs a batch when it ends, {so}rows after that may have been written already: with "
        f"any trigger, they are read and written again{once}"
    )


def _continuous(logs: Logs) -> NextBatch:
    """A query with a continuous trigger goes on after the last epoch that was committed."""
    committed = max(logs.commits, default=-1)
    if committed >= 0 and logs.offsets.get(committed) is None:
        message, says = "was committed without end epoch offsets", "it is missing, although the epoch was committed"
        refused = Refusal(FIRST, f"offsets/{committed}", says, message=message)
        return NextBatch(None, False, f"no batch: a restart fails {FIRST}, because of {refused}", refused=refused)
    begins = f"where offsets/{committed} ends" if committed >= 0 else "at the beginning"
    return NextBatch(
        committed + 1, committed + 1 in logs.offsets,
        f"epoch {committed + 1} next: it begins {begins}. It was run with a continuous trigger, and a query in micro-batches "
        "cannot continue from it",
    )
