"""The stepper: forward and back through every step of every trigger of a recorded trace, in Jupyter.

All steps are known when it is made, so it needs no kernel: it is the page of the trace (page.py) in a frame of its own. So it
moves in a saved notebook, too, and on a page that nbconvert has made of it. The frame may run its script and nothing else.

    trace.stepper()                 from the first step
    trace.stepper(step=12)          from the 12th one, counted from 1 as on the page

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from minispark_stream.trace.recording import Recording
from minispark_stream.view.page import page

HEIGHT = 720  # pixels


class Stepper:
    """Steps through one trace, or through two side by side.

    Args:
        recordings: engine -> what was recorded of it.
        step: the step to begin with, from 1; one after the last is the last.
        intro: HTML to show below the steps.
    """

    def __init__(self, recordings: Mapping[str, Recording], step: int = 1, intro: str = ""):
        self._recordings, self._step, self._intro = recordings, step, intro

    def _repr_html_(self) -> str:
        html = escape(page(self._recordings, self._intro, self._step - 1), quote=True)
        return (
            f'<iframe title="{self}" sandbox="allow-scripts" allow="fullscreen" srcdoc="{html}" '
            f'style="width:100%;height:{HEIGHT}px;border:0;border-radius:10px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Stepper of {' and '.join(self._recordings)}"
