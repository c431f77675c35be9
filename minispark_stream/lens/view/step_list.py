"""The steps of a batch as a list, in the order in which they happen, nested as they are in Spark.

It is on the left of the page. The list is the same for every batch; page.js highlights the current step, and gives each of the
others its look and its caption.

    startQuery
    (1) populateStartOffsets      batch 3 again
    trigger
      (2, 3) constructNextBatch   new data
      ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.steps import STEPS, Step
from minispark_stream.lens.view.flow import title

OF_BOTH = ("startQuery", "maintenance")  # a query in micro-batches has them, and so has a continuous one


def step_list(recordings: Iterable[Recording]) -> str:
    """The list as HTML: a button for each step."""
    taken = {event.step for recording in recordings for event in recording.events}
    continuous = any(STEPS[name].continuous for name in taken)
    return _list([step for step in STEPS.values() if step.continuous == continuous or step.name in OF_BOTH], None)


def _list(steps: Sequence[Step], within: str | None) -> str:
    items = "".join(f"<li>{_button(step.name)}{_list(steps, step.name)}</li>" for step in steps if step.within == within)
    return f"<ol>{items}</ol>" if items else ""


def _button(step: str) -> str:
    number, _, name = title(step).rpartition(" ")
    return (
        f"<button data-step='{step}' title='{escape(STEPS[step].says, quote=True)}'><span class='name'>"
        f"<small>{escape(number)}</small> {escape(name)}</span> <span class='caption'></span></button>"
    )
