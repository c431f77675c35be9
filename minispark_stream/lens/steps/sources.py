"""The steps of a source: how far it can be read, what a batch reads of it, and what it may forget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from minispark_stream.lens.steps.step import LoggedOffset, Step
from minispark_stream.lens.trace.rows import Row
from minispark_stream.lens.view.words import offset_words, plain, plural, short, source_words


def _how_many_files(names: Sequence[str]) -> str:
    """How many files a step had, of which a trace may have only the first names, and then "and 900 more"."""
    cut_off = re.fullmatch(r"and (\d+) more", plain(names[-1])) if names else None
    count = len(names) - 1 + int(cut_off[1]) if cut_off else len(names)
    return plural(count, "file") if names else ""


def _source(ins: _OfSource) -> str:
    return source_words(plain(ins.get("source")))


def brief(offset: LoggedOffset) -> str:
    """An offset; that of the file source as a number only, because a caption has little room."""
    return offset_words(offset).removeprefix("logOffset ").removeprefix("the ")


class _OfSource(TypedDict, total=False):
    source: str


# -- latestOffset --------------------------------------------------------------------------------------------


class _LatestIns(_OfSource, total=False):
    start: LoggedOffset
    limit: str


class _LatestOuts(TypedDict, total=False):
    end: LoggedOffset
    files: Sequence[str]
    listed: int | None
    left: Sequence[str] | None
    leftCount: int | None
    kept: int | None


def _new(ins: _LatestIns, outs: _LatestOuts) -> str:
    if outs.get("end") is None or outs["end"] == ins.get("start"):
        return f"{_source(ins)}: nothing after {offset_words(ins.get('start'))}"
    files = outs.get("files", ())
    listed = f", {_how_many_files(files)}: {', '.join(short(plain(f)) for f in files)}" if files else ""
    return f"{_source(ins)}: from {offset_words(ins.get('start'))} up to {offset_words(outs['end'])}{listed}"


LATEST_OFFSET = Step(
    "latestOffset", "SupportsAdmissionControl.latestOffset", "Source: latestOffset", within="trigger", lights=("sources",),
    says="the newest offset that this source may read up to under its read limit",
    why="The batch needs a fixed end. What arrives from now on waits for the next batch.",
    ins=_LatestIns, outs=_LatestOuts,
    sentence=_new,
    caption=lambda ins, outs: f"{brief(ins.get('start'))} → {brief(outs.get('end'))}",
)


# -- commitSource --------------------------------------------------------------------------------------------


class _CommitIns(_OfSource, total=False):
    end: LoggedOffset


COMMIT_SOURCE = Step(
    "commitSource", "Source.commit", "Source: commit", within="trigger", lights=("sources",),
    says="batch N is in the log, so what batch N-1 read will never be asked for again",
    why="This batch is in the log, so no restart can ask for the data of the batch before: the source may forget it.",
    ins=_CommitIns,
    sentence=lambda ins, outs: f"{_source(ins)}: done with everything up to {offset_words(ins.get('end'))}",
    caption=lambda ins, outs: f"up to {brief(ins.get('end'))}",
)


# -- getBatch ------------------------------------------------------------------------------------------------


class _GetIns(_OfSource, total=False):
    start: LoggedOffset
    end: LoggedOffset


class _GetOuts(TypedDict, total=False):
    files: Sequence[str]
    rows: Sequence[Row] | None


def _plan(ins: _GetIns, outs: _GetOuts) -> str:
    if ins.get("end") is None:
        return f"{_source(ins)}: a plan that reads on from {offset_words(ins.get('start'))} as long as the batch lasts"
    files = _how_many_files(outs.get("files", ())) or "the rows"
    return f"{_source(ins)}: a plan for {files} after {offset_words(ins.get('start'))} up to {offset_words(ins['end'])}"


GET_BATCH = Step(
    "getBatch", "Source.getBatch", "Execution flow (4)", within="runBatch", lights=("sources", "rows-in"),
    says="a plan for the new data; nothing is read yet",
    why=(
        "Spark is lazy: this only describes the data after the start offset up to the end offset. The files are read when the "
        "sink asks for rows."
    ),
    ins=_GetIns, outs=_GetOuts,
    sentence=_plan,
    caption=lambda ins, outs: f"after {brief(ins.get('start'))} up to {brief(ins.get('end'))}",
)
