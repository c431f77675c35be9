"""The steps of a batch as a list, in the order in which they happen, one within the other as they are in Spark.

It stands on the left of the page. The list is the same for every batch; page.js lights the step of the moment and gives each of
the others its look and its caption.

    startQuery
    (1) populateStartOffsets      logs end at 3, 2: run again 3
    trigger
      (2, 3) constructNextBatch   new data: run
      ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from minispark_stream.lens.trace.events import STEPS
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.view.flow import title

Within = Sequence["str | tuple[str, Within]"]

MICRO_BATCHES: Within = (
    "startQuery", "populateStartOffsets",
    ("trigger", (
        "latestOffset", "constructNextBatch", "walCommit", "commitSource", "purge",
        ("runBatch", (
            "getBatch", "queryPlanning", ("addBatch", ("stateOperator",)), "updateWatermark", "commitOffsets",
        )),
        "finishTrigger",
    )),
    "maintenance",
)
CONTINUOUS: Within = ("startQuery", "getStartOffset", ("runContinuous", ("addOffset", "commitEpoch")), "maintenance")


def step_list(recordings: Iterable[Recording]) -> str:
    """The list as HTML: a button for each step."""
    taken = {event.step for recording in recordings for event in recording.events}
    return _list(CONTINUOUS if {"getStartOffset", "runContinuous"} & taken else MICRO_BATCHES)


def _list(steps: Within) -> str:
    items = ""
    for item in steps:
        step, within = (item, ()) if isinstance(item, str) else item
        items += f"<li>{_button(step)}{_list(within) if within else ''}</li>"
    return f"<ol>{items}</ol>"


def _button(step: str) -> str:
    number, _, name = title(step).rpartition(" ")
    return (
        f"<button data-step='{step}' title='{escape(STEPS[step].says, quote=True)}'><span class='name'>"
        f"<small>{escape(number)}</small> {escape(name)}</span> <span class='caption'></span></button>"
    )
