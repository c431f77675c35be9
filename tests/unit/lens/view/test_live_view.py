"""The live view, with a query that is played: what it draws, when it draws again, how it ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from minispark_stream import live
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.live_charts import series, svg
from minispark_stream.lens.view.live_view import LiveView, QueryMoment
from minispark_stream.streaming_query import StreamingQuery as ModelQuery
from minispark_stream.tools.compare.live import newest_steps
from minispark_stream.tools.compare.spark_batch import SparkBatch
from minispark_stream.tools.compare.spark_trace import spark_trace
from tests.unit.golden_trace import TRACE
from tests.unit.tools.compare.test_trace_of import report


class Query(ModelQuery):
    """A query of the model that has got so far."""

    def __init__(self, events: Sequence[Event]):
        self._events = tuple(events)

    @property
    def trace(self) -> Trace:
        return Trace(self._events)


def recorded(*batches: int, **other: Any) -> Recording:
    return spark_trace([SparkBatch({**report(n), **other}, {}) for n in batches])


def look(*batches: int, is_active: bool = True, error: str | None = None, steps: Recording | None = None) -> QueryMoment:
    return QueryMoment("query counts", is_active, "Waiting for data to arrive", error, recorded(*batches), steps)


def played(*looks: QueryMoment | Exception) -> LiveView:
    """A view that sees one look after the other, until the last one ends it."""
    coming = iter(looks)

    def next_look() -> QueryMoment:
        seen = next(coming)
        if isinstance(seen, Exception):
            raise seen
        return seen

    view = LiveView(next_look, every_s=0.001)
    view._thread.join(60)
    assert not view._thread.is_alive()
    return view


def test_the_charts_have_the_numbers_of_the_progress_reports() -> None:
    charts = series(recorded(0, 1, 2))
    assert charts["rows per second"] == {"arriving": [2.0] * 3, "processed": [3.0] * 3}
    assert charts["rows in a batch"] == {"read": [1, 1, 1]}
    assert charts["time of a batch (s)"]["addBatch"] == [0.005] * 3
    assert charts["watermark behind the newest event (s)"] == {"behind": [None, 60.0, 60.0]}
    assert charts["state rows"] == {"in the state": [1, 2, 3]} and charts["state memory (kB)"] == {"memory": [0.001] * 3}


@pytest.mark.parametrize("numbers", [[], [0], list(range(250))])
def test_charts_of_no_batch_of_one_and_of_many(numbers: Sequence[int]) -> None:
    drawn = svg(recorded(*numbers))
    assert drawn.startswith("<svg") and len(drawn) < 400_000


def test_a_query_without_watermark_and_state_has_empty_charts() -> None:
    bare = recorded(0, 1, eventTime={}, stateOperators=[], inputRowsPerSecond="NaN")
    charts = series(bare)
    assert charts["state rows"] == charts["watermark behind the newest event (s)"] == {}
    assert list(charts["rows per second"]) == ["processed"] and ">none<" in svg(bare)


def test_it_ends_with_the_query_and_keeps_the_last_picture() -> None:
    view = played(look(), look(0), look(0), look(0, 1, is_active=False))
    assert "<b>1</b>" in view.html and "<svg" in view.html and "ended" in view.html
    assert view.comm is None and repr(view) == "<LiveView: closed>"


def test_what_has_not_changed_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def draw(recording: Recording) -> str:
        drawn.append(recording)
        return "<svg/>"

    monkeypatch.setattr("minispark_stream.lens.view.live_charts.svg", draw)
    played(look(0), look(0), look(0, 1), look(0, 1, is_active=False))
    assert len(drawn) == 2


def test_a_query_that_fails_shows_its_error() -> None:
    view = played(look(0), look(0, is_active=False, error="[STREAM_FAILED] <boom>"))
    assert "<p class='failed'>[STREAM_FAILED] &lt;boom&gt;</p>" in view.html and "failed</small>" in view.html


def test_a_query_that_cannot_be_asked_any_more_ends_the_view() -> None:
    view = played(look(0), ConnectionError("Spark is gone"))
    assert "ConnectionError: Spark is gone" in view.html


def test_a_query_of_the_model_has_the_flow_with_the_step_that_ended_last() -> None:
    whole = Query(TRACE.events)
    view = played(look(0, is_active=False, steps=newest_steps(whole)))
    assert "the step that ended last: finishTrigger" in view.html
    last = max(i for i, e in enumerate(TRACE.events) if e.step == "getBatch")
    under_way = newest_steps(Query(TRACE.events[: last + 1]))
    assert under_way is not None and under_way.batches[-1].batch_id == TRACE.events[last].batch_id
    view = played(look(0, is_active=False, steps=under_way))
    assert "the step that ended last: getBatch" in view.html


def test_close_stops_the_thread_and_the_display_gets_the_picture() -> None:
    seen, updated = threading.Event(), []

    def forever() -> QueryMoment:
        seen.set()
        return look(0)

    view = LiveView(forever, every_s=3600)
    assert seen.wait(60)
    view._handles.append(type("Handle", (), {"update": lambda self, data, raw: updated.append(data)})())
    view.close()
    assert not view._thread.is_alive() and list(updated[0]) == ["text/html", "text/plain"]
    view.close()
    assert len(updated) == 1


def test_what_is_no_query_is_refused() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match="live takes the StreamingQuery"):
        live(wrong)
