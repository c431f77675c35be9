"""Which rows a join has brought together, and which it sent out alone (level "rows" of the trace).

Models: nothing of Spark, which does not keep rows to show them.

1. The tasks report the first rows that they have emitted (engine/operators/state_task.py). A task that ran twice has reported
   twice: its last report counts.
2. A row that is emitted is a left and a right row, side by side; one of them is nulls where a row left alone. Of a semi join,
   it is the left row only.

    emitted    a, 12:00, a, 12:03        {"left": {"k": "a", "t": 12:00}, "right": {"k": "a", "t": 12:03}}
               b, 12:01, null, null      {"left": {"k": "b", "t": 12:01}, "right": null}

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.state_task import MOST_TOLD
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.lens.recording.previews import preview


def told_pairs(execution: IncrementalExecution, operator: StatefulOperator) -> list[dict[str, Any]] | None:
    """What a join emitted in a batch; None for what is no join, and where a task emitted more than it tells."""
    if operator.pairs is None:
        return None
    left, right = operator.pairs
    reports = execution.batch.accumulators[operator.operator_id].value
    last = {partition: done.emitted for partition, done in reports if done.emitted is not None}  # (1)
    batches = [batch for emitted in last.values() for batch in emitted or ()]
    if any(sum(batch.num_rows for batch in emitted or ()) >= MOST_TOLD for emitted in last.values()):
        return None
    if not batches:
        return []
    schema = expressions.positional(left, right)
    table = pa.Table.from_batches([pa.RecordBatch.from_arrays(batch.columns, names=schema.names) for batch in batches])
    rows = preview(execution.batch.session.createDataFrame(table, schema), MOST_TOLD * len(last))
    return [_pair(list(row.values()), left, right) for row in rows]


def _pair(values: list[Any], left: StructType, right: StructType) -> dict[str, Any]:  # (2)
    sides = (("left", left.names, values[: len(left)]), ("right", right.names, values[len(left) :]))
    return {side: dict(zip(names, own)) if not own or any(v is not None for v in own) else None for side, names, own in sides}
