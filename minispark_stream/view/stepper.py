"""The stepper for Jupyter: forward and back through every step of every trigger of a recorded trace.

It shows the same board as the HTML page (board.py) and moves over the same stops (merged_walk.py). It needs no running query:
`Trace.load("run.json").stepper()` opens a saved trace.

    buttons   « batch  ‹ back  forward ›  batch »
    slider    every step; with the keyboard on it, the arrow keys step
    menu      the batches; a batch that is run again after a restart is there twice
    below     the pictures that the trace gives

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import ipywidgets as widgets

from minispark_stream.trace.recording import Recording
from minispark_stream.view import flow
from minispark_stream.view.board import board, fragments
from minispark_stream.view.merged_walk import Stop, stops
from minispark_stream.view.page import NO_DOT, batch_names
from minispark_stream.view.pictures import pictures
from minispark_stream.view.style import CSS


class Stepper(widgets.VBox):
    """Steps through one trace, or through two side by side.

    `step` is the number of the step that is shown, from 0, and `shown` its HTML; `show` goes to another one.
    """

    def __init__(self, recordings: Mapping[str, Recording]):
        self._stops = stops(recordings)
        self._svg = flow.template(len(recordings))
        names = batch_names(self._stops)
        self._starts = [start for start, _, _ in names]
        last = max(len(self._stops) - 1, 0)
        self._slider = widgets.IntSlider(0, 0, last, readout=False, layout={"flex": "1 1 auto"})
        self._menu = widgets.Dropdown(
            options=[(name, start) for start, name, _ in names], layout={"width": "150px"}
        )
        self._count = widgets.Label()
        self._board = widgets.HTML()
        self.controls = [
            self._menu,
            _button("« batch", lambda: self.show(self._batch(-1))),
            _button("‹ back", lambda: self.show(self.step - 1)),
            self._slider,
            _button("forward ›", lambda: self.show(self.step + 1)),
            _button("batch »", lambda: self.show(self._batch(+1))),
            self._count,
        ]
        self._slider.observe(lambda change: self.show(change["new"]), "value")
        self._menu.observe(self._chosen, "value")
        drawn = [widgets.HTML(picture.svg) for recording in recordings.values() for picture in pictures(recording)]
        super().__init__([widgets.HBox(self.controls), self._board, *drawn])
        self.step = -1
        self.show(0)

    def show(self, step: int) -> None:
        """Go to a step; one before the first or after the last is the first or the last."""
        step = min(max(step, 0), len(self._stops) - 1)
        if step == self.step or not self._stops:
            return
        self.step = step
        self._slider.value = step
        self._menu.value = max((start for start in self._starts if start <= step), default=None)
        self._count.value = f"step {step + 1} of {len(self._stops)}"
        self._board.value = f"<style>{CSS}{WIDGET_CSS}</style><div class='ms'>{self._html(self._stops[step])}</div>"

    @property
    def shown(self) -> str:
        """The HTML of the step that is shown."""
        return str(self._board.value)

    def _html(self, stop: Stop) -> str:
        picture = flow.fill(self._svg, flow.places_to_fill(stop.captions, stop.looks)) if self._svg else NO_DOT
        return board({"flow": picture, **fragments(stop)})

    def _batch(self, direction: int) -> int:
        """The first step of the next batch; or of this one, and then of the one before."""
        if direction > 0:
            return next((start for start in self._starts if start > self.step), len(self._stops) - 1)
        return max((start for start in self._starts if start < self.step), default=0)

    def _chosen(self, change: Mapping[str, Any]) -> None:
        current = max((start for start in self._starts if start <= self.step), default=None)
        if change["new"] is not None and change["new"] != current:
            self.show(change["new"])

    def __repr__(self) -> str:
        return f"<Stepper: step {self.step + 1} of {len(self._stops)}>"


def _button(text: str, action: Callable[[], None]) -> widgets.Button:
    button = widgets.Button(description=escape(text), layout={"width": "84px"})
    button.on_click(lambda _: action())
    return button


# A cell is narrower than a page.
WIDGET_CSS = """
.ms { padding:8px; line-height:1.45; } .ms .main { grid-template-columns:minmax(380px,1.1fr) minmax(320px,1fr); }
"""
