"""Which files a batch takes and which it leaves, and what the manifest of a file sink says about the files that it wrote.

1. For each file source there is a row for each batch, as in the chart of fetchMaxOffset (Source document): whether it listed
   the folder or had files left over from the last listing; how many files it had read before; which new files the batch takes
   (at most `maxFilesPerTrigger` or `maxBytesPerTrigger`); and which it leaves, to be kept or to be listed again.
2. For a file sink there is a row for each batch: its entry in `_spark_metadata`, and the files that it names. Every tenth entry
   is a compact one, which repeats all before it; so a reader needs the newest compact entry and those after it.
3. Of many batches the newest `MOST` are shown, of many files the first ones. Real Spark does not report what it left.

    batch 0   lists 5 files   read 0   takes a.csv b.csv   leaves c.csv d.csv e.csv        manifest 0   part-00000
    batch 1   3 were kept     read 2   takes c.csv d.csv   leaves e.csv                    manifest 1   part-00000
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.checkpointing.compactible_file_stream_log import is_compact
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.view.measure import text_width
from minispark_stream.lens.view.sheet import GONE, GREY, HELD, MARGIN, MARKED, NEW, OUT, PALE, VIOLET, Look, Sheet, Shown
from minispark_stream.lens.view.words import plural, short

MOST, MOST_FILES = 24, 5
LABEL, LOOKS, SEEN, TALL, ROW = 70.0, 72.0, 52.0, 19.0, 27.0
NARROW, WIDE = 54.0, 84.0  # boxes; those of a source are as wide as its names need
_FILE_SOURCE = re.compile(r"\w+: FileStreamSource\[")


@dataclass(frozen=True)
class TakenFiles:
    """What a batch did with the files of one source.

    Attributes:
        looks_at: where its new files come from, in words.
        seen: how many files earlier batches have read.
        left: the new files that it did not take, None if they are not known; `left_count` counts all of them.
        keeps: whether the next batch gets these without listing the folder again.
    """

    batch_id: int
    looks_at: str
    seen: int
    taken: tuple[str, ...]
    left: tuple[str, ...] | None
    left_count: int
    keeps: bool
    again: bool


@dataclass(frozen=True)
class DrawnEntry:
    """The entry of a batch in the manifest; `skipped`: an earlier run had already written it."""

    batch_id: int
    name: str
    added: tuple[str, ...]
    skipped: bool

    @property
    def is_compact(self) -> bool:
        return is_compact(self.name)


@dataclass(frozen=True)
class FileRows:
    """The rows of each file source by its name, and those of the manifest."""

    sources: tuple[tuple[str, tuple[TakenFiles, ...]], ...]
    manifest: tuple[DrawnEntry, ...]
    sink: str = ""


def files(recording: Recording) -> FileRows:
    """What is recorded about files; empty if neither a source nor the sink has files."""
    rows: dict[str, list[TakenFiles]] = {}
    seen: dict[str, set[str]] = {}
    entries, sink = [], ""
    for batch in recording.batches:
        looked, read = _by_source(batch, "latestOffset"), _by_source(batch, "getBatch")
        for source in sorted(looked | read):
            look = looked.get(source, {})
            taken = _names(read.get(source, {}).get("files")) or _names(look.get("files"))
            before = seen.setdefault(source, set())
            left = None if look.get("left") is None else _names(look["left"])
            count = max(look.get("leftCount") or 0, len(left or ()))
            looks_at, keeps = _looks_at(look, len(taken) + count), look.get("kept") != 0
            rows.setdefault(source, []).append(
                TakenFiles(batch.batch_id, looks_at, len(before - set(taken)), taken, left, count, keeps, batch.rerun)
            )
            before.update(taken)
        for event in batch.events:
            written = (event.outputs.get("written") or {}) if event.step == "addBatch" else {}
            if "file" in written:
                sink = short(str(event.inputs.get("sink")))
                name = str(written["file"])
                entries.append(DrawnEntry(batch.batch_id, name, _names(written.get("added")), written.get("skipped") is True))
    return FileRows(tuple((short(source), tuple(found)) for source, found in rows.items()), tuple(entries), sink)


def _looks_at(look: Mapping[str, Any], new: int) -> str:
    if "listed" not in look:
        return ""
    listed = look["listed"]
    return f"{new} were kept" if listed is None else f"lists {plural(listed, 'file')}"


def _by_source(batch: Batch, step: str) -> dict[str, Mapping[str, Any]]:
    return {
        source: event.outputs for event in batch.events
        if event.step == step and _FILE_SOURCE.match(source := str(event.inputs.get("source")))
    }


def _names(paths: Iterable[str] | None) -> tuple[str, ...]:
    """The last parts of paths."""
    return tuple(str(path).rsplit("/", 1)[-1] for path in paths or ())


# -- the drawing -------------------------------------------------------------------------------------------

CAPTION = (
    "A source lists its folder, or has kept files of the last listing. It takes whole files, the oldest first, and leaves the "
    "rest: follow a file from “leaves” down to “takes”. It is not taken again as long as the source remembers it."
)
MANIFEST = " What the sink has written counts for a reader when an entry of the manifest names it."


def svg(found: FileRows) -> str | None:
    """The picture; None if there are no files."""
    if not found.sources and not found.manifest:
        return None
    rows = [row for _, taken in found.sources for row in taken[-MOST:]]
    legend: list[Shown] = [
        (NEW, "taken by the batch", bool(rows)),
        (MARKED, "taken again: the batch had not ended", any(row.again and row.taken for row in rows)),
        (HELD, "left: kept for the next batch", any(row.left_count and row.keeps for row in rows)),
        (GONE, "left: dropped, the next batch looks for it again", any(row.left_count and not row.keeps for row in rows)),
        (OUT, "entry of the manifest, and the files that it names", bool(found.manifest)),
        (VIOLET, "compact entry: repeats all before it", any(entry.is_compact for entry in found.manifest)),
        (GONE, "skipped: the entry was there", any(entry.skipped for entry in found.manifest)),
    ]
    takes, leaves, names = (
        min(max(counts, default=0), MOST_FILES) + any(count > MOST_FILES for count in counts)
        for counts in ([len(r.taken) for r in rows], [r.left_count for r in rows], [len(e.added) for e in found.manifest])
    )
    named = (name for row in rows for some in (row.taken, row.left or ()) for name in some[:MOST_FILES])
    box = min(max([NARROW, *(text_width(name[:20], 8.5) + 14 for name in named)]), WIDE)
    wide = max(LABEL + LOOKS + SEEN + (max(takes, 2) + max(leaves, 2)) * box + 10, LABEL + (names + 4) * WIDE, 530)
    caption = (CAPTION if rows else "") + (MANIFEST if found.manifest else "")
    sheet = Sheet("files", 2 * MARGIN + wide, "Files", caption, legend)
    for source, taken in found.sources:
        _source(sheet, source, taken, box, MARGIN + LABEL + LOOKS + SEEN + max(takes, 2) * box + 10)
    if found.manifest:
        _manifest(sheet, found.sink, found.manifest)
    return sheet.svg()


def _source(sheet: Sheet, source: str, taken: Sequence[TakenFiles], box: float, leaves: float) -> None:
    looks, seen, takes = MARGIN + LABEL, MARGIN + LABEL + LOOKS, MARGIN + LABEL + LOOKS + SEEN
    sheet.heading(f"source {source}")
    for x, words in ((looks, "looks"), (seen, "had read"), (takes, "takes"), (leaves, "leaves")):
        sheet.words(x, sheet.top + 4, words, ink=GREY)
    sheet.top += 16
    for row in taken[-MOST:]:
        y = sheet.top
        sheet.line([MARGIN, sheet.width - MARGIN], [y - 4] * 2, PALE, 0.7, layer=1)
        sheet.words(MARGIN, y + TALL / 2, f"batch {row.batch_id}{' again' if row.again else ''}", bold=True, size=8.5)
        sheet.words(looks, y + TALL / 2, row.looks_at or "not told", ink=GREY)
        sheet.words(seen, y + TALL / 2, plural(row.seen, "file") if row.seen else "none", ink=GREY)
        _boxes(sheet, takes, box, row.taken, len(row.taken), MARKED if row.again else NEW, "no new file")
        left = HELD if row.keeps else GONE
        _boxes(sheet, leaves, box, row.left or (), row.left_count, left, "not told" if row.left is None else "nothing")
        sheet.top += ROW
    _newest(sheet, len(taken))


def _manifest(sheet: Sheet, sink: str, entries: Sequence[DrawnEntry]) -> None:
    sheet.heading(f"sink {sink}: its manifest _spark_metadata/")
    sheet.top += 2
    for entry in entries[-MOST:]:
        y = sheet.top
        sheet.line([MARGIN, sheet.width - MARGIN], [y - 4] * 2, PALE, 0.7, layer=1)
        sheet.words(MARGIN, y + TALL / 2, f"batch {entry.batch_id}", bold=True, size=8.5)
        look = GONE if entry.skipped else VIOLET if entry.is_compact else OUT
        sheet.box(MARGIN + LABEL, y, WIDE, TALL, entry.name, look, size=8.5)
        after = MARGIN + LABEL + WIDE + 8
        said = "skipped: an earlier run has written it" if entry.skipped else "names no file: the batch gave no rows"
        used = _boxes(sheet, after, WIDE, entry.added, len(entry.added), OUT, said)
        if entry.is_compact and not entry.skipped:
            first = max((e.batch_id for e in entries if e.is_compact and e.batch_id < entry.batch_id), default=0)
            words = f"and all that the entries {first} to {entry.batch_id - 1} name, once more"
            sheet.words(after + used + 4, y + TALL / 2, words, ink=VIOLET.edge)
        sheet.top += ROW
    _newest(sheet, len(entries))


def _newest(sheet: Sheet, count: int) -> None:
    if count > MOST:
        sheet.note(f"The newest {MOST} of {count} batches.")
    sheet.top += 10


def _boxes(sheet: Sheet, x: float, wide: float, names: Sequence[str], count: int, look: Look, none: str) -> float:
    """A box for each file, as far as there is room. Returns the width of all boxes."""
    y = sheet.top
    if not count:
        sheet.words(x, y + TALL / 2, none, ink=GREY)
        return len(none) * 5.6
    for place, name in enumerate(names[:MOST_FILES]):
        sheet.box(x + place * wide, y, wide - 6, TALL, name, look, size=8.5)
    used = min(len(names), MOST_FILES) * wide
    if count > MOST_FILES:
        sheet.words(x + used, y + TALL / 2, f"and {count - MOST_FILES} more", ink=GREY)
        used += wide
    return used
