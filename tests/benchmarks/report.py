"""What `make bench` measured, as a table of text and as a page with a chart."""

from __future__ import annotations

import io
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

DISTURBED = 0.1  # cores


def now() -> str:
    """When something is measured: the date and the commit, as the pages say it."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{date.today()} at {commit}"


@dataclass(frozen=True)
class Run:
    """One run of one variant: ms per trigger after the warm-up, the batches: (batchId, rows, rows of state), and the JVM's collector.

    `collector`: the ms in which the JVM collected garbage, of all triggers, divided by their number.
    """

    triggers: list[float]
    work: list[tuple[int, int, int]]
    collector: float = 0

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
    def of(cls, rounds: Sequence[Mapping[str, Run]], over: str, under: str) -> Ratio:
        # the runs of one round are minutes apart at most, so what the machine does meanwhile divides out
        each = [of[over].median / of[under].median for of in rounds]
        return cls(over, under, statistics.median(each), min(each), max(each))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


@dataclass(frozen=True)
class Row:
    """What was measured of a workload in one setting, and its goals.

    `cold`, `medians`, `runs`: ms per trigger of each variant, in the first round, in those that count, and one by one. `against`: which of
    Spark's providers was faster; the first ratio is that of the model to it. `agreed`: whether each engine stood still in the last
    rounds. `others`: how many cores other programs had meanwhile, None where nobody looked. `collector`: the ms of a trigger in which the
    JVM collected garbage, for each variant.
    """

    workload: str
    says: str
    goal: float
    against: str
    agreed: bool
    others: float | None
    cold: dict[str, float]
    medians: dict[str, float]
    runs: dict[str, list[list[float]]]
    ratios: list[Ratio]
    distance: float | None = None
    collector: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> Ratio:
        return self.ratios[0]


def read_rows(found: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The rows of each setting, from bench.json."""
    return {
        setting: [Row(**{**row, "ratios": [Ratio(**ratio) for ratio in row["ratios"]]}) for row in rows]
        for setting, rows in found["settings"].items()
    }


def table(rows: Sequence[Row]) -> pd.DataFrame:
    """A line for each workload: ms per trigger of each variant, then the ratios with their spread over the rounds."""
    lines = {
        row.workload: {name: f"{ms:,.0f}" for name, ms in row.medians.items()}
        | {f"cold {name}": f"{row.cold[name]:,.0f}" for name in ("spark", "model") if name in row.cold}
        | {f"gc {name}": f"{row.collector[name]:,.0f}" for name in ("spark", "model") if name in row.collector}
        | {f"{ratio.over} / {'spark' if ratio.under == row.against else ratio.under}": str(ratio) for ratio in row.ratios}
        | {"goal": f"{row.goal}" + (f", {row.distance}" if row.distance else ""), "note": note(row)}
        for row in rows
    }
    return pd.DataFrame.from_dict(lines, orient="index").fillna("")


def note(row: Row) -> str:
    """What is to be known of a row before it is believed."""
    said = [] if row.agreed else ["did not stand still"]
    if row.others is not None and row.others > DISTURBED:
        said.append(f"disturbed: others had {row.others:.1f} cores")
    return ", ".join(said)


def print_table(setting: str, rows: Sequence[Row]) -> None:
    for row in rows:
        print(f"\n{row.workload}, {setting}: {row.says}   (ms per trigger)")
    print(table(rows).to_string(), flush=True)


def write_page(path: Path, machine: str, settings: Mapping[str, Sequence[Row]]) -> None:
    every = {row.workload: row.says for rows in settings.values() for row in rows}
    says = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in every.items())
    parts = "".join(
        f"<h2>{escape(name)}</h2>{_chart(rows)}<div>{table(rows).to_html(border=0)}</div>" for name, rows in settings.items()
    )
    path.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Milliseconds per trigger</title>"
        "<style>body { font: 15px system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em }"
        "td, th { padding: .3em .8em; text-align: right; border-bottom: 1px solid #ddd } table { border-collapse: collapse }"
        "dt { font-weight: bold } svg { width: 100%; height: auto } div { overflow-x: auto }</style>"
        f"<h1>Milliseconds per trigger</h1><p>{escape(machine)}</p>{parts}<dl>{says}</dl></html>"
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
