"""What became of each row, from recorded events: hand-made batches, in which every number is chosen."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import BEYOND, DUPLICATE, KEPT, LATE, LEFT_OUT, PASSED, UNKNOWN, fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.event_plane import BEHIND, COUNTED, DROPPED, NULL, planes
from minispark_stream.lens.view.event_time import svg
from minispark_stream.lens.view.fate import told
from minispark_stream.lens.view.join_buffers import buffers
from tests.unit.golden_trace import TRACE, loaded
from tests.unit.hand_told import At, Tasks

MINUTE, NOON = 60_000, 1_704_110_400_000  # 2024-01-01 12:00
SOURCE = "0: FileStreamSource[file:/data/in]"
Arrival = dict[str, Any]


def at(minutes: float) -> int:
    """A time on the first day of 2024, in minutes after noon."""
    return int(NOON + minutes * MINUTE)


def said(minutes: int) -> str:
    return f"2024-01-01 {12 + minutes // 60}:{minutes % 60:02d}:00"


def row(minutes: float | None, key: dict[str, Any] | None, time: float | None = None, **more: Any) -> Arrival:
    """A row with its event time, its key at the operator (None: it does not get there), and what is compared with the watermark."""
    more = {"side": 0, "partition": 1, "row": {"t": minutes}, **more}
    place = [] if key is None else [{"operatorId": 0, "key": key, "time": None if time is None else at(time), **more}]
    ms = None if minutes is None else at(minutes)
    return {"source": SOURCE, "file": "file:///in/0.csv", "row": {"t": minutes}, "time": ms, "at": place}


def windowed(minutes: int, **columns: Any) -> Arrival:
    """A row of a count over windows of five minutes."""
    start = minutes - minutes % 5
    return row(minutes, {"window": {"start": said(start), "end": said(start + 5)}, **columns}, start + 5, start=at(start))


def decision(operator: str, mode: str, late: float, eviction: float, **more: Any) -> dict[str, Any]:
    """What the operators say of themselves (engine/operators/explained.py)."""
    emits = {"append": "leaving", "update": "changed", "complete": "all"}[mode]
    match operator:
        case "stateStoreSave" | "sessionWindowStateStoreSaveExec":
            keeps = "groups" if operator == "stateStoreSave" else "sessions"
            bounds = {} if mode == "complete" else {"late_ms": late, "leaves_ms": [eviction]}
            return {"keeps": keeps, "emits": emits, **bounds, **more}
        case "symmetricHashJoin":
            leaves = [None if shift is None else eviction + shift * MINUTE for shift in more.pop("shifts")]
            return {"keeps": "rows", "late_ms": late, "leaves_ms": leaves, "join_type": "Inner", **more}
        case "globalLimit":
            return {"keeps": "count", **more}
    return {"keeps": "keys", "late_ms": late, "leaves_ms": [eviction], "emits": "changed", **more}


def trace(
    operator: str, *batches: tuple[Sequence[Arrival], float, float], mode: str = "append",
    meets: Callable[[At, At], bool] = lambda left, right: True, **holds: Any,
) -> Trace:
    """Batches of (rows, late watermark, watermark) in minutes after noon; 0 is no watermark. `meets`: which rows a join joins."""
    events, tasks = [], Tasks(meets)
    for n, (rows, late, eviction) in enumerate(batches):
        marks = {"watermarkLate": late and at(late), "watermarkEviction": eviction and at(eviction)}
        after = batches[n + 1][2] if n + 1 < len(batches) else eviction
        decides = decision(operator, mode, late and at(late), eviction and at(eviction), **holds)
        told = tasks.told(decides, [place for one in rows for place in one["at"] if place["operatorId"] == 0])
        state = {"operatorId": 0, "operator": operator, "outputMode": mode, "decides": decides, **marks}
        for step, ins, outs in (
            ("getBatch", {"source": SOURCE, "start": f'{{"logOffset":{n - 1}}}', "end": f'{{"logOffset":{n}}}'}, {}),
            ("queryPlanning", marks, {"operators": [{"operatorId": 0, "operator": operator}]}),
            ("stateOperator", state, {"metrics": {}, "told": told}),
            ("addBatch", {}, {"arrivals": list(rows)}),
            ("updateWatermark", {}, {"watermark": after and at(after)}),
            ("runBatch", {"batchId": n}, {}),
            ("finishTrigger", {}, {"progress": {"batchId": n}}),
        ):
            events.append(Event(step, "model", n, n, 1, 0.0, 1.0, ins, outs))
    return Trace(tuple(events))


def whats(one: Trace) -> list[str]:
    return [fate.what for fate in fates(one).rows]


def fate_of(one: Trace, **columns: Any) -> str:
    (found,) = one.fate(columns).rows
    return found.stations[-1][1]


LATE_ROWS = trace(
    "stateStoreSave",
    ([windowed(2), windowed(7)], 0, 0),
    ([windowed(21)], 0, 1),
    ([windowed(4), windowed(8), row(None, None)], 6, 11),
    ([windowed(1), windowed(3), windowed(26)], 11, 11),
)


def test_a_row_is_late_when_its_window_ended_at_or_before_the_late_watermark() -> None:
    assert whats(LATE_ROWS) == [KEPT, KEPT, KEPT, LATE, KEPT, LEFT_OUT, LATE, LATE, KEPT]
    assert fate_of(LATE_ROWS, t=4) == "dropped: its window ended 12:05:00, at or before the late watermark, 12:06:00"


def test_rows_that_were_merged_before_the_filter_share_their_fate_and_are_told_so() -> None:
    assert "2 rows of this batch had its key and were merged before they reached the filter" in fate_of(LATE_ROWS, t=1)


def test_a_row_that_is_behind_the_watermark_is_counted_while_its_window_is_open() -> None:
    assert fate_of(LATE_ROWS, t=8) == (
        "counted, as its window ends 12:10:00, after the late watermark, 12:06:00. The row itself, 12:08:00, is behind the eviction "
        "watermark, 12:11:00, which does not matter. It was merged into its window, 2 rows in all; emitted in batch 2. It was in the "
        "state until batch 2 evicted it: the eviction watermark, 12:11:00, had reached 12:10:00"
    )


def test_the_times_of_a_sentence_stand_in_the_order_that_it_says() -> None:
    stories = [str(told(fates(one), fate)) for one in (TRACE, LATE_ROWS) for fate in fates(one).rows]
    time = r"(\d\d:\d\d:\d\d)"
    met = []
    for words, is_so in (
        (f"{time}, is behind the \\w+ watermark, {time}", str.__lt__), (f"ended {time}, at or before the late watermark, {time}", str.__le__),
        (f"ends {time}, after the late watermark, {time}", str.__gt__), (f"the eviction watermark, {time}, had reached {time}", str.__ge__),
    ):
        found = [pair for story in stories for pair in re.findall(words, story)]
        assert all(is_so(one, other) for one, other in found), (words, found)
        met.append(len(found))
    assert all(met) and "1969" not in str(stories) and "1970" not in str(stories)


def test_a_row_without_an_event_time_belongs_to_no_window() -> None:
    assert "its event time is null, so it belongs to no window" in fate_of(LATE_ROWS, t=None)


def test_times_of_different_days_have_their_dates() -> None:
    (row_of_yesterday,) = trace("stateStoreSave", ([windowed(2)], 24 * 60, 24 * 60)).fate({"t": 2}).rows
    assert "ended 2024-01-01 12:05:00, at or before the late watermark, 2024-01-02 12:00:00" in row_of_yesterday.stations[-1][1]


def test_a_row_that_waits_says_for_which_watermark() -> None:
    assert fate_of(LATE_ROWS, t=26).endswith("not emitted yet. It stays in the state until the eviction watermark reaches 12:30:00; the next watermark is 12:11:00")


def test_the_way_of_a_row_is_told_from_its_file_on() -> None:
    (found,) = LATE_ROWS.fate({"t": 8}).rows
    assert dict(found.stations[:-1]) == {
        "file": "0.csv", "offset": "FileStreamSource[in]: after logOffset 1 up to logOffset 2", "batch": "2",
        "event time": "12:08:00 UTC; late watermark 12:06:00, eviction watermark 12:11:00",
        "operator 0": "stateStoreSave, partition 1, key window=[2024-01-01 12:05, 12:10)",
    }


def test_in_complete_mode_nothing_is_late_and_nothing_leaves() -> None:
    complete = trace("stateStoreSave", ([windowed(2)], 0, 0), ([windowed(3)], 20, 20), mode="complete")
    assert whats(complete) == [KEPT, KEPT]
    assert "emitted in batch 0 and later ones. It stays in the state for ever" in fate_of(complete, t=2)


def test_sessions_of_a_key_that_touch_are_one() -> None:
    def session(minutes: int, k: str = "a") -> Arrival:
        ends = {"start": said(minutes), "end": said(minutes + 5)}
        return row(minutes, {"session_window": ends, "k": k}, minutes + 5, start=at(minutes))

    sessions = trace(
        "sessionWindowStateStoreSaveExec", ([session(0), session(8), session(3, "b")], 0, 0), ([session(4)], 0, 2), ([], 2, 13)
    )
    first, second, other, _ = (fate.holding.last for fate in fates(sessions).rows if fate.holding)
    assert first is second and (first.start_ms, first.end_ms, sum(first.counts.values())) == (at(0), at(13), 3)
    assert other.end_ms == at(8) and first.evicted == other.evicted == 2


def test_a_key_that_is_held_makes_a_duplicate_until_it_is_forgotten() -> None:
    one = {"k": 1}
    seen = trace(
        "dedupeWithinWatermark", ([row(2, one, 2)], 0, 0), ([row(4, one, 4)], 0, 1), ([], 1, 12), ([row(13, one, 13)], 12, 12),
        lasts_ms=10 * MINUTE,
    )
    assert whats(seen) == [KEPT, DUPLICATE, KEPT]
    assert fate_of(seen, t=4) == "dropped as a duplicate: a row of batch 0 had the same key, which stays in the state until the eviction watermark reaches 12:12:00"


def test_a_row_of_a_join_waits_for_the_state_watermark_of_its_side() -> None:
    left, right = row(2, {"field0": "x"}, 2), row(3, {"field0": "x"}, 3, side=1)
    joined = trace("symmetricHashJoin", ([left], 0, 0), ([right], 0, 1), ([], 1, 8), shifts=[-5, None])
    assert fate_of(joined, t=2).endswith("until batch 2 evicted it: the state watermark of its side, 12:03:00, had reached 12:02:00")
    assert fate_of(joined, t=3) == "stored on its side; emitted in batch 1 with t=2. It stays in the state for ever: no watermark evicts it"
    still_held = trace("symmetricHashJoin", ([left], 0, 0), ([right], 0, 1), shifts=[-5, None])  # by two clocks: its own, the query's
    assert fate_of(still_held, t=2).endswith(
        "It stays in the state until the state watermark of its side reaches 12:02:00, which happens when the watermark of the query is "
        "12:07:00; the next watermark of the query is 12:01:00"
    )
    assert [plane.title for plane in planes(fates(joined))] == [
        "operator 0: symmetricHashJoin, left side", "operator 0: symmetricHashJoin, right side",
    ]


def test_a_row_that_the_state_watermark_has_passed_is_joined_and_not_stored() -> None:
    rows = [row(1, {"field0": "x"}, 1), row(2, {"field0": "x"}, 2, side=1)]
    joined = trace("symmetricHashJoin", (rows, 0, 8), shifts=[-5, -5])
    assert [(holding.side, holding.evicted) for holding in fates(joined).holdings] == [(0, 0)]  # the left side comes first
    assert fate_of(joined, t=2) == (
        "emitted in batch 0 with t=1, and not stored: its event time, 12:02:00, was at or before the state watermark of its side, 12:03:00"
    )


def test_what_a_join_emitted_is_told_by_its_tasks() -> None:
    """x has two partners, in two batches; y leaves alone: the condition let no pair of it pass, although both sides have its key."""
    def side(minutes: int, k: str, number: int) -> Arrival:
        return row(minutes, {"field0": k}, minutes, side=number, row={"t": minutes, "k": k})

    told = trace(
        "symmetricHashJoin", ([side(1, "x", 0), side(2, "x", 1), side(1, "y", 0)], 0, 0), ([side(3, "x", 1), side(3, "y", 1)], 0, 0),
        ([], 1, 8), shifts=[0, 0], join_type="LeftOuter", meets=lambda left, right: left["row"]["k"] == "x",
    )
    assert fate_of(told, k="x", t=1).startswith("stored on its side; emitted in batch 0 with t=2 k=x, emitted in batch 1 with t=3 k=x. It")
    assert "emitted in batch 2 without a partner, with nulls" in fate_of(told, k="y", t=1)
    (one,) = buffers(fates(told))
    assert [(pair.batch, pair.left, pair.right) for pair in one.pairs] == [(0, 0, 0), (1, 0, 1)]
    assert [(lane.row["k"], lane.is_alone) for lane in one.left] == [("x", False), ("y", True)]


def test_a_limit_lets_no_more_than_its_number_pass() -> None:
    limited = trace("globalLimit", ([row(1, {}), row(2, {})], 0, 0), ([row(3, {})], 0, 0), limit=2)
    assert whats(limited) == [PASSED, PASSED, BEYOND]


def test_where_the_tasks_told_nothing_nothing_is_known() -> None:
    silent = Trace(tuple(
        replace(e, outputs={"metrics": {}}) if (e.step, e.batch_id) == ("stateOperator", 2) else e for e in LATE_ROWS.events
    ))
    assert whats(silent) == [KEPT, KEPT, KEPT, UNKNOWN, UNKNOWN, LEFT_OUT, LATE, LATE, KEPT]
    assert fate_of(silent, t=8) == "not known: the tasks of this batch did not report it; a task reports fewer than 1,000 rows or keys of each kind"
    assert fate_of(silent, t=7).endswith("It went into the state; a later batch reported nothing, so it is not known how long it stayed there")


def test_which_of_the_rows_of_a_key_passed_is_what_the_task_told() -> None:
    """A shuffle may bring the later row of a batch first."""
    rows = [row(minute, {"k": 1}, minute) for minute in (2, 3)]
    seen = trace("dedupe", (rows[::-1], 0, 0))
    arrived = [replace(e, outputs={"arrivals": rows}) if e.step == "addBatch" else e for e in seen.events]
    assert whats(Trace(tuple(arrived))) == [DUPLICATE, KEPT]


def test_what_cannot_be_answered_is_said() -> None:
    assert "No recorded row has t=99. Columns of the sources: t." in str(LATE_ROWS.fate({"t": 99}))
    assert 'trace="rows"' in str(Trace((), name="x").fate({"t": 1}))
    no_columns: Any = "12:00"
    with pytest.raises(TypeError, match=r"fate takes columns of a row, such as \{'word': 'a'\}, not '12:00'"):
        LATE_ROWS.fate(no_columns)


# -- the picture -------------------------------------------------------------------------------------------


def test_every_row_is_a_dot_in_its_batch() -> None:
    (plane,) = planes(fates(LATE_ROWS))
    assert [(dot.batch, dot.kind) for dot in plane.dots] == [
        (0, COUNTED), (0, COUNTED), (1, COUNTED), (2, DROPPED), (2, BEHIND), (2, NULL), (3, DROPPED), (3, DROPPED), (3, COUNTED),
    ]


def test_a_window_opens_fills_is_emitted_and_evicted() -> None:
    (plane,) = planes(fates(LATE_ROWS))
    band = next(b for b in plane.bands if b.start_ms == at(5))
    assert (dict(band.rows), band.emitted, band.evicted) == ({0: 1, 1: 1, 2: 2}, (2,), 2)


def test_many_rows_are_grouped() -> None:
    many = trace("stateStoreSave", ([windowed(i % 60) for i in range(1000)], 0, 0))
    (plane,) = planes(fates(many))
    assert sum(dot.count for dot in plane.dots) == 1000 and len(plane.dots) < 60


def test_of_a_long_trace_the_newest_batches_are_drawn() -> None:
    long = trace("stateStoreSave", *(([windowed(n)], 0, max(n - 10, 0)) for n in range(700)))
    (plane,) = planes(fates(long))
    assert [dot.batch for dot in plane.dots] == list(range(60)) and plane.dots[-1].ms == at(699)
    assert all(0 <= n < 60 for band in plane.bands for n in band.rows) and {len(stair) for stair in plane.stairs.values()} == {60}
    assert "(the newest 60)" in long.event_time().svg


def test_the_picture_is_the_same_each_time_and_every_dot_has_its_words() -> None:
    picture = LATE_ROWS.event_time().svg
    assert picture == LATE_ROWS.event_time().svg
    titles = [title.text or "" for title in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}title")]
    assert sum("event time" in title for title in titles) >= 9
    assert "late watermark: what ends by then is dropped</text>" in picture and "<dc:date>" not in picture


def test_a_watermark_by_which_nothing_leaves_is_not_said_to_evict() -> None:
    complete = trace("stateStoreSave", ([windowed(2)], 0, 0), ([windowed(9)], 0, 1), ([windowed(4)], 6, 11), mode="complete")
    picture = complete.event_time().svg
    assert ">eviction watermark</text>" in picture and "what ends by then" not in picture
    progress = {"batchId": 0, "eventTime": dict.fromkeys(("min", "max", "avg"), "2024-01-01T12:01:00.000Z")}
    of_spark = Trace((
        Event("queryPlanning", "spark", 0, 0, 1, 0.0, 1.0, {"watermarkLate": at(1), "watermarkEviction": at(2)}, {}),
        Event("runBatch", "spark", 0, 0, 1, 0.0, 1.0, {"batchId": 0}, {}),
        Event("finishTrigger", "spark", 0, 0, 1, 0.0, 1.0, {}, {"progress": progress}),
    ))
    picture = of_spark.event_time().svg  # which does not say what the operators do with the watermarks
    assert ">late watermark</text>" in picture and "what ends by then" not in picture


def test_what_a_user_wrote_is_text_in_the_picture() -> None:
    evil = "</title><script>alert(1)</script>$x$"
    picture = trace("stateStoreSave", ([{**windowed(2), "row": {evil: evil}}], 0, 0)).event_time().svg
    assert "<script>" not in picture and "&lt;script&gt;" in picture


@pytest.mark.parametrize("junk", [None, 1, 7, -(10**40), "x", [1], {"a": [None]}, float("inf"), float("nan"), [[{}]], True], ids=str)
def test_values_of_any_shape_are_drawn_or_left_out(junk: Any) -> None:
    """A trace may come from a file that somebody else wrote."""

    def changed(arrival: Arrival, name: str) -> Arrival:
        return {**arrival, name: junk, "at": [{**at, name: junk} for at in arrival["at"]]}

    for name in ("time", "start", "at", "row", "source", "file", "operatorId", "side", "key", "partition"):
        events = [
            replace(e, outputs={"arrivals": [changed(a, name) for a in e.outputs["arrivals"]]}) if e.step == "addBatch" else e
            for e in LATE_ROWS.events
        ]
        strange = loaded(Trace(tuple(events)))
        assert strange is None or str(strange.fate({})) and svg(fates(strange))
    for name in ("watermarkLate", "watermarkEviction", "decides", "arrivals", "operators", "watermark"):
        events = []
        for e in LATE_ROWS.events:
            ins, outs = ({k: junk if k == name else v for k, v in values.items()} for values in (e.inputs, e.outputs))
            events.append(replace(e, inputs=ins, outputs=outs))
        if strange := loaded(Trace(tuple(events))):
            planes(fates(strange))


def test_nothing_is_imported_to_draw_before_a_picture_is_asked_for() -> None:
    check = "import sys, minispark_stream.lens.trace.trace, minispark_stream.lens.view.page; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_trace_without_event_times_has_no_such_picture() -> None:
    with pytest.raises(ValueError, match="no event times"):
        Trace(()).event_time()


def test_a_row_goes_on_to_the_operator_above_only_if_the_one_below_lets_it_pass() -> None:
    """dropDuplicates below a windowed count: the operator below has the greater number."""
    def both(minutes: int, key: str) -> Arrival:
        one = windowed(minutes)
        return {**one, "at": [*one["at"], {"operatorId": 1, "key": {"k": key}, "time": at(minutes), "side": 0, "partition": 0, "row": {"t": minutes}}]}

    below = {"operatorId": 1, "operator": "dedupe", "decides": decision("dedupe", "append", at(1), at(1))}
    counts = trace("stateStoreSave", ([both(2, "a"), both(3, "a"), both(4, "b"), both(0, "c")], 1, 1))
    told = {what: [{"row": {"t": t}} for t in rows] for what, rows in {"kept": [2, 4], "duplicate": [3], "late": [0]}.items()}
    event = Event("stateOperator", "model", 0, 0, 1, 0.0, 1.0, below, {"told": told})
    found = fates(Trace((*counts.events[:2], event, *counts.events[2:])))
    assert [(fate.number, fate.operator and fate.operator.operator_id, fate.what, fate.together) for fate in found.rows] == [
        (1, 1, KEPT, 1), (1, 0, KEPT, 2), (2, 1, DUPLICATE, 1), (3, 1, KEPT, 1), (3, 0, KEPT, 2), (4, 1, LATE, 1),
    ]
