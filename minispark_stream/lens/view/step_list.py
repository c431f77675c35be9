"""The steps of a batch as a list, in the order in which they happen, nested as they are in Spark.

It is on the left of the page. The list is the same for every batch; page.js highlights the current step, and gives each of the
others its look and its caption. In real-time mode, the offsets are logged when the batch has run.

    startQuery
    (1) populateStartOffsets      batch 3 again
    trigger
      (2, 3) constructNextBatch   new data
      ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.steps.logs import WAL_COMMIT_IN_REAL_TIME
from minispark_stream.lens.steps.step import Step
from minispark_stream.lens.trace.recording import Recording, is_real_time
from minispark_stream.lens.view.flow import title

OF_BOTH = ("startQuery", "maintenance")  # a query in micro-batches has them, and so has a continuous one


def steps_of(recordings: Iterable[Recording]) -> Mapping[str, Step]:
    """All steps by their names, in the order in which these queries take them."""
    events = [event for recording in recordings for event in recording.events]
    found = dict(STEPS)
    if any(map(is_real_time, events)):
        del found["walCommit"]
        later = {name: found.pop(name) for name in ("commitOffsets", "finishTrigger", "maintenance")}
        found |= {"walCommit": WAL_COMMIT_IN_REAL_TIME, **later}
    continuous = any(STEPS[event.step].continuous for event in events)
    return {name: step for name, step in found.items() if step.continuous == continuous or name in OF_BOTH}


def step_list(recordings: Iterable[Recording]) -> str:
    """The list as HTML: a button for each step."""
    return _list(list(steps_of(recordings).values()), None)


def _list(steps: Sequence[Step], within: str | None) -> str:
    items = "".join(f"<li>{_button(step)}{_list(steps, step.name)}</li>" for step in steps if step.within == within)
    return f"<ol>{items}</ol>" if items else ""


def _button(step: Step) -> str:
    number, _, name = title(step.name).rpartition(" ")
    return (
        f"<button data-step='{step.name}' title='{escape(step.says, quote=True)}'><span class='name'>"
        f"<small>{escape(number)}</small> {escape(name)}</span> <span class='caption'></span></button>"
    )
