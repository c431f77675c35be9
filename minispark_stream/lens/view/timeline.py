"""How long each batch took, and where the time went: a bar for each batch, with a coloured piece for each phase.

1. The phases are the keys of `durationMs` in the progress report; the rest of triggerExecution is called "other".
2. A batch that failed has no report, so its durations are those of its events.
3. All bars have the same scale, so a slow batch is a long bar. Of a long trace, the newest batches are shown.
4. Several traces are drawn one below the other, each under the name of its engine.

    batch 0  |latestOffset|walCommit|  addBatch                     |commitOffsets|   2,375 ms
    batch 1  |..|..|  addBatch       |..|                                               812 ms

The Structured Streaming tab of Spark's UI draws the same phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from minispark_stream.lens.trace.recording import Batch
from minispark_stream.lens.view.words import duration_words

PHASES = {  # in the order in which they happen
    "latestOffset": "#4a7fb5", "walCommit": "#e6a817", "getBatch": "#7bb3d9", "queryPlanning": "#9c7bc0",
    "addBatch": "#5aa46f", "commitOffsets": "#d97b4a", "other": "#c9d1d9",
}
LABEL, BAR, ROW, LEGEND = 110, 610, 22, 340  # the legend is no wider than a phone
MOST = 100  # batches


def phases(batch: Batch) -> dict[str, float]:
    """Milliseconds of each phase of a batch."""
    given = batch.durations  # (1)
    if not given:  # (2)
        took: dict[str, float] = {}
        for event in batch.events:
            took[event.step] = took.get(event.step, 0.0) + event.duration_ms
        given = {**took, "triggerExecution": took.get("trigger", 0.0)}
    found = {name: max(given.get(name, 0.0), 0.0) for name in PHASES}
    found["other"] = max(given.get("triggerExecution", 0.0) - sum(found.values()), 0.0)
    return found


@dataclass(frozen=True)
class Picture:
    """A picture that Jupyter shows."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture as an SVG file. Returns the path."""
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)


def svg(*runs: Sequence[Batch]) -> str:
    """The bars of the newest batches of each run as one SVG picture."""
    took_of = [[(batch, phases(batch)) for batch in run[-MOST:]] for run in runs]
    longest = max((sum(took.values()) for run in took_of for _, took in run), default=0) or 1  # (3)
    legend, x, y = "", 8, 4
    for name, colour in PHASES.items():
        wide = 34 + 7 * len(name)
        if x + wide > LEGEND:
            x, y = 8, y + 18
        legend += f'<rect x="{x}" y="{y}" width="11" height="11" rx="2" fill="{colour}"/>'
        legend += f'<text x="{x + 16}" y="{y + 10}">{name}</text>'
        x += wide
    rows, top = "", y + 22
    for run in took_of:
        if len(runs) > 1 and run:  # (4)
            engine = escape(run[0][0].events[0].engine)
            rows += f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end" font-weight="bold">{engine}</text>'
            top += ROW
        for batch, took in run:
            rows += _row(top, batch, took, longest)
            top += ROW
    width, height = LABEL + BAR + 90, top + 4
    return (
        f'<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="Helvetica,Arial,sans-serif" font-size="12">{legend}{rows}</svg>'
    )


def _row(top: int, batch: Batch, took: dict[str, float], longest: float) -> str:
    x, pieces = float(LABEL), ""
    for name, ms in took.items():
        width = BAR * ms / longest
        if width > 0:
            pieces += (
                f'<rect x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{ROW - 6}" fill="{PHASES[name]}">'
                f"<title>{escape(name)}: {duration_words(ms)}</title></rect>"
            )
        x += width
    note = " ✗" if batch.error else " again" if batch.rerun else ""
    return (
        f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end">batch {batch.batch_id}{note}</text>{pieces}'
        f'<text x="{x + 6:.1f}" y="{top + 15}">{duration_words(sum(took.values()))}</text>'
    )
