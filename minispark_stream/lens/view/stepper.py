"""The stepper: forward and back through every step of every trigger of a recorded trace, in Jupyter.

All steps are known when it is made, so it needs no kernel: it is the page of the trace (page.py) in a frame of its own
(frame.py).

    trace.stepper()                 from the first step
    trace.stepper(2, "walCommit")   from this step of batch 2
    trace.stepper(ask=True)         asks before a step what it will do, as the button "ask" does
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.frame import frame
from minispark_stream.lens.view.page import page


class Stepper:
    """Steps through one trace, or through two side by side.

    Args:
        recordings: engine -> what was recorded of it.
        intro: HTML to show below the steps.
        batch, step: where to begin: the first step of this batch and with this name; None means any.
        ask: whether it asks before a step what it will do.
        differing: the batches on which the two engines disagree; None if they were not compared.
        query: what the title calls a query that has no name.

    Raises:
        ValueError: there is no such step.
    """

    def __init__(
        self, recordings: Mapping[str, Recording], intro: str = "", batch: int | None = None, step: str | None = None,
        ask: bool = False, differing: Collection[int | None] | None = None, query: str = "",
    ):
        self._recordings = recordings
        self._page = page(recordings, intro, batch, step, ask, differing, query)

    def _repr_html_(self) -> str:
        return frame(self._page, str(self))

    def __repr__(self) -> str:
        return f"Stepper of {' and '.join(self._recordings)}"
