"""The picture of event time, drawn: batches across, event time up.

1. event_plane.py has decided what is drawn where; this module draws it with matplotlib, with one axes object for each plane.
2. The picture is SVG, and its text stays text. Its ids are the same in every run, and it has no date.
3. A thing with a title gets an id when it is drawn, and afterwards a `<title>` under this id, which browsers show as a tooltip.

    dots      blue: counted   orange: behind, but counted red cross: dropped   grey: left out (many counted rows: bars)
    bands     a window, darker with every row; green in the batches that emit it; ends where it is evicted. Windows that overlap
              are side by side: each has a lane of its own in the column of a batch
    stairs    red: late watermark   amber: eviction watermark   violet: state watermark of a side of a join
    timers    a dotted line at the time of the timer, from the batch that sets it; a star where it fires
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from minispark_stream.lens.trace.fates import Fates
from minispark_stream.lens.view.event_bands import Band
from minispark_stream.lens.view.event_plane import (
    AWAY,
    BEHIND,
    CLOCK_STAIR,
    COUNTED,
    DROPPED,
    DROPS_STAIR,
    EVICTION_STAIR,
    EVICTS_STAIR,
    LATE_STAIR,
    NULL,
    OUT,
    SIDE_STAIR,
    TWICE,
    Dot,
    Plane,
    first_shown,
    planes,
)
from minispark_stream.lens.view.event_timers import Timer
from minispark_stream.lens.view.measure import round_times, settings
from minispark_stream.lens.view.sheet import CELL, COVER, INK, PALE, POINTS, legend_above, svg_of
from minispark_stream.lens.view.words import clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS = {  # kind -> (marker, colour, colour of the edge)
    COUNTED: ("o", "#245482", "white"), BEHIND: ("o", "#f0a020", "#7a4b00"), DROPPED: ("X", "#c62828", "white"),
    TWICE: ("X", "#7a7f87", "white"), OUT: ("o", "#ffffff", "#7a7f87"), NULL: ("s", "#ffffff", "#7a7f87"),
    AWAY: ("X", "#7a7f87", "white"),
}
STAIRS: dict[str, tuple[str, Any]] = {
    LATE_STAIR: ("#c62828", "-"), DROPS_STAIR: ("#c62828", "-"),
    EVICTION_STAIR: ("#8a5600", "--"), EVICTS_STAIR: ("#8a5600", "--"),
    SIDE_STAIR: ("#6a3fa0", "-."), CLOCK_STAIR: ("#245482", "-"),
}
TIMER = "#6a3fa0"
OPEN, EMITTED, EDGE = "#9cc3e6", "#5aa46f", "#6d8fae"
MOST_LABELS = 60  # numbers of rows in bands, before they are left out
MOST_NAMES = 12  # of lines, before they are left out
MOST_LANES = 6  # beside each other, in the column of a batch


def svg(found: Fates) -> str | None:
    """The picture as SVG; None if the trace has no event times.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    drawn = planes(found)
    if not drawn:
        return None
    from matplotlib.figure import Figure

    batches = found.batches[first_shown(found):]
    names = [f"batch {b.batch_id}" if len(batches) <= 16 else str(b.batch_id) for b in batches]
    with settings():
        width = min(max(1.2 + 0.8 * len(names), CELL / POINTS), 15.0)
        handles = _legend(drawn)
        figure = Figure(figsize=(width, 4.4 * len(drawn) + 0.2 + 0.2 * len(handles)), layout="constrained")
        axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
        titles: dict[str, str] = {}
        for number, (plane, ax) in enumerate(zip(drawn, axes)):  # (1)
            drawing = _Drawing(ax, plane, [batch.batch_id for batch in batches], f"p{number}", titles)
            drawing.draw()
            drawing.cover()
        every = -(-len(names) // 30)
        axes[-1].set_xticks([i + 0.5 for i in range(len(names))][::every], names[::every], parse_math=False)
        newest = f" (the newest {len(names)})" if len(names) < len(found.batches) else ""
        axes[-1].set_xlabel(f"processing time, batch by batch{newest}", loc="left")
        legend_above(figure, handles)
        figure.draw_without_rendering()  # the places of the axes are decided when it is drawn
        boxes, height = [ax.get_window_extent() for ax in axes], figure.bbox.height
        inch = POINTS / figure.dpi
        stays = boxes[0].x0 * inch, (height - boxes[0].y1) * inch, (height - boxes[-1].y0) * inch
    return svg_of(figure, titles, "event-time", stays)  # (2) (3)


class _Drawing:
    """One plane on its axes. `titles` collects the tooltips, by the ids of what they belong to."""

    def __init__(self, ax: Axes, plane: Plane, batch_ids: Sequence[int], prefix: str, titles: dict[str, str]):
        self.ax, self.plane, self.batch_ids, self.prefix, self.titles = ax, plane, batch_ids, prefix, titles
        times = list(plane.times())
        low, high = min(times), max(times)
        margin = (high - low) * 0.06 or 60_000
        self.low, self.high = low - margin, high + margin
        self.lanes = min(max((band.lane for band in plane.bands), default=0) + 1, MOST_LANES)
        self.null_ms = self.low - (self.high - self.low) * 0.07  # rows without an event time are drawn below the plane

    def draw(self) -> None:
        ax, has_null = self.ax, any(dot.ms is None for dot in self.plane.dots)
        ax.set_xlim(0, len(self.batch_ids))
        ax.set_ylim(self.null_ms - (self.low - self.null_ms) * 0.6 if has_null else self.low, self.high)
        ax.set_yticks(*round_times(self.low, self.high))
        ax.set_ylabel(f"{self.plane.clock} (UTC)")
        ax.set_title(self.plane.title, loc="left", fontsize=11, parse_math=False)
        for i in range(1, len(self.batch_ids)):
            ax.axvline(i, color=PALE, linewidth=0.8, zorder=0)
        if has_null:
            ax.axhline(self.low, color=PALE, linewidth=0.8)
            ax.text(0.05, self.null_ms, "null", color="#5b6875", va="center", fontsize=9)
        for number, band in enumerate(self.plane.bands):
            self._band(f"{self.prefix}-band-{number}", band)
        for name, stair in self.plane.stairs.items():
            self._stair(name, stair)
        for number, timer in enumerate(self.plane.timers):
            self._timer(f"{self.prefix}-timer-{number}", timer)
        for number, dot in enumerate(self.plane.dots):
            self._dot(f"{self.prefix}-dot-{number}", dot)
        self._told()

    def cover(self) -> None:
        """What hides a batch until it has happened."""
        from matplotlib.patches import Rectangle

        low, high = self.ax.get_ylim()
        for n, batch_id in enumerate(self.batch_ids):  # without the line at its left, and with that at its right
            self.ax.add_patch(Rectangle(
                (n + 0.02, low), 1.02, high - low, facecolor="white", edgecolor="none", zorder=9, clip_on=False,
                gid=f"{self.prefix}{COVER}{batch_id}",
            ))

    def _band(self, gid: str, band: Band) -> None:
        from matplotlib.patches import Rectangle

        if band.start_ms == band.end_ms:
            self._held(gid, band)
            return
        most, label = max([*band.rows.values(), 1]), sum(len(b.rows) for b in self.plane.bands) <= MOST_LABELS
        lane, wide = band.lane % self.lanes / self.lanes, 1 / self.lanes
        for batch, count in band.rows.items():
            (start, end), emits = band.extents[batch], batch in band.emitted
            self.ax.add_patch(Rectangle(
                (batch + lane, start), wide, end - start, facecolor=EMITTED if emits else OPEN, edgecolor="none", zorder=1,
                alpha=0.55 if emits else 0.12 + 0.38 * count / most, gid=f"{gid}-{batch}",
            ))
            self.ax.hlines([start, end], batch + lane, batch + lane + wide, color=EDGE, linewidth=0.8, zorder=2)
            self.titles[f"{gid}-{batch}"] = band.title
            if label and count:
                place = batch + lane + wide * 0.97, self._free_place(batch, lane + wide, start, end)
                self.ax.text(
                    *place, f"{count}{' out' if emits else ''}", ha="right", va="center", fontsize=7.5, zorder=7,
                    color="#1d5a33" if emits else "#3d5a73",
                )
        for batch in [min(band.rows)] if self.lanes == 1 else band.rows:  # where a band begins or continues
            self.ax.plot([batch + lane] * 2, band.extents[batch], color=EDGE, linewidth=0.8, zorder=2)
        if band.evicted is not None:
            last = max(band.rows)
            self.ax.vlines(last + lane + wide, *band.extents[last], color=INK, linewidth=2.2, zorder=3, clip_on=False)

    def _free_place(self, batch: int, right: float, start_ms: float, end_ms: float) -> float:
        """A place in a band where no watermark or dot crosses a number: at its upper edge, or else where there is most room."""
        inside = min(0.025 * (self.high - self.low), (end_ms - start_ms) / 2)  # half a number's height, and a little
        lines: list[float | None] = [stair[batch] for stair in self.plane.stairs.values()]
        lines += [dot.ms for dot in self.plane.dots if dot.batch == batch and right - 0.25 < 0.06 + 0.8 * dot.across < right]
        places = (end_ms - inside, start_ms + inside, (start_ms + end_ms) / 2)
        room = [min((abs(place - line) for line in lines if line), default=inside) for place in places]
        return next((place for place, free in zip(places, room) if free >= inside), places[room.index(max(room))])

    def _held(self, gid: str, band: Band) -> None:
        first, last = min(band.rows), max(band.rows) + 1
        line = self.ax.plot([first, last], [band.start_ms] * 2, color=OPEN, linewidth=3, zorder=1, solid_capstyle="butt")
        line[0].set_gid(gid)
        self.titles[gid] = band.title
        self._name(band.name, first, band.start_ms, "#245482")
        if band.evicted is not None:
            self.ax.plot([last], [band.start_ms], "|", color=INK, markersize=9, markeredgewidth=2, zorder=3, clip_on=False)

    def _timer(self, gid: str, timer: Timer) -> None:
        end, ms = len(self.batch_ids) if timer.last is None else timer.last + 0.85, max(timer.ms, self.low)
        self.ax.hlines(ms, timer.first + 0.15, end, color=TIMER, linewidth=1.6, linestyle=":", zorder=5, gid=gid)
        self.titles[gid] = timer.title
        self._name(timer.name, timer.first + 0.15, ms, TIMER)
        if timer.last is not None:
            look, gid = "*" if timer.fired else "|", f"{gid}-end"
            self.ax.plot([end], [ms], look, color=TIMER, markersize=10, zorder=6, gid=gid)
            self.titles[gid] = timer.title

    def _name(self, name: str, x: float, ms: float, colour: str) -> None:
        """Whose a line is, above its beginning, or below if another line is there; of too many lines, their tooltips say it."""
        lines = [*(band.start_ms for band in self.plane.bands), *(timer.ms for timer in self.plane.timers)]
        if len(lines) <= MOST_NAMES:
            below = any(ms < line < ms + 0.06 * (self.high - self.low) for line in lines)
            self.ax.annotate(
                clip(name, 32), (x, ms), (3, -3 if below else 3), textcoords="offset points", va="top" if below else "bottom",
                color=colour, fontsize=8, parse_math=False, zorder=7,
            )

    def _stair(self, name: str, stair: Sequence[int | None]) -> None:
        colour, style = STAIRS[name]
        for run in _runs(stair):
            xs = [x for batch, _ in run for x in (batch, batch + 1)]
            ys = [ms for _, ms in run for _ in range(2)]
            self.ax.plot(xs, ys, color=colour, linestyle=style, linewidth=2, zorder=4, label=name)

    def _dot(self, gid: str, dot: Dot) -> None:
        marker, colour, edge = DOTS[dot.kind]
        self.titles[gid] = dot.title
        if dot.height_ms and dot.kind == COUNTED and dot.ms is not None:
            width = 0.55 * dot.count / max(d.count for d in self.plane.dots if d.kind == COUNTED)
            self.ax.barh(
                dot.ms, max(width, 0.015), dot.height_ms * 0.9, dot.batch + 0.06, color=colour, zorder=5
            )[0].set_gid(gid)
            return
        size = 46 if dot.count == 1 else min(30 + 14 * dot.count**0.75, 320)
        self.ax.scatter(
            [dot.batch + 0.06 + 0.8 * dot.across], [self.null_ms if dot.ms is None else dot.ms], s=size, marker=marker,
            facecolor=colour, edgecolor=edge, linewidth=0.9, zorder=6, gid=gid,
        )

    def _told(self) -> None:
        """What a progress report shows instead of rows."""
        for span in self.plane.spans:
            across, up = [span.batch + 0.5] * 2, [span.min_ms, span.max_ms]
            self.ax.plot(across, up, color="#245482", linewidth=7, alpha=0.5, zorder=5, solid_capstyle="projecting")
            if span.avg_ms is not None:
                self.ax.plot([span.batch + 0.5], [span.avg_ms], "o", color="#245482", zorder=6)
        for batch, count in self.plane.dropped.items():
            self.ax.text(batch + 0.5, self.low, f"✗ {count} dropped", color="#c62828", ha="center", va="bottom", fontsize=9)


def _runs(stair: Sequence[int | None]) -> Iterable[list[tuple[int, Any]]]:
    """The parts of a stair that are known; a watermark of 0 is none yet."""
    return (list(run) for is_known, run in groupby(enumerate(stair), key=lambda step: bool(step[1])) if is_known)


def _legend(drawn: Sequence[Plane]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = {dot.kind for plane in drawn for dot in plane.dots}
    handles: list[Any] = [
        Line2D([], [], linestyle="", marker=marker, markerfacecolor=colour, markeredgecolor=edge, markersize=8, label=kind)
        for kind, (marker, colour, edge) in DOTS.items() if kind in kinds
    ]
    if any(plane.spans for plane in drawn):
        label = "event times of a batch, and their average"
        handles.append(Line2D([], [], color="#245482", linewidth=6, alpha=0.5, label=label))
    stairs = {name for plane in drawn for name, stair in plane.stairs.items() if any(stair)}
    handles += [
        Line2D([], [], color=colour, linestyle=style, linewidth=2, label=name)
        for name, (colour, style) in STAIRS.items() if name in stairs
    ]
    if any(plane.timers for plane in drawn):
        label = "timer of a key, until it fires (star) or is taken back"
        handles.append(Line2D([], [], color=TIMER, linewidth=1.6, linestyle=":", marker="*", markersize=8, label=label))
    bands = [band for plane in drawn for band in plane.bands]
    if any(band.start_ms < band.end_ms for band in bands):
        handles += [Patch(color=OPEN, alpha=0.5, label="window in the state, darker with each row of it"),
                    Patch(color=EMITTED, alpha=0.55, label="emitted; a thick edge: evicted")]
    if any(band.start_ms == band.end_ms for band in bands):
        handles.append(Line2D([], [], color=OPEN, linewidth=3, label="held in the state; a thick end: evicted"))
    return handles
