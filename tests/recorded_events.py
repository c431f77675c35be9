"""Every event that a query of a test records has the shapes that its step declares, so that its trace can be saved and loaded again.

It is no fixture: a recording of Spark depends on the fixtures of its test, and this changes nothing of what Spark does.
"""

from __future__ import annotations

import json
from typing import Any

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace import recorder
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.shapes import misfit


def check_recorded_events() -> None:
    """From now on, a recorder of this process fails at an event that a loaded trace would refuse."""
    recorder.Event = _checked  # type: ignore[assignment, misc]


def _checked(**fields: Any) -> Event:
    event, step = Event(**fields), STEPS[fields["step"]]
    for name, values, shape in (("ins", event.inputs, step.ins), ("outs", event.outputs, step.outs)):
        wrong = misfit(json.loads(json.dumps(values, default=str)), shape, f"{event.step}.{name}")
        assert wrong is None, wrong
    return event
