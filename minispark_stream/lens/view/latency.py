"""How old rows are when they reach the sink, as histograms on one axis: micro-batches, continuous processing, real-time mode.

    picture({"micro-batch": [850.0, 910.0, ...], "continuous": [11.0, 13.0, ...]})

The axis is logarithmic, because they are a factor of a hundred apart. A dashed line is the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from minispark_stream.lens.view.measure import settings
from minispark_stream.lens.view.sheet import CELL, legend_above, svg_of
from minispark_stream.lens.view.timeline import Picture

if TYPE_CHECKING:
    from matplotlib.axis import Axis

COLOURS = ("#4a7fb5", "#5aa46f", "#9c7bc0", "#d97b4a")
BINS_PER_DECADE = 10


def plain_numbers(axis: Axis) -> None:
    """10,000 in place of a power of ten, or of a number that is hard to read."""
    axis.set_major_formatter("{x:,.12g}")
    axis.set_minor_formatter("")


def picture(milliseconds: Mapping[str, Sequence[float]]) -> Picture:
    """A histogram for each list of latencies.

    Args:
        milliseconds: name of a histogram -> the age of each row.

    Raises:
        ValueError: a list is empty.
        ModuleNotFoundError: matplotlib is not installed.
    """
    import numpy as np
    from matplotlib.figure import Figure

    values = {name: np.maximum(np.asarray(given, float), 0.1) for name, given in milliseconds.items()}
    if not values or not all(len(one) for one in values.values()):
        raise ValueError("a histogram needs at least one latency")
    low = np.floor(np.log10(min(one.min() for one in values.values())) * BINS_PER_DECADE)
    high = np.ceil(np.log10(max(one.max() for one in values.values())) * BINS_PER_DECADE) + 1
    bins = 10 ** (np.arange(low, high + 1) / BINS_PER_DECADE)
    with settings():
        figure = Figure(figsize=(8.5, 3.5), layout="constrained")
        ax = figure.subplots()
        for (name, one), colour in zip(values.items(), COLOURS):
            share = np.full(len(one), 100 / len(one))
            label = f"{name}: median {median(one):,.0f} ms"
            ax.hist(one, bins=bins.tolist(), weights=share, color=colour, alpha=0.75, label=label)
            ax.axvline(median(one), color=colour, linestyle="--", linewidth=1)
        ax.set_xscale("log")
        plain_numbers(ax.xaxis)
        ax.set_xlabel("age of a row when the sink has it, in ms", loc="left")
        ax.set_ylabel("% of the rows")
        legend_above(figure, ax.get_legend_handles_labels()[0], CELL)
        return Picture(svg_of(figure, {}, "latency"))
