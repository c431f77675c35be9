"""A row followed through a stateful operator into the next one, as the tasks of both told: hand-made batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from minispark_stream.lens.trace.events import MAX_ARRIVALS, Event
from minispark_stream.lens.trace.fates import LATE, fates
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view.event_plane import planes
from tests.unit.lens.trace.test_fates import at, row, said, trace, windowed

LOWER, UPPER = 0, 9
DECIDES = {"keeps": "groups", "emits": "leaving", "late_ms": at(5), "leaves_ms": [at(20)]}


def window(start: int, minutes: int = 10) -> dict[str, Any]:
    return {"window": {"start": said(start), "end": said(start + minutes)}}


def chained(lower: Trace, onward: Mapping[int, Mapping[int, int]], told: Mapping[int, Any]) -> Trace:
    """A trace with an operator above: `onward` are, by batch and place, the windows to which an emitted row came there."""
    tree = {"operatorId": UPPER, "below": [{"operatorId": LOWER, "below": [{"source": "0"}]}]}
    events: list[Event] = []
    for event in lower.events:
        batch = event.batch_id or 0
        if event.step == "queryPlanning":
            event = replace(event, outputs={"tree": tree})
        if event.step == "addBatch":
            ways = [
                {"operatorId": LOWER, "place": place, "at": [{"operatorId": UPPER, "side": 0, "key": window(start), "time": at(start + 10)}]}
                for place, start in onward.get(batch, {}).items()
            ]
            event = replace(event, outputs={**event.outputs, "onward": ways})
        events.append(event)
        if event.step == "stateOperator":
            ins = {"operatorId": UPPER, "operator": "above", "outputMode": "append", "decides": DECIDES}
            events.append(replace(event, inputs=ins, outputs={"told": told[batch]} if batch in told else {}))
    return Trace(tuple(events))


def then(one: Trace, **columns: Any) -> list[str]:
    (found,) = one.fate(columns).rows
    return [f"{name}: {words}" for name, words in found.stations if name.startswith("then")]


COUNTS = trace("stateStoreSave", ([windowed(2, k="a"), windowed(7, k="a")], 0, 0), ([], 0, 5), ([], 5, 10), ([], 10, 20))
KEPT_0 = {"kept": [{"key": window(0)}]}
GONE_0 = {"emitted": [{"key": window(0)}], "removed": [{"key": window(0)}]}


def test_a_window_goes_on_into_a_longer_one() -> None:
    chain = chained(COUNTS, {1: {0: 0}, 2: {0: 0}}, {0: {}, 1: KEPT_0, 2: KEPT_0, 3: GONE_0})
    key = "above, key window=[2024-01-01 12:00, 12:10)"
    what = "merged into its key, 2 rows in all; emitted in batch 3. It was in the state until batch 3 evicted it"
    for minute, batch in ((2, 1), (7, 2)):
        (found,) = then(chain, t=minute)
        assert found.startswith(f"then operator 9: {key}, in batch {batch}: {what}")
    (story,) = chain.fate({"t": 2}).rows
    assert story.fate.startswith("merged into its window, 1 row in all; emitted in batch 1, to operator 9.")


def test_the_operator_above_has_a_plane_with_its_windows_in_the_picture_of_event_time() -> None:
    below, above = planes(fates(chained(COUNTS, {1: {0: 0}, 2: {0: 0}}, {0: {}, 1: KEPT_0, 2: KEPT_0, 3: GONE_0})))
    assert (below.title, above.title) == ("operator 0: stateStoreSave", "operator 9: above, of what operator 0 has emitted")
    (band,) = above.bands
    assert (dict(band.rows), band.emitted, band.evicted, above.dots) == ({1: 1, 2: 2, 3: 2}, (3,), 3, ())


def test_what_went_on_may_be_late_there() -> None:
    chain = chained(COUNTS, {1: {0: -5}}, {0: {}, 1: {"late": [{"key": window(-5)}]}, 2: {}, 3: {}})
    assert [fate.what for fate in fates(chain).emitted[LOWER, 1, 0]] == [LATE]
    assert planes(fates(chain))[1].dropped == {1: 1} and "1 dropped" in chain.event_time().svg
    assert "dropped: the event time of its key was 12:05:00, at or before the late watermark, 12:05:00" in then(chain, t=2)[0]


def test_a_pair_of_a_join_goes_on_in_the_batch_that_emitted_it() -> None:
    rows = [row(2, {"field0": "x"}, 2), row(4, {"field0": "y"}, 4)]
    joined = trace("symmetricHashJoin", (rows, 0, 0), ([row(3, {"field0": "x"}, 3, side=1)], 0, 1), shifts=[None, None])
    chain = chained(joined, {1: {0: 0}}, {0: {}, 1: KEPT_0})
    for minute in (2, 3):  # both rows of the pair
        (found,) = then(chain, t=minute)
        assert "in batch 1: merged into its key, 1 row in all; not emitted yet" in found
    assert then(chain, t=4) == []


def test_what_is_not_known_of_what_went_on_is_said() -> None:
    told_nothing = chained(COUNTS, {1: {0: 0}}, {})
    assert then(told_nothing, t=2) == [
        "then operator 9: above, key window=[2024-01-01 12:00, 12:10), in batch 1: not known: the tasks of this batch did not report it; "
        "a task reports fewer than 1,000 rows or keys of each kind"
    ]
    (not_followed,) = then(chained(COUNTS, {}, {n: {} for n in range(4)}), t=2)
    assert not_followed.startswith("then operator 9: not known: a filter between the two operators removed it")
    assert then(chained(trace("stateStoreSave", ([windowed(2)], 0, 0)), {}, {0: {}}), t=2) == []  # it is still held


def of_function(told: Mapping[int, Mapping[str, Any]], key: Any = "a") -> Trace:
    """Three batches of a function of the user's, of which the first one gets a row of the key."""
    events: list[Event] = []
    for event in trace("stateStoreSave", ([row(2, {"k": key})], 0, 0), ([], 0, 0), ([], 0, 0)).events:
        if event.step == "stateOperator":
            ins = {**event.inputs, "operator": "applyInPandasWithState", "decides": {"keeps": "values"}}
            kept = {"kept": [{"row": {"t": 2}}]} if event.batch_id == 0 else {}
            of_batch = told.get(event.batch_id or 0)
            event = replace(event, inputs=ins, outputs={} if of_batch is None else {"told": {**kept, **of_batch}})
        events.append(event)
    return Trace(tuple(events))


