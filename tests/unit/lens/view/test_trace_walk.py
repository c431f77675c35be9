"""The walk through a trace: the order of the steps, what they say, and what they change in the world."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.trace.values import as_map
from minispark_stream.lens.view.board import Board
from minispark_stream.lens.view.merged_walk import Stop, completed, merged, stops
from minispark_stream.lens.view.panels import logs, sources, watermark
from minispark_stream.lens.view.row_panels import rows_out
from minispark_stream.lens.view.sentences import narrate
from minispark_stream.lens.view.state_panel import operator
from minispark_stream.lens.view.walk import moments
from minispark_stream.lens.view.words import offset_words, plain, plural, short, time_words, without_ids
from minispark_stream.lens.view.world import OperatorView, StateRow, World
from minispark_stream.lens.view.world_changes import state_changes, worlds
from tests.unit.golden_trace import TRACE, loaded


def event(step: str, depth: int = 0, batch_id: int | None = 0, ins: Any = None, outs: Any = None) -> Event:
    return Event(step, "model", 0, batch_id, depth, 0.0, 1.0, ins or {}, outs or {})


def after(step: str, batch_id: int, attempt: int = 0) -> World:
    """The world after a step of a batch."""
    return next(w for w in worlds(TRACE.events) if w.moment.key == (batch_id, attempt, step, 0))


def test_steps_are_walked_in_the_order_in_which_they_make_sense() -> None:
    recorded = [
        event("latestOffset", 2), event("commitSource", 3), event("walCommit", 2), event("constructNextBatch", 1),
        event("getBatch", 2), event("stateOperator", 3), event("addBatch", 2), event("runBatch", 1), event("trigger"),
    ]
    assert [m.event.step for m in moments(recorded)] == [
        "trigger", "latestOffset", "constructNextBatch", "walCommit", "commitSource", "runBatch", "getBatch",
        "addBatch", "stateOperator", "addBatch",
    ]


def test_the_operators_of_a_batch_are_walked_from_the_lowest_up_and_then_its_rows_are_out() -> None:
    recorded = [*(event("stateOperator", 3, ins={"operatorId": n}) for n in (0, 1)), event("addBatch", 2, outs={"rows": [1]})]
    walk = [(w.moment.event.inputs.get("operatorId"), w.rows_out) for w in worlds(recorded)]
    assert walk == [(None, None), (1, None), (0, None), (None, (1,))]


def test_a_step_knows_the_steps_around_it() -> None:
    recorded = [event("latestOffset", 2), event("constructNextBatch", 1), event("trigger")]
    assert [m.within for m in moments(recorded)] == [(), ("trigger", "constructNextBatch"), ("trigger",)]


def test_the_wal_entry_is_new_when_it_is_written_and_not_new_after_that() -> None:
    assert [(e.id, e.new) for e in after("walCommit", 2).offset_log] == [(0, False), (1, False), (2, True)]
    assert [(e.id, e.new) for e in after("runBatch", 2).offset_log] == [(0, False), (1, False), (2, False)]


def test_a_batch_that_failed_is_in_the_offset_log_but_not_in_the_commit_log() -> None:
    world = after("addBatch", 3)
    assert ([e.id for e in world.offset_log], [e.id for e in world.commit_log]) == ([0, 1, 2, 3], [0, 1, 2])


def test_late_rows_are_judged_by_the_watermark_of_the_batch_before() -> None:
    mark = after("queryPlanning", 4).watermark
    assert (time_words(mark.late), time_words(mark.eviction)) == ("2024-01-01 12:11:00", "2024-01-01 12:20:00")


def test_state_rows_say_what_became_of_them() -> None:
    (operator,) = after("stateOperator", 3, attempt=1).operators
    assert operator.version == 4
    assert [(plain(r.key), r.mark) for r in operator.rows or ()] == [
        ("window=[2024-01-01 12:00, 12:05)", "~-"), ("window=[2024-01-01 12:05, 12:10)", "-"),
        ("window=[2024-01-01 12:20, 12:25)", ""), ("window=[2024-01-01 12:30, 12:35)", "+"),
        ("window=[2024-01-01 12:10, 12:15)", ""),
    ]


def test_the_marks_of_the_state_are_what_the_operator_counted() -> None:
    """And what a batch sends out of the state is shown there, also where it was changed in the same batch."""
    shown = [w.operators[0] for w in worlds(TRACE.events) if w.moment.event.step == "stateOperator" and w.operators[0].changed]
    assert len(shown) >= 6
    for one in shown:
        marks = sum(len(row.mark) for row in one.rows or ())
        assert marks == one.metrics["numRowsUpdated"] + one.metrics["numRowsRemoved"]
    sent = [w for w in worlds(TRACE.events) if w.moment.event.step == "addBatch" and w.rows_out]
    for world in sent:
        left = [row.between or row.before for row in world.operators[0].rows or () if row.mark.endswith("-")]
        assert sorted(row["count"] for row in world.rows_out or ()) == sorted(value["count"] for value in left)


def test_a_row_of_a_join_is_itself_wherever_it_lies() -> None:
    """When the first row of a key goes, the last one fills its place: that is no change of it."""
    def lies(index: int, v: int, matched: bool = False) -> dict[str, Any]:
        return {"store": "left-keyWithIndexToValue", "partition": 0, "key": {"k": "a", "index": index}, "value": {"v": v, "matched": matched}}

    changes = state_changes([lies(0, 1), lies(1, 2), lies(2, 2)], [lies(0, 2), lies(1, 2, matched=True)])
    assert sorted((r.mark, as_map(r.before or r.after)["v"]) for r in changes) == [("", 2), ("-", 1), ("~", 2)]


def test_a_state_row_is_one_key_in_one_partition_of_one_store() -> None:
    row = {"store": "default", "partition": 0, "key": {"word": "a"}, "value": {"count": 1}}
    between = [{**row, "value": {"count": 3}}, {**row, "key": {"k": "new"}}]
    assert [(r.mark, r.before, r.between, r.after) for r in state_changes([row], [], between)] == [
        ("+-", None, row["value"], None), ("~-", row["value"], {"count": 3}, None),
    ]
    assert "count=1 → 3, then removed" in operator(OperatorView(0, "stateStoreSave", rows=state_changes([row], [], between)))
    assert state_changes([row], [{**row, "value": {"count": 2}}, {**row, "partition": 1}]) == (
        StateRow("default", 0, {"word": "a"}, {"count": 1}, {"count": 2}, "~"),
        StateRow("default", 1, {"word": "a"}, None, {"count": 1}, "+"),
    )


def test_the_state_says_which_worker_has_which_version_and_what_maintenance_did() -> None:
    def batch(number: int, *told: tuple[int, str, int, str], shared: bool = False) -> Event:
        where = [
            {"partition": partition, "store": "default", "worker": worker, "version": version, "came": came, "shared": shared}
            for partition, worker, version, came in told
        ]
        return event("stateOperator", 3, number, {"operatorId": 0, "operator": "x", "version": number}, {"where": where})

    def lines(shown: str) -> list[tuple[str, ...]]:
        rows = re.findall(r"<tr( class='same')?><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", shown)
        return [tuple(re.sub("<[^>]+>", "", cell) for cell in cells[1:]) + (("old",) if cells[0] else ()) for cells in rows]

    looked = event("maintenance", 0, None, {"operatorId": 0, "partition": 1, "store": "default"}, {
        "snapshot": 2, "deleted": ["1.delta"], "worker": "host:9", "fromMemory": True, "milliseconds": 4,
    })
    first = batch(0, (0, "host:7", 1, "new"), (1, "host:8", 1, "new"))
    second = batch(1, (0, "host:8", 1, "files"), (0, "host:9", 2, "files"), (1, "host:8", 1, "deltas"), (1, "host:8", 2, "memory"))
    next_one, shared = (replace(e, trigger=1) for e in (event("trigger", 0, 2), batch(2, (0, "host:9", 3, "taken over"), shared=True)))
    shown = [operator(w.operators[0]) for w in worlds([first, second, looked, next_one, shared])]
    assert lines(shown[0]) == [("0", "1", "worker 1", "nothing was there"), ("1", "1", "worker 2", "nothing was there")]
    assert lines(shown[1]) == [
        ("0", "2", "worker 3", "read it from the files"), ("", "1", "worker 2", "read it from the files"),
        ("", "1", "worker 1", "was here before", "old"), ("1", "2", "worker 2", "had an older one, read the deltas"),
    ]
    assert "Maintenance" not in shown[1] and (
        "<p class='note'>Maintenance: worker 3 wrote version 2 of partition 1 whole, from its memory, and deleted 1 file.</p>" in shown[2]
    )
    assert "Maintenance" not in shown[3] and lines(shown[4])[0] == ("0", "3", "worker 3, in common", "found it in common memory")
    assert "Where it is" not in operator(OperatorView(0, "x", version=1))  # real Spark does not tell


def test_each_source_is_shown_once() -> None:
    ends = {"0: Files[a]": "1", "1: Files[a]": "1"}
    asked = [event("latestOffset", 2, ins={"source": name, "start": None}, outs={"end": "1"}) for name in ends]
    (*_, world) = worlds([*asked, event("constructNextBatch", 1, outs={"end": ends, "newData": True})])
    assert [(source.name, source.end) for source in world.sources] == list(ends.items())


def test_a_source_is_read_from_where_the_batch_before_has_ended() -> None:
    asked = [w.sources[0] for w in worlds(TRACE.events) if w.moment.event.step == "latestOffset"]
    reads = [re.sub("<[^>]+>", "", sources(World(worlds(TRACE.events)[0].moment, sources=(one,)))) for one in asked]
    assert "reads after logOffset 0 up to logOffset 1" in reads[1] and "reads after logOffset 1 up to logOffset 2" in reads[2]
    assert "reads nothing after logOffset 4" in reads[-1]


def test_rows_stand_in_the_order_of_their_numbers() -> None:
    out = rows_out(World(worlds(TRACE.events)[0].moment, rows_out=tuple({"n": n} for n in (10, 9, 2.5, 100))))
    assert re.findall(r"<td>([\d.]+)</td>", out) == ["2.5", "9", "10", "100"]


def test_of_a_join_the_step_says_up_to_when_the_rows_of_each_side_leave() -> None:
    bounds = {"join_type": "left_outer", "leaves_ms": [1_704_111_299_999, 1_704_111_900_000]}
    for decides, says in (
        (bounds, "; left rows up to 12:14:59.999 and right rows up to 12:25:00 are evicted"),
        ({**bounds, "leaves_ms": [None, -1]}, ""), ({**bounds, "join_type": None}, ""),
    ):
        step = event("stateOperator", 3, ins={"operator": "symmetricHashJoin", "version": 1, "decides": decides})
        assert narrate(step) == "symmetricHashJoin: version 1 read, version 2 written: 0 updated, 0 removed, 0 dropped as late; no rows in the state" + says


def test_before_a_source_is_asked_nothing_is_said_of_what_it_reads() -> None:
    seen = worlds(TRACE.events)
    begins = {w.moment.batch_id: w for w in reversed(seen) if w.moment.event.step == "trigger"}
    said = re.sub("<[^>]+>", "", sources(begins[1]))
    assert "has not been asked yet in this trigger" in said and "reads" not in said
    assert {s.asked for w in seen if w.moment.event.step in ("constructNextBatch", "runBatch", "commitOffsets") for s in w.sources} == {True}
    resumed = event("populateStartOffsets", 1, ins={"offsetLog": 4, "commitLog": 3}, outs={"start": {"0": "3"}, "end": {"0": "4"}, "rerun": True})
    *_, again = worlds([resumed, replace(event("trigger", 0, 4), trigger=1)])
    assert "reads after 3 up to 4" in re.sub("<[^>]+>", "", sources(again))  # it was planned before the restart


@pytest.mark.parametrize(("times", "says"), [
    ({}, "The query has no watermark."),
    ({"watermark": "1970-01-01T00:00:00.000Z"}, "No watermark yet: event time makes no row late"),
    (None, "No watermark: event time makes no row late"),
])
def test_a_query_that_has_no_watermark_is_not_said_to_wait_for_one(times: Any, says: str) -> None:
    begins, ends = event("trigger", 0, 0), event("finishTrigger", 1, 0, outs={"progress": {"eventTime": times, "batchId": 0}})
    planned = event("walCommit", 2, 0, {"file": "offsets/0"}, {"text": 'v1\n{"batchWatermarkMs":0}\n0'})
    for world in worlds([begins, planned] if times is None else [begins, planned, ends]):
        assert says in watermark(world)
    assert ("none yet" in logs(world)) == (times != {}) and "none" in logs(world)


def test_what_a_batch_has_removed_is_not_counted_before_the_next_one() -> None:
    rows = [{"store": "default", "partition": 0, "key": {"k": n}, "value": {"k": n, "count": 1}} for n in range(3)]
    removed = event("stateOperator", 3, ins={"operatorId": 0, "operator": "x", "version": 1}, outs={"before": rows, "after": rows[2:], "rows": 3})
    *_, world = worlds([removed, replace(event("trigger", 0, 1), trigger=1)])
    assert (len(world.operators[0].rows or ()), world.operators[0].num_rows) == (1, 1)
    assert "of 3 rows" not in operator(world.operators[0]) and "<td>count=1</td>" in operator(world.operators[0])  # k is in its key


def test_the_next_watermark_is_not_known_before_the_batch_has_moved_it() -> None:
    known = [(w.moment.event.step, w.watermark.next) for w in worlds(TRACE.events) if w.moment.batch_id == 2]
    after_it = [step for step, _ in known].index("updateWatermark")
    assert {ms for step, ms in known[:after_it] if step in ("constructNextBatch", "queryPlanning", "stateOperator")} == {None}
    assert all(ms for _, ms in known[after_it:])


def test_purged_entries_leave_the_logs() -> None:
    log = [event("walCommit", ins={"file": f"offsets/{n}"}, outs={"text": "v1\n{}\n0"}) for n in range(3)]
    (*_, world) = worlds([*log, event("purge", ins={"before": 2}, outs={"deleted": ["offsets/0", "offsets/1"]})])
    assert ([e.id for e in world.offset_log], world.earlier_entries) == ([2], 0)


def test_a_restart_is_told_by_its_two_logs() -> None:
    ins = {"offsetLog": 4, "commitLog": 3}
    again = event("populateStartOffsets", ins=ins, outs={"batchId": 4, "rerun": True})
    assert narrate(again) == (
        "the offset log ends at batch 4, the commit log at 3: batch 4 was planned but not finished, "
        "run it again with the offsets in the log"
    )
    done = event("populateStartOffsets", ins={"offsetLog": 4, "commitLog": 4}, outs={"batchId": 5, "rerun": False})
    assert narrate(done).endswith("batch 4 is done, continue with batch 5")


def test_a_batch_without_data_says_why_it_runs() -> None:
    decided = event("constructNextBatch", outs={"newData": False, "anotherBatch": True, "run": True})
    assert narrate(decided).startswith("no new data, but a stateful operator has work")


@pytest.mark.parametrize("junk", [None, 1, "x", [1], {"a": [None]}, 10**40, float("inf")], ids=str)
def test_values_of_any_shape_are_said_somehow(junk: Any) -> None:
    """A trace may come from a file that somebody else wrote: what the door lets in is said."""
    for name, step in STEPS.items():
        for of in (step.ins.__annotations__, step.outs.__annotations__):
            for entry in of:
                strange = loaded(Trace((event(name, ins={entry: junk}, outs={entry: junk}),)))
                for one in strange.events if strange else ():
                    assert narrate(one)
                    for at in stops({"model": Trace((one,))}):
                        assert all(Board().fragments(at).values())


def test_words() -> None:
    assert offset_words('{"logOffset":3}') == "logOffset 3"
    assert offset_words("null") == offset_words(None) == "the beginning"
    assert time_words(0) == "none yet"
    assert short("FileStreamSource[file:/data/events/in]") == "FileStreamSource[in]"
    assert plural(2, "batch") == "2 batches"
    assert plain({"start": "2024-01-01 23:55:00", "end": "2024-01-02 00:00:00+00:00"}) == "[2024-01-01 23:55, 2024-01-02 00:00)"
    assert without_ids("EventTimeWatermark 53c869d4-b5a5-4a4e-9a8c-6653c4585d35, time#0") == "EventTimeWatermark time"


# -- stops -------------------------------------------------------------------------------------------------


def stop(step: str, batch_id: int, traces: dict[str, Trace] | None = None) -> Stop:
    return next(s for s in stops(traces or {"model": TRACE}) if s.moment.key == (batch_id, 0, step, 0))


def test_a_stop_says_what_its_step_did() -> None:
    assert stop("walCommit", 2).caption == ("offsets/2",)
    assert stop("queryPlanning", 2).caption == ("late 11:57, evict 12:04",)


def test_a_step_that_failed_is_marked() -> None:
    assert stop("addBatch", 3).failed and stop("addBatch", 3).caption == ("failed",)
    assert not stop("runBatch", 3).failed


def test_steps_that_only_one_engine_shows_are_put_in_where_they_happened() -> None:
    assert merged([["a", "c", "d"], ["a", "b", "d", "e"]]) == ["a", "b", "c", "d", "e"]


def spark(**changes: Any) -> Trace:
    """The same run as real Spark might tell it, with some outputs of batch 2 changed."""
    silent, untold = ("startQuery", "commitSource"), {"stateOperator": ("before", "after"), "addBatch": ("emitted",)}
    events = []
    for e in TRACE.events:
        outs = {k: v for k, v in e.outputs.items() if k not in untold.get(e.step, ())}
        outs |= {k: v for k, v in changes.items() if e.batch_id == 2 and isinstance(outs.get(k), type(v))}
        events += [] if e.step in silent else [Event(**{**vars(e), "engine": "spark", "outputs": outs})]
    return Trace(tuple(events), "spark")


def test_what_one_engine_does_not_tell_is_no_difference() -> None:
    both = stops({"spark": spark(), "model": TRACE})
    assert not [s for s in both if len(s.caption) > 1]
    shown = stop("stateOperator", 2, {"spark": spark(), "model": TRACE})
    assert shown.worlds["spark"].operators[0].rows is None
    assert completed(shown.worlds["spark"], shown.worlds["model"]).operators[0].rows


def test_a_difference_is_marked_on_the_step_where_it_is_seen() -> None:
    traces = {"spark": spark(rows=[{"word": "more"}]), "model": TRACE}
    assert [s.moment.key for s in stops(traces) if len(s.caption) > 1] == [(2, 0, "addBatch", 0)]
