"""How one number changes while another one grows: lines through measured points, in one or more charts side by side.

    picture({"rows per second": {"spark": [(1000, 2600), (4000, 9900)], "model": [(1000, 3100)]}}, x="rows in a batch")

1. There is a chart for each title, with a line for each name. Lines with the same name have the same colour in all charts.
2. A line goes straight from point to point. With `steps`, it keeps its height until the next point.
3. A level, such as a threshold, is a dashed line across each chart, which the legend names.
4. Lines that lie on each other, from their first point to their last, take turns, so that all colours are seen, and a line of
   words says which they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minispark_stream.lens.view.latency import COLOURS, plain_numbers
from minispark_stream.lens.view.measure import settings
from minispark_stream.lens.view.sheet import CELL, GREY, legend_above, svg_of
from minispark_stream.lens.view.timeline import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist

Points = Sequence[tuple[float, float]]
DASH = 6.0  # how long one of several lines has its turn
NEAR = 0.03  # lines lie on each other if they are never farther apart, as a part of the highest point of the chart


def picture(
    charts: Mapping[str, Mapping[str, Points]], x: str, *, log: bool = False, steps: bool = False,
    level: tuple[str, float] | None = None,
) -> Picture:
    """A chart for each title.

    Args:
        charts: title -> name of a line -> its points.
        x: what the horizontal axis of all charts is.
        log: whether both axes are logarithmic.
        steps: whether a line stays at its height until the next point.
        level: a height that is marked, and before it what it is called.

    Raises:
        ValueError: there is no line, or a line has no points.
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(name for lines in charts.values() for name in lines))
    if not names or not all(points for lines in charts.values() for points in lines.values()):
        raise ValueError("a curve needs at least one point")
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    drawn: dict[str, Artist] = {}
    with settings():
        figure = Figure(figsize=(8.5, 3.4), layout="constrained")
        for ax, (title, lines) in zip(figure.subplots(1, len(charts), squeeze=False).flat, charts.items()):
            for name, points in lines.items():  # (1)
                look: Any = {"color": colours[name], "marker": "o", "markersize": 3.5, "linewidth": 1.6, "label": name}
                (line,) = ax.plot(*zip(*points), **look)
                drawn.setdefault(name, Line2D([], [], **look))
                line.set_drawstyle("steps-post" if steps else "default")  # (2)
            for together in _together(lines) if not log else ():  # (4)
                for number, line in enumerate(line for line in ax.get_lines() if line.get_label() in together):
                    line.set_linestyle((number * DASH, (DASH, (len(together) - 1) * DASH)))
                middle = lines[together[0]][len(lines[together[0]]) // 2]
                words = f"{', '.join(together)}: the same line"
                ax.annotate(
                    words, middle, (6, 6), textcoords="offset points", fontsize=8, color=GREY, parse_math=False,
                )
            if level is not None:  # (3)
                drawn[level[0]] = ax.axhline(level[1], color="#c62828", linestyle="--", linewidth=1, label=level[0])
            if log:
                ax.set_xscale("log")
                ax.set_yscale("log")
                plain_numbers(ax.xaxis)
            else:
                ax.set_ylim(bottom=0)
                ax.locator_params(axis="x", integer=True)  # no window begins at minute 7.5
            plain_numbers(ax.yaxis)
            ax.set_title(title, loc="left", fontsize=10)
            ax.set_xlabel(x)
        legend_above(figure, list(drawn.values()), CELL)
        return Picture(svg_of(figure, {}, "curves"))


def _together(lines: Mapping[str, Points]) -> list[list[str]]:
    """The names of lines that lie on each other."""
    near = NEAR * max(y for points in lines.values() for _, y in points)
    groups: list[list[str]] = []
    for name, points in lines.items():
        mine = dict(points)
        for group in groups:
            first = dict(lines[group[0]])
            if first.keys() == mine.keys() and all(abs(y - mine[x]) <= near for x, y in first.items()):
                group.append(name)
                break
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]
