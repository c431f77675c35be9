"""What a task has decided about its rows, reported for those who explain the batch (level "rows" of the trace).

Models: nothing of Spark, which does not follow a row.

1. If the driver asks for it (`StatefulOperatorStateInfo.wants_told`), a task reports for each row or key what it did with it.
   These are the very rows that it counts, puts, removes and emits. If the driver does not ask, nothing of this is computed.
2. The form of such a row depends on the operator (`StatefulOperator.parts_of_told`). An aggregation, whose rows Spark has
   already merged by key, reports keys; deduplication and limit report rows; a join reports rows of a side, and pairs; a user's
   function reports the rows that it returned, each with the key that it was called for.

    a windowed count, append, late watermark 12:11, eviction watermark 12:20
    Told("late", [12:05, 12:10))     Told("kept", [12:40, 12:45))     Told("emitted", [12:10, 12:15) 1)     Told("removed", ...)

Whoever explains a row (lens/trace/fates.py) looks up here what became of it, instead of comparing times once more.

Differs from Spark: nothing.
Shown by tests/unit/engine/operators/test_state_tasks.py::test_a_task_tells_what_it_decided_when_it_is_asked_to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from minispark_stream.engine.operators.columns import Columns, concat, record_batch, take

MOST_TOLD = 1000  # at most this many rows of a kind are reported by a task

# What a task decides about a row: it is late; it is kept in the state (its key, its group, its session or itself); it is a
# duplicate, or beyond a limit; or it passes without being kept.
LATE, KEPT, DUPLICATE, BEYOND, PASSED = "late", "kept", "duplicate", "beyond the limit", "passed"
# An operator of one's own ends the way of a row; `why` is then in its own words, as it is for rows that it keeps or passes on.
TURNED_AWAY = "turned away"
# What else a task does: rows leave the state, and rows leave the task.
REMOVED, EMITTED = "removed", "emitted"
# The keys for which a timer has fired, so that the user's function was called; and the reason for rows that it returned then.
FIRED = "fired"
# Why a row of a join passes without being kept.
OLD = "old"  # the batch would evict it at once
UNFIT = "unfit"  # the condition of its own side is false, so it cannot have partners
MATCHED = "matched"  # it is a left row of a semi join that has found a partner, and is not needed any more


class Told(NamedTuple):
    """Rows or keys about which a task decided the same.

    `side` is the side of a join; `why` is one of the reasons above, or what an operator of one's own says.
    """

    what: str
    rows: pa.RecordBatch
    side: int = 0
    why: str = ""


def told_of_calls(
    given: Sequence[pa.RecordBatch], keys: Columns, counts: Sequence[int], by_rows: int, due_ms: Sequence[int] | None = None
) -> Iterable[Told]:
    """What to report of the calls of a user's function.

    Args:
        given: the rows that it returned, in the order of the calls.
        keys: the key of each call.
        counts: how many rows each call returned.
        by_rows: for this many keys, which come first, it was called because they had new rows; for the others, because of a
            timer.
        due_ms: the time of the timer that fired, for each key that was called because of one; None if a key has only one timer.
    """
    fired = [key.slice(by_rows) for key in keys] + ([] if due_ms is None else [pa.array(due_ms, pa.int64())])
    yield Told(FIRED, record_batch(fired, len(counts) - by_rows))
    if given:
        rows = concat(given)
        of_call = np.repeat(np.arange(len(counts)), counts)
        whole, first = record_batch([*rows.columns, *take(keys, of_call)], rows.num_rows), sum(counts[:by_rows])
        yield Told(EMITTED, whole.slice(0, first))
        yield Told(EMITTED, whole.slice(first), why=FIRED)
