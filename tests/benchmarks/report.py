"""What `make bench` measured, as a table of text and as a page with a chart."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Run:
    """One run of one variant: ms per trigger after the warm-up, and the batches: (batchId, rows, rows of state)."""

    triggers: list[float]
    work: list[tuple[int, int, int]]

    @property
    def median(self) -> float:
        return statistics.median(self.triggers)


@dataclass(frozen=True)
class Ratio:
    """The median of `over` / `under` over the rounds, with the least and the most."""

    over: str
    under: str
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, runs: Mapping[str, Sequence[Run]], over: str, under: str) -> Ratio:
        # the runs of one round are minutes apart at most, so what the machine does meanwhile divides out
        each = [one.median / other.median for one, other in zip(runs[over], runs[under], strict=True)]
        return cls(over, under, statistics.median(each), min(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


@dataclass(frozen=True)
class Row:
    """What was measured of a workload: ms per trigger of each variant, the median and by rounds; the first ratio is model / spark."""

    workload: str
    says: str
    goal: float
    medians: dict[str, float]
    runs: dict[str, list[list[float]]]
    ratios: list[Ratio]

    @property
    def ratio(self) -> Ratio:
        return self.ratios[0]


def table(rows: Sequence[Row]) -> pd.DataFrame:
    """A line for each workload: ms per trigger of each variant, then the ratios with their spread over the rounds."""
    lines = {
        row.workload: {name: f"{ms:,.0f}" for name, ms in row.medians.items()}
        | {f"{ratio.over} / {ratio.under}": str(ratio) for ratio in row.ratios}
        | {"goal": f"{row.goal}"}
        for row in rows
    }
    return pd.DataFrame.from_dict(lines, orient="index").fillna("")


def print_table(rows: Sequence[Row]) -> None:
    for row in rows:
        print(f"\n{row.workload}: {row.says}   (ms per trigger)")
    print(table(rows).to_string(), flush=True)


def write_page(path: Path, machine: str, rows: Sequence[Row]) -> None:
    says = "".join(f"<dt>{escape(row.workload)}</dt><dd>{escape(row.says)}</dd>" for row in rows)
    path.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Milliseconds per trigger</title>"
        "<style>body { font: 15px system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }"
        "td, th { padding: .3em .8em; text-align: right; border-bottom: 1px solid #ddd } table { border-collapse: collapse }"
        "dt { font-weight: bold } svg { width: 100%; height: auto } div { overflow-x: auto }</style>"
        f"<h1>Milliseconds per trigger</h1><p>{escape(machine)}</p>{_chart(rows)}<div>{table(rows).to_html(border=0)}</div><dl>{says}</dl></html>"
    )


def _chart(rows: Sequence[Row]) -> str:
    """The model's time as a share of Spark's: a dot for the median of the rounds, a line for their spread, a mark for the goal."""
    figure = Figure(figsize=(9, 0.8 + 0.45 * len(rows)), layout="constrained")
    axes = figure.subplots()
    at = range(len(rows))
    for row, y in zip(rows, at):
        axes.plot([row.ratio.least, row.ratio.most], [y, y], color="#3b6fb6", linewidth=2)
    axes.plot([row.ratio.median for row in rows], at, "o", color="#3b6fb6", label="model / spark: median and spread")
    axes.plot([row.goal for row in rows], at, "|", color="#b65a3b", markersize=16, markeredgewidth=2, label="goal")
    axes.axvline(1, color="#888888", linewidth=1)
    axes.set_yticks(at, [row.workload for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("time of the model as a share of real Structured Streaming's (left of 1 is faster)")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
