"""A view that is drawn again while a query runs, for Jupyter.

    LiveView(look)      `look()` says what the query has done so far; the view calls it on a thread of its own

1. The view looks at the query every `every_s` seconds; less often if drawing takes long, because the query needs the processor.
   It draws only what has changed: the state of the query and its newest batch in words, the charts (live_charts.py), and for a
   query of the model the flow diagram with the step that ended last.
2. The view ends with the query, or with `close()`. An error of the query is shown, but is not an error of the notebook.
3. At the end, a picture takes the place of the widgets: this is what a saved notebook shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import graphviz
import ipywidgets as widgets

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view import flow, live_charts
from minispark_stream.lens.view.batch_table import batch_rows
from minispark_stream.lens.view.style import CSS, file_beside
from minispark_stream.lens.view.words import clip, duration_words, number, time_words

LIVE_CSS = CSS + file_beside(__file__, "live_view.css")
FRAMES = ("trigger", "runBatch")  # they end after the steps in them, which say more


@dataclass(frozen=True)
class QueryMoment:
    """A query at one moment.

    `recording` has the progress reports of its newest batches; `steps` has the steps of the newest one, if they are recorded.
    """

    title: str
    is_active: bool
    message: str
    error: str | None
    recording: Recording
    steps: Recording | None = None


class LiveView(widgets.VBox):
    """Shows a query while it runs.

    Args:
        look: returns what the query has done so far.
        every_s: seconds between two calls of `look`.
    """

    def __init__(self, look: Callable[[], QueryMoment], every_s: float = 1.0):
        self._look, self._every_s = look, every_s
        self._parts = {name: widgets.HTML() for name in ("words", "charts", "flow")}
        self._stop = widgets.Button(description="stop watching", icon="stop", layout={"width": "130px"})
        self._stop.on_click(lambda _: self.close())
        self._drawn: dict[str, object] = {}
        self._handles: list[Any] = []
        self._closed = threading.Event()
        super().__init__([self._parts["words"], self._stop, self._parts["charts"], self._parts["flow"]])
        self._thread = threading.Thread(target=self._watch, name="live view", daemon=True)
        self._thread.start()

    @property
    def html(self) -> str:
        """What is shown now, as HTML."""
        return "".join(part.value for part in self._parts.values())

    def close(self) -> None:
        """Stop watching; the query keeps running. The last picture stays."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        active = True
        while active and not self._closed.is_set():  # (1)
            try:
                began = time.monotonic()
                seen = self._look()
                active = seen.is_active
                self._show(seen)
            except Exception as e:  # Spark was stopped, say
                active = False
                self._parts["words"].value = _words("the query does not answer any more", "failed", f"{type(e).__name__}: {e}")
            if active:
                self._closed.wait(max(self._every_s, 2 * (time.monotonic() - began)))
        self._end()

    def _show(self, seen: QueryMoment) -> None:
        state = "running" if seen.is_active else "ended" if seen.error is None else "failed"  # (2)
        message = seen.message if seen.is_active else seen.error or "the query has ended"
        self._draw("words", (state, message, seen.recording), lambda: _words(seen.title, state, message, seen.recording))
        self._draw("charts", seen.recording, lambda: live_charts.svg(seen.recording) if seen.recording.events else "")
        if seen.steps is not None and seen.steps.events:
            steps = seen.steps
            self._draw("flow", steps.events[-1], lambda: _flow(steps))

    def _draw(self, part: str, of: object, drawn: Callable[[], str]) -> None:
        if self._drawn.get(part) != of:
            self._drawn[part] = of
            self._parts[part].value = f"<style>{LIVE_CSS}</style><div class='ms live'>{drawn()}</div>"

    def _end(self) -> None:
        """(3) Put the last picture in the place of the widgets, and close them."""
        self._closed.set()
        for handle in self._handles:
            handle.update(self._picture(), raw=True)
        for widget in (*self.children, self):
            widgets.Widget.close(widget)

    def _picture(self) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if self._closed.is_set():
            display(self._picture(), raw=True)
            return
        handle = display({**self._picture(), **self._repr_mimebundle_()}, raw=True, display_id=True)
        self._handles.append(handle)
        if self._closed.is_set():  # meanwhile
            handle.update(self._picture(), raw=True)

    def __repr__(self) -> str:
        return f"<LiveView: {'closed' if self._closed.is_set() else 'watching'}>"


def _words(title: str, state: str, message: str, recording: Recording | None = None) -> str:
    """The state of the query, and the numbers of its newest batch."""
    rows = batch_rows(recording) if recording is not None else []
    row = rows[-1] if rows else {}
    tiles = "".join(
        f"<div><small>{name}</small><b>{escape(said)}</b></div>" for name, said in (
            ("batch", number(row.get("batch"))), ("rows in", number(row.get("rows_in"))),
            ("rows out", number(row.get("rows_out"))),
            ("took", "" if row.get("took_ms") is None else duration_words(row["took_ms"])),
            ("watermark", "none" if row.get("watermark_ms") is None else time_words(row["watermark_ms"])),
            ("state rows", number(row.get("state_rows"))), ("late rows", number(row.get("late_rows"))),
        ) if said not in ("null", "")
    )
    return (
        f"<h3><i class='{state}'></i>{escape(title)} <small>{state}</small></h3>"
        f"<p class='{state}'>{escape(clip(message, 600))}</p><div class='tiles'>{tiles if row else ''}</div>"
    )


def _flow(steps: Recording) -> str:
    ended = [event.step for event in steps.events if event.step not in FRAMES]
    if not ended:
        return ""
    try:
        svg: str = flow.draw({steps.engine: steps}, step=ended[-1]).pipe(format="svg", encoding="utf-8", quiet=True)
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return ""
    return f"<details open><summary>the step that ended last: {ended[-1]}</summary>{svg[svg.index('<svg'):]}</details>"
