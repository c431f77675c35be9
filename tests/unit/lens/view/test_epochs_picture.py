"""Pictures of continuous processing, from recorded events alone: epochs on the axis of time, and latencies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view import latency
from minispark_stream.lens.view.epochs import MOST, Span, spans
from minispark_stream.lens.view.pictures import pictures


def event(step: str, start_ms: float, trigger: int | None = None, batch_id: int | None = None, **values: Any) -> Event:
    return Event(step, "model", trigger, batch_id, 0, start_ms, 10, values, error=values.pop("error", None))


def continuous(epochs: int) -> Trace:
    events = [event("getStartOffset", 100)]
    for n in range(epochs):
        events += [event("addOffset", 1000 * (n + 1), epoch=n), event("commitEpoch", 1000 * (n + 1) + 50, epoch=n)]
    return Trace((*events, event("addOffset", 1000 * (epochs + 1), epoch=epochs)))


BATCHES = Trace(tuple(
    event(step, 1000 * n + at, n, n)
    for n in range(2)
    for step, at in (("constructNextBatch", 10), ("walCommit", 20), ("runBatch", 40), ("commitOffsets", 300))
))


def test_an_epoch_is_logged_at_its_end_and_a_batch_at_its_beginning():
    assert spans(continuous(2)) == [Span("epoch 0", 100, 1000, 1060), Span("epoch 1", 1000, 2000, 2060)]
    assert spans(BATCHES) == [Span("batch 0", 10, 30, 310), Span("batch 1", 1010, 1030, 1310)]


def test_an_epoch_whose_commit_failed_is_not_drawn():
    failed = Trace((*continuous(1).events, event("commitEpoch", 2100, epoch=1, error="OSError: disk full")))
    assert [span.name for span in spans(failed)] == ["epoch 0"]


def test_epochs_and_batches_stand_on_one_axis():
    picture = continuous(3).epochs(BATCHES).svg
    assert picture == continuous(3).epochs(BATCHES).svg
    for words in ("epoch 2", "batch 1", "offsets logged", "epoch 0: offsets logged after 900 ms, committed after 960 ms"):
        assert words in picture
    assert "epoch 3" not in picture
    assert "Continuous, 3 epochs" in picture and "Query on model, 2 batches" in picture
    many = continuous(MOST + 5).epochs().svg
    assert "epoch 4:" not in many and "epoch 5:" in many


def test_all_bars_are_equally_thick_and_a_mark_at_the_edge_is_whole():
    drawn = continuous(1).epochs(BATCHES).svg
    heights = [re.findall(r"[ML] \S+ (\S+)", path) for path in re.findall(r'id="p\d-\d">.*?<path d="(.*?)"', drawn, re.DOTALL)]
    assert len(heights) == 3 and len({round(max(map(float, ys)) - min(map(float, ys)), 1) for ys in heights}) == 1
    marks = re.findall(r'<g id="line2d_\d+">(.*?)</g>', drawn, re.DOTALL)
    assert marks and not any("clip-path" in mark for mark in marks if "<use" in mark)


def test_the_trigger_of_a_query_is_named():
    run_now = Trace((replace(event("trigger", 5, 0), inputs={"trigger": "AvailableNowTrigger"}), *BATCHES.events))
    assert "AvailableNow, 2 batches" in run_now.epochs().svg


def test_a_trace_without_a_commit_has_no_such_picture():
    with pytest.raises(ValueError, match="nothing to draw"):
        Trace(()).epochs()


@pytest.mark.parametrize("junk", [{}, {"epoch": None}], ids=str)
def test_of_an_event_without_the_number_of_its_epoch_it_is_said_that_nothing_was_committed(junk):
    steps = tuple(event(step, 10.0, **junk) for step in ("addOffset", "commitEpoch"))
    for one in (Trace(steps), Trace((event("getStartOffset", 0), *steps))):
        with pytest.raises(ValueError, match="nothing to draw"):
            one.epochs()
        assert pictures(one, fates(one)) == ()
    begun_before_the_trace = Trace((event("addOffset", 1000, epoch=3), event("commitEpoch", 1050, epoch=3)))
    assert spans(begun_before_the_trace) == [Span("epoch 3", 0, 1000, 1060)]


def test_the_page_of_a_continuous_query_has_its_epochs_and_that_of_another_one_its_durations():
    assert [one.heading for one in pictures(continuous(2), fates(continuous(2)))] == ["Epochs"]
    assert "Epochs" not in [one.heading for one in pictures(BATCHES, fates(BATCHES))]


def test_latencies_are_drawn_with_their_medians():
    picture = latency.picture({"micro-batch": [700.0, 900.0, 1100.0], "continuous": [0.0, 12.0, 14.0]}).svg
    assert "micro-batch: median 900 ms" in picture and "continuous: median 12 ms" in picture
    with pytest.raises(ValueError, match="at least one"):
        latency.picture({"continuous": []})
