"""What the tasks of an operator have decided, as the trace keeps it (level "rows").

Models: nothing of Spark, which does not follow a row.

1. The tasks report what they decided (engine/operators/told.py). A task that ran twice has reported twice: its last report
   counts. If a task told less than it decided, because it was too much, nothing is known about the batch.
2. `told`: for each decision, what it was about, as JSON: the key, or the row, or the two rows of a pair (one of which is null
   if a row was emitted alone). For a row of a join, also its side, and why it was not kept; for a user's function, the row
   that it returned, and its key.
3. `emitted_plan`: the rows that the operator emitted, numbered, as a plan. With this plan, they can be followed above the
   operator like the rows of a source (arrivals.py). The tasks of an aggregation emit keys and buffers; Spark evaluates them
   here as in the batch, with the number as an additional key.

    {"late": [{"key": {"k": "b"}}], "kept": [{"key": {"k": "a"}}], "emitted": [...], "removed": [...]}
    {"emitted": [{"left": {"k": "a", "t": 12:00}, "right": null}], ...}                                   of a join

4. `where`: which worker has which version of a store in memory, because its task has read it or made it, and how the worker got
   the version that it read. If a task ran twice, both workers have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructType

from minispark_stream.engine.checkpointing.join_stores import SIDES
from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala
from minispark_stream.engine.jvm.expressions import in_arrow
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.session.session_window import SessionWindowAggregation
from minispark_stream.engine.operators.told import EMITTED, MOST_TOLD, Told
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.lens.recording.previews import in_ms, preview

_NUMBER = "number"


def told(execution: IncrementalExecution, operator: StatefulOperator) -> dict[str, list[dict[str, Any]]] | None:
    """(2) What an operator decided in a batch; None if it is not known."""
    reports = _reports(execution, operator)
    if reports is None:
        return None
    by_shape: dict[str, list[Told]] = {}
    for one in reports:
        by_shape.setdefault(str(operator.parts_of_told(one.what, one.side)), []).append(one)
    found: dict[str, list[dict[str, Any]]] = {}
    session = operator.session if isinstance(operator, SessionWindowAggregation) else None
    is_of_join = any(side in operator.parts_of_told(EMITTED, 0) for side in SIDES)
    for same in by_shape.values():
        parts = operator.parts_of_told(same[0].what, same[0].side)
        schema = expressions.positional(*parts.values())
        rows = iter(_values(execution.batch.session, schema, [one.rows for one in same], session))
        for one in same:
            more: dict[str, Any] = {"side": one.side} if is_of_join and one.what != EMITTED else {}
            more |= {"why": one.why} if one.why else {}
            found.setdefault(one.what, []).extend({**_named(*next(rows), parts), **more} for _ in range(one.rows.num_rows))
    return found


def where(execution: IncrementalExecution, operator: StatefulOperator) -> list[dict[str, Any]]:
    """(4) Which worker has which version of which store: one entry for each store of a task, sorted by partition."""
    reports = execution.batch.accumulators[operator.operator_id].value
    found = [
        {
            "partition": partition, "store": name, "worker": done.worker, "came": loaded_from, "shared": shared,
            "version": execution.batch.batch_id + bool(done.stores),
        }
        for partition, done in reports if done.worker is not None for name, (loaded_from, shared) in done.loaded_from.items()
    ]
    return sorted(found, key=lambda one: (one["partition"], one["store"], one["version"]))


def emitted_plan(execution: IncrementalExecution, operator: StatefulOperator, row: str) -> JavaObject | None:
    """(3) What an operator emitted in a batch, with `operator <id>:<place>` in a last column `row`; None if it is not known."""
    reports = _reports(execution, operator)
    if reports is None:
        return None
    session = execution.batch.session
    of_aggregation = operator if isinstance(operator, StreamingAggregation) else None
    attributes = scala.items(of_aggregation.merge.output() if of_aggregation else operator.plan.output())
    schema = expressions.positional(expressions.struct_type(attributes))
    rows = _frame(session, schema, [one.rows for one in reports if one.what == EMITTED])
    numbered = rows.withColumn(_NUMBER, F.concat(F.lit(f"operator {operator.operator_id}:"), F.col(_NUMBER)))
    plan = plans.rename(session, plans.analyzed(numbered), [*((a.name(), a.exprId()) for a in attributes), (row, None)])
    return _evaluated(session, of_aggregation, plan) if of_aggregation else plan


def _evaluated(session: SparkSession, operator: StreamingAggregation, plan: JavaObject) -> JavaObject:
    """Keys and buffers become rows in the final aggregation, which has the number of a row as an additional key."""
    final = scala.fields(operator.final)
    *columns, row = scala.items(plan.output())
    width = len(scala.items(final["groupingExpressions"]))
    ordered = plans.project(session, [*columns[:width], row, *columns[width:]], plan)
    keyed = ("groupingExpressions", "resultExpressions")
    with_row = {name: scala.seq(session, [*scala.items(final[name]), row]) for name in keyed}
    aggregated = scala.call(
        operator.final.copy,
        **final | with_row | {"initialInputBufferOffset": width + 1, "child": query_execution.planned(session, ordered)},
    )
    return physical.leaf(session, query_execution.prepared(session, aggregated))


def _reports(execution: IncrementalExecution, operator: StatefulOperator) -> list[Told] | None:  # (1)
    reports = execution.batch.accumulators[operator.operator_id].value
    last = {(partition, bool(done.stores)): done.told for partition, done in reports if done.told is not None}
    if not last:
        return None
    rows = Counter[Any]()
    for task, of_task in last.items():
        for one in of_task:
            rows[task, one.what, one.side, one.why] += one.rows.num_rows
    return None if max(rows.values(), default=0) >= MOST_TOLD else [one for task in sorted(last) for one in last[task]]


def _values(
    session: SparkSession, schema: StructType, batches: Sequence[pa.RecordBatch], window: int | None
) -> Iterable[tuple[list[Any], dict[str, Any]]]:
    """The values of some rows as a trace shows them, in order; and for each row, start and end of column `window` in ms."""
    count = sum(batch.num_rows for batch in batches)
    if not schema.fields:
        return [([], {}) for _ in range(count)]
    rows = _frame(session, schema, batches)
    times = [] if window is None else [F.unix_micros(rows[window][part]) for part in ("start", "end")]
    shown = (list(row.values()) for row in preview(rows.select(_NUMBER, *times, *schema.names), count))
    width = 1 + len(times)
    named = sorted(shown, key=lambda values: int(values[0]))
    return [(values[width:], dict(zip(("start", "end"), map(in_ms, values[1:width])))) for values in named]


def _frame(session: SparkSession, schema: StructType, batches: Sequence[pa.RecordBatch]) -> DataFrame:
    """The first columns of some rows, which have the types of a task here, and their number."""
    in_task = in_arrow(schema).add(_NUMBER, LongType())
    kinds = to_arrow_schema(in_task, timezone="UTC")
    arrays = [
        pa.chunked_array([batch.column(i).cast(kind) for batch in batches], kind) for i, kind in enumerate(kinds.types[:-1])
    ]
    numbers = pa.array(range(sum(batch.num_rows for batch in batches)), pa.int64())
    table = pa.table([*arrays, numbers], names=in_task.names)
    rows = session.createDataFrame(table if batches else [], in_task)
    columns = expressions.as_nullable(session, schema)
    return rows.select(*(rows[column.name].cast(column.dataType).alias(column.name) for column in columns), _NUMBER)


def _named(values: list[Any], times: dict[str, Any], parts: Mapping[str, StructType]) -> dict[str, Any]:
    found, begin = times, 0
    for name, schema in parts.items():
        own = values[begin : begin + len(schema)]
        begin += len(schema)
        is_nobody = name in SIDES and own and all(value is None for value in own)
        found[name] = None if is_nobody else dict(zip(schema.names, own))
    return found
