"""What the picture of event time contains: dots, bands and stairs in the plane of batches and event times.

    event time
      12:20 |                     •d      dots: a row in its batch
      12:10 |           •c   ----------   bands: a window, from the batch that opened it to the one that evicted it
      12:00 |  •a ______|‾‾‾‾‾‾‾‾‾‾‾‾‾    stairs: a watermark, batch by batch
            +------------------------> batch

1. The rows of an operator make a plane; those of a join make one for each side. Without an operator there is one plane. An
   operator above others receives what they have emitted; its plane has no dots, but its windows show where these rows went.
2. A row in several sliding windows is one dot, and is counted if one of them accepted it.
3. If a batch has more than `MOST_DOTS` rows (fewer, if there are many batches), rows of about the same time and the same fate
   are one bar or a bigger dot.
4. Of a long trace, the newest `MOST_BATCHES` batches are shown.
5. A trace without rows (real Spark's) shows what its progress reports contain: the span of the event times, the watermarks, and
   the number of dropped rows; and the emitted windows, if rows of the sink were kept.
6. Timers, and timeouts of keys, are drawn in the plane of their operator. Those in processing time have a plane of their own,
   in that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from minispark_stream.engine.times import is_window, shown_ms
from minispark_stream.lens.trace.facts import BatchFacts
from minispark_stream.lens.trace.fates import (
    BEYOND,
    DUPLICATE,
    KEPT,
    LATE,
    LEFT_OUT,
    PASSED,
    TURNED_AWAY,
    UNKNOWN,
    Fate,
    Fates,
)
from minispark_stream.lens.view.event_bands import Band, bands
from minispark_stream.lens.view.event_timers import CLOCK, EVENT, Timer, timers
from minispark_stream.lens.view.words import clock_words, plural, row_words, time_words

MOST_DOTS = 40  # of a batch in a plane, before they are grouped
MOST_OF_ALL = 900
MOST_BATCHES = 60
BINS = 48  # grouped dots, from the earliest to the latest event time

# What a dot can be, in the order of the legend.
COUNTED, BEHIND, DROPPED, TWICE, NULL, OUT, AWAY = (
    "counted", "behind, but counted", "dropped as late", "duplicate, or beyond the limit", "no event time",
    "left out by a filter, or not known", "dropped by the operator",
)
KINDS = {
    KEPT: COUNTED, PASSED: COUNTED, LATE: DROPPED, DUPLICATE: TWICE, BEYOND: TWICE, LEFT_OUT: OUT, UNKNOWN: OUT,
    TURNED_AWAY: AWAY,
}


@dataclass(frozen=True)
class Dot:
    """One row, or `count` rows in `height_ms` around `ms`; `across` is its place in the column of its batch, from 0 to 1.

    `ms` is None if there is no event time.
    """

    batch: int
    across: float
    ms: float | None
    kind: str
    count: int
    title: str
    height_ms: float = 0


@dataclass(frozen=True)
class EventTimeSpan:
    """What a progress report says about the event times of a batch."""

    batch: int
    min_ms: float
    max_ms: float
    avg_ms: float | None


@dataclass(frozen=True)
class Plane:
    """One part of the picture. `stairs` are watermarks by name: the time in each batch, None if there is none yet.

    `clock` is the kind of time on the vertical axis.
    """

    title: str
    dots: tuple[Dot, ...]
    bands: tuple[Band, ...]
    stairs: Mapping[str, Sequence[int | None]]
    spans: tuple[EventTimeSpan, ...] = ()
    dropped: Mapping[int, int] = field(default_factory=dict)
    timers: tuple[Timer, ...] = ()
    clock: str = "event time"

    def times(self) -> Iterator[float]:
        """Every time in the plane, except timers before all else, such as those that were set when there was no watermark."""
        others = list(self._times_of_others())
        yield from (*others, *(timer.ms for timer in self.timers if timer.ms >= min(others, default=0)))

    def _times_of_others(self) -> Iterator[float]:
        yield from (dot.ms for dot in self.dots if dot.ms is not None)
        for band in self.bands:
            yield from (band.start_ms, band.end_ms)
        for span in self.spans:
            yield from (span.min_ms, span.max_ms)
        for stair in self.stairs.values():
            yield from (ms for ms in stair if ms)


def planes(found: Fates) -> tuple[Plane, ...]:
    """The planes of a trace that has event times; none if it has no event times."""
    if any(batch.arrivals is not None for batch in found.batches):
        made = [_plane(found, title, place, rows) for title, place, rows in _places(found)]
        made += _above(found)
        made += _by_the_clock(found)
    else:
        made = [_told(found)]
    shown = [_newest(plane, first_shown(found)) for plane in made]
    return tuple(plane for plane in shown if any(True for _ in plane.times()))


def first_shown(found: Fates) -> int:  # (4)
    """The number of the first batch in the picture."""
    return max(len(found.batches) - MOST_BATCHES, 0)


def _newest(plane: Plane, first: int) -> Plane:
    """The plane from batch `first` on, which gets the number 0."""
    kept = []
    for band in plane.bands:
        rows = {n - first: count for n, count in band.rows.items() if n >= first}
        if rows:
            extents = {n - first: ends for n, ends in band.extents.items()}
            kept.append(replace(band, rows=rows, extents=extents, emitted=tuple(n - first for n in band.emitted)))
    return replace(
        plane,
        dots=tuple(replace(dot, batch=dot.batch - first) for dot in plane.dots if dot.batch >= first),
        bands=tuple(kept),
        stairs={name: stair[first:] for name, stair in plane.stairs.items()},
        spans=tuple(replace(span, batch=span.batch - first) for span in plane.spans if span.batch >= first),
        dropped={n - first: count for n, count in plane.dropped.items() if n >= first},
        timers=tuple(
            replace(timer, first=max(timer.first - first, 0), last=None if timer.last is None else timer.last - first)
            for timer in plane.timers if timer.last is None or timer.last >= first
        ),
    )


def _places(found: Fates) -> Iterator[tuple[str, tuple[int, int] | None, list[Fate]]]:  # (1)
    """Title, operator and side, and rows of every plane. Rows that reached no operator are with those of their source."""
    reached: dict[tuple[int, int], list[Fate]] = {}
    side_of_source: dict[str, tuple[int, int]] = {}
    for fate in found.rows:
        if fate.operator is not None:
            place = (fate.operator.operator_id, fate.at.get("side") or 0)
            reached.setdefault(place, []).append(fate)
            side_of_source.setdefault(fate.source, place)
    elsewhere = [fate for fate in found.rows if fate.operator is None]
    if not reached:
        yield "", None, elsewhere
    for place, rows in sorted(reached.items()):
        operator = next(f.operator for f in rows if f.operator is not None)
        name = ("left side", "right side")[place[1]] if operator.join_type else ""
        own = [fate for fate in elsewhere if side_of_source.get(fate.source, min(reached)) == place]
        title = ", ".join(filter(None, [f"operator {place[0]}: {operator.operator}", name]))
        yield title, place, sorted([*rows, *own], key=lambda fate: fate.number)


def _plane(found: Fates, title: str, place: tuple[int, int] | None, rows: Sequence[Fate]) -> Plane:
    held = [h for h in found.holdings if (h.operator_id, h.side) == place and h.merged != h.opened]
    dots: list[Dot] = []
    times = [fate.event_ms for fate in rows if fate.event_ms is not None]
    low, high = min(times, default=0), max(times, default=1)
    most = max(10, min(MOST_DOTS, MOST_OF_ALL // min(len(found.batches), MOST_BATCHES)))
    for number, of_batch in groupby(rows, key=lambda fate: fate.batch.number):
        single = [_kind(list(group)) for _, group in groupby(of_batch, key=lambda fate: fate.number)]  # (2)
        dots += _grouped(number, single, low, high) if len(single) > most else _single(number, single)
    own = timers(found, place[0]).get(EVENT, ()) if place else ()
    return Plane(title, tuple(dots), bands(found, held), _stairs(found.batches, place), timers=own)


def _above(found: Fates) -> Iterator[Plane]:  # (1)
    """The operators that receive only what others have emitted, from the lowest up: their windows, but no dots."""
    reached = {fate.operator.operator_id for fate in found.rows if fate.operator is not None}
    above: dict[tuple[int, int], list[Fate]] = {}
    for fate in (fate for of_row in found.emitted.values() for fate in of_row):
        if fate.operator is not None and fate.operator.operator_id not in reached:
            above.setdefault((fate.operator.operator_id, fate.side), []).append(fate)
    for place, rows in sorted(above.items(), reverse=True):
        below = ", ".join(sorted({fate.source for fate in rows}))
        assert rows[0].operator is not None
        plane = _plane(found, f"operator {place[0]}: {rows[0].operator.operator}, of what {below} has emitted", place, ())
        yield replace(plane, dropped=Counter(fate.batch.number for fate in rows if fate.what == LATE))


def _by_the_clock(found: Fates) -> Iterator[Plane]:  # (6)
    functions = {n: one.operator for batch in found.batches for n, one in batch.operators.items() if one.keeps == "values"}
    for number, name in sorted(functions.items()):
        if own := timers(found, number).get(CLOCK):
            stairs = {CLOCK_STAIR: [batch.clock_ms for batch in found.batches]}
            yield Plane(f"operator {number}: {name}, its timers", (), (), stairs, timers=own, clock="processing time")


def _kind(fates: Sequence[Fate]) -> tuple[str, Fate]:
    best = next((fate for fate in fates if fate.what in (KEPT, PASSED)), fates[0])
    if best.event_ms is None:
        return NULL, best
    if best.is_behind:
        return BEHIND, best
    return KINDS[best.what], best


def _single(number: int, rows: Sequence[tuple[str, Fate]]) -> Iterator[Dot]:
    for i, (kind, fate) in enumerate(rows):
        at = "" if fate.event_ms is None else f", event time {clock_words(fate.event_ms)}"
        title = f"{row_words(fate.row)}\nbatch {fate.batch.batch_id}{at}: {kind}"
        yield Dot(number, (i + 1) / (len(rows) + 1), fate.event_ms, kind, 1, title)


def _grouped(number: int, rows: Sequence[tuple[str, Fate]], low: float, high: float) -> Iterator[Dot]:  # (3)
    size = (high - low) / BINS or 1
    bins = Counter((kind, None if f.event_ms is None else int((f.event_ms - low) / size)) for kind, f in rows)
    kinds = [COUNTED, *sorted({kind for kind, _ in bins} - {COUNTED})]
    for (kind, place), count in sorted(bins.items(), key=str):
        ms = None if place is None else low + (place + 0.5) * size
        about = "" if ms is None else f", event time about {clock_words(ms)}"
        title = f"{plural(count, 'row')}{about}: {kind}"
        yield Dot(number, (kinds.index(kind) + 1) / (len(kinds) + 1), ms, kind, count, title, size)


LATE_STAIR, EVICTION_STAIR = "late watermark", "eviction watermark"  # where no operator says what it does with them
DROPS_STAIR = "late watermark: what ends by then is dropped"
EVICTS_STAIR = "eviction watermark: what ends by then is evicted"
SIDE_STAIR = "state watermark of this side: rows up to it are evicted"
CLOCK_STAIR = "time of the batch: timers before it fire"


def _stairs(batches: Sequence[BatchFacts], place: tuple[int, int] | None) -> dict[str, Sequence[int | None]]:
    operators = [batch.operators.get(place[0]) if place else None for batch in batches]
    eviction = [o.eviction_ms if o else b.eviction_ms for o, b in zip(operators, batches)]
    decided = [o if o and o.keeps else None for o in operators]
    if place is None or not any(decided):
        return {LATE_STAIR: [o.late_ms if o else b.late_ms for o, b in zip(operators, batches)], EVICTION_STAIR: eviction}
    leaves = [o.leaves(place[1]) if o and o.eviction_ms else None for o in decided]
    late = {DROPS_STAIR: [o.drops_ms if o else None for o in decided]}
    if any(o and o.join_type for o in decided):
        return {**late, EVICTION_STAIR: eviction, SIDE_STAIR: leaves}
    return {**late, EVICTS_STAIR if any(leaves) else EVICTION_STAIR: eviction}


def _told(found: Fates) -> Plane:  # (5)
    spans, left = [], []
    for batch in found.batches:
        times = batch.event_times
        if "min" in times and "max" in times:
            has_null = times["min"] == 0 < times["max"]  # a null event time counts as 1970: neither least nor average is known
            low, average = (times["max"], None) if has_null else (times["min"], times.get("avg"))
            spans.append(EventTimeSpan(batch.number, low, times["max"], average))
        for start_ms, end_ms in sorted({w for row in batch.rows_out or () if (w := _window(row)) is not None}):
            title = f"[{time_words(start_ms)}, {clock_words(end_ms)}) left in batch {batch.batch_id}"
            own = {batch.number: (start_ms, end_ms)}
            left.append(Band(start_ms, end_ms, {batch.number: 0}, own, (batch.number,), batch.number, title))
    dropped = {
        batch.number: count for batch in found.batches
        if (count := sum(o.metrics.get("numRowsDroppedByWatermark") or 0 for o in batch.operators.values()))
    }
    return Plane("", (), tuple(left), _stairs(found.batches, None), tuple(spans), dropped)


def _window(row: Any) -> tuple[float, float] | None:
    """The window of a row that has one."""
    for value in row.values():
        if is_window(value):
            start, end = shown_ms(value["start"]), shown_ms(value["end"])
            if start is not None and end is not None:
                return start, end
    return None
