"""What the disk may look like between two photographs of it, and what is alike."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from minispark_stream.engine.runtime.micro_batch_execution import MicroBatchExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.watermark_tracker import WatermarkTracker
from minispark_stream.engine.sources.seen_files_map import SeenFilesMap
from tests.conformance.crash_explorer import Explorer, Outcome, Point
from tests.conformance.crash_inputs import Input
from tests.conformance.crash_pictures import Disk, between, hidden, look, memory, put_back, what_counts
from tests.conformance.crash_queries import QUERIES

LOT, OTHER_LOT = "0c0de1e2-0000-4000-8000-00000000000a", "5ca1ab1e-0000-4000-8000-00000000000b"


def test_files_appear_one_after_the_other_and_each_is_half_written_first():
    before = {"offsets/1": (b"v1", 1)}
    after = {**before, "state/0/1/2.delta": (b"later", 9), "state/0/0/2.delta": (b"first", 8)}
    shown = [(moment, sorted(disk)) for moment, disk in between(before, after)]
    assert shown == [
        ("half of state/0/0/2.delta", ["offsets/1", "state/0/0/.2.delta.0.tmp"]),
        ("after state/0/0/2.delta", ["offsets/1", "state/0/0/2.delta"]),
        ("half of state/0/1/2.delta", ["offsets/1", "state/0/0/2.delta", "state/0/1/.2.delta.0.tmp"]),
    ]
    assert dict(between(before, after))["half of state/0/1/2.delta"]["state/0/1/.2.delta.0.tmp"][0] == b"la"


def test_files_go_after_what_is_new_has_come():
    before = {"offsets/0": (b"", 1), "offsets/1": (b"", 2)}
    assert [(moment, sorted(disk)) for moment, disk in between(before, {"offsets/2": (b"x", 3)})][1:] == [
        ("after offsets/2", ["offsets/0", "offsets/1", "offsets/2"]),
        ("without offsets/0", ["offsets/1", "offsets/2"]),
    ]


def test_a_file_of_the_state_may_be_torn_and_may_come_before_the_others():
    first, last = "checkpoint/state/0/0/2.delta", "checkpoint/state/0/1/2.delta"
    shown = dict(between({}, {first: (b"first", 8), last: (b"last", 9)}))
    assert shown[f"torn {last}"] == {first: (b"first", 8), last: (b"la", 9)}
    assert shown[f"{last} before the others"] == {last: (b"last", 9)}


def test_a_version_of_rocksdb_may_be_torn_but_not_a_snapshot_of_what_was_committed():
    name = "checkpoint/state/0/0/2"
    torn = lambda *kinds: [m for m, _ in between({}, {f"{name}.{kind}": (b"whole", i) for i, kind in enumerate(kinds)}) if "torn" in m]
    assert torn("changelog", "zip") == [f"torn {name}.changelog"]
    assert torn("zip") == [f"torn {name}.zip"]
    assert torn("snapshot") == []


def test_a_disk_is_put_back_with_its_times_and_its_empty_folders(tmp_path):
    (tmp_path / "work/state").mkdir(parents=True)
    (tmp_path / "work/offsets").mkdir()
    (tmp_path / "work/offsets/0").write_bytes(b"v1")
    os.utime(tmp_path / "work/offsets/0", (1, 1))
    disk = look(tmp_path / "work", {})
    assert disk == {"offsets/0": (b"v1", 1_000_000_000), "state/": (b"", 0)}
    (tmp_path / "work/offsets/1").write_bytes(b"v1")
    put_back(disk, tmp_path / "work")
    assert look(tmp_path / "work", {}) == disk
    assert dict(between({}, disk)) == {"after state/": {"state/": (b"", 0)}, "half of offsets/0": {"state/": (b"", 0), "offsets/.0.0.tmp": (b"v", 10**9)}}


def test_what_is_drawn_by_lot_does_not_count_but_whose_it_is_does():
    def disk(*names: str) -> frozenset[tuple[bytes, bytes]]:
        return what_counts({f"out/{name}.json": (b"rows", i) for i, name in enumerate(names)} | {"out/log": (names[0].encode(), 9)})

    assert disk(LOT, OTHER_LOT) == disk(OTHER_LOT, LOT)
    assert disk(LOT, OTHER_LOT) != disk(LOT)
    named = what_counts({f"out/{LOT}.json": (b"rows", 0), f"out/{OTHER_LOT}.json": (b"rows", 1), "out/log": (OTHER_LOT.encode(), 9)})
    assert disk(LOT, OTHER_LOT) != named
    assert what_counts({"offsets/0": (b'{"batchTimestampMs":1}', 1)}) == what_counts({"offsets/0": (b'{"batchTimestampMs":2}', 2)})
    assert what_counts({"offsets/0": (b'{"batchWatermarkMs":1}', 1)}) != what_counts({"offsets/0": (b'{"batchWatermarkMs":2}', 1)})


def test_what_was_left_half_written_is_known_by_its_kind():
    disk = {"checkpoint/state/0/1/.2.delta.0.tmp": (b"", 1), f"checkpoint/offsets/.3.{LOT}.tmp": (b"", 1), "checkpoint/offsets/2": (b"", 1)}
    assert hidden(disk) == {"..delta..tmp", "checkpoint/offsets/...tmp"}
    assert what_counts(disk) == what_counts({"checkpoint/offsets/2": (b"", 1)})


def execution(**known: Any) -> Any:
    """A query that knows this."""
    made = object.__new__(MicroBatchExecution)
    vars(made).update({"context": MicroBatchExecutionContext()} | known)
    return made


def test_all_that_a_driver_knows_counts_but_times_and_names_drawn_by_lot():
    def of(context: MicroBatchExecutionContext, seen: str = "a.json", **more: object) -> str:
        source = SeenFilesMap(None, False)
        source.add(seen, 1)
        return memory(execution(context=context, sources=[source], **more))

    now = MicroBatchExecutionContext(3, watermark_tracker=WatermarkTracker("min", {LOT: 7}, 7))
    assert of(now) == of(replace(now, metadata=replace(now.metadata, batch_timestamp_ms=5)))
    assert of(now) == of(replace(now, watermark_tracker=WatermarkTracker("min", {OTHER_LOT: 7}, 7)))
    assert of(now) != of(replace(now, watermark_tracker=WatermarkTracker("min", {LOT: None}, 7)))
    assert of(now) != of(replace(now, is_current_batch_constructed=True))
    assert of(now) != of(now, seen="b.json")
    assert of(now, status="busy") == of(now, status="idle")
    assert of(now) != of(now, of_tomorrow=1)
    with_state = replace(now, state_operators=({"numRowsTotal": 2, "memoryUsedBytes": 9},))
    assert of(with_state) == of(replace(now, state_operators=({"numRowsTotal": 2, "memoryUsedBytes": 8},)))
    assert of(with_state) != of(replace(now, state_operators=({"numRowsTotal": 3, "memoryUsedBytes": 9},)))


class Toy(Explorer):
    """Its runs begin with one batch, commit it, and come to the end that they are told of, if nobody ends them before."""

    end: Outcome = [], {}, 0
    began = MicroBatchExecutionContext(1)
    goes_on: Any = execution(known=7)

    def _to_the_end(self, session: object, photographed: int) -> Outcome:
        self.begins_trigger(execution(context=self.began))
        self.committed()
        self.begins_trigger(self.goes_on)
        return self.end


class Arrived:
    """An input that is what it is said to be."""

    arrived = 1

    def put_back(self, arrived: int, disk: Disk) -> Disk:
        self.arrived = arrived
        return disk


def toy(folder: Path) -> Toy:
    return Toy(QUERIES["no state"], cast(Input, Arrived()), folder)


DISK: Disk = {"offsets/1": (b"v1", 1)}
OTHERS: list[Disk] = [{"commits/1": (b"v1", 1)}, {"offsets/1": (b"v2", 1)}, {**DISK, "sources/0/0": (b"", 1)}, {**DISK, "state/0/.2.delta": (b"", 1)}]
EARLIER, OTHER = (["a"], {"0": ["b"]}, 1), (["c"], {"0": ["d"]}, 2)


def test_the_rest_of_a_run_is_known_only_if_all_that_it_follows_from_is_as_in_an_earlier_run(tmp_path):
    def second(disk: Disk = DISK, stages: int = 1, **differs: object) -> object:
        """What comes of another run, which would come to the other end."""
        one = toy(tmp_path / "work")
        put_back(DISK, one.folder)
        one.end = EARLIER
        assert one.run(None) == EARLIER
        put_back(disk, one.folder)
        one.input.arrived, one.end = stages, OTHER
        vars(one).update(differs)
        return one.run(None)

    assert second() == EARLIER
    for disk in OTHERS:
        assert second(disk) == OTHER
    assert second(stages=2) == second(goes_on=execution(known=8)) == OTHER
    assert second(began=MicroBatchExecutionContext(2)) == second(began=MicroBatchExecutionContext(1, is_current_batch_constructed=True)) == OTHER


def test_what_comes_of_a_kill_is_known_only_if_the_disk_and_the_input_are_as_at_an_earlier_one(tmp_path):
    def second(then: Point) -> object:
        one = toy(tmp_path / "work")
        one.end = EARLIER
        assert one.kill(Point("a kill", 1, DISK), None) == EARLIER
        one.end, one.goes_on = OTHER, execution(known=8)
        return one.kill(then, None)

    assert second(Point("another kill", 1, DISK)) == EARLIER
    assert second(Point("a kill", 2, DISK)) == OTHER
    for disk in OTHERS:
        assert second(Point("a kill", 1, disk)) == OTHER


def test_what_was_left_half_written_does_not_count_once_a_run_with_its_kind_has_gone_to_the_end(tmp_path):
    one, left = toy(tmp_path / "work"), OTHERS[-1]
    one.end = EARLIER
    assert one.kill(Point("a kill", 1, left), None) == EARLIER
    one.end = OTHER
    assert one.kill(Point("another kill", 1, {**DISK, "state/1/.7.delta": (b"half", 1)}), None) == EARLIER
    assert one.kill(Point("another kill", 1, {**DISK, "state/1/.7.zip": (b"half", 1)}), None) == OTHER
