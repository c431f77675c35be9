"""The steps that write and clean up the two logs: one entry before a batch, one after it.

    offsets/4    {"batchWatermarkMs":...}, {"logOffset":4}     walCommit: batch 4 will read this
    commits/4    {"nextBatchWatermarkMs":...}                  commitOffsets: batch 4 is done

With asynchronous progress tracking, not every batch has an entry in the files of the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict

from minispark_stream.lens.steps.step import Step
from minispark_stream.lens.trace.values import entry_metadata
from minispark_stream.lens.view.words import offset_words, plain, plural, time_words


class FileIns(TypedDict, total=False):
    """The file of an entry."""

    file: str


class EntryOuts(TypedDict, total=False):
    """The text of an entry, and whether it was not written into a file."""

    text: str | None
    inMemory: bool


class Deleted(TypedDict, total=False):
    """Files or entries that were deleted."""

    deleted: Sequence[Any]


def _written(ins: FileIns, outs: EntryOuts) -> str:
    return f"{file_of(ins, outs)} {'kept in memory only' if outs.get('inMemory') else 'written'}"


def file_of(ins: FileIns, outs: EntryOuts) -> str:
    """`offsets/4`."""
    return plain(ins.get("file"))


def _mark(watermark: Any) -> str:
    return "no watermark" if watermark == 0 else f"watermark {time_words(watermark)}"


def deleted_words(outs: Deleted) -> str:
    """`2 files deleted`."""
    return f"{plural(len(outs.get('deleted', ())), 'file')} deleted"


# -- walCommit -----------------------------------------------------------------------------------------------


def _logged(ins: FileIns, outs: EntryOuts) -> str:
    offsets = ", ".join(offset_words(line) for line in (outs.get("text") or "").split("\n")[2:])
    watermark = entry_metadata(outs.get("text")).get("batchWatermarkMs")
    return f"{_written(ins, outs)}: read up to {offsets}; {_mark(watermark)}"


WAL_COMMIT = Step(
    "walCommit", "OffsetSeqLog.add", "Execution flow (3)", within="trigger", frame=True, lights=("logs",),
    says="write down what the batch will read before it reads anything",
    why=(
        "Written before anything is read: after a crash, exactly this batch can be run again. That is the first half of "
        "exactly-once (a repeatable source and a sink that knows the batch id are the other)."
    ),
    ins=FileIns, outs=EntryOuts,
    sentence=_logged,
    caption=file_of,
)

WAL_COMMIT_IN_REAL_TIME = replace(
    WAL_COMMIT, within="runBatch", says="write down what the batch has read",
    why=(
        "In real-time mode, the batch has written its rows already, and only now it is known how far it has read. After a "
        "crash before this, the rows are read and written again, perhaps with newer ones."
    ),
)


# -- commitOffsets -------------------------------------------------------------------------------------------


def _committed(ins: FileIns, outs: EntryOuts) -> str:
    watermark = entry_metadata(outs.get("text")).get("nextBatchWatermarkMs")
    return f"{_written(ins, outs)}: the batch is done; the next one has {_mark(watermark)}"


COMMIT_OFFSETS = Step(
    "commitOffsets", "CommitLog.add", "Execution flow (10)", within="runBatch", lights=("logs",),
    says="the batch is done: a restart will not run it again",
    why="With this entry the batch is over; without it, a restart runs the batch again.",
    ins=FileIns, outs=EntryOuts,
    sentence=_committed,
    caption=file_of,
)


# -- purge ---------------------------------------------------------------------------------------------------


class _PurgeIns(TypedDict, total=False):
    before: int


PURGE = Step(
    "purge", "HDFSMetadataLog.purge", "State: maintenance", within="trigger", lights=("logs",),
    says="delete log entries that no restart can need",
    why="A restart needs only the newest entries; the logs of a query that runs for years must not grow for ever.",
    ins=_PurgeIns, outs=Deleted,
    sentence=lambda ins, outs: f"entries of batches before {plain(ins.get('before'))}: {deleted_words(outs)}",
    caption=lambda ins, outs: deleted_words(outs),
)
