"""The ways of some rows through the tasks of a batch in real-time mode, for whoever explains the batch (level "rows").

Models: nothing of Spark, which does not follow a row.

1. A reader passes rows on together, followed by rows that push them forward (extras/continuous/queued_data_reader.py). If the
   driver asks for it, these carry a name, so each name stands for the rows before it: for a *reading*.
2. A task notes when a name has come to it: the sender when Spark's operators have computed the rows, the receiver when it has
   them, and the writer when the sink has them. Whatever Spark's operators do to rows, they keep their order within a task.
3. A sender tells the names to the receivers of the rows, and a receiver gives them to the rows that push its own forward. The
   way of a row ends where it is dropped: at the reader if a filter drops it, at the receiver if it is a duplicate.
4. At its end, a task reports what it has noted. The driver puts together what belongs to one name.

    reader 0     a  push 0.0.1       read 12:00:01.000
    sender 0     a  push 0.0.1       computed .004        receiver 1    received .005
    writer 1     a  push 0.0.1       written .009     ->  {"from": 0, "rows": "a", "read": ..., "written": ..., "to": 1}

Differs from Spark: nothing.
Shown by tests/unit/extras/real_time/test_ways.py::test_what_tasks_report_of_one_name_is_one_way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from minispark_stream.extras.continuous.queued_data_reader import PUSH

MOST_WAYS = 200  # readings of a task that are followed
READ, COMPUTED, RECEIVED, WRITTEN = "read", "computed", "received", "written"


@dataclass(frozen=True)
class Passed:
    """(2) The rows of a reading have passed a place, at a time in ms since the epoch; `partition` is that of the task."""

    name: str
    place: str
    at_ms: float
    partition: int
    rows: str = ""


def now(name: str, place: str, partition: int, rows: str = "") -> Passed:
    return Passed(name, place, round(time.time() * 1000, 1), partition, rows)


def names_in(control: pa.Array) -> list[str]:
    """The names after a PUSH in a column of control rows, each once."""
    named = control.filter(pc.fill_null(pc.greater(pc.binary_length(control), len(PUSH)), False))
    return list(dict.fromkeys(name for one in named.to_pylist() for name in one[len(PUSH):].split(" ")))


def names_of_rows(control: pa.Array) -> list[str | None]:
    """(3) For each row, the name of its reading: that of the first PUSH after it."""
    names, name = list[str | None](), None
    for value in reversed(control.to_pylist()):
        name = value[len(PUSH):] or name if value is not None and value.startswith(PUSH) else name
        names.append(name)
    return names[::-1]  # (1)


def noted(batches: Iterable[pa.RecordBatch], partition: int, passed: list[Passed]) -> Iterator[pa.RecordBatch]:
    """(2) The batches of a writer, with the control column at their end. When one is asked for, the one before is written."""
    for batch in batches:
        yield batch
        passed += (now(name, WRITTEN, partition) for name in names_in(batch.column(batch.num_columns - 1)))


def ways(reports: Sequence[Any]) -> list[dict[str, Any]]:
    """(4) A way for each name, in the order in which they were read: the time at each place, and where it was sent."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted((one for one in reports if isinstance(one, Passed)), key=lambda one: one.at_ms):
        way = found.setdefault(one.name, {"from": one.partition, "rows": one.rows})
        way.setdefault(one.place, one.at_ms)
        if one.place == RECEIVED:
            way.setdefault("to", one.partition)
    return [way for way in found.values() if READ in way]
