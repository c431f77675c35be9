"""The two buffers of a join, drawn: batches across, the left side above and the right side below.

join_buffers.py has decided what is drawn where. A bar is a row for as long as it is held, a line between two bars is a pair,
and the times above and below the columns are the state watermarks of the two sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from minispark_stream.lens.trace.fates import SIDES
from minispark_stream.lens.view.join_buffers import DrawnJoin, DrawnPair, RowLane
from minispark_stream.lens.view.sheet import GREY, HELD, INK, MARGIN, NEW, OUT, PALE, WRONG, Sheet, Shown, columns_wide
from minispark_stream.lens.view.words import plural, row_words, short_clock

LABEL, LANE = 128.0, 17.0
NARROW, WIDE = 57.0, 92.0  # columns: a cell of JupyterLab has room for eight narrow ones
STATE = "#8a5600"
CAPTION = (
    "A bar shows how long a row waits in the buffer of its side for matching rows of the other side. Follow a bar to its end: "
    "there the state watermark of its side (the time above or below the column) has passed the row's event time."
)


def svg(found: Sequence[DrawnJoin]) -> str | None:
    """The picture of all joins of a trace; None if there are none."""
    if not found:
        return None
    pairs = [pair for one in found for pair in one.pairs]
    lanes = [lane for one in found for lane in (*one.left, *one.right)]
    legend: list[Shown] = [
        (NEW, "held in the buffer", True),
        (INK, "a pair: the joined row is emitted", bool(pairs)),
        (OUT, "evicted without a pair: emitted with nulls", any(lane.is_alone for lane in lanes)),
        (WRONG, "late, dropped", any(lane.is_late for lane in lanes)),
        (HELD, "not stored", any(not lane.is_stored and not lane.is_late for lane in lanes)),
    ]
    columns, around = max(max(len(one.batch_ids) for one in found), 5), 2 * MARGIN + LABEL
    column = columns_wide(columns, around, NARROW, WIDE)
    sheet = Sheet("join", around + column * columns, "Two buffers of a join", CAPTION, legend)
    for one in found:
        _Drawing(sheet, one, column).draw()
    return sheet.svg()


def _bound(ms: int) -> str:
    """Which event times leave: in a picture, up to 12:04:59.999 is before 12:05."""
    return f"≤ {short_clock(ms)}" if (ms + 1) % 1000 else f"< {short_clock(ms + 1)}"


class _Drawing:
    def __init__(self, sheet: Sheet, one: DrawnJoin, column: float):
        self.sheet, self.one, self.column = sheet, one, column
        self.end = self.x(len(one.batch_ids))

    def draw(self) -> None:
        sheet, one = self.sheet, self.one
        sheet.heading(one.title)
        top = sheet.top + 2
        first = sheet.stays[1] if sheet.stays else top
        for n, batch_id in enumerate(one.batch_ids):
            sheet.words(self.x(n) + self.column / 2, top + 4, f"batch {batch_id}", size=9, bold=True, align="center")
        sheet.top = top + 16
        self.bounds(0)
        begin = sheet.top
        above = self.lanes(one.left, "left")
        sheet.top += 10
        below = self.lanes(one.right, "right")
        sheet.top += 6
        self.covers(begin)
        self.bounds(1)
        self.pairs(above, below)
        for n in range(len(one.batch_ids) + 1):
            sheet.line([self.x(n)] * 2, [top - 4, sheet.top - 4], PALE, 0.8, layer=1)
        sheet.stays = MARGIN + LABEL - 2, first, sheet.top
        sheet.top += 4
        hidden = [
            f"{len(side)} of {count} rows of the {name} side"
            for side, count, name in zip((one.left, one.right), one.rows, SIDES) if len(side) < count
        ]
        if hidden:
            keys = ", ".join(dict.fromkeys(lane.key for lane in (*one.left, *one.right)))
            newest = f" in the newest {len(one.batch_ids)} batches" if one.first_batch else ""
            sheet.note(f"Shown are {' and '.join(hidden)}{newest}, those of the keys {keys}.")
        if one.left_out:
            sheet.note(f"{plural(one.left_out, 'pair')} more of these rows are left out.")
        if not one.is_told:
            sheet.note("What some batches emitted is not known.")
        sheet.top += 8

    def covers(self, begin: float) -> None:
        for n, batch_id in enumerate(self.one.batch_ids):  # without the line at its left, and with that at its right
            self.sheet.cover(batch_id, self.x(n) + 2, begin, self.column + 2, max(self.sheet.top - begin, 14))

    def x(self, n: int) -> float:
        return MARGIN + LABEL + self.column * n

    def bounds(self, side: int) -> None:
        """The state watermark of a side in each batch."""
        if any(self.one.leaves_ms[side]):
            self.sheet.words(MARGIN, self.sheet.top + 4, f"{SIDES[side]}: leaves if", ink=STATE)
            for n, ms in enumerate(self.one.leaves_ms[side]):
                words = "" if ms is None else _bound(ms)
                self.sheet.words(self.x(n) + self.column / 2, self.sheet.top + 4, words, ink=STATE, size=8.5, align="center")
            self.covers(self.sheet.top - 3)
        else:
            self.sheet.words(MARGIN, self.sheet.top + 4, f"{SIDES[side]}: never leaves, nothing bounds it", ink=STATE)
        self.sheet.top += 16

    def lanes(self, lanes: Sequence[RowLane], name: str) -> list[float]:
        """Draw one side. Returns the height of each lane."""
        sheet, heights = self.sheet, []
        if not lanes:
            sheet.words(MARGIN, sheet.top + LANE / 2, f"no rows on the {name} side", ink=GREY)
            sheet.top += LANE
        for lane in lanes:
            y = sheet.top + LANE / 2
            self.lane(lane, y)
            heights.append(y)
            sheet.top += LANE
        return heights

    def lane(self, lane: RowLane, y: float) -> None:
        sheet, first = self.sheet, lane.first - self.one.first_batch
        sheet.words(MARGIN + LABEL - 10, y, lane.label[:22], align="right", size=9)
        if first >= 0:
            sheet.cover(self.one.batch_ids[first], MARGIN, y - LANE / 2, LABEL, LANE)
        sheet.line([MARGIN + LABEL, self.end], [y, y], PALE, 0.5, layer=1)
        begin, tip = self.x(first) + 8 if first >= 0 else self.x(0), row_words(lane.row)
        if lane.is_late:
            sheet.mark(begin + 6, y, "X", WRONG.edge, tip=f"{tip}: late, dropped", size=46)
            return
        if not lane.is_stored:
            sheet.box(begin, y - 5.5, 24, 11, "", HELD, tip=f"{tip}: not stored")
            return
        stop = self.x(lane.end - self.one.first_batch + 1) - 8 if lane.end is not None else self.end
        look = OUT if lane.is_alone else NEW
        says = f"{tip}: from batch {self.one.batch_ids[max(first, 0)]}"
        if lane.last is not None:
            says += f" to batch {self.one.batch_ids[lane.last - self.one.first_batch]}, where it was evicted"
        if lane.lost is not None:
            says += f"; from batch {self.one.batch_ids[lane.lost - self.one.first_batch]} on, nothing is known of it"
        sheet.box(begin, y - 5.5, stop - begin, 11, "", look, tip=says)
        if lane.last is not None:
            sheet.line([stop, stop], [y - 7, y + 7], INK, 2.4, layer=6)
        if lane.is_alone:
            sheet.words(stop - 5, y, "→ with nulls", size=8, ink=OUT.edge, align="right", bold=True)

    def pairs(self, above: Sequence[float], below: Sequence[float]) -> None:
        in_batch: dict[int, list[DrawnPair]] = {}
        for pair in self.one.pairs:
            in_batch.setdefault(pair.batch - self.one.first_batch, []).append(pair)
        for n, pairs in in_batch.items():
            for place, pair in enumerate(pairs):
                x = self.x(n) + 20 + (self.column - 42) * (place + 0.5) / len(pairs)
                ys = [above[pair.left], below[pair.right]]
                tip = f"{self.one.left[pair.left].label} and {self.one.right[pair.right].label}"
                self.sheet.line([x, x], ys, INK, 1.3, ends="o", layer=7, tip=tip)
