"""Knobs, and what they change: the panel of `what_if`, for Jupyter.

    WhatIfPanel(knobs={"delay": ["0 minutes", "5 minutes"]}, feed=[["12:01,a"], ["12:30,b"]], run=..., draw=...)

1. A list becomes a row of buttons, or a menu if it is long; anything else becomes what `ipywidgets.interact` makes of it.
2. Two buttons move a line of the feed to the file before or after. This changes the order of arrival.
3. A change starts a run in the background, and stops the present run at its next step. A bar shows the progress of the run.
4. The next run is compared with what was shown last.
5. A widget does not work without its kernel. So the result at the time when a cell shows the panel is written beside it, as
   plain HTML: this is what a saved notebook, nbviewer or a site shows. To keep a later result, show the panel once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

FeedSteps = Sequence[Any]
RunQuery = Callable[[Mapping[str, Any], FeedSteps, Callable[[], None]], Any]
ChosenPlace = tuple[int, int]
MOST_LETTERS = 60  # of a row of buttons, before it becomes a menu
PATIENCE = 60  # seconds that a cell waits for what it is to show


class Superseded(Exception):
    """Another run is wanted by now."""


class WhatIfPanel(widgets.VBox):
    """A query that runs again with every turn of a knob.

    Args:
        knobs: name -> its values, as a list or as `ipywidgets.interact` takes them.
        feed: the steps of the input.
        run: `run(values, feed, tick)` returns the result of a run; it calls `tick` after every step.
        draw: `draw(before, after)` returns a result as HTML, with what has changed; `before` is None for the first run.
    """

    def __init__(self, knobs: Mapping[str, Any], feed: FeedSteps, run: RunQuery, draw: Callable[[Any, Any], str]):
        self._lock = threading.Lock()
        self._wanted = self._done = 0  # runs are counted
        self._thread: threading.Thread | None = None
        self._last: Any = None
        self._run, self._draw_run = run, draw
        self.feed = [list(step) if isinstance(step, (list, tuple)) else step for step in feed]
        self.knobs = {name: _control(name, values) for name, values in knobs.items()}
        self._meant = {
            name: {_said(value): value for value in values} for name, values in knobs.items() if isinstance(values, list)
        }
        self._bar = widgets.IntProgress(max=max(len(feed), 1), layout={"width": "220px", "visibility": "hidden"})
        self._shown = widgets.HTML(layout={"width": "100%"})
        controls = [widgets.VBox([widgets.HBox([_label(name), knob]) for name, knob in self.knobs.items()])]
        if all(isinstance(step, list) for step in self.feed):
            controls.append(self._order_of_arrival())
        super().__init__([widgets.HBox(controls, layout={"flex_flow": "row wrap"}), self._bar, self._shown])
        for knob in self.knobs.values():
            knob.observe(lambda _: self._start(), "value")
        self._start()

    @property
    def values(self) -> dict[str, Any]:
        """The present values of the knobs."""
        return {name: self._meant.get(name, {}).get(knob.value, knob.value) for name, knob in self.knobs.items()}

    @property
    def html(self) -> str:
        """What is shown of the newest run."""
        return str(self._shown.value)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """(5) The widget, and beside it the present result."""
        self.wait(PATIENCE)
        return {**super()._repr_mimebundle_(**kwargs), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        """(5) The present result. A panel that was closed shows only this."""
        turned = "; ".join(f"{name.replace('_', ' ')}: {_said(value)}" for name, value in self.values.items())
        return f"<p><b>{escape(turned)}</b> (the knobs turn in Jupyter, while the kernel runs)</p>{self.html}"

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the newest run is shown; `timeout` in seconds."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)

    def close(self) -> None:
        """Stop the present run, and close the widgets."""
        self._wanted = self._done = self._wanted + 1
        self.wait()
        for widget in _with_children(self):
            widgets.Widget.close(widget)

    def move(self, by: int) -> None:
        """(2) Move the chosen line to the file before (-1) or after (+1)."""
        if self._lines.value is None:
            return
        self.feed, place = moved(self.feed, self._lines.value, by)
        self._lines.options = _names(self.feed)
        self._lines.value = place
        self._start()

    def _order_of_arrival(self) -> widgets.Widget:
        names = _names(self.feed)
        self._lines = widgets.Select(options=names, rows=min(len(names), 10), layout={"width": "330px"})
        buttons = [widgets.Button(description=name, layout={"width": "100px"}) for name in ("▲ earlier", "▼ later")]
        for button, by in zip(buttons, (-1, 1)):
            button.on_click(lambda _, by=by: self.move(by))
        return widgets.HBox([_label("order of arrival"), self._lines, widgets.VBox(buttons)], layout={"margin": "0 0 0 24px"})

    def _start(self) -> None:  # (3)
        with self._lock:
            self._wanted += 1
            self._choice = (self.values, self.feed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="what if", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                number, (values, feed) = self._wanted, self._choice
                if self._done == number:
                    self._thread = None
                    self._bar.layout.visibility = "hidden"
                    return
            self._bar.value, self._bar.layout.visibility = 0, "visible"

            def tick(number: int = number) -> None:
                if self._wanted != number:
                    raise Superseded
                self._bar.value += 1

            try:
                came = self._run(values, feed, tick)
                self._shown.value = self._draw_run(self._last, came)
                self._last = came  # (4)
            except Superseded:
                continue
            except Exception as e:
                self._shown.value = f"<p style='color:#b3261e'>{escape(f'{type(e).__name__}: {e}')}</p>"
            self._done = max(number, self._done)


def _with_children(widget: widgets.Widget) -> list[widgets.Widget]:
    return [widget, *(below for child in getattr(widget, "children", ()) for below in _with_children(child))]


def moved(feed: FeedSteps, place: ChosenPlace, by: int) -> tuple[list[list[str]], ChosenPlace]:
    """The feed with the line at `place` (step, line) moved to the step before or after; and the new place of the line."""
    steps = [list(step) for step in feed]
    step, line = place
    to = step + by
    if not 0 <= to < len(steps):
        return steps, place
    at = len(steps[to]) if by < 0 else 0
    steps[to].insert(at, steps[step].pop(line))
    return steps, (to, at)


def _names(feed: FeedSteps) -> list[tuple[str, ChosenPlace]]:
    return [(f"file {i + 1}:  {line}", (i, j)) for i, step in enumerate(feed) for j, line in enumerate(step)]


def _said(value: Any) -> str:
    """The words on the button of a value; a button cannot have None itself as its value."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _label(name: str) -> widgets.Label:
    return widgets.Label(name.replace("_", " "), layout={"width": "105px"})


def _control(name: str, values: Any) -> widgets.ValueWidget:
    """(1) The widget of a knob. Raises ValueError if none can be made from its values."""
    if isinstance(values, list):
        options = list(map(_said, values))
        short = len("   ".join(options)) <= MOST_LETTERS
        knob = widgets.ToggleButtons(options=options) if short else widgets.Dropdown(options=options)
        knob.style.button_width, knob.layout.width = "auto", "auto"
    else:
        knob = widgets.interactive.widget_from_abbrev(values)
        if knob is None:
            raise ValueError(f"{name}: a knob is a list of values, or what ipywidgets.interact takes, not {values!r}")
    knob.description = ""
    return knob
