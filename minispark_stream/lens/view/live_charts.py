"""What a running query has done so far, in six small charts as in the Structured Streaming tab of Spark's UI.

    rows per second      how fast they arrive, and how fast they are processed
    rows in a batch      how many each batch read, and how many were dropped as late
    time of a batch      by phase, one bar for each batch
    watermark            how far it is behind the newest event time
    state rows           how many rows all stateful operators keep
    state memory         how much memory these rows take

In every chart, the batches go from left to right. A chart that has nothing to show, such as the watermark of a query without
one, says so. They are drawn from the progress reports only, which both engines write in the same way.

In Spark's UI, the clock goes from left to right, and the watermark is compared with the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from minispark_stream.engine.times import iso_ms
from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.view.batch_table import batch_rows
from minispark_stream.lens.view.measure import settings
from minispark_stream.lens.view.sheet import svg_of
from minispark_stream.lens.view.timeline import PHASES, phases

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PALE, BLUE, RED, GREEN = "#1d2733", "#5b6875", "#245482", "#c62828", "#5aa46f"
Series = dict[str, list[float | None]]


def series(recording: Recording) -> dict[str, Series]:
    """The numbers of every chart: title -> name of a line -> a number for each batch; no lines if nothing is known."""
    batches = [batch for batch in recording.batches if batch.progress]
    rows = [row for row, batch in zip(batch_rows(recording), recording.batches) if batch.progress]
    late = [row["late_rows"] for row in rows]
    behind = _behind(batches, [row["watermark_ms"] for row in rows])
    charts: dict[str, Series] = {
        "rows per second": {
            "arriving": [_rate(batch, "inputRowsPerSecond") for batch in batches],
            "processed": [_rate(batch, "processedRowsPerSecond") for batch in batches],
        },
        "rows in a batch": {
            "read": [row["rows_in"] for row in rows], **({"dropped as late": late} if any(late) else {}),
        },
        "time of a batch (s)": {
            name: [phases(batch)[name] / 1000 for batch in batches] for name in PHASES
        },
        "watermark behind the newest event (s)": {"behind": behind},
        "state rows": {"in the state": [row["state_rows"] for row in rows]},
        "state memory (kB)": {"memory": [None if (size := row["state_bytes"]) is None else size / 1000 for row in rows]},
    }
    return {
        title: {name: line for name, line in lines.items() if any(n is not None for n in line)}
        for title, lines in charts.items()
    }


def _behind(batches: Sequence[Batch], watermarks: Sequence[int | None]) -> list[float | None]:
    newest = accumulate((iso_ms(b.progress.get("eventTime", {}).get("max")) or 0 for b in batches), max)
    return [(high - mark) / 1000 if mark and high else None for high, mark in zip(newest, watermarks)]


def _rate(batch: Batch, name: str) -> float | None:
    """A rate of a batch; None if no time has passed, so that Spark writes "NaN" or "Infinity"."""
    value = batch.progress.get(name)
    return value if isinstance(value, (int, float)) and abs(value) < float("inf") else None


def svg(recording: Recording) -> str:
    """The charts of all batches as one SVG picture.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    ids = [batch.batch_id for batch in recording.batches if batch.progress]
    with settings():
        figure = Figure(figsize=(11, 4.3))
        figure.subplots_adjust(left=0.035, right=0.99, bottom=0.055, top=0.95, wspace=0.13, hspace=0.3)
        for ax, (title, lines) in zip(figure.subplots(2, 3).flat, series(recording).items()):
            _chart(ax, title, lines, ids)
    return svg_of(figure, {}, "live-charts")


def _chart(ax: Axes, title: str, lines: Series, ids: Sequence[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.set_title(title, loc="left", fontsize=9.5, color=INK, parse_math=False)
    ax.spines[["left", "bottom"]].set_color("#c3ccd6")
    ax.tick_params(colors=PALE, length=3, labelsize=8)
    if not lines:
        ax.set_xticks([]), ax.set_yticks([])
        ax.text(0.5, 0.5, "none", ha="center", va="center", color="#98a2ad", fontsize=11, transform=ax.transAxes)
        return
    _DRAWN.get(title, _line)(ax, lines, range(len(ids)))
    shown = list(range(len(ids)))[:: -(-len(ids) // 10) or 1]
    ax.set_xticks(shown, [str(ids[i]) for i in shown])
    ax.set_xlim(-0.6, max(len(ids), 6) - 0.4)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=title in ("rows in a batch", "state rows")))
    ax.grid(axis="y", color="#edf0f3", linewidth=0.8)
    ax.set_axisbelow(True)
    if len(lines) > 1:
        columns = 4 if len(lines) > 3 else 2
        ax.legend(
            fontsize=7, frameon=False, loc="upper left", ncols=columns, labelcolor=PALE, handlelength=1.0, columnspacing=1.0,
        )
        ax.set_ylim(top=ax.get_ylim()[1] * 1.3)


def _line(ax: Axes, lines: Series, at: Sequence[int]) -> None:
    for (name, line), colour in zip(lines.items(), (BLUE, GREEN)):
        values = [float("nan") if n is None else n for n in line]
        ax.plot(at, values, color=colour, linewidth=1.6, marker="o" if len(at) <= 60 else "", markersize=2.6, label=name)
        if len(lines) == 1:
            ax.fill_between(at, values, color=colour, alpha=0.12, linewidth=0)


def _bars(ax: Axes, lines: Series, at: Sequence[int]) -> None:
    for (name, line), colour in zip(lines.items(), (BLUE, RED)):
        ax.stairs([n or 0 for n in line], _edges(at), fill=True, color=colour, label=name)


def _stack(ax: Axes, lines: Series, at: Sequence[int]) -> None:
    below = [0.0] * len(at)
    for name, line in lines.items():
        above = [low + (n or 0) for low, n in zip(below, line)]
        ax.stairs(above, _edges(at), baseline=below, fill=True, color=PHASES[name], label=name)
        below = above


def _edges(at: Sequence[int]) -> list[float]:
    """One path for all bars, which is quicker to draw than one for each."""
    return [i - 0.5 for i in range(len(at) + 1)]


_DRAWN: dict[str, Callable[[Axes, Series, Sequence[int]], None]] = {"rows in a batch": _bars, "time of a batch (s)": _stack}
