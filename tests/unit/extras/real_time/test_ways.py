"""The ways of rows: the names after them, the times at which they pass, and what the driver makes of the reports."""

from __future__ import annotations

import pyarrow as pa

from minispark_stream.extras.continuous.queued_data_reader import PUSH
from minispark_stream.extras.real_time.streaming_state import _by_partition
from minispark_stream.extras.real_time.ways import Passed, names_in, names_of_rows, noted, ways

CONTROL = pa.array([None, PUSH + "0.0.1", PUSH + "0.0.1", None, None, PUSH + "0.0.2", PUSH, None])


def test_a_row_has_the_name_of_the_first_push_after_it() -> None:
    assert names_of_rows(CONTROL) == ["0.0.1", "0.0.1", "0.0.1", "0.0.2", "0.0.2", "0.0.2", None, None]
    assert names_in(CONTROL) == ["0.0.1", "0.0.2"]
    assert names_in(pa.array([PUSH + "a b", PUSH + "b", "comes back", None])) == ["a", "b"]


def test_a_partition_is_told_the_names_of_its_own_rows() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(range(8)), CONTROL, pa.array([1, 0, 0, 0, 1, 0, 0, 1])], ["k", "control", "partition"])
    found = {partition: (rows.column(0).to_pylist(), names) for partition, rows, names in _by_partition(batch, 1, names_of_rows(CONTROL))}
    assert found == {0: ([3], ["0.0.2"]), 1: ([0, 4, 7], ["0.0.1", "0.0.2"])}


def test_a_row_is_written_when_the_writer_asks_for_the_next_batch() -> None:
    passed: list[Passed] = []
    batches = noted([pa.RecordBatch.from_arrays([CONTROL], ["control"])] * 2, 3, passed)
    next(batches)
    assert not passed
    next(batches)
    assert [(one.name, one.place, one.partition) for one in passed] == [("0.0.1", "written", 3), ("0.0.2", "written", 3)]


def test_what_tasks_report_of_one_name_is_one_way() -> None:
    """The first time at a place counts; a name that no reader has reported is left out."""
    reports = [
        Passed("1", "written", 9.0, 1), Passed("1", "received", 5.0, 1), Passed("1", "written", 8.0, 1), Passed("1", "read", 1.0, 0, "a"),
        Passed("2", "read", 3.0, 0, "b and 2 more"), Passed("3", "written", 4.0, 0), "something else",
    ]
    assert ways(reports) == [
        {"from": 0, "rows": "a", "read": 1.0, "received": 5.0, "to": 1, "written": 8.0}, {"from": 0, "rows": "b and 2 more", "read": 3.0},
    ]
