"""What the `withWatermark` nodes measured is read in one place; the sentence, the panel and the question say the same of it."""

from __future__ import annotations

from typing import Any

import pytest

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.measured import measured
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.panels import watermark
from minispark_stream.lens.view.questions import questions
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.lens.view.world_changes import worlds

NOON, MINUTE = 1_704_110_400_000, 60_000


def updated(**node: Any) -> Event:
    operators = [{"node": "ts", "delayMs": 10 * MINUTE, **node}]
    return Event("updateWatermark", "model", 0, 0, 1, 0, 1, {"policy": "min", "watermark": 0},
                 {"watermark": NOON, "operators": operators})


@pytest.mark.parametrize("node, newest, reached", [
    ({"count": 2, "max": NOON}, NOON, NOON - 10 * MINUTE),
    ({"max": NOON}, NOON, NOON - 10 * MINUTE),  # a trace that does not count
    ({"count": 0, "max": 0}, None, None),  # Spark reports a maximum of 0 when no row has arrived
    ({}, None, None),
    ({"count": 2, "max": 0}, 0, None),  # nothing but nulls
    ({"count": 1, "max": 5 * MINUTE}, 5 * MINUTE, None),  # the delay leads back to before 1970
])
def test_a_watermark_is_reached_if_rows_arrived_and_the_delay_leaves_something(node: Any, newest: Any, reached: Any) -> None:
    event = updated(**node)
    (one,) = measured(event.outputs)
    assert (one.node, one.newest_ms, one.reached_ms) == ("ts", newest, reached)

    trace = Trace((event,))
    panel = watermark(worlds((event,))[-1])
    for says in narrate(event), panel:
        assert ("no row with an event time in this batch" in says) is (newest is None)
        assert ("no event time that gives a watermark" in says) is (newest is not None and reached is None)
    assert len(questions(trace, fates(trace))) == (reached is not None)


def test_without_nodes_nothing_was_measured() -> None:
    assert measured({}) == measured({"operators": []}) == ()
