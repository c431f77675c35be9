"""Which recorded queries the page to play with can play, and what it says of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace
from tests.unit.golden_trace import TRACE

CASE = (
    "windows;day=2024-01-01;keys=%20;delay=10;size=5;slide=5;mode=append;n=1;"
    "rows=a12:02,a12:07|a12:14|a12:21,a12:08,a12:04|a12:04,a12:30|a12:05,a12:40"
)


def changed(step: str, **values: Any) -> Trace:
    """The trace with other inputs and outputs of a step."""
    def change(event: Event) -> Event:
        ins, outs = ({k: values.get(k, v) for k, v in old.items()} for old in (event.inputs, event.outputs))
        return replace(event, inputs=ins, outputs=outs) if event.step == step else event

    return Trace(tuple(map(change, TRACE.events)))


def later(ms: int) -> Trace:
    """The trace with rows that are so much later within their windows."""
    def move(event: Event) -> Event:
        if event.step != "addBatch":
            return event
        arrivals = [{**one, "time": one["time"] + ms} for one in event.outputs.get("arrivals") or ()]
        return replace(event, outputs={**event.outputs, "arrivals": arrivals})

    return Trace(tuple(map(move, TRACE.events)))


def test_a_windowed_count_is_played_with_its_rows_and_knobs() -> None:
    assert TRACE.play().case == CASE
    assert '"The 10 rows of the query \\"windows\\", with its knobs.' in TRACE.play().page()


@pytest.mark.parametrize(("ms", "knobs", "row"), [(0, "keys=%20;delay=10;", "a12:02,"), (30_000, "unit=s;day=2024-01-01;keys=%20;delay=600;", "a12:02:30,"),
                                                   (1_005, "unit=ms;day=2024-01-01;keys=%20;delay=600000;", "a12:02:01.005,")])
def test_times_and_knobs_are_as_exact_as_they_have_to_be(ms: int, knobs: str, row: str) -> None:
    case = later(ms).play().case
    assert knobs in case and f"rows={row}" in case


@pytest.mark.parametrize(
    ("other", "why"),
    [(Trace(()), "does not begin with batch 0"), (Trace(TRACE.events[20:]), "does not begin with batch 0"),
     (changed("addBatch", arrivals=None), r'not recorded: MiniSparkSession\(spark, trace="rows"\)'),
     (changed("stateOperator", outputMode="complete"), "append and update, not complete"),
     (changed("stateOperator", operator="dedupe"), "this one has dedupe"),
     (changed("updateWatermark", operators=[{"delayMs": 600_000, "count": 9}]), "other rows than the operator"),
     (changed("updateWatermark", operators=[]), "one delay")],
    ids=["nothing", "not from its beginning", "no rows", "another mode", "another operator", "rows that only the watermark sees", "no watermark"],
)
def test_another_query_is_refused_with_the_reason(other: Trace, why: str) -> None:
    with pytest.raises(ValueError, match=why) as e:
        other.play()
    assert "what_if runs a query itself" in str(e.value)
