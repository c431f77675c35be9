"""The picture of the files of a state store: a row of snapshots above a row of deltas, and for RocksDB, its tables below them.

1. What belongs to a version is in one column. Of a long chain, the newest `MOST` versions are shown.
2. A table of RocksDB has a line of its own, with a mark below each zip that names it: the first zip has added it, the others
   share it.

    operator 0: dedupe    batch 0       batch 1       batch 2       batch 3
    partition 0                                       3.zip
                          1.changelog   2.changelog   3.changelog   4.changelog
    table 1                                           new

3. Below the files of an operator is what each batch has changed, if the trace has the rows: of many rows, the first ones.

state_files.py finds out which files there are, and state_contents.py what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minispark_stream.lens.view.measure import clipped, wrapped
from minispark_stream.lens.view.sheet import (
    CELL,
    GONE,
    GREY,
    HELD,
    INK,
    MARGIN,
    MARKED,
    NEW,
    OUT,
    PALE,
    VIOLET,
    WRONG,
    Sheet,
    Shown,
    columns_wide,
)
from minispark_stream.lens.view.state_contents import ChangedRow
from minispark_stream.lens.view.state_files import Chain
from minispark_stream.lens.view.words import plural

MOST, MOST_ROWS = 14, 4
LABEL, GAP, TALL, LOW = 132.0, 8.0, 20.0, 13.0
NARROW, WIDE = 74.0, 112.0  # columns

CAPTION = (
    "Every batch adds a delta, which has only its changes. A snapshot is the whole state of a version. To load the newest "
    "version, a task reads the framed files: the newest snapshot and the deltas after it; without a snapshot, all of them."
)
OF_ROCKSDB = (
    "A changelog has the changes of a batch. A zip is a whole version: it names the tables (SST files) of the version, and "
    "shares those that were there before. To load the newest version, a task reads the framed files."
)


class _Columns(NamedTuple):
    """The columns of the versions that are shown."""

    first: int
    newest: int

    @property
    def wide(self) -> float:
        return columns_wide(self.newest - self.first + 1, 2 * MARGIN + LABEL, NARROW, WIDE)

    @property
    def box(self) -> float:
        return self.wide - GAP

    @property
    def end(self) -> float:
        return self.x(self.newest + 1) + MARGIN

    def x(self, version: int) -> float:
        return MARGIN + LABEL + self.wide * (version - self.first)

    def versions(self) -> range:
        return range(self.first, self.newest + 1)


def svg(found: tuple[Chain, ...], held: Mapping[tuple[int, int], Sequence[ChangedRow]]) -> str | None:
    """The picture; None if there is no state. `held`: what each version of an operator has changed."""
    if not found:
        return None
    delta, snapshot = found[0].suffixes
    made = "made by a batch or by maintenance" if any(one.whole for one in found) else "made by maintenance"
    legend: list[Shown] = [
        (NEW, f"{delta}, written by a batch", any(set(one.deltas) - set(one.whole) for one in found)),
        (VIOLET, f"{snapshot}, {made}", any(one.snapshots for one in found)),
        (HELD, "table of an older zip, shared", any(one.tables for one in found)),
        (MARKED, "read to load the newest version", any(one.next_load for one in found)),
        (GONE, "deleted by maintenance", any(one.deleted for one in found)),
    ]
    newest = max(one.newest for one in found)
    first = max(newest - MOST + 1, min(min(one.deltas) for one in found))  # (1)
    columns = _Columns(first, newest)
    caption = OF_ROCKSDB if snapshot == "zip" else CAPTION
    sheet = Sheet("state-files", max(columns.end, CELL), "The files of the state", caption, legend)
    title = ""
    for one, after in zip(found, [*found[1:], None]):
        if one.title != title:
            title = one.title
            sheet.heading(title)
            for version in columns.versions():
                x = columns.x(version) + columns.box / 2
                sheet.words(x, sheet.top + 4, f"batch {version - 1}", size=8.5, ink=GREY, align="center")
            sheet.top += 16
        _chain(sheet, one, columns)
        if after is None or after.title != title:
            _held(sheet, columns, {v: held.get((one.operator, v), ()) for v in range(first, one.newest + 1)})
    if any(min(one.deltas) < first for one in found):
        sheet.note(f"The newest {MOST} versions; those before them are left out.")
    return sheet.svg()


def _chain(sheet: Sheet, one: Chain, columns: _Columns) -> None:
    has_both = one.snapshots and set(one.deltas) - set(one.whole)
    upper, lower = sheet.top, sheet.top + (TALL + 6 if has_both else 0)
    sheet.line([MARGIN, sheet.width - MARGIN], [upper - 4] * 2, PALE, 0.8, layer=1)
    sheet.words(MARGIN, lower + TALL / 2, clipped(one.places, LABEL - 20, 9), size=9, bold=True)
    needed = one.next_load or ()
    delta, snapshot = one.suffixes
    for version in range(columns.first, one.newest + 1):
        whole = "the whole state, made by " + (f"batch {version - 1}" if version in one.whole else "maintenance")
        has_delta = version in one.deltas and version not in one.whole
        for name, y, look, is_there, says in (
            (f"{version}.{snapshot}", upper, VIOLET, version in one.snapshots, whole),
            (f"{version}.{delta}", lower, NEW, has_delta, f"what batch {version - 1} has changed"),
        ):
            if is_there:
                look = GONE if name in one.deleted else MARKED if name in needed else look
                again = one.deltas.get(version, 1) > 1 and name.endswith(delta)
                tip = f"{name}: {says}{', written again when the batch ran again' if again else ''}"
                sheet.box(columns.x(version), y, columns.box, TALL, name + (" ×2" if again else ""), look, tip=tip, size=8.5)
    sheet.top = lower + TALL + 5
    _tables(sheet, one, columns)
    for run, version, names in ((load.run, load.version, load.names) for load in one.loads):
        sheet.note(f"Run {run} began with version {version}: {one.words(names)}.")
    if not one.tells_snapshots:
        sheet.note("Whether there are snapshots of it, real Spark did not report.")
    if needed:
        sheet.note(f"To load version {one.newest}: {one.words(needed)}.")
    sheet.top += 12


def _held(sheet: Sheet, columns: _Columns, held: Mapping[int, Sequence[ChangedRow]]) -> None:  # (3)
    if not any(held.values()):
        return
    top = sheet.top
    sheet.words(MARGIN, top + LOW / 2, "what the batch changed", size=9, bold=True)
    for version, rows in held.items():
        x, y = columns.x(version), top
        for row in rows[:MOST_ROWS]:
            ink = WRONG.edge if row.mark.endswith("-") else OUT.edge if row.mark == "+" else INK
            sheet.words(x, y + LOW / 2, clipped(f"{row.mark} {row.key}", columns.wide - 2, 8.5), size=8.5, ink=ink)
            for line in wrapped(row.value, columns.box - 10, 8.5)[:3]:
                y += LOW
                sheet.words(x + 10, y + LOW / 2, line, size=8.5, ink=ink)
            y += LOW + 4
        more = len(rows) - MOST_ROWS
        left_out = f"and {plural(more, 'row')} more" if more > 0 else ""
        sheet.words(x, y + LOW / 2, left_out if rows else "nothing", size=8.5, ink=GREY)
        sheet.top = max(sheet.top, y + LOW + 8)


def _tables(sheet: Sheet, one: Chain, columns: _Columns) -> None:  # (2)
    base = (one.next_load or ("",))[0]
    for table in sorted({number for numbers in one.tables.values() for number in numbers}):
        versions = [version for version, numbers in one.tables.items() if table in numbers]
        shown = [version for version in versions if version >= columns.first]
        if not shown:
            continue
        left = [columns.x(version) for version in shown]
        sheet.words(MARGIN + LABEL - 16, sheet.top + LOW / 2, f"table {table}", size=8.5, ink=GREY, align="right")
        sheet.line([left[0], left[-1] + columns.box], [sheet.top + LOW / 2] * 2, HELD.edge, 1.2)
        names = ", ".join(f"{version}.zip" for version in versions)
        for version, x in zip(shown, left):
            is_new = version == versions[0]
            look = GONE if table in one.gone else MARKED if base == f"{version}.zip" else VIOLET if is_new else HELD
            tip = f"table {table}: {'came with this zip' if is_new else 'shared'}; it is in {names}"
            sheet.box(x, sheet.top, columns.box, LOW, "new" if is_new else "shared", look, tip=tip, size=7.5)
        sheet.top += LOW + 3
