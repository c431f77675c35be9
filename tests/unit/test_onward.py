"""A row followed through a stateful operator into the next one: hand-made batches, with the state of the operator above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace
from tests.unit.test_fates import Arrival, at, row, said, trace, windowed

Key = dict[str, Any]
LOWER, UPPER, TOP = 0, 9, 10


def window(start: int, minutes: int = 10, **columns: Any) -> Key:
    return {"window": {"start": said(start), "end": said(start + minutes)}, **columns}


def chained(lower: Trace, states: Mapping[int, Sequence[Sequence[tuple[Key, int]]]], keeps: str = "groups") -> Trace:
    """A trace with more operators above: operator -> its state (key, value) after each batch."""
    tree: dict[str, Any] = {"operatorId": LOWER, "below": [{"source": "0"}]}
    for number in states:
        tree = {"operatorId": number, "below": [{"below": [tree]}]}
    events: list[Event] = []
    for event in lower.events:
        events.append(replace(event, outputs={"tree": tree}) if event.step == "queryPlanning" else event)
        if event.step == "stateOperator":
            for number, after in states.items():
                batch = event.batch_id or 0
                was, now = (
                    [{"store": "default", "partition": 0, "key": key, "value": {"count": n}} for key, n in rows]
                    for rows in ((after[batch - 1] if batch else []), after[batch])
                )
                ins = {"operatorId": number, "operator": "above", "outputMode": "append", "decides": {"keeps": keeps, "emits": "leaving"}}
                events.append(replace(event, inputs=ins, outputs={"metrics": {}, "before": was, "after": now}))
    return Trace(tuple(events))


def then(one: Trace, **columns: Any) -> list[tuple[str, str]]:
    (found,) = one.fate(columns).rows
    return [(name, words) for name, words in found.stations if name.startswith("then")]


COUNTS = trace("stateStoreSave", ([windowed(2, k="a"), windowed(7, k="a")], 0, 0), ([], 0, 5), ([], 5, 10), ([], 10, 20))


def test_a_window_goes_on_into_a_longer_one() -> None:
    chain = chained(COUNTS, {UPPER: [[], [(window(0), 1)], [(window(0), 2)], []]})
    ways = [then(chain, t=minute) for minute in (2, 7)]
    assert ways == [[(
        "then operator 9",
        f"above: what it became went on to it in batch {batch}, became a part of window=[2024-01-01 12:00, 12:10) and left with it in batch 3",
    )] for batch in (1, 2)]
    (story,) = chain.fate({"t": 2}).rows
    assert story.fate.startswith("merged into its window, 1 row in all; emitted in batch 1, to operator 9.")
    assert "became a part of" in story._repr_html_() and "became a part of" in chain.to_text() + str(story)


def test_what_goes_on_is_followed_to_the_last_operator() -> None:
    hour = window(0, 60)
    chain = chained(COUNTS, {UPPER: [[], [(window(0), 1)], [(window(0), 2)], []], TOP: [[], [], [], [(hour, 1)]]})
    assert [name for name, _ in then(chain, t=2)] == ["then operator 9", "then operator 10"]
    assert then(chain, t=2)[1][1] == (
        "above: what it became went on to it in batch 3, became a part of window=[2024-01-01 12:00, 13:00) and is still held with it"
    )


def test_columns_of_the_key_tell_groups_apart_and_where_they_do_not_all_that_fit_are_named() -> None:
    both = trace("stateStoreSave", ([windowed(2, k="a"), windowed(3, k="b")], 0, 0), ([], 0, 5))
    by_key = chained(both, {UPPER: [[], [(window(0, k="a"), 1), (window(0, k="b"), 1)]]})
    assert "became a part of window=[2024-01-01 12:00, 12:10) k=b and is still held" in then(by_key, t=3)[0][1]
    sliding = chained(both, {UPPER: [[], [(window(0), 2), (window(-5), 2), (window(20), 1)]]})
    assert then(sliding, t=2)[0][1].endswith(
        "2 of the groups that changed there fit, and which one it was is not recorded: window=[2024-01-01 12:00, 12:10); "
        "window=[2024-01-01 11:55, 12:05)"
    )


def test_a_group_that_comes_and_goes_in_one_batch_is_in_no_state() -> None:
    assert then(chained(COUNTS, {UPPER: [[], [], [], []]}), t=2) == [(
        "then operator 9",
        "above: what it became went on to it in batch 1. No group of its recorded state fits: it left in the same batch, or it was dropped",
    )]


def test_a_window_that_is_still_held_has_not_gone_on() -> None:
    assert then(chained(trace("stateStoreSave", ([windowed(2)], 0, 0)), {UPPER: [[(window(0), 1)]]}), t=2) == []


def test_sessions_that_became_one_go_on_with_their_last_end() -> None:
    def session(minutes: int) -> Arrival:
        return row(minutes, {"session_window": {"start": said(minutes), "end": said(minutes + 5)}}, minutes + 5, start=at(minutes))

    one = trace("sessionWindowStateStoreSaveExec", ([session(6), session(3)], 0, 0), ([], 0, 12))
    chain = chained(one, {UPPER: [[], [(window(0), 1), (window(10), 1)]]})
    assert "became a part of window=[2024-01-01 12:10, 12:20)" in then(chain, t=3)[0][1]


def test_a_pair_of_a_join_goes_on_in_the_batch_in_which_its_second_row_comes() -> None:
    left, right = row(2, {"field0": "x"}, 2, row={"k": "x"}), row(3, {"field0": "x"}, 3, side=1, row={"rk": "x"})
    alone = row(4, {"field0": "y"}, 4, row={"k": "y"})
    joined = trace("symmetricHashJoin", ([left, alone], 0, 0), ([right], 0, 1), shifts=[None, None])
    chain = chained(joined, {UPPER: [[], [(window(0, 5), 1)]]})
    assert then(chain, t=2) == [(
        "then operator 9",
        "above: what it was joined to, if the condition of the join let it pass, went on to it in batch 1, became a part of "
        "window=[2024-01-01 12:00, 12:05) and is still held with it",
    )]
    assert then(chain, t=4) == []


def test_a_window_goes_on_into_a_deduplication() -> None:
    chain = chained(COUNTS, {UPPER: [[], [({"k": "a"}, 0)], [({"k": "a"}, 0)], [({"k": "a"}, 0)]]}, keeps="keys")
    assert "became a part of k=a and is still held with it" in then(chain, t=2)[0][1]
    assert "No group of its recorded state fits" in then(chain, t=7)[0][1]  # its key was there already
