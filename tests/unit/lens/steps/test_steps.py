"""A step is declared once (lens/steps/); this says what a new one lacks."""

from __future__ import annotations

import pytest

from minispark_stream.engine.runtime import progress_reporter
from minispark_stream.lens import steps
from minispark_stream.lens.recording.recorded import RECORDED
from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view import timeline
from minispark_stream.lens.view.flow_layout import BRIEF, WHOLE
from minispark_stream.lens.view.panels import PANELS
from minispark_stream.lens.view.sentences import caption, narrate
from minispark_stream.lens.view.step_list import step_list
from minispark_stream.lens.view.step_source import step_sources


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.name)
def test_a_step_is_whole(step: steps.Step) -> None:
    nothing_told = Event(step.name, "model", 0, 0, 0, 0.0, 0.0)
    assert step.name in RECORDED, "what a trace keeps of it"
    assert step.name in step_sources(), "the function of the engine that is marked @step"
    assert narrate(nothing_told) and isinstance(caption(nothing_told), str), "its words, even where a trace tells nothing"
    assert set(step.lights) <= set(PANELS)
    assert step.within is None or step.within in STEPS
    assert f"data-step='{step.name}'" in step_list([Trace((nothing_told,))])
    assert step.name in (steps.__doc__ or "")
    in_boxes = [{name for box in diagram.boxes() for name in box.steps} for diagram in (BRIEF, WHOLE)]
    assert step.continuous or all(step.name in names for names in in_boxes) or step.name == "runBatch", "its box in both flow diagrams"


def test_nothing_is_recorded_that_is_no_step() -> None:
    assert set(RECORDED) == set(STEPS)


def test_the_phases_that_are_drawn_are_those_that_the_engine_times() -> None:
    assert set(timeline.PHASES) == {*progress_reporter.PHASES, "other"}