def fate_of(one: Trace) -> str:
    (found,) = one.fate({"t": 2}).rows
    return found.fate


def test_what_a_function_gave_for_the_key_of_a_row_and_when_its_timer_fired_is_told() -> None:
    first, others = {"row": {"n": 1}, "key": {"k": "a"}}, {"row": {"n": 7}, "key": {"k": "b"}}
    fired = {"fired": [{"key": {"k": "a"}}], "emitted": [{"row": {"n": -1}, "key": {"k": "a"}, "why": "fired"}]}
    given = "given to your function, with its key; "
    assert fate_of(of_function({0: {"emitted": [others, first]}, 1: {"emitted": [others]}, 2: fired})) == (
        f"{given}in batch 0 the function returned n=1 for this key; in batch 2, when a timer of the key fired, the function returned n=-1 for this key"
    )
    assert fate_of(of_function({0: {}, 1: {"fired": fired["fired"]}, 2: {}})) == (
        f"{given}in batch 1, when a timer of the key fired, the function returned nothing for this key"
    )
    assert fate_of(of_function({n: {} for n in range(3)})) == f"{given}the function has returned nothing for this key so far"
    assert fate_of(of_function({0: {"emitted": [first]}, 1: {}})) == f"{given}what the function returned for this key is not known"


@pytest.mark.parametrize("timeouts", [False, True])
@pytest.mark.parametrize(("store", "clock"), [("event", "event time"), ("clock", "processing time")])
def test_timers_are_drawn_from_the_batch_that_sets_them_to_the_one_in_which_they_end(store: str, clock: str, timeouts: bool) -> None:
    """ann's is set in batch 0 and fires in 2, bob's is set in 1 and deleted in 2, cy's is set in 2."""
    def timer(user: str, minutes: int) -> dict[str, Any]:
        if timeouts:
            return {"store": "default", "partition": 0, "key": {"k": user}, "value": {"groupState": None, f"{store} timeout": said(minutes)}}
        return {"store": f"{store} timers", "partition": 0, "key": {"k": user, "timer": said(minutes)}, "value": {}}

    states = [[], [timer("ann", 5)], [timer("ann", 5), timer("bob", 5)], [timer("cy", 9)]]
    which, name = ({}, "applyInPandasWithState") if timeouts else ({"timer": {"ms": at(5)}}, "transformWithStateInPandasExec")
    fired = {2: {"fired": [{"key": {"k": "ann"}, **which}]}}
    shown = [
        replace(e, inputs={**e.inputs, "operator": name}, outputs={
            **e.outputs, "before": states[e.batch_id or 0], "after": states[(e.batch_id or 0) + 1]
        })
        if e.step == "stateOperator" else e for e in of_function({0: {}, 1: {}, **fired}).events
    ]
    plane = next(one for one in planes(fates(Trace(tuple(shown)))) if one.timers)
    assert plane.clock == clock and [(one.first, one.last, one.fired) for one in plane.timers] == [(0, 2, True), (1, 2, False), (2, None, False)]
    assert [one.title for one in plane.timers] == [
        "timer of k=ann for 2024-01-01 12:05:00: set in batch 0; fired in batch 2",
        f"timer of k=bob for 2024-01-01 12:05:00: set in batch 1; {'replaced or removed' if timeouts else 'deleted'} in batch 2",
        "timer of k=cy for 2024-01-01 12:09:00: set in batch 2; still set",
    ]
    picture = Trace(tuple(shown)).event_time().svg
    assert plane.timers[0].title in picture and f"{clock} (UTC)" in picture


def test_equal_numbers_are_one_key_of_a_function() -> None:
    same = of_function({0: {"emitted": [{"row": {"n": 2}, "key": {"k": {"x": 0.0}}}]}, 1: {}, 2: {}}, key={"x": -0.0})
    assert "in batch 0 the function returned n=2 for this key" in fate_of(same)


def test_of_a_batch_that_is_not_recorded_whole_it_is_said_that_there_were_more_rows() -> None:
    many = [windowed(2, k="a") for _ in range(MAX_ARRIVALS)]
    assert "at least 1000 rows in all" in fate_of_first(trace("stateStoreSave", (many, 0, 0)))
    (words,) = trace("stateStoreSave", (many, 0, 0)).fate({"t": 77}).note.split(". Columns")[:1]
    assert words == "No recorded row has t=77; of some batches only the first 1,000 rows of a source are recorded"


def fate_of_first(one: Trace) -> str:
    return one.fate({"t": 2}).rows[0].fate
