"""What a task has decided about its rows, told to whoever explains the batch (level "rows" of the trace).

Models: nothing of Spark, which does not follow a row.

1. Where the driver asks for it (`StatefulOperatorStateInfo.tells`), a task says of each row, or of each key, what it did with
   it: the very rows that it counts, puts, removes and emits. Otherwise nothing of this is computed.
2. What a row is known by depends on the operator (`StatefulOperator.parts_of_told`): an aggregation, whose rows Spark has
   merged by key before, tells of keys; deduplication and limit tell of rows; a join of the rows of a side, and of pairs; a
   function of the user's of the rows that it gave, each with the key for which it gave it.

    a windowed count, append, late watermark 12:11, eviction watermark 12:20
    Told("late", [12:05, 12:10))     Told("kept", [12:40, 12:45))     Told("emitted", [12:10, 12:15) 1)     Told("removed", ...)

No time is compared to say so: lens/trace/fates.py looks up here what became of a row.

Differs from Spark: nothing.
Shown by tests/unit/engine/operators/test_state_tasks.py::test_a_task_tells_what_it_decided_when_it_is_asked_to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from minispark_stream.engine.operators.columns import Columns, concat, record_batch, take

MOST_TOLD = 1000  # rows of a task, from which on no more of a kind are told

# What a task decides. A row is late; it is kept in the state (its key, its group, its session or itself); it is a duplicate, or
# beyond a limit; it passes without being kept.
LATE, KEPT, DUPLICATE, BEYOND, PASSED = "late", "kept", "duplicate", "beyond the limit", "passed"
# What it does besides with what it keeps: rows that leave the state, and rows that leave the task.
REMOVED, EMITTED = "removed", "emitted"
# Keys of which a timer has fired, so that a function of the user's was called; and why it gave the rows that it gave then.
FIRED = "fired"
# Why a row of a join passes without being kept.
OLD = "old"  # the batch would evict it at once
UNFIT = "unfit"  # the condition of its own side is false, so that it can meet nobody
MATCHED = "matched"  # a left row of a semi join that has met somebody has done its part


class Told(NamedTuple):
    """Rows, or keys, about which a task decided the same. `side` is that of a join; `why`: see above."""

    what: str
    rows: pa.RecordBatch
    side: int = 0
    why: str = ""


def told_of_calls(
    given: Sequence[pa.RecordBatch], keys: Columns, counts: Sequence[int], by_rows: int, due_ms: Sequence[int] | None = None
) -> Iterable[Told]:
    """What a function of the user's gave when it was called for some `keys`: so many rows for each (`counts`), in this order.

    It was called for the first `by_rows` keys because rows of theirs had come, and for the others because of a timer: where a
    key may have several, `due_ms` says for which one.
    """
    fired = [key.slice(by_rows) for key in keys] + ([] if due_ms is None else [pa.array(due_ms, pa.int64())])
    yield Told(FIRED, record_batch(fired, len(counts) - by_rows))
    if given:
        rows = concat(given)
        of_call = np.repeat(np.arange(len(counts)), counts)
        whole, first = record_batch([*rows.columns, *take(keys, of_call)], rows.num_rows), sum(counts[:by_rows])
        yield Told(EMITTED, whole.slice(0, first))
        yield Told(EMITTED, whole.slice(first), why=FIRED)
