"""The two logs of a checkpoint as tapes: which entry was written when, which log is ahead, and what a restart does then.

1. Every batch writes its entry into the offset log before it reads anything, and into the commit log when it is done. Between
   the two the offset log is one ahead.
2. A run begins with what it finds. If both logs end with the same batch, the next batch is a new one. If the offset log is one
   ahead, its last batch runs again with the logged offsets, which are not written a second time.
3. An entry that was written, and that the next run did not find, is lost: somebody has deleted it, or a disk has.
4. Of a long trace, the newest `MOST` batches are shown.

    run 1    offsets/0  offsets/1  offsets/2        run 2 found offsets/2, commits/1:    (offsets/2)
             commits/0  commits/1   nothing         batch 2 runs again                    commits/2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from minispark_stream.engine.checkpointing.recovery import decide
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.trace.values import entry_metadata
from minispark_stream.lens.view.sheet import CELL, GONE, MARGIN, MARKED, NEW, OUT, WRONG, Look, Sheet, Shown
from minispark_stream.lens.view.words import offset_words, time_words

MOST, ACROSS = 48, 6
LABEL, TALL = 62.0, 38.0
COLUMN = (CELL - 2 * MARGIN - LABEL) / ACROSS
BOX = COLUMN - 9
LOST = Look("#ffffff", WRONG.edge, WRONG.ink, dashed=True)


@dataclass(frozen=True)
class Logged:
    """What one batch did to the logs. `offsets`: how far it reads; `kept`: its entry existed before; `error`: what ended it.

    `written`: whether its entries in the offset log and in the commit log became files; `lost`: whether they were gone when
    the next run began.
    """

    batch_id: int
    offsets: tuple[str, ...]
    watermark: int | None
    next_watermark: int | None
    kept: bool
    committed: bool
    error: str | None = None
    deleted: bool = False
    written: tuple[bool, bool] = (False, False)
    lost: tuple[bool, ...] = (False, False)


@dataclass(frozen=True)
class LogRun:
    """The batches of one run, and the ends of both logs as it found them (None: empty, or not known)."""

    number: int
    found: tuple[int | None, int | None] | None
    batches: tuple[Logged, ...]

    @property
    def says(self) -> str:  # (2)
        again = [b.batch_id for b in self.batches if b.kept]
        if self.found is None:
            return f"batch {again[0]} runs again" if again else ""
        offset, commit = self.found
        restart = decide(offset, commit)
        if offset is None:
            return f"both logs are empty: begin with batch {restart.batch_id}"
        if not restart.again:
            return f"both logs end with {offset}: nothing is unfinished, batch {restart.batch_id} is next"
        ends = "has no entry" if commit is None else f"ends with {commit}"
        return f"the offset log ends with {offset}, the commit log {ends}: batch {restart.batch_id} runs again"


def runs(recording: Recording) -> tuple[LogRun, ...]:
    """What every run did to the logs; nothing if no batch was logged."""
    deleted = {n for e in recording.events if e.step == "purge" for n in e.outputs.get("deleted", ())}
    logged = [(batch, found) for batch in recording.batches if (found := _logged(batch, deleted)) is not None]
    numbers: list[int] = []
    for batch, _ in logged:
        begins = any(event.step == "populateStartOffsets" for event in batch.events)
        numbers.append((numbers[-1] if numbers else 0) + (begins or not numbers))
    pairs = list(zip(numbers, logged))[-MOST:]  # (4)
    made = []
    for number, group in groupby(pairs, key=lambda pair: pair[0]):
        members = [member for _, member in group]
        made.append(LogRun(number, _found(members[0][0]), tuple(one for _, one in members)))
    return tuple(map(_with_losses, made, [*made[1:], None]))


def _with_losses(run: LogRun, later: LogRun | None) -> LogRun:  # (3)
    if later is None or later.found is None:
        return run
    ends = [-1 if end is None else end for end in later.found]
    lost = ([written and one.batch_id > end for written, end in zip(one.written, ends)] for one in run.batches)
    return replace(run, batches=tuple(replace(one, lost=tuple(of_one)) for one, of_one in zip(run.batches, lost)))


def _found(batch: Batch) -> tuple[int | None, int | None] | None:
    for event in batch.events:
        if event.step == "populateStartOffsets" and "offsetLog" in event.inputs:
            return event.inputs.get("offsetLog"), event.inputs.get("commitLog")
    return None


def _logged(batch: Batch, deleted: set[int | None]) -> Logged | None:
    """(1) What a batch did to the logs; None if it is not known."""
    events = {event.step: event for event in batch.events}
    wal, commit = events.get("walCommit"), events.get("commitOffsets")
    if wal is None and commit is None and not batch.rerun:
        return None
    ends = (events["runBatch"].inputs.get("end") or {}) if "runBatch" in events else {}
    watermark = events["queryPlanning"].inputs.get("watermarkEviction") if "queryPlanning" in events else None
    return Logged(
        batch_id=batch.batch_id,
        offsets=tuple(offset_words(end) for end in ends.values()),
        watermark=watermark,
        next_watermark=entry_metadata(commit.outputs.get("text")).get("nextBatchWatermarkMs") if commit else None,
        kept=wal is None,
        committed=commit is not None and commit.error is None,
        error=batch.error,
        deleted=batch.batch_id in deleted,
        written=(_is_file(wal), _is_file(commit)),
    )


def _is_file(entry: Event | None) -> bool:
    """Whether a step has written its entry: not if it failed, nor if the entry stays in memory for a while."""
    return entry is not None and entry.error is None and entry.outputs.get("inMemory") is not True


# -- the drawing -------------------------------------------------------------------------------------------

CAPTION = (
    "Read from left to right, each batch from top to bottom: its entry in offsets/ is written before it reads anything, and "
    "that in commits/ when it is done. The upper box says how far the batch reads, the lower one the watermark of the next "
    "batch. If an upper box has nothing below it, its batch has to run again."
)


def svg(found: Sequence[LogRun], recorded: int) -> str | None:
    """The picture; None if nothing was logged. `recorded` is the number of batches in the trace."""
    if not found:
        return None
    shown = [one for run in found for one in run.batches]
    legend: list[Shown] = [
        (NEW, "written before the batch", True),
        (MARKED, "found by a restart: the batch runs again with these offsets", any(one.kept for one in shown)),
        (OUT, "written when it was done", True),
        (WRONG, "not written: the batch did not end", any(not one.committed for one in shown)),
        (LOST, "written, and lost before the next run began", any(True in one.lost for one in shown)),
        (GONE, "deleted since, no restart can need it", any(one.deleted for one in shown)),
    ]
    sheet = Sheet("logs", CELL, "The offset log and the commit log", CAPTION, legend)
    for run in found:
        says = f": {run.says}" if run.says else ""
        sheet.heading(f"Run {run.number}{says}")
        for line in _lines(run.batches):
            _tapes(sheet, line)
        sheet.top += 6
    if len(shown) < recorded:
        sheet.note(f"The newest {len(shown)} of {recorded} batches.")
    return sheet.svg()


def _lines(batches: Sequence[Logged]) -> Iterator[Sequence[Logged]]:
    for first in range(0, len(batches), ACROSS):
        yield batches[first : first + ACROSS]


def _tapes(sheet: Sheet, batches: Sequence[Logged]) -> None:
    upper, lower = sheet.top, sheet.top + TALL + 22
    sheet.words(MARGIN, upper + TALL / 2, "offsets/", bold=True, size=10)
    sheet.words(MARGIN, lower + TALL / 2, "commits/", bold=True, size=10)
    for place, one in enumerate(batches):
        x = MARGIN + LABEL + place * COLUMN
        until = "; ".join(one.offsets) or "no offsets"
        tip = f"offsets/{one.batch_id}: up to {until}"
        if one.watermark is not None:
            tip += f"\nwatermark of the batch: {time_words(one.watermark)}"
        look = LOST if one.lost[0] else GONE if one.deleted else MARKED if one.kept else NEW
        sheet.box(x, upper, BOX, TALL, [_name(one, 0), until], look, tip=tip)
        sheet.arrow((x + BOX / 2, upper + TALL), (x + BOX / 2, lower), WRONG.edge if not one.committed else OUT.edge)
        if not one.committed:
            sheet.box(x, lower, BOX, TALL, ["✗", one.error or "not reached"], WRONG, tip=one.error or "")
            continue
        after = "" if one.next_watermark is None else time_words(one.next_watermark)
        tip = f"commits/{one.batch_id}" + (f"\nwatermark of the next batch: {after}" if after else "")
        clock = after.split(" ")[-1] if one.next_watermark else "no watermark"
        look = LOST if one.lost[1] else GONE if one.deleted else OUT
        sheet.box(x, lower, BOX, TALL, [_name(one, 1), clock], look, tip=tip)
    sheet.top = lower + TALL + 18


def _name(one: Logged, log: int) -> str:
    return f"{one.batch_id}, lost" if one.lost[log] else str(one.batch_id)
