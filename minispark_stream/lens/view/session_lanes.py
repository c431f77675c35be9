"""Sessions as they open, grow, are merged, and are evicted: a lane for each key, with event time from left to right.

1. A line of a lane is a batch in which something happens to the key: it has a bar for each session of the key as it is after
   the batch, and a dot for each row of the batch.
2. The words at the end of the line say what happens. A session is evicted in the batch whose watermark has reached its end,
   but never in complete mode.
3. Of many keys, the first are shown; of many lines, those of the newest batches.

    a   batch 0   [12:01 ---- 12:06)                        opens
        batch 1   [12:01 ---- 12:06)   [12:09 ---- 12:14)   opens
        batch 2   [12:01 ------------------------- 12:14)   two become one
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.lens.trace.facts import BatchFacts, OperatorFacts
from minispark_stream.lens.trace.fates import LATE, Fate, Fates, Holding
from minispark_stream.lens.trace.holdings import without_window
from minispark_stream.lens.view.measure import round_times
from minispark_stream.lens.view.sheet import (
    CELL,
    GREY,
    HELD,
    INK,
    MARGIN,
    NEW,
    OUT,
    PALE,
    VIOLET,
    WRONG,
    Sheet,
    Shown,
)
from minispark_stream.lens.view.words import clock_words, plain, plural

MOST_KEYS, MOST_LINES = 10, 60
KEY, BATCH, SAYS, LINE = 84.0, 50.0, 170.0, 20.0
PLOT = CELL - 2 * MARGIN - KEY - BATCH - SAYS
OPENS, GROWS, MERGES, WAITS, LEAVES = "opens", "grows", "merges", "waits", "leaves"
LOOKS = {OPENS: NEW, GROWS: NEW, MERGES: VIOLET, WAITS: HELD, LEAVES: OUT}


@dataclass(frozen=True)
class Bar:
    """A session as it is after a batch, with `rows` rows."""

    start_ms: float
    end_ms: float
    what: str
    rows: int


@dataclass(frozen=True)
class Line:
    """A key in a batch: its sessions, the event times of its new rows and of its late rows, and what happened.

    `evicts_ms` is the watermark if it evicts sessions, which it does not in complete mode.
    """

    batch_id: int
    bars: tuple[Bar, ...]
    rows_ms: tuple[float, ...]
    late_ms: tuple[float, ...]
    evicts_ms: int | None
    says: str


@dataclass(frozen=True)
class KeyLane:
    """All that happens to one key."""

    key: str
    lines: tuple[Line, ...]


def lanes(found: Fates) -> tuple[KeyLane, ...]:
    """A lane for each key that has sessions, in the order in which the keys arrived."""
    held: dict[str, list[Holding]] = {}
    rows: dict[str, dict[int, list[Fate]]] = {}
    for fate in found.rows:
        if fate.operator is not None and fate.operator.keeps == "sessions":
            of_key = rows.setdefault(_key(fate.at.get("key") or {}), {})
            of_key.setdefault(fate.batch.number, []).append(fate)
    operators = {one.operator_id for batch in found.batches for one in _of_sessions(batch)}
    for holding in found.holdings:
        if holding.operator_id in operators:
            held.setdefault(_key(holding.key), []).append(holding)
    return tuple(KeyLane(key, tuple(_lines(found, held.get(key, []), of_key))) for key, of_key in rows.items())


def _of_sessions(batch: BatchFacts) -> list[OperatorFacts]:
    return [one for one in batch.operators.values() if one.keeps == "sessions"]


def _key(key: Mapping[str, Any]) -> str:
    return " ".join(map(plain, without_window(key).values()))


def _lines(found: Fates, held: Sequence[Holding], rows: Mapping[int, Sequence[Fate]]) -> Iterator[Line]:
    """(1) (2) The lines of a key: one for each batch that has rows of it, or in which something happens to its sessions."""
    for batch in found.batches:
        new = rows.get(batch.number, ())
        late = [fate.event_ms for fate in new if fate.what == LATE and fate.event_ms is not None]
        taken = [fate.event_ms for fate in new if fate.what != LATE and fate.event_ms is not None]
        bars, says = [], [f"{plural(len(late), 'row')} too late"] if late else []
        for holding in held:
            if _is_held(holding, batch.number):
                what, words = _happens(holding, held, batch.number)
                start, end = _extent(holding, batch.number)
                bars.append(Bar(start, end, what, sum(n for b, n in holding.counts.items() if b <= batch.number)))
                says += [words] if words else []
        if says or new:
            words = ", ".join(dict.fromkeys(says))
            leaves = (one.leaves(0) for one in _of_sessions(batch))
            yield Line(batch.batch_id, tuple(bars), tuple(taken), tuple(late), next(leaves, None) or None, words)


def _is_held(holding: Holding, batch: int) -> bool:
    """Whether a session is known to exist in a batch; it still does in the batch that evicts it."""
    ends = (holding.merged, holding.lost, None if holding.evicted is None else holding.evicted + 1)
    return holding.opened <= batch and not any(end is not None and end <= batch for end in ends)


def _happens(holding: Holding, held: Iterable[Holding], batch: int) -> tuple[str, str]:
    merged = sum(other.merged == batch and other.merged_into is holding for other in held)
    if holding.evicted == batch:
        return LEAVES, "emitted and evicted" if batch in holding.emitted else "evicted"
    if merged:
        return MERGES, f"{('two', 'three')[merged - 1] if merged < 3 else merged + 1} become one"
    if holding.opened == batch:
        return OPENS, "opens"
    if batch in holding.extents:
        return GROWS, "grows" if holding.counts[batch] else ""
    return WAITS, "emitted" if batch in holding.emitted else ""


def _extent(holding: Holding, batch: int) -> tuple[float, float]:
    known = [n for n in holding.extents if n <= batch]
    start, end = holding.extents[max(known)] if known else (holding.start_ms, holding.end_ms)
    return start or 0, end or 0


# -- the drawing -------------------------------------------------------------------------------------------

CAPTION = (
    "Read a key from top to bottom: a row opens a session as long as the gap, or extends the session that it touches; a row "
    "between two sessions joins them. An amber mark is the watermark of a batch: a session that ends by then is evicted."
)
WATERMARK = "#8a5600"


def svg(found: Sequence[KeyLane]) -> str | None:
    """The picture; None if there are no sessions."""
    if not found:
        return None
    shown, hidden = found[:MOST_KEYS], len(found) - MOST_KEYS  # (3)
    most = max(MOST_LINES // len(shown), 5)
    cut = sum(max(len(lane.lines) - most, 0) for lane in shown)
    shown = tuple(KeyLane(lane.key, lane.lines[-most:]) for lane in shown)
    lines = [line for lane in shown for line in lane.lines]
    kinds = {bar.what for line in lines for bar in line.bars}
    legend: list[Shown] = [
        (NEW, "a session that opens or grows", bool(kinds & {OPENS, GROWS})), (VIOLET, "two that become one", MERGES in kinds),
        (HELD, "waits", WAITS in kinds), (OUT, "leaves: emitted and evicted", LEAVES in kinds),
        (WRONG, "a late row, dropped", any(line.late_ms for line in lines)),
        (WATERMARK, "watermark of the batch", any(line.evicts_ms for line in lines)),
    ]
    sheet = Sheet("sessions", CELL, "Sessions of each key", CAPTION, legend)
    times = [ms for line in lines for bar in line.bars for ms in (bar.start_ms, bar.end_ms)]
    times += [ms for line in lines for ms in (*line.rows_ms, *line.late_ms)]
    low, high = min(times), max(times)
    margin = (high - low) * 0.04 or 60_000
    _Drawing(sheet, low - margin, high + margin).draw(shown)
    if hidden > 0:
        sheet.note(f"Shown are the first {MOST_KEYS} of {len(found)} keys.")
    if cut:
        sheet.note(f"Of the keys with many batches the newest {most} are shown.")
    return sheet.svg()


class _Drawing:
    def __init__(self, sheet: Sheet, low: float, high: float):
        self.sheet, self.low, self.high = sheet, low, high
        self.left = MARGIN + KEY + BATCH

    def x(self, ms: float) -> float:
        return self.left + PLOT * (ms - self.low) / (self.high - self.low)

    def draw(self, shown: Sequence[KeyLane]) -> None:
        sheet = self.sheet
        sheet.words(self.left, sheet.top + 4, "event time (UTC)", ink=GREY, size=8.5)
        at, labels = round_times(self.low, self.high, 6)
        top = sheet.top + 28
        for ms, label in zip(at, labels):
            sheet.words(self.x(ms), top - 8, label.split("\n")[-1], size=8.5, ink=GREY, align="center")
        sheet.top = top + 4
        for lane in shown:
            sheet.line([MARGIN, sheet.width - MARGIN], [sheet.top] * 2, "#8f9aa5", 0.8, layer=2)
            sheet.top += 3
            sheet.words(MARGIN, sheet.top + LINE / 2, lane.key[:14] or "no key", size=10, bold=True)
            for line in lane.lines:
                self.line(line, sheet.top + LINE / 2)
                sheet.top += LINE
            sheet.top += 3
        for ms in at:
            sheet.line([self.x(ms)] * 2, [top, sheet.top], PALE, 0.7, layer=1)
        sheet.stays = self.left - 6, top - 24, sheet.top

    def line(self, line: Line, y: float) -> None:
        sheet = self.sheet
        sheet.words(self.left - 10, y, f"batch {line.batch_id}", size=8.5, ink=GREY, align="right")
        for bar in line.bars:
            words = f"[{clock_words(bar.start_ms)}, {clock_words(bar.end_ms)}): {plural(bar.rows, 'row')}, {bar.what}"
            start, end = self.x(bar.start_ms), self.x(bar.end_ms)
            sheet.box(start, y - 7, max(end - start, 6), 14, "", LOOKS[bar.what], tip=words)
        for ms in line.rows_ms:
            sheet.mark(self.x(ms), y, "o", "#245482", size=22, tip=clock_words(ms))
        for ms in line.late_ms:
            sheet.mark(self.x(ms), y, "X", WRONG.edge, size=40, tip=f"{clock_words(ms)}: late")
        if line.evicts_ms is not None and self.low <= line.evicts_ms <= self.high:
            sheet.line([self.x(line.evicts_ms)] * 2, [y - 9, y + 9], WATERMARK, 2.2, layer=6)
        sheet.words(self.left + PLOT + 12, y, line.says, size=9, ink=INK)
        sheet.cover(line.batch_id, MARGIN + KEY, y - LINE / 2, sheet.width - 2 * MARGIN - KEY, LINE)
