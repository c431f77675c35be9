"""An operator of one's own in the engine: its node in a plan, its driver half, and its task half.

Models: nothing of Spark, whose plans have no node for an operator that Spark does not know.

1. In a plan, it is a FlatMapGroupsInPandas node (`groupBy(...).applyInPandas(...)`), which Spark analyses and leaves where it
   is. Its function, which is never called, holds the operator, and its name begins with `MARK`.
2. Once: the operator, its keys and its columns are read off the node.
3. In each batch, the rows are shuffled by key to the partition whose store has the key, in as many partitions as the other
   operators have; without a key, to the one partition. The task calls `run` of the operator (operator_of_ones_own.py).
4. What `run` has decided about each row is told with the operator's words, and with the place of the row in the partition,
   because equal rows may have different fates.

    FlatMapGroupsInPandas [k], operator:every_nth(k, v)       ->  state/0, "operatorName": "every_nth"

Differs from Spark: nothing.
Shown by tests/spark/test_operators_of_ones_own.py::test_rows_state_progress_and_restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.types import LongType, StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.jvm import expressions, physical, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import Columns, EventTime, concat, is_late, record_batch, without
from minispark_stream.engine.operators.event_times import event_time_column
from minispark_stream.engine.operators.explained import OWN_WORDS, Decision, Entry
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import load_command
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.operator_of_ones_own import Operator, State, Task, as_columns, as_rows
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StateTask, Stopwatch
from minispark_stream.engine.operators.told import LATE, Told
from minispark_stream.engine.plan.checked_plan import CheckedNode, Query, refuse
from minispark_stream.engine.plan.unsupported_nodes import NODE_CHECKS
from minispark_stream.engine.state.state_store import StateStore

NODE, MARK = "FlatMapGroupsInPandas", "operator:"
KEYLESS = StructType().add("key", LongType())  # the key of all rows, which is null, if there are no columns to group by


def with_operator(grouped: GroupedData, name: str, operator: Operator) -> DataFrame:  # (1)
    """The DataFrame of what `operator` emits for the groups."""

    def held(rows):  # type: ignore[no-untyped-def]  # PySpark would read a meaning into annotations
        raise NotImplementedError

    held.__name__, held.operator = MARK + name, operator  # type: ignore[attr-defined]
    schema = grouped._df.schema if operator.output is None else operator.output
    return grouped.applyInPandas(held, schema)


def is_registered_operator(plan: JavaObject) -> bool:
    """Whether a node of the class NODE holds an operator."""
    return str(plan.functionExpr().name()).startswith(MARK)


def _operator_of(session: SparkSession, plan: JavaObject) -> Operator:
    return load_command(expressions.command(session, plan.functionExpr())).operator


def _check(query: Query, node: CheckedNode) -> None:
    """Refuse an output mode that the operator does not have, or a watermark that the query does not have."""
    if not (node.streaming and is_registered_operator(node.plan)):
        return
    operator, name = _operator_of(query.session, node.plan), str(node.plan.functionExpr().name()).removeprefix(MARK)
    if query.mode.lower() not in operator.output_modes:
        refuse(query, node, f"The operator {name} is not supported in {query.mode} output mode")
    columns = scala.items(node.children[0].plan.output())
    if operator.uses_watermark and event_time_column(columns) is None:
        refuse(query, node, f"The operator {name} is not supported without a watermark: use withWatermark() before it")


NODE_CHECKS[NODE] = _check


@dataclass(frozen=True, kw_only=True)
class RegisteredOperator(StatefulOperator):
    """The driver half."""

    name: str
    task: RunOperator
    tasks: MapPartitions = field(repr=False, compare=False)

    @property
    def operator_name(self) -> str:
        return self.name

    @property
    def passes_rows_on(self) -> bool:
        return self.task.operator.output is None

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", self.task.keys, self.task.values)]

    def partitions(self, num_partitions: int) -> int:
        return num_partitions if self.task.grouping else 1

    def entries(self) -> Sequence[Entry]:
        columns = scala.items(self.plan.child().output())
        keys = {columns[i].name(): columns[i] for i in self.task.grouping}
        return (Entry.of(keys, [*keys.values()], columns, self.lateness, [columns[i] for i in self.task.data]),)

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return {"row": self.task.row, "place": StructType().add("place", LongType())}

    @property
    def lateness(self) -> EventTime | None:
        return self.task.event_time

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        return Decision(OWN_WORDS, self.late_ms(watermarks))

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return self.task.operator.uses_watermark and watermark_ms > eviction_ms

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:  # (3)
        task = self.of_batch(context, self.task, self.tasks)
        rows = context.rows(children[0])
        columns = scala.items(rows.output())
        keys = [columns[i] for i in task.grouping]
        shuffled = physical.shuffled(context.session, rows, keys, task.info.num_partitions)
        return context.leaf(context.map_partitions(self.tasks, shuffled, task))


def compile_registered_operator(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> RegisteredOperator:
    """(2) Read the operator off its node `plan`.

    Raises:
        AnalysisException: a column of the key has a type that cannot be the key of a dict.
    """
    columns = scala.items(plan.child().output())
    position = {column.exprId().id(): i for i, column in enumerate(columns)}
    function, schema = plan.functionExpr(), expressions.struct_type(columns)
    data = tuple(position[column.exprId().id()] for column in scala.items(function.children()))
    grouping = tuple(position[key.exprId().id()] for key in scala.items(plan.groupingAttributes()))
    operator, name = _operator_of(session, plan), str(function.name()).removeprefix(MARK)
    result = expressions.struct_type(scala.items(plan.output()))
    keys = StructType([schema[i] for i in grouping])
    if any(f'"type":"{kind}"' in keys.json() for kind in ("array", "map")):
        raise AnalysisException(message=f"The operator {name} cannot group by an array or a map.")
    return RegisteredOperator(
        operator_id=operator_id,
        name=name,
        task=RunOperator(
            operator=operator,
            row=StructType([schema[i] for i in data]),
            data=data,
            grouping=grouping,
            keys=expressions.as_nullable(session, keys) if grouping else KEYLESS,
            values=expressions.as_nullable(session, cast(StructType, StructType.fromDDL(operator.state))),
            event_time=event_time_column(columns) if operator.uses_watermark else None,
            result=result,
        ),
        tasks=MapPartitions(session, schema, result, plan.output(), function.func()),
        plan=plan,
        children=children,
    )


@dataclass(frozen=True, kw_only=True)
class RunOperator(StateTask):
    """The task half; calling it runs one partition (for mapInArrow).

    `data` and `grouping` have the positions of the row's columns and of the key's in the rows below. `row`, `keys`, `values`
    and `result` are the schemas of a row, of the state, and of what is emitted; `event_time` says which rows are late.
    """

    operator: Operator
    row: StructType
    data: tuple[int, ...]
    grouping: tuple[int, ...]
    keys: StructType
    values: StructType
    event_time: EventTime | None
    result: StructType

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process one partition with its open store; returns the rows that the operator emits and what happened."""
        clock = Stopwatch()
        [store] = stores
        arrived = concat(batches)
        late = is_late(arrived, self.event_time, self.watermarks.late_ms)
        there = without(arrived, late)
        columns = [there.column(i) for i in self.data]
        rows = as_rows(columns, self.row)
        keys = [there.column(i) for i in self.grouping] or [pa.nulls(there.num_rows, pa.int64())]
        state, task = State(store, self.keys, self.values), Task(rows, self.watermarks.eviction_ms)
        of_rows = state.read(list(UnsafeRowCodec(self.keys).encode(keys, there.num_rows)), as_rows(keys, self.keys))
        self.operator.run(zip(of_rows, rows), state, task)
        put, removed = state.flush()
        metrics = self.committed(
            clock,
            stores,
            lambda: self._told(arrived.filter(pa.array(late)), columns, task),
            num_rows_updated=put,
            num_rows_removed=removed,
            num_rows_dropped_by_watermark=int(late.sum()),
            all_updates_time_ms=clock.lap(),
            custom=dict(task.counts),
        )
        return [self._emitted(columns, rows, task)], metrics

    def _emitted(self, columns: Columns, rows: Sequence[Row], task: Task) -> pa.RecordBatch:
        """What leaves, in the order in which it was decided. `columns` and `rows` are what came in."""
        if all(isinstance(one, int) for one in task.emitted):
            emitted = [column.take(pa.array(task.emitted, pa.int64())) for column in columns]
        else:
            emitted = as_columns([rows[one] if isinstance(one, int) else one for one in task.emitted], self.result)
        return record_batch(emitted, len(task.emitted))

    def _told(self, late: pa.RecordBatch, columns: Columns, task: Task) -> Iterable[Told]:
        """(4) Each decision with the words, and the rows that it is about."""
        yield Told(LATE, _numbered([late.column(i) for i in self.data], range(late.num_rows)))
        by_words: dict[tuple[str, str], list[int]] = {}
        for place, what, words in task.decided:
            by_words.setdefault((what, words), []).append(place)
        for (what, words), places in by_words.items():
            yield Told(what, _numbered([column.take(pa.array(places)) for column in columns], places), why=words)


def _numbered(columns: Columns, places: Sequence[int]) -> pa.RecordBatch:
    return record_batch([*columns, pa.array(places, pa.int64())], len(places))
