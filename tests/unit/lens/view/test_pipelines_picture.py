"""When the tasks of both stages ran, and how rows went through them, from recorded events alone."""

from __future__ import annotations

from typing import Any

import pytest

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.pipelines import MOST_ROWS, newest, runs, sample, words_of
from minispark_stream.lens.view.questions import questions
from minispark_stream.lens.view.step_list import step_list

CLOCK = 1_710_000_000_000.0


def event(step: str, batch: int, start_ms: float, duration_ms: float = 10, **outputs: Any) -> Event:
    return Event(step, "model", batch, batch, 0, start_ms, duration_ms, {}, outputs)


def micro_batch(n: int, begin: float) -> list[Event]:
    """Its two stages begin 100 and 300 ms after it; it lasts 600 ms."""
    stages = [[[0, CLOCK + begin + 100, CLOCK + begin + 200], [1, CLOCK + begin + 100, None]], [[0, CLOCK + begin + 300, CLOCK + begin + 500]]]
    return [
        event("constructNextBatch", n, begin), event("walCommit", n, begin + 20),
        event("addBatch", n, begin + 90, 430, tasks={"stages": stages, "clock": CLOCK + begin + 520}),
        event("commitOffsets", n, begin + 590), event("runBatch", n, begin + 30, 570),
    ]


def real_time(n: int, begin: float, ways: Any = ()) -> list[Event]:
    """One job of three tasks, the first of which has the state; its offsets are logged at its end."""
    tasks = [[number, CLOCK + begin + 50, CLOCK + begin + 3050] for number in range(3)]
    return [
        event("constructNextBatch", n, begin, realTime=True),
        event("addBatch", n, begin + 40, 3020, tasks={"stages": [tasks], "receivers": 1, "ways": ways, "clock": CLOCK + begin + 3060}),
        event("walCommit", n, begin + 3070), event("commitOffsets", n, begin + 3090), event("runBatch", n, begin + 20, 3080),
    ]


WAY: dict[str, Any] = {"from": 1, "to": 0, "rows": "a", "read": CLOCK + 1000, "computed": CLOCK + 1001, "received": CLOCK + 1002, "written": CLOCK + 1004.5}
MICRO = Trace(tuple(e for n in range(8) for e in micro_batch(n, 600.0 * n)))
REAL = Trace((*real_time(0, 0.0, [WAY, {**WAY, "written": None, "computed": None}, {"rows": "not read"}]), *real_time(1, 3100.0)))


def test_times_are_those_of_the_trace() -> None:
    first: Any = runs(MICRO)[0]
    assert first.stages == (((0, 100, 200), (1, 100, 100)), ((0, 300, 500),))
    assert (first.begin_ms, first.logged_ms, first.committed_ms, first.end_ms) == (0, 30, 600, 600)


def test_the_one_job_of_real_time_mode_is_parted_into_its_stages() -> None:
    found: Any = runs(REAL)
    first, second = found
    assert first.stages == (((0, 50, 3050), (1, 50, 3050)), ((0, 50, 3050),))
    assert (first.logged_ms, first.committed_ms) == (3080, 3100) and not second.ways
    assert [(way["read"], way.get("computed"), way.get("written"), way["from"]) for way in first.ways] == [(1000, 1001, 1004.5, 1), (1000, None, None, 1)]
    assert words_of(first.ways[0]) == "a: computed after 1.0 ms, received after 2.0 ms, written after 4.5 ms"


def test_as_many_batches_are_drawn_as_last_no_longer_than_the_first_one() -> None:
    assert [run.batch_id for run in newest(runs(REAL), None)] == [0]  # the newest with rows that were followed
    assert [run.batch_id for run in newest(runs(MICRO), 3100)] == [3, 4, 5, 6, 7]
    assert [run.batch_id for run in newest(runs(MICRO), 10)] == [7]
    ways = [{"read": float(n)} for n in range(5 * MOST_ROWS)]
    assert list(sample(ways)) == ways[::5] and not list(sample([]))


def test_the_picture_says_which_is_which() -> None:
    svg = REAL.pipelines(MICRO).svg
    assert svg == REAL.pipelines(MICRO).svg
    for words in (
        "real-time mode: batch 0", "micro-batches: batches 3 to 7", "stage 2, task 0", "median age in the sink: 4.5 ms",
        "batch 0, stage 1, task 1: 3000 ms", "offsets/0, 3080 ms after the batch began", "offsets/7, 30.0 ms after the batch began".replace("30.0", "30"),
        "A micro-batch whose rows are recorded", "takes longer",
    ):
        assert words in svg, words
    assert "takes longer" not in REAL.pipelines().svg and "its own age" not in MICRO.pipelines().svg


def test_a_trace_without_tasks_has_no_such_picture() -> None:
    for none in (Trace(()), Trace(tuple(micro_batch(0, 0.0)[:2])), Trace((event("addBatch", 0, 0, tasks={"stages": [], "clock": 1}),))):
        with pytest.raises(ValueError, match="a trace has no tasks"):
            REAL.pipelines(none)


def test_a_trace_of_spark_says_why_there_is_none() -> None:
    with pytest.raises(ValueError, match="a trace of Spark is made of its reports"):
        Trace((event("addBatch", 0, 0),), engine="spark").pipelines()


def test_what_is_asked_of_a_batch_in_real_time_mode() -> None:
    """It emits a row for each row, its offsets are logged after it has run, and a restart begins it anew."""
    operator = Event(
        "stateOperator", "model", 0, 0, 0, 20, 1,
        {"operatorId": 0, "operator": "StatefulStreamlineAggregate", "outputMode": "update", "decides": {"keeps": "groups", "emits": "changed"}},
        {"metrics": {"numRowsUpdated": 2, "numRowsTotal": 2}},
    )
    done = event("finishTrigger", 0, 3100, progress={"batchId": 0, "numInputRows": 5, "sink": {"numOutputRows": 5}})
    trace = Trace((REAL.events[0], operator, *REAL.events[1:5], done, event("trigger", 0, 0, 3200)))
    asked = {one.before[2]: one for one in questions(trace, fates(trace))}
    assert asked["addBatch"].choices[asked["addBatch"].right] == "5" and "for each row, as it comes" in asked["addBatch"].why
    assert asked["walCommit"].choices[asked["walCommit"].right] == "Nothing" and len(asked["walCommit"].choices) == 3
    assert asked["commitOffsets"].why == "offsets/0 without commits/0 is deleted, and batch 0 begins anew, perhaps with more rows"


def test_in_real_time_mode_the_offsets_are_logged_among_the_last_steps_of_the_batch() -> None:
    def order(trace: Trace) -> list[str]:
        return [piece.split("'")[0] for piece in step_list([trace]).split("data-step='")[1:]]

    micro, real = order(MICRO), order(REAL)
    assert micro.index("walCommit") < micro.index("runBatch") and sorted(micro) == sorted(real)
    assert real[real.index("walCommit") - 1:][:3] == ["updateWatermark", "walCommit", "commitOffsets"]
    page = step_list([REAL])
    assert "write down what the batch has read" in page and "before it reads anything" not in page
