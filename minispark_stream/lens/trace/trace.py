"""A recorded query, ready to be looked at, saved and loaded.

A `Trace` is a recording (recording.py) that never changes. A trace of the model, a trace of real Structured Streaming
(tools/compare/trace_of.py) and a trace from a file have the same form.

    trace = query.trace
    trace.save("run.json"); Trace.load("run.json") == trace; trace.to_pandas()
    trace                  in Jupyter: a table of the batches, and how long each took
    trace.stepper(), trace.play()    in Jupyter: forward and back through every step; its rows, to drag, with sliders
    trace.fate({"word": "late"})     what happened to a row, and why
    trace.code(step="walCommit")     the code of the engine that ran
    trace.to_html("run.html"), trace.to_text(), trace.draw(batch=2, step="walCommit"), trace.timeline()
    trace.event_time()               rows, watermarks and windows in the plane of batches and event times
    trace.join(), trace.sessions(), trace.watermarks(), trace.state_files(), trace.logs(), trace.files()
    trace.epochs(), trace.pipelines()   batches on the axis of time: when each was logged and committed; its tasks, and its rows

A file is JSON that another program may have written, so `load` checks it before anything is drawn. view/ draws the pictures,
and is imported only when a picture is asked for: a running query draws nothing.

Differs from Spark: Spark keeps no trace; `recentProgress` is the nearest thing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.saved import FORMAT, fields_of

if TYPE_CHECKING:
    import graphviz
    import pandas as pd

    from minispark_stream.lens.view.fate import FateAnswer
    from minispark_stream.lens.view.play import Play
    from minispark_stream.lens.view.shown_code import ShownCode
    from minispark_stream.lens.view.stepper import Stepper
    from minispark_stream.lens.view.timeline import Picture


@dataclass(frozen=True)
class Trace(Recording):
    """A recording that can be saved and shown."""

    def __add__(self, later: Trace) -> Trace:
        """This trace and, after it, that of a later run: one query before and after a restart."""
        shift = 1 + max((e.trigger for e in self.events if e.trigger is not None), default=-1)
        moved = (e if e.trigger is None else replace(e, trigger=e.trigger + shift) for e in later.events)
        plan, query = later.plan or self.plan, later.query or self.query
        return replace(self, events=(*self.events, *moved), name=self.name or later.name, plan=plan, query=query)

    # -- files -------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The trace as JSON values; `from_json` reads them."""
        head = {**FORMAT, "engine": self.engine, "name": self.name, "plan": self.plan, "note": self.note}
        head |= {} if self.query is None else {"code": self.query}
        return {**head, "events": [dict(vars(e)) for e in self.events]}

    def save(self, path: str | Path) -> Path:
        """Write the trace as JSON, one event a line. Returns the path."""
        head = self.to_json()
        lines = ",\n".join(json.dumps(e, ensure_ascii=False, default=str) for e in head.pop("events"))
        Path(path).write_text(f'{json.dumps(head, ensure_ascii=False)[:-1]}, "events": [\n{lines}\n]}}\n', encoding="utf-8")
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Trace:
        """Read a saved trace.

        Raises:
            ValueError: the file is not a trace, or not one that this version can read.
        """
        try:
            return Trace.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as e:
            raise ValueError(f"{path} is not a saved trace (Trace.save writes them): {e}") from e

    @staticmethod
    def from_json(value: Any) -> Trace:
        """The trace that `to_json` returned.

        Raises:
            ValueError: `value` is something else.
        """
        return Trace(**fields_of(value))

    def to_pandas(self) -> pd.DataFrame:
        """A row for each batch: rows in and out, watermark, state, late rows, and the milliseconds of each phase."""
        from minispark_stream.lens.view.batch_table import to_pandas

        return to_pandas(self)

    # -- questions ---------------------------------------------------------------------------------------

    def fate(self, row: Mapping[str, Any]) -> FateAnswer:
        """What happened to a row: its file, batch, key, and whether it was merged, emitted, kept, evicted or dropped, and why.

        Args:
            row: some columns of the row, as its source, its key or its side of a join has them. Times are written as Spark
                prints them, in UTC.

        Returns:
            the way of every row that has these columns, as text and as HTML; or a note, if the trace has no rows.

        Raises:
            TypeError: `row` is not a mapping.
        """
        from minispark_stream.lens.trace.fates import fates
        from minispark_stream.lens.view.fate import answer, unknown_of_spark

        if not isinstance(row, Mapping):
            raise TypeError(f"fate takes columns of a row, such as {{'word': 'a'}}, not {row!r}")
        if self.engine == "spark":
            return unknown_of_spark(row)
        return answer(fates(self), row)

    def code(self, batch: int | None = None, step: str | None = None) -> ShownCode:
        """The code of the engine that ran in each step: its functions in the order of their first call, other lines folded.

        Args:
            batch: a batch id; if the batch ran again, its last run. None means the last batch.
            step: only what ran in steps of this name. It must have been recorded (`trace="code"`).

        Raises:
            ValueError: the trace has no such batch, or the batch has no such step.
        """
        from minispark_stream.lens.view.shown_code import shown_code

        return shown_code(self, batch, step)

    # -- pictures ----------------------------------------------------------------------------------------

    def to_text(self, durations: bool = False) -> str:
        """A line for each step, the same on every machine: without ids and wall-clock times, with durations only on request."""
        from minispark_stream.lens.view.text import to_text

        return to_text(self, durations)

    def draw(self, batch: int | None = None, step: str | None = None, every_step: bool = False) -> graphviz.Digraph:
        """The flow of one batch, with `step` highlighted.

        Args:
            batch: a batch id; if the batch ran again, its last run is drawn. None means the last batch.
            step: the step of `STEPS` to highlight, or the box that stands for it.
            every_step: a box for each step; otherwise five boxes.

        Raises:
            ValueError: the trace has no such batch, or there is no such step.
        """
        from minispark_stream.lens.view.flow import draw

        return draw({self.engine: self}, batch, step, every_step=every_step)

    def timeline(self, *others: Trace) -> Picture:
        """How long each batch took, and in which phase. Shown as a picture in Jupyter.

        Args:
            others: traces to be drawn below this one, on the same scale.
        """
        from minispark_stream.lens.view import timeline

        return timeline.Picture(timeline.svg(self.batches, *(other.batches for other in others)))

    def event_time(self) -> Picture:
        """Rows, watermarks, windows and sessions in the plane of batches and event times.

        Raises:
            ValueError: no batch has event times.
        """
        return self.picture("event_time")

    def join(self) -> Picture:
        """The two buffers of a stream-stream join: rows that wait, pairs, and rows that are evicted.

        Raises:
            ValueError: the query has no such join, or its rows were not recorded.
        """
        return self.picture("join")

    def sessions(self) -> Picture:
        """The sessions of each key, as they open, grow, are merged, and are emitted.

        Raises:
            ValueError: the query has no session windows, or its rows were not recorded.
        """
        return self.picture("sessions")

    def watermarks(self) -> Picture:
        """Which watermark each operator of the plan sees, and which it promises for its output, batch by batch.

        Raises:
            ValueError: the query has no watermark, or the trace is one of real Spark, which does not report this.
        """
        return self.picture("watermarks")

    def state_files(self) -> Picture:
        """The deltas and snapshots of the state stores: whether a batch or maintenance wrote them, and which a load reads.

        Raises:
            ValueError: the query has written no state.
        """
        return self.picture("state_files")

    def logs(self) -> Picture:
        """The offset log and the commit log as two tapes: which one is ahead, and what a restart found.

        Raises:
            ValueError: no batch was logged.
        """
        return self.picture("logs")

    def files(self) -> Picture:
        """The files that each batch reads and leaves for later, and the manifest of a file sink.

        Raises:
            ValueError: the query has neither a file source nor a file sink.
        """
        return self.picture("files")

    def picture(self, name: str) -> Picture:
        """A picture by its name: one of the above, or one that was added with `register_picture`.

        Raises:
            ValueError: there is no such picture, or the trace has nothing for it.
        """
        from minispark_stream.lens.view.pictures import picture

        return picture(self, name)

    def epochs(self, *others: Trace) -> Picture:
        """When each epoch, or batch, began, had its offsets logged and was committed. Shown as a picture in Jupyter.

        Args:
            others: traces to be drawn below this one, on the same axis.

        Raises:
            ValueError: nothing was committed.
        """
        from minispark_stream.lens.view import epochs, timeline

        return timeline.Picture(epochs.svg([self, *others]))

    def pipelines(self, *others: Trace) -> Picture:
        """When the tasks of a batch ran, and how rows went through them (`trace="rows"`); of `others`, the same below it.

        Raises:
            ValueError: no tasks were recorded.
        """
        from minispark_stream.lens.view import pipelines, timeline

        return timeline.Picture(pipelines.svg([self, *others]))

    def to_html(self, path: str | Path) -> Path:
        """Write one file that opens in any browser and steps through the trace. Returns the path."""
        from minispark_stream.lens.view.page import page

        Path(path).write_text(page({self.engine: self}), encoding="utf-8")
        return Path(path)

    def stepper(self, batch: int | None = None, step: str | None = None, ask: bool = False) -> Stepper:
        """Forward and back through every step, for Jupyter; it needs no kernel.

        Args:
            batch, step: where to begin: the first step of this batch and with this name; None means any.
            ask: whether it asks before a step what it will do; the button "ask" turns this on and off.

        Raises:
            ValueError: there is no such step.
        """
        from minispark_stream.lens.view.stepper import Stepper

        return Stepper({self.engine: self}, batch=batch, step=step, ask=ask)

    def play(self) -> Play:
        """The rows of this query, to drag and to play with, for Jupyter; it needs neither a kernel nor a network.

        Raises:
            ValueError: the page does not know a query of this kind: it says what it knows. `what_if` runs any query again.
        """
        from minispark_stream.lens.view.played import played

        try:
            return played(self)
        except ValueError as e:
            words = f"trace.play() cannot play this query: {e}. what_if runs a query itself, with other settings."
            raise ValueError(words) from None

    def _repr_html_(self) -> str:
        from minispark_stream.lens.view.batch_table import summary

        return summary(self)

    def __repr__(self) -> str:
        query = f" of query {self.name!r}" if self.name else ""
        return f"<Trace{query} on {self.engine}: {len(self.batches)} batches, {len(self.events)} events>"
