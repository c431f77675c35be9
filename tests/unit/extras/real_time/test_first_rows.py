"""The first rows of a task: those that are kept. What the driver makes of them is in tests/conformance/test_real_time_tools.py."""

from __future__ import annotations

import pyarrow as pa

from minispark_stream.extras.real_time import first_rows
from minispark_stream.extras.real_time.first_rows import FirstRows


def test_a_task_keeps_no_more_rows_than_are_shown() -> None:
    """Whether they come as a table or a batch; the column of the control rows is left out."""
    first = FirstRows(0)
    for begin in range(0, 3 * first_rows.MOST_SHOWN, 20):
        rows = pa.table({"k": pa.array(range(begin, begin + 20)), "control": pa.nulls(20, pa.string())})
        first.note(rows if begin % 40 else rows.to_batches()[0], 1)
    assert [value for rows in first.kept for value in rows.column(0).to_pylist()] == list(range(first_rows.MOST_SHOWN))
    assert {rows.num_columns for rows in first.kept} == {1}
