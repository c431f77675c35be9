"""Epochs or batches on a time axis: when each of them began, when its offsets were logged, and when it was committed.

1. Three moments of each are taken from the recorded steps. An epoch begins when the epoch before it has ended for the readers,
   and its offsets are logged when all readers have passed its end (`addOffset`). A batch begins with `constructNextBatch`, and
   its offsets are logged before anything is read (`walCommit`). The commit comes last (`commitEpoch`, `commitOffsets`).
2. Each has a row of the picture, with a bar from its beginning to its commit, and a mark where its offsets were logged.
3. Several traces are drawn one below the other, on the same axis, each under the name of its trigger. Bars are equally thick.

    AvailableNow, 2 batches
    batch 0  ▼━━━━━━━━━━━━━━━●                        logged first, then run
    batch 1                  ▼━━━━━━━━━●
    Continuous, 2 epochs
    epoch 0  ━━━━━━━━━▼━●                             read first, then logged
    epoch 1           ━━━━━━━━━▼━●                    while its rows are read, the epoch before is still written
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.measure import settings
from minispark_stream.lens.view.sheet import legend_above, svg_of
from minispark_stream.lens.view.words import duration_words, plain, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 60  # rows of a picture: the newest
BAR, LOGGED, COMMITTED = "#9cc3e6", "#8a5600", "#2f7a45"


@dataclass(frozen=True)
class Span:
    """An epoch or a batch; milliseconds since the query was started."""

    name: str
    begin_ms: float
    logged_ms: float
    committed_ms: float


def spans(recording: Recording) -> list[Span]:  # (1)
    """The epochs of a continuous query, or the batches of any other one, that were committed."""
    logged = _by_epoch(recording, "addOffset")
    if not logged:
        return [span for batch in recording.batches if (span := _batch(batch.batch_id, batch.events)) is not None]
    committed = _by_epoch(recording, "commitEpoch")
    started = min((e.start_ms for e in recording.events if e.step == "getStartOffset"), default=0.0)
    return [
        Span(
            f"epoch {epoch}", logged[epoch - 1].start_ms if epoch - 1 in logged else started,
            logged[epoch].start_ms, _end(committed[epoch]),
        )
        for epoch in sorted(logged.keys() & committed.keys())
    ]


def _by_epoch(recording: Recording, step: str) -> dict[int, Event]:
    """The steps that ended well, by the number of their epoch; steps of a strange file that have none are left out."""
    done = (e for e in recording.events if e.step == step and e.error is None)
    return {epoch: e for e in done if (epoch := e.inputs.get("epoch")) is not None}


def of_epochs(recording: Recording) -> str | None:
    """The picture of a continuous query; None for any other query, for which there is a picture of durations already."""
    return svg([recording]) if _by_epoch(recording, "addOffset") and spans(recording) else None


def _batch(batch_id: int, events: Sequence[Event]) -> Span | None:
    at = {e.step: e for e in events if e.error is None}
    if not {"walCommit", "commitOffsets"} <= at.keys():  # it failed, or ran again
        return None
    begin = at.get("constructNextBatch", at["walCommit"])
    return Span(f"batch {batch_id}", begin.start_ms, _end(at["walCommit"]), _end(at["commitOffsets"]))


def _end(event: Event) -> float:
    return event.start_ms + event.duration_ms


def svg(recordings: Sequence[Recording]) -> str:
    """The picture of one query, or of several.

    Raises:
        ValueError: a query has committed nothing.
        ModuleNotFoundError: matplotlib is not installed.
    """
    drawn = [spans(recording)[-MOST:] for recording in recordings]
    if not all(drawn):
        raise ValueError("nothing to draw: no epoch and no batch was committed")
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [len(one) for one in drawn]
    with settings():
        figure = Figure(figsize=(8.5, 0.26 * sum(rows) + 0.6 * len(rows) + 1.2), layout="constrained")
        axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
        titles: dict[str, str] = {}
        for number, (recording, one, ax) in enumerate(zip(recordings, drawn, axes)):  # (3)
            ax.set_title(_name(recording, one), loc="left", fontsize=10, fontweight="bold")
            _draw(ax, one, f"p{number}", titles)
        axes[-1].set_xlim(left=0)
        axes[-1].set_xlabel("seconds since the query was started", loc="left")
        legend_above(figure, [
            Line2D([], [], color=BAR, linewidth=6, label="from its beginning to its commit"),
            Line2D([], [], linestyle="", marker="v", color=LOGGED, label="offsets logged"),
            Line2D([], [], linestyle="", marker="o", color=COMMITTED, label="committed"),
        ])
        return svg_of(figure, titles, "epochs")


def _name(recording: Recording, drawn: Sequence[Span]) -> str:
    """The trigger of a query, and how many batches or epochs it has."""
    trigger = next((plain(e.inputs["trigger"]) for e in recording.events if e.step == "trigger" and "trigger" in e.inputs), "")
    continuous = drawn[0].name.startswith("epoch")
    named = "Continuous" if continuous else trigger.replace("Trigger", "") or f"Query on {recording.engine}"
    return f"{named}, {plural(len(drawn), 'epoch' if continuous else 'batch')}"


def _draw(ax: Axes, drawn: Sequence[Span], prefix: str, titles: dict[str, str]) -> None:  # (2)
    for row, span in enumerate(drawn):
        [bar] = ax.barh(row, (span.committed_ms - span.begin_ms) / 1000, left=span.begin_ms / 1000, height=0.55, color=BAR)
        bar.set_gid(f"{prefix}-{row}")
        titles[f"{prefix}-{row}"] = (
            f"{span.name}: offsets logged after {duration_words(span.logged_ms - span.begin_ms)}, "
            f"committed after {duration_words(span.committed_ms - span.begin_ms)}"
        )
    rows = range(len(drawn))
    logged, committed = ([ms / 1000 for ms in times] for times in zip(*((one.logged_ms, one.committed_ms) for one in drawn)))
    ax.plot(logged, rows, linestyle="", marker="v", color=LOGGED, markersize=6, clip_on=False, zorder=5)
    ax.plot(committed, rows, linestyle="", marker="o", color=COMMITTED, markersize=4, clip_on=False, zorder=5)
    ax.set_yticks(rows, [one.name for one in drawn], fontsize=8)
    ax.set_ylim(len(drawn) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
