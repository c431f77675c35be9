"""What the disk may look like between two photographs of it."""

from __future__ import annotations

from tests.conformance.crash_explorer import between


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
