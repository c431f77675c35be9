"""What a restart runs first: a decision from the last entries of the two logs.

Models: the cases of MicroBatchExecution.populateStartOffsets (Execution flow, step 1).

O is the last batch of the offset log and C the last batch of the commit log (-1 if that is empty):

    no O         NEW           a new query: batch 0, from the beginning
    no O, but C  NO_OFFSETS    somebody has deleted the offsets: the query fails
    C = O        DONE          batch O is done: next is O + 1, which starts where O ended
    C = O - 1    UNFINISHED    batch O was planned, but may not be done: it runs again, exactly as it is logged
    C < O - 1    COMMITS_LOST  somebody has deleted commits: O runs again
    C > O        OFFSETS_LOST  somebody has deleted offsets: O runs again, and fails if its commit is still there

    offsets/ 0 1 2   commits/ 0 1     -> UNFINISHED, batch 2
    offsets/ 0 1 2   commits/ 0 1 2   -> DONE, batch 3

Three callers need this decision: the run of a query (engine/runtime/populate_start_offsets.py), the inspection of a checkpoint
(tools/inspection/logs.py), and the pictures of a trace (lens/view/logs_tapes.py, lens/view/world_changes.py).

Differs from Spark: nothing.
Shown by tests/unit/engine/runtime/test_populate_start_offsets.py::test_what_the_logs_decide.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class LogState(Enum):
    """How the last entries of the two logs relate to each other."""

    NEW = auto()
    NO_OFFSETS = auto()
    DONE = auto()
    UNFINISHED = auto()
    COMMITS_LOST = auto()
    OFFSETS_LOST = auto()


class Restart(NamedTuple):
    """The state of the logs, and the batch that runs first: a new one, or, if `again`, one that is in the offset log."""

    logs: LogState
    batch_id: int

    @property
    def again(self) -> bool:
        return self.logs in (LogState.UNFINISHED, LogState.COMMITS_LOST, LogState.OFFSETS_LOST)


def is_finished(last_offsets: int, last_commit: int | None) -> bool:
    """Whether the last batch of the offset log is done."""
    return last_commit == last_offsets


def decide(last_offsets: int | None, last_commit: int | None) -> Restart:
    """What a restart runs first, from the ids of the last entries (None if a log is empty)."""
    if last_offsets is None:
        return Restart(LogState.NEW if last_commit is None else LogState.NO_OFFSETS, 0)
    if is_finished(last_offsets, last_commit):
        return Restart(LogState.DONE, last_offsets + 1)
    committed = -1 if last_commit is None else last_commit
    if committed > last_offsets:
        return Restart(LogState.OFFSETS_LOST, last_offsets)
    return Restart(LogState.UNFINISHED if committed == last_offsets - 1 else LogState.COMMITS_LOST, last_offsets)
