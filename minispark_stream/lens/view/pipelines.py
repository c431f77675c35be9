"""When the tasks of both stages of a batch ran, and how rows went through them: real-time mode beside micro-batches.

1. A batch has a lane for each task, those of its first stage above those of the second one. In micro-batches, stages run one
   after the other. In real-time mode, both are one job of Spark, whose first tasks are those of the second stage.
2. Of each trace, the newest batches are drawn which together last no longer than one batch of the first trace, on one axis.
3. A row that was followed is a line from the task that has read it to the task that has written it (extras/real_time/ways.py).
4. A row of milliseconds is a vertical line beside a batch of seconds. So the same rows are drawn once more, each on the axis of
   its own age: read at 0, then computed, received by the second stage, and written.

    stage 1  task 0   ██████████████████████            ░ log entries: ▼ offsets, ● commit
                         ╲   ╲      ╲
    stage 2  task 0   ██████████████████████

The tasks are those of Spark's own list, and the rows are told by the tasks (level "rows" of the trace).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from minispark_stream.lens.trace.recording import Batch, Recording
from minispark_stream.lens.trace.rows import Tasks
from minispark_stream.lens.view.epochs import COMMITTED, LOGGED
from minispark_stream.lens.view.sheet import CELL, GREY, INK, MARGIN, NEW, OUT, PALE, VIOLET, Sheet, Shown
from minispark_stream.lens.view.words import duration_words, plural

PLACES = ("read", "computed", "received", "written")  # as the tasks call them (extras/real_time/ways.py)
MOST_LANES, MOST_BATCHES, MOST_ROWS = 6, 12, 60  # tasks of a stage, batches of a trace, rows of a batch
LABEL, LANE, GAP = 96.0, 15.0, 26.0
PLOT = CELL - 2 * MARGIN - LABEL
ROW = VIOLET.edge
CAPTION = (
    "A bar is a task. In micro-batches, the second stage begins when the first one has ended. In real-time mode, both run for "
    "as long as the batch, and a row goes through both of them at once."
)


@dataclass(frozen=True)
class BatchRun:
    """A batch. Times are in ms since the query was started.

    `stages`: for each stage, the number, the beginning and the end of its tasks; `ways`: of each row that was followed, the
    times at `PLACES`, the tasks `from` and `to` which it went, and what it was.
    """

    batch_id: int
    stages: tuple[tuple[tuple[int, float, float], ...], ...]
    ways: tuple[Mapping[str, Any], ...]
    begin_ms: float
    end_ms: float
    logged_ms: float | None
    committed_ms: float | None
    is_real_time: bool


def runs(recording: Recording) -> list[BatchRun]:
    """The batches whose tasks are known."""
    return [run for batch in recording.batches if (run := _run(batch)) is not None]


def _run(batch: Batch) -> BatchRun | None:
    done = {event.step: event for event in batch.events if event.error is None}
    added = done.get("addBatch")
    tasks: Tasks = added.outputs.get("tasks", {}) if added is not None else {}
    if added is None or "clock" not in tasks:
        return None
    shift = added.start_ms + added.duration_ms - tasks["clock"]
    stages = [
        [(number, begin + shift, (begin if end is None else max(begin, end)) + shift) for number, begin, end in one]
        for one in tasks.get("stages", ())
    ]
    receivers = tasks.get("receivers")
    if receivers and len(stages) == 1:  # (1)
        [every] = stages
        stages = [[(n - receivers, a, b) for n, a, b in every if n >= receivers], [one for one in every if one[0] < receivers]]
    stages = [one for one in stages if one]
    if not stages:
        return None
    logged, committed = (done.get(step) for step in ("walCommit", "commitOffsets"))
    ends = [event.start_ms + event.duration_ms for event in (logged, committed) if event is not None]
    begin = done.get("constructNextBatch", added).start_ms
    return BatchRun(
        batch.batch_id, tuple(map(tuple, stages)), tuple(_ways(tasks, shift)), begin,
        max([*ends, *(end for one in stages for _, _, end in one)]),
        None if logged is None else logged.start_ms + logged.duration_ms,
        None if committed is None else committed.start_ms + committed.duration_ms,
        batch.is_real_time,
    )


def _ways(tasks: Tasks, shift: float) -> Iterator[dict[str, Any]]:
    for way in tasks.get("ways", ()):
        known: dict[str, Any] = dict(way)
        times = {place: known[place] + shift for place in PLACES if known.get(place) is not None}
        if "read" in times:
            yield {**times, "from": way.get("from") or 0, "to": way.get("to"), "rows": way.get("rows", "")}


def newest(found: Sequence[BatchRun], most_ms: float | None) -> list[BatchRun]:  # (2)
    """The newest runs that together last at most so long; without a limit, the newest one with rows that were followed."""
    if most_ms is None:
        return [next((run for run in reversed(found) if run.ways), found[-1])]
    taken = [run for run in found[-MOST_BATCHES:] if found[-1].end_ms - run.begin_ms <= most_ms]
    return taken or [found[-1]]


def svg(recordings: Sequence[Recording]) -> str:
    """The picture of one query, or of several.

    Raises:
        ValueError: the tasks of a query are not known.
        ModuleNotFoundError: matplotlib is not installed.
    """
    known = [runs(recording) for recording in recordings]
    for recording, found in zip(recordings, known):
        if not found and recording.engine == "spark":
            raise ValueError("nothing to draw: a trace of Spark is made of its reports, which do not say when tasks ran")
        if not found:
            raise ValueError('nothing to draw: a trace has no tasks; MiniSparkSession(spark, trace="rows") records them')
    [first] = newest(known[0], None)
    shown = [[first], *(newest(one, first.end_ms - first.begin_ms) for one in known[1:])]
    followed = [way for of_trace in shown for run in of_trace for way in run.ways]
    legend: list[Shown] = [
        (NEW, "a task of the first stage, which reads", True),
        (OUT, "a task of the second stage, with the state and the sink", any(len(run.stages) > 1 for run in sum(shown, []))),
        (ROW, "rows that were read together, from the reader to the sink", bool(followed)),
        (LOGGED, "offsets logged", True), (COMMITTED, "committed", True),
    ]
    sheet = Sheet("pipelines", CELL, "Two stages, one after the other or at once", CAPTION, legend)
    lasts = max(one[-1].end_ms - one[0].begin_ms for one in shown)
    drawing = _Drawing(sheet, lasts * 1.02)
    for of_trace in shown:
        drawing.trace(of_trace)
    drawing.axis()
    if not all(run.is_real_time for of_trace in shown for run in of_trace):
        sheet.note("A micro-batch whose rows are recorded takes longer: other jobs run before and after its tasks.")
        sheet.top += 10
    if followed:
        _ages(sheet, followed)
    return sheet.svg()


class _Drawing:
    def __init__(self, sheet: Sheet, lasts_ms: float):
        self.sheet, self.lasts_ms, self.left = sheet, max(lasts_ms, 1.0), MARGIN + LABEL

    def x(self, ms: float) -> float:
        return self.left + PLOT * ms / self.lasts_ms

    def trace(self, shown: Sequence[BatchRun]) -> None:
        sheet, begin = self.sheet, shown[0].begin_ms
        which = f"batch {shown[0].batch_id}" if len(shown) == 1 else f"batches {shown[0].batch_id} to {shown[-1].batch_id}"
        mode = "real-time mode" if any(run.is_real_time for run in shown) else "micro-batches"
        sheet.heading(f"{mode}: {which}")
        lanes = [max(min(len(run.stages[at]) if at < len(run.stages) else 0, MOST_LANES) for run in shown)
                 for at in range(max(len(run.stages) for run in shown))]
        tops, y = [], sheet.top + 18
        for at, number in enumerate(lanes):
            tops.append(y)
            for lane in range(number):
                middle = y + LANE * (lane + 0.5)
                sheet.words(self.left - 8, middle, f"stage {at + 1}, task {lane}", size=8.5, ink=GREY, align="right")
            y += LANE * number + GAP
        bottom = y - GAP
        for run in shown:
            self._bars(run, begin, tops)
            self._rows(run, begin, tops)
            logged, committed = (run.logged_ms, "v", LOGGED, "offsets"), (run.committed_ms, "o", COMMITTED, "commits")
            for ms, kind, colour, log in (logged, committed):
                if ms is not None:
                    tip = f"{log}/{run.batch_id}, {duration_words(ms - run.begin_ms)} after the batch began"
                    sheet.mark(self.x(ms - begin), sheet.top + (1 if kind == "v" else 10), kind, colour, size=44, tip=tip)
        hidden = max(len(one) for run in shown for one in run.stages) - MOST_LANES
        sheet.top = bottom + 12
        if hidden > 0:
            sheet.note(f"Shown are the first {MOST_LANES} tasks of a stage; there are {hidden} more.")

    def _bars(self, run: BatchRun, begin: float, tops: Sequence[float]) -> None:
        for at, tasks in enumerate(run.stages):
            for lane, (number, start, end) in enumerate(tasks[:MOST_LANES]):
                words = f"batch {run.batch_id}, stage {at + 1}, task {number}: {duration_words(end - start)}"
                wide = max(self.x(end - begin) - self.x(start - begin), 3)
                look = NEW if at == 0 else OUT
                self.sheet.box(self.x(start - begin), tops[at] + LANE * lane + 1.5, wide, LANE - 3, "", look, tip=words)

    def _rows(self, run: BatchRun, begin: float, tops: Sequence[float]) -> None:  # (3)
        for way in sample(run.ways):
            last = max(way[place] for place in PLACES if place in way)
            lane_from, lane_to = min(way["from"], MOST_LANES - 1), min(way["to"] or 0, MOST_LANES - 1)
            low = tops[-1] + LANE * (lane_to + 0.5) if len(tops) > 1 else tops[0] + LANE * (lane_from + 1) + 8
            ys = [tops[0] + LANE * (lane_from + 0.5), low]
            self.sheet.line([self.x(way["read"] - begin), self.x(last - begin)], ys, ROW, 0.9, tip=words_of(way), layer=6)

    def axis(self) -> None:
        sheet = self.sheet
        step = _round(self.lasts_ms / 1000)
        sheet.line([self.left, self.left + PLOT], [sheet.top] * 2, PALE, 1)
        for n in range(int(self.lasts_ms / 1000 / step) + 1):
            sheet.line([self.x(n * step * 1000)] * 2, [sheet.top, sheet.top + 4], GREY, 0.8)
            sheet.words(self.x(n * step * 1000), sheet.top + 12, f"{n * step:g}", size=8.5, ink=GREY, align="center")
        sheet.top += 24
        sheet.words(self.left, sheet.top, "seconds since the first of these batches began", size=8.5, ink=GREY)
        sheet.top += 20


def _round(length: float) -> float:
    """A round step, of which 4 to 10 fit."""
    unit = 10.0 ** math.floor(math.log10(length / 4))
    return next(unit * n for n in (5, 2, 1) if unit * n <= length / 4)


def sample(ways: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """At most `MOST_ROWS` of them, evenly spread."""
    return ways[:: -(-len(ways) // MOST_ROWS)] if ways else ()


def words_of(way: Mapping[str, Any]) -> str:
    """`a: computed after 1.2 ms, received after 2.0 ms, written after 4.1 ms`."""
    after = (f"{place} after {duration_words(way[place] - way['read'])}" for place in PLACES[1:] if place in way)
    return f"{way['rows']}: {', '.join(after) or 'read, and not seen again'}"


def _ages(sheet: Sheet, followed: Sequence[Mapping[str, Any]]) -> None:  # (4)
    there = [place for place in PLACES if any(place in way for way in followed)]
    ages = [way["written"] - way["read"] for way in followed if "written" in way]
    sheet.heading("The same rows, each on the axis of its own age")
    most = max(sorted(ages)[min(int(len(ages) * 0.95), len(ages) - 1)] if ages else 1.0, 1.0) * 1.1
    left, top = MARGIN + LABEL, sheet.top + 6
    for n, place in enumerate(there):
        y = top + 30 * n
        sheet.words(left - 8, y, place, size=9, ink=GREY, align="right")
        sheet.line([left, left + PLOT], [y, y], PALE, 0.8, layer=1)
    for way in sample(followed):
        seen = [place for place in there if place in way]
        xs = [left + PLOT * min((way[place] - way["read"]) / most, 1.0) for place in seen]
        sheet.line(xs, [top + 30 * there.index(place) for place in seen], ROW, 0.8, tip=words_of(way))
    sheet.top = top + 30 * (len(there) - 1) + 14
    step = _round(most)
    for n in range(int(most / step) + 1):
        sheet.words(left + PLOT * n * step / most, sheet.top, f"{n * step:g} ms", size=8.5, ink=GREY, align="center")
    sheet.top += 18
    if ages:
        middle, older = median(ages), sum(age > most for age in ages)
        sheet.words(left, sheet.top, f"median age in the sink: {duration_words(middle)}", size=9, ink=INK, bold=True)
        sheet.top += 16
        if older:
            are = "is" if older == 1 else "are"
            sheet.note(f"{plural(older, 'reading')} of {len(ages)} {are} older, {duration_words(max(ages))} at most.")
