"""What stands where in the pictures of a trace, from hand-made events; and that each of them is drawn, the same every time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from minispark_stream.lens.trace.events import Event
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.trace.recording import Recording
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.lens.view import sheet, state_panel
from minispark_stream.lens.view.event_plane import planes
from minispark_stream.lens.view.event_time import _Drawing
from minispark_stream.lens.view.file_rows import files
from minispark_stream.lens.view.join_buffers import MOST_LANES, buffers
from minispark_stream.lens.view.join_lanes import STATE
from minispark_stream.lens.view.logs_tapes import runs
from minispark_stream.lens.view.logs_tapes import svg as svg_of_logs
from minispark_stream.lens.view.pictures import pictures
from minispark_stream.lens.view.questions import questions
from minispark_stream.lens.view.session_lanes import WATERMARK, lanes
from minispark_stream.lens.view.state_contents import contents
from minispark_stream.lens.view.state_files import chains
from minispark_stream.lens.view.watermark_tree import Cell, tree
from minispark_stream.lens.view.what_if_page import what_if_data
from minispark_stream.lens.view.world_changes import worlds
from tests.unit.golden_trace import TRACE, loaded
from tests.unit.lens.trace.test_fates import MINUTE, SOURCE, Arrival, at, row, said, trace, windowed

NAMES = ("join", "sessions", "state_files", "logs", "watermarks", "files")


def event(step: str, batch: int | None, ins: dict[str, Any], outs: dict[str, Any] | None = None, **more: Any) -> Event:
    return Event(step, "model", batch, batch, 1, 0.0, 1.0, ins, outs or {}, **more)


# -- event time --------------------------------------------------------------------------------------------


def sliding(minutes: int) -> Arrival:
    """A row of a count over windows of ten minutes, one every five: it is in two of them."""
    starts = (minutes - minutes % 5, minutes - minutes % 5 - 5)
    windows = [row(minutes, {"window": {"start": said(s), "end": said(s + 10)}}, s + 10, start=at(s)) for s in starts]
    return {**windows[0], "at": [place for window in windows for place in window["at"]]}


SLIDING = trace(
    "stateStoreSave", ([sliding(12), sliding(17)], 0, 0), ([sliding(31)], 0, 7), ([sliding(14), sliding(21)], 7, 21),
    ([sliding(40), sliding(15)], 21, 21), ([sliding(62)], 21, 30), ([sliding(22)], 30, 52),
)


@pytest.mark.parametrize("one", [TRACE, SLIDING], ids=["windows", "sliding windows"])
def test_windows_do_not_cover_each_other_and_no_count_is_crossed_by_a_watermark(one: Recording) -> None:
    (plane,) = planes(fates(one))
    ax = Figure().subplots()
    _Drawing(ax, plane, range(6), "p", {}).draw()
    boxes = [(p.get_x(), p.get_x() + p.get_width(), p.get_y(), p.get_y() + p.get_height()) for p in ax.patches if isinstance(p, Rectangle)]
    assert len(boxes) > 10 and not [
        (a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a[0] < b[1] - 0.01 and b[0] < a[1] - 0.01 and a[2] < b[3] and b[2] < a[3]
    ]
    low, high = ax.get_ylim()
    counts = [text.get_position() for text in ax.texts]
    stairs = [abs(line - y) for x, y in counts for stair in plane.stairs.values() if (line := stair[int(x)])]
    assert len(counts) > 10 and stairs and min(stairs) > 0.015 * (high - low)


def test_a_band_ends_where_nothing_is_known_any_more() -> None:
    one = trace("stateStoreSave", ([windowed(2)], 0, 0), ([windowed(8)], 0, 0), ([windowed(9)], 0, 0))
    (plane,) = planes(fates(silent_in(1, one)))
    assert [(band.title, [*band.rows]) for band in plane.bands] == [
        ("[12:00:00, 12:05:00): 1 row; not known from batch 1 on", [0]), ("[12:05:00, 12:10:00): 1 row; still held", [2]),
    ]


def test_what_is_held_is_named_by_its_key_and_by_when_it_leaves() -> None:
    two, one = {"k": "b"}, {"k": "a"}
    within = trace("dedupeWithinWatermark", ([row(2, one, 2), row(3, two, 3)], 0, 0), ([], 0, 1), lasts_ms=10 * MINUTE)
    (plane,) = planes(fates(within))
    assert [band.name for band in plane.bands] == ["a until 12:12:00", "b until 12:13:00"]
    ax = Figure().subplots()
    _Drawing(ax, plane, range(2), "p", {}).draw()
    places = {text.get_text(): text.get_verticalalignment() for text in ax.texts}
    assert places == {"a until 12:12:00": "bottom", "b until 12:13:00": "bottom"}
    near = trace("dedupe", ([row(2, one, 2), row(62, {"k": "c"}, 62), row(3, two, 3)], 0, 0))
    (plane,) = planes(fates(near))
    ax = Figure().subplots()
    _Drawing(ax, plane, range(1), "p", {}).draw()
    assert {text.get_text(): text.get_verticalalignment() for text in ax.texts} == {"a": "top", "b": "bottom", "c": "bottom"}
    many = trace("dedupe", ([row(n, {"k": n}, n) for n in range(13)], 0, 0))
    ax = Figure().subplots()
    _Drawing(ax, planes(fates(many))[0], range(1), "p", {}).draw()
    assert not ax.texts


def silent_in(batch: int, one: Trace) -> Trace:
    """The same trace, if the tasks of one batch had told nothing."""
    is_silent = ("stateOperator", batch)
    return Trace(tuple(replace(e, outputs={"metrics": {}}) if (e.step, e.batch_id) == is_silent else e for e in one.events))


# -- join --------------------------------------------------------------------------------------------------


def of_left(minutes: int, key: str) -> Arrival:
    return row(minutes, {"field0": key}, minutes, row={"lt": said(minutes), "lk": key})


def of_right(minutes: int, key: str) -> Arrival:
    return row(minutes, {"field0": key}, minutes, side=1, row={"rt": said(minutes), "rk": key}) | {"source": "1: FileStreamSource[/in/right]"}


JOIN = trace(
    "symmetricHashJoin", ([of_left(0, "x"), of_left(2, "y"), of_right(1, "x")], 0, 0), ([of_right(9, "x"), of_right(20, "z")], 0, 0),
    ([of_left(1, "x")], 2, 12), shifts=[-5, None], join_type="LeftOuter",
    meets=lambda left, right: abs(left["time"] - right["time"]) <= 5 * MINUTE,
)


def test_a_row_of_a_join_has_a_lane_until_it_is_evicted_and_a_line_to_each_partner() -> None:
    (one,) = buffers(fates(JOIN))
    assert one.title == "operator 0: LeftOuter join of FileStreamSource[in] (left, above) and FileStreamSource[right] (right, below)"
    assert one.leaves_ms == ((None, None, at(7)), (None, None, None))
    assert [(lane.label, lane.first, lane.last, lane.is_alone, lane.is_late) for lane in one.left] == [
        ("x 12:00", 0, 2, False, False), ("y 12:02", 0, 2, True, False), ("x 12:01", 2, 2, False, True),
    ]
    assert [(lane.label, lane.last) for lane in one.right] == [("x 12:01", None), ("x 12:09", None), ("z 12:20", None)]
    assert [(pair.batch, pair.left, pair.right) for pair in one.pairs] == [(0, 0, 0)]  # 12:00 and 12:09 do not meet


def test_a_join_with_a_time_range_has_no_thousandths_of_a_second_above_its_columns() -> None:
    leaves = {0: "≤ 12:07", 59_999: "&lt; 12:08", 1_500: "≤ 12:07:01.500"}
    for more_ms, words in leaves.items():
        moved = [
            replace(e, inputs={**e.inputs, "decides": {**e.inputs["decides"], "leaves_ms": [at(7) + more_ms, None]}})
            if e.step == "stateOperator" and e.batch_id == 2 else e for e in JOIN.events
        ]
        assert f">{words}<" in Trace(tuple(moved)).join().svg


def test_pictures_of_a_few_batches_fit_into_a_cell_of_jupyterlab() -> None:
    """There, a picture below a cell is an image: what is wider is cut off, and nothing in the image can say so while it scrolls."""
    drawn = [*pictures(TRACE, fates(TRACE)), *pictures(SLIDING, fates(SLIDING)), *pictures(JOIN, fates(JOIN))]
    points = [float(width) * (1 if unit else 0.75) for one in drawn for width, unit in re.findall(r'<svg[^>]* width="([\d.]+)(pt)?"', one.svg)]
    assert len(points) == len(drawn) > 12 and max(points) <= sheet.CELL


def test_the_lane_of_a_row_ends_where_nothing_is_known_any_more() -> None:
    silent = silent_in(1, JOIN)
    (one,) = buffers(fates(silent))
    assert [(lane.label, lane.last, lane.end) for lane in one.left][:2] == [("x 12:00", None, 0), ("y 12:02", None, 0)]
    assert "t=12:00" not in silent.join().svg and "from batch 1 on, nothing is known of it" in silent.join().svg


def test_where_the_tasks_of_a_join_told_nothing_no_pair_is_drawn() -> None:
    silent = Trace(tuple(replace(e, outputs={}) if e.step == "stateOperator" else e for e in JOIN.events))
    (one,) = buffers(fates(silent))
    assert (one.pairs, one.is_told) == ((), False)
    assert "What some batches emitted is not known." in silent.join().svg


def test_of_a_join_with_many_rows_those_of_the_first_keys_are_drawn() -> None:
    many = trace(
        "symmetricHashJoin",
        *(([of_left(n, f"k{i % 7}") for i in range(40)] + [of_right(n, f"k{i % 7}") for i in range(40)], 0, 0) for n in range(5)),
        shifts=[None, None],
    )
    (one,) = buffers(fates(many))
    assert (len(one.left), len(one.right), one.rows) == (MOST_LANES, MOST_LANES, (200, 200))
    assert {lane.key for lane in (*one.left, *one.right)} == {"k0"}
    assert len(one.pairs) == 36 and one.left_out > 0
    words = " ".join(" ".join(ElementTree.fromstring(many.join().svg).itertext()).split())
    assert "Shown are 14 of 200 rows of the left side and 14 of 200 rows of the right side" in words


# -- sessions ----------------------------------------------------------------------------------------------


def in_session(minutes: int, key: str) -> Arrival:
    ends = {"start": said(minutes), "end": said(minutes + 5)}
    return row(minutes, {"session_window": ends, "k": key}, minutes + 5, start=at(minutes))


SESSIONS = trace(
    "sessionWindowStateStoreSaveExec", ([in_session(1, "a"), in_session(9, "a")], 0, 0), ([in_session(5, "a")], 0, 0),
    ([in_session(2, "b")], 0, 3), ([in_session(0, "b")], 8, 15),
)


def test_sessions_open_become_one_and_leave() -> None:
    one, two = lanes(fates(SESSIONS))
    assert (one.key, [(line.batch_id, line.says) for line in one.lines]) == (
        "a", [(0, "opens"), (1, "two become one"), (3, "emitted and evicted")],
    )
    assert [(bar.start_ms, bar.end_ms, bar.rows) for bar in one.lines[0].bars] == [(at(1), at(6), 1), (at(9), at(14), 1)]
    assert [(bar.start_ms, bar.end_ms, bar.rows) for bar in one.lines[1].bars] == [(at(1), at(14), 3)]
    assert [line.says for line in two.lines] == ["opens", "1 row too late, emitted and evicted"]
    assert (two.lines[1].late_ms, two.lines[1].evicts_ms) == ((at(0),), at(15))


def test_in_complete_mode_no_mark_says_that_a_session_is_evicted() -> None:
    [lane] = lanes(fates(trace("sessionWindowStateStoreSaveExec", ([in_session(1, "a")], 0, 0), ([in_session(9, "a")], 0, 8), mode="complete")))
    assert [(line.says, line.evicts_ms) for line in lane.lines] == [("opens", None), ("emitted, opens", None)]


# -- state files -------------------------------------------------------------------------------------------


def wrote(batch: int, stores: tuple[str, ...] = ("default",), rocksdb: bool = False, **custom: int) -> list[Event]:
    told = {f"SnapshotLastUploaded.{name}": v for name, v in custom.items()}
    metrics = {"numShufflePartitions": 2, "customMetrics": told | ({"rocksdbFilesCopied": 1} if rocksdb else {})}
    ins = {"operatorId": 0, "operator": "dedupe", "version": batch, "stores": list(stores)}
    return [event("stateOperator", batch, ins, {"metrics": metrics}), event("runBatch", batch, {"batchId": batch})]


def maintained(batch: int, partition: int, snapshot: int | None, *deleted: str) -> Event:
    ins = {"operatorId": 0, "partition": partition, "store": "default"}
    return event("maintenance", batch, ins, {"snapshot": snapshot, "deleted": list(deleted)})


def test_a_load_reads_the_newest_snapshot_and_the_deltas_after_it() -> None:
    first_run = [e for n in range(3) for e in wrote(n)]
    second = [event("populateStartOffsets", 3, {"offsetLog": 2, "commitLog": 2}), *wrote(3)]
    events = [*first_run, maintained(2, 0, 2, "1.delta"), *second]
    snapped, plain = chains(Recording(tuple(events)))
    assert (snapped.places, snapped.next_load) == ("partition 0", ("2.snapshot", "3.delta", "4.delta"))
    assert snapped.deleted == ("1.delta",) and [load.names for load in snapped.loads] == [("2.snapshot", "3.delta")]
    assert (plain.places, plain.next_load) == ("partition 1", ("1.delta", "2.delta", "3.delta", "4.delta"))
    assert "Run 1 began with version 3: 2.snapshot, 3.delta." in Trace(tuple(events)).state_files().svg


def test_below_the_files_of_the_state_is_what_each_batch_has_changed() -> None:
    held = contents(TRACE)
    assert held[0, 4] == (
        ("~-", "[12:00, 12:05)", "count: 2 → 3, then removed"), ("-", "[12:05, 12:10)", "count: 2"), ("+", "[12:30, 12:35)", "count: 1"),
    )
    assert "what the batch changed" in TRACE.state_files().svg and "[12:30, 12:35)" in TRACE.state_files().svg


def test_partitions_and_stores_with_the_same_files_are_one_chain() -> None:
    (one,) = chains(Recording(tuple(wrote(0, ("left", "right")))))
    assert (one.places, one.newest, dict(one.deltas)) == ("partitions 0 and 1, 2 stores", 1, {1: 1})


def test_an_operator_with_one_store_has_one_partition() -> None:
    """A limit, say, or an aggregation without keys, however many partitions the query has."""
    operator, done = wrote(0)
    limit = replace(operator, outputs={"metrics": {**operator.outputs["metrics"], "numStateStoreInstances": 1}})
    (one,) = chains(Recording((limit, done)))
    assert one.places == "partition 0"


def test_a_version_that_a_batch_writes_again_is_written_twice() -> None:
    (one,) = chains(Recording((*wrote(0), *wrote(0))))
    assert dict(one.deltas) == {1: 2}


def test_real_spark_reports_the_last_snapshot_of_a_store() -> None:
    events = (replace(e, engine="spark") for e in (*wrote(0), *wrote(1, partition_0_default=1)))
    told, not_told = chains(Recording(tuple(events)))
    assert (told.snapshots, told.next_load) == ((1,), ("1.snapshot", "2.delta"))
    assert (not_told.snapshots, not_told.next_load) == ((), None)


def test_of_a_store_whose_beginning_is_not_in_the_trace_no_load_is_told() -> None:
    assert [chain.next_load for chain in chains(Recording(tuple(wrote(7))))] == [None]


def test_of_rocksdb_a_batch_writes_a_changelog_or_a_zip() -> None:
    zips = [e for n in range(2) for e in wrote(n, rocksdb=True, partition_0_default=n + 1)]
    first, second = chains(Recording((*zips, maintained(1, 0, None, "1.zip"))))
    assert (first.places, first.next_load, first.whole, first.deleted) == ("partition 0", ("2.zip",), (1, 2), ("1.zip",))
    assert (second.places, second.next_load, second.whole) == ("partition 1", ("1.changelog", "2.changelog"), ())
    svg = Trace(tuple(zips)).state_files().svg
    with_ids = chains(Recording((*zips, maintained(1, 0, None, f"1_{'0' * 36}.zip"))))
    assert with_ids == (first, second), "the ids of checkpoint format 2 are no part of the picture"
    assert "2.zip: the whole state, made by batch 1" in svg and svg.count("2.changelog: what batch 1 has changed") == 1


def test_a_table_of_rocksdb_is_there_as_long_as_a_zip_names_it() -> None:
    a, b, c = (f"0000{number}-{'0' * 36}.sst" for number in (12, 19, 26))

    def zipped(batch: int, *tables: str) -> list[Event]:
        operator, done = wrote(batch, rocksdb=True, partition_0_default=batch + 1)
        zips = [{"partition": 0, "store": "default", "version": batch + 1, "tables": dict.fromkeys(tables, 1000)}]
        return [replace(operator, outputs={**operator.outputs, "zips": zips}), done]

    snapshot = {"snapshot": 3, "tables": {c: 1000}, "deleted": ["1.zip", f"SSTs/{a}"], "worker": "vm:1", "fromMemory": True}
    deleted = event("maintenance", 2, {"operatorId": 0, "partition": 0, "store": "default"}, snapshot)
    events = (*zipped(0, a), *zipped(1, a, b), *wrote(2, rocksdb=True), deleted)
    one, _ = chains(Recording(events))
    assert (one.tables, one.gone, one.deleted) == ({1: (1,), 2: (1, 2), 3: (3,)}, (1,), ("1.zip",))
    assert one.words(("2.zip", "3.changelog")) == "2.zip with tables 1 and 2, 3.changelog"
    svg = Trace(events).state_files().svg
    assert "To load version 3: 3.zip with table 3." in svg and "table 1: shared; it is in 1.zip, 2.zip" in svg
    panel = state_panel.operator(worlds(events)[-1].operators[0])
    assert "worker 1 wrote version 3 of partition 0 whole, from its memory, with 1 new table and 0 shared, and deleted 2 files" in panel
    assert "To load version 3 of partition 0: 3.zip with table 3." in panel


# -- logs --------------------------------------------------------------------------------------------------


def test_a_restart_finds_the_offset_log_one_ahead_and_runs_that_batch_again() -> None:
    first, second = runs(TRACE)
    assert [(one.batch_id, one.committed, one.kept) for one in first.batches] == [
        (0, True, False), (1, True, False), (2, True, False), (3, False, False),
    ]
    assert [(one.batch_id, one.committed, one.kept) for one in second.batches] == [(3, True, True), (4, True, False), (5, True, False)]
    assert first.says == "both logs are empty: begin with batch 0"
    assert second.says == "the offset log ends with 3, the commit log ends with 2: batch 3 runs again"
    assert first.batches[1].offsets == ("logOffset 1",) and first.batches[1].next_watermark == at(4)


def test_an_entry_that_the_next_run_does_not_find_is_lost() -> None:
    """As when the file of the last commit is deleted between two runs: the batch was done, and it runs again."""
    def run(first: int, batches: Sequence[int], found: tuple[int | None, int | None]) -> list[Event]:
        begins = event("populateStartOffsets", first, {"offsetLog": found[0], "commitLog": found[1]}, {"rerun": found[0] != found[1]})
        written = [event(step, n, {}) for n in batches for step in ("walCommit", "runBatch", "commitOffsets") if step != "walCommit" or n != found[0]]
        return [begins, *written]

    first, second = runs(Recording((*run(0, [0, 1, 2], (None, None)), *(replace(e, trigger=9) for e in run(2, [2], (2, 1))))))
    assert [one.lost for one in first.batches] == [(False, False), (False, False), (False, True)]
    assert [one.lost for one in second.batches] == [(False, False)] and second.says.endswith("batch 2 runs again")
    picture = svg_of_logs([first, second], 4) or ""
    assert "2, lost" in picture and "lost before the next" in picture
    assert [one.lost for run in runs(TRACE) for one in run.batches] == [(False, False)] * 7


# -- watermarks --------------------------------------------------------------------------------------------


def test_an_operator_that_drops_or_evicts_nothing_is_not_said_to() -> None:
    """In complete mode, say, although there are both watermarks."""
    plan = {"operatorId": 0, "operator": "stateStoreSave", "output": at(20), "below": [{"watermark": "t", "delayMs": 0, "below": []}]}
    marks = {"operatorId": 0, "watermarkLate": at(15), "watermarkEviction": at(20)}
    for decides, drops, evicts in (
        ({}, at(15), at(20)),
        ({"decides": {"late_ms": at(15), "leaves_ms": [None, at(18)]}}, at(15), at(20)),
        ({"decides": {"late_ms": None, "leaves_ms": [None]}}, None, None),
    ):
        found = tree(Recording((
            event("queryPlanning", 0, {}, {"tree": plan}), event("stateOperator", 0, {**marks, **decides}), event("runBatch", 0, {}),
        )))
        assert found is not None and found.nodes[0].cells == (Cell(drops, evicts, at(20)),)


def test_an_operator_sees_what_the_one_below_it_promises() -> None:
    sides = [{"watermark": name, "delayMs": 0, "below": [{"source": SOURCE}]} for name in ("l", "r")]
    plan = {"operatorId": 0, "operator": "stateStoreSave", "output": at(20), "below": [
        {"operatorId": 1, "operator": "symmetricHashJoin", "output": at(20), "below": sides}]}
    measured = [{"node": "l", "watermark": at(30)}, {"node": "r", "watermark": at(35)}]
    found = tree(Recording((
        event("queryPlanning", 0, {}, {"tree": plan}),
        event("stateOperator", 0, {"operatorId": 1, "watermarkLate": at(25), "watermarkEviction": at(30)}),
        event("stateOperator", 0, {"operatorId": 0, "watermarkLate": at(15), "watermarkEviction": at(20)}),
        event("updateWatermark", 0, {"watermark": at(30), "policy": "min"}, {"operators": measured}),
        event("runBatch", 0, {}),
    )))
    assert found is not None and found.watermarks == (at(30),)
    assert [(node.kind, node.depth, node.cells) for node in found.nodes] == [
        ("operator", 0, (Cell(at(15), at(20), at(20)),)), ("operator", 1, (Cell(at(25), at(30), at(20)),)),
        ("watermark", 2, (Cell(None, None, at(30)),)), ("source", 3, ()),
        ("watermark", 2, (Cell(None, None, at(35)),)), ("source", 3, ()),
    ]


# -- files -------------------------------------------------------------------------------------------------


def test_a_batch_takes_files_and_leaves_the_rest() -> None:
    looks = {"source": SOURCE}
    found = files(Recording((
        event("latestOffset", 0, looks, {"files": ["/in/a", "/in/b"], "listed": 9, "left": ["/in/c"], "leftCount": 7, "kept": 7}),
        event("getBatch", 0, looks, {"files": ["/in/a", "/in/b"]}),
        event("addBatch", 0, {"sink": "FileSink[file:/data/out]"}, {"written": {"file": "0", "added": ["/data/out/p"]}}),
        event("runBatch", 0, {}),
        event("latestOffset", 1, looks, {"files": ["/in/c"]}),
        event("addBatch", 1, {}, {"written": {"file": "1.compact", "added": []}}),
        event("runBatch", 1, {}),
        event("latestOffset", 2, looks, {"files": ["/in/d"], "listed": None, "left": ["/in/e"], "leftCount": 1, "kept": 0}),
        event("runBatch", 2, {}),
    )))
    ((source, (first, second, third)),) = found.sources
    assert source == "0: FileStreamSource[in]"
    assert (first.seen, first.taken, first.left, first.left_count) == (0, ("a", "b"), ("c",), 7)
    assert (first.looks_at, first.keeps, third.looks_at, third.keeps) == ("lists 9 files", True, "2 were kept", False)
    assert (second.looks_at, second.seen, second.taken, second.left) == ("", 2, ("c",), None)  # as real Spark tells it
    assert [(entry.name, entry.added, entry.is_compact) for entry in found.manifest] == [("0", ("p",), False), ("1.compact", (), True)]


# -- all of them -------------------------------------------------------------------------------------------


def test_what_a_trace_can_give_is_given_in_order() -> None:
    headings = [picture.heading for picture in pictures(TRACE, fates(TRACE))]
    assert headings == ["Event time", "Watermarks", "State files", "Logs", "Files", "Durations"]
    assert "Join" in [picture.heading for picture in pictures(JOIN, fates(JOIN))]
    assert "Sessions" in [picture.heading for picture in pictures(SESSIONS, fates(SESSIONS))]
    assert pictures(Trace(()), fates(Trace(()))) == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_that_has_nothing_of_a_kind_says_so(name: str) -> None:
    with pytest.raises(ValueError, match="the trace has no"):
        getattr(Trace(()), name)()


@pytest.mark.parametrize(("trace", "why"), [
    (TRACE, "no batch of this query has run a stream-stream join"),
    (replace(JOIN, events=tuple(e for e in JOIN.events if e.step != "addBatch")), r'were not recorded: MiniSparkSession\(spark, trace="rows"\) records them'),
    (replace(JOIN, engine="spark", events=tuple(e for e in JOIN.events if e.step != "addBatch")), "real Spark does not report the rows of a stream-stream join; side_by_side"),
])
def test_why_there_is_no_picture_of_a_join(trace: Trace, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        trace.join()


@pytest.mark.parametrize(
    ("draw", "words"),
    [(JOIN.join, "with nulls"), (SESSIONS.sessions, "two become one"), (TRACE.state_files, "6.delta"),
     (TRACE.logs, "runs again"), (TRACE.watermarks, "stateStoreSave"), (TRACE.files, "4.csv")], ids=NAMES,
)
def test_a_picture_is_the_same_each_time_and_has_its_words_as_text(draw: Callable[[], Any], words: str) -> None:
    picture = draw().svg
    assert picture == draw().svg and words in picture and "<dc:date>" not in picture


def test_what_a_user_wrote_is_text_in_the_pictures_and_odd_characters_are_left_out() -> None:
    evil = "</text><script>alert(1)</script>$x$\0\n\x1b😀"
    joined = trace("symmetricHashJoin", ([of_left(0, evil), of_right(1, evil)], 0, 0), shifts=[None, None])
    for picture in (joined.join().svg, trace("sessionWindowStateStoreSaveExec", ([in_session(1, evil)], 0, 0)).sessions().svg):
        assert "<script>" not in picture
        ElementTree.fromstring(picture)


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_words_can_be_read_on_the_paper_and_in_every_box() -> None:
    looks = [look for look in vars(sheet).values() if isinstance(look, sheet.Look)]
    words = [(sheet.INK, "#ffffff"), (sheet.GREY, "#ffffff"), (STATE, "#ffffff"), (WATERMARK, "#ffffff")]
    words += [(look.ink, look.fill) for look in looks] + [(look.edge, look.fill) for look in (sheet.OUT, sheet.VIOLET)]
    assert looks and [(ink, paper) for ink, paper in words if contrast(ink, paper) < 4.5] == []


JUNK: list[Any] = [None, 1, -(10**40), "x", [1], {"a": [None]}, float("inf"), [[{}]], True]


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_values_of_any_shape_are_left_out(junk: Any) -> None:
    """A trace may come from a file that somebody else wrote."""
    names = {name for e in (*TRACE.events, *JOIN.events) for name in (*e.inputs, *e.outputs)}
    for one in (TRACE, JOIN, SESSIONS, trace("stateStoreSave", ([windowed(1)], 0, 0))):
        for name in names:
            events = []
            for e in one.events:
                ins, outs = ({k: junk if k == name else v for k, v in values.items()} for values in (e.inputs, e.outputs))
                events.append(replace(e, inputs=ins, outputs=outs))
            changed = loaded(Trace(tuple(events)))
            if changed is None:
                continue
            found = fates(changed)
            assert [buffers(found), lanes(found), chains(changed), runs(changed), tree(changed), files(changed), [questions(changed, found)], [what_if_data(changed, found)]]
