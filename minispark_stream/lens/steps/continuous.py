"""The steps of a continuous query, which has one job and no batches, but epochs."""

from __future__ import annotations

from typing import TypedDict

from minispark_stream.lens.steps.logs import EntryOuts, FileIns, file_of
from minispark_stream.lens.steps.step import LoggedOffset, Step
from minispark_stream.lens.view.words import offset_words, plain


class _StartIns(TypedDict, total=False):
    commitLog: int | None


class _StartOuts(TypedDict, total=False):
    epoch: int
    start: LoggedOffset


class _EpochIns(FileIns, total=False):
    epoch: int


class _CommitIns(_EpochIns, total=False):
    end: LoggedOffset
    writers: int
    sink: str


GET_START_OFFSET = Step(
    "getStartOffset", "ContinuousExecution.getStartOffsets", "Continuous processing", continuous=True,
    lights=("logs", "sources"),
    says="begin after the last epoch that was committed; later offsets are deleted",
    why=(
        "The commit log alone counts here: an offset that was written without a commit says what was read, but not that it was "
        "written."
    ),
    ins=_StartIns, outs=_StartOuts,
    sentence=lambda ins, outs: f"begin with epoch {plain(outs.get('epoch'))}, from {offset_words(outs.get('start'))}",
    caption=lambda ins, outs: f"epoch {plain(outs.get('epoch'))}",
)

RUN_CONTINUOUS = Step(
    "runContinuous", "ContinuousExecution.runContinuous", "Continuous processing", continuous=True,
    says="the one job of a continuous query: its tasks read, compute and write until the query ends",
    why=(
        "To start a job takes longer than to process a row. So there is one job for all rows, and each row goes through it by "
        "itself as soon as it arrives."
    ),
    sentence=lambda ins, outs: "the continuous job ends",
)

ADD_OFFSET = Step(
    "addOffset", "ContinuousExecution.addOffset", "Continuous processing", within="runContinuous", continuous=True,
    lights=("logs",),
    says="all readers have passed the end of an epoch: write down what was read",
    why=(
        "Nobody knows beforehand how many rows an epoch will have. So its end is written down when the readers have passed it, "
        "and it cannot be run again as a batch can."
    ),
    ins=_EpochIns, outs=EntryOuts,
    sentence=lambda ins, outs: f"{plain(ins.get('file'))} written: epoch {plain(ins.get('epoch'))} has been read",
    caption=file_of,
)

COMMIT_EPOCH = Step(
    "commitEpoch", "ContinuousExecution.commit", "Continuous processing", within="runContinuous", continuous=True,
    lights=("logs",),
    says="all writers have passed it, too: the sink commits, then the log",
    why=(
        "Rows of an epoch that is not committed are read again after a crash, and some of them are then written twice: at "
        "least once."
    ),
    ins=_CommitIns,
    sentence=lambda ins, outs: (
        f"{plain(ins.get('file'))} written: epoch {plain(ins.get('epoch'))} is done, up to {offset_words(ins.get('end'))}"
    ),
    caption=file_of,
)
