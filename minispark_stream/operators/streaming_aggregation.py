"""A streaming aggregation, seen from the driver: cut the plan at the state, and put the two halves together again.

Models: StatefulAggregationStrategy and AggUtils.planStreamingAggregation (From query to the plan; SIGMOD'18 paper, 5.2).

1. Once: ask Spark how it would plan the aggregation as a batch, and read off group keys, buffers and evaluation.
2. Each batch: Spark's own *partial* aggregation runs over the new rows; its output (group keys and buffers) is shuffled
   by key to the partition whose store holds the key.
3. One task per partition restores, merges, saves, evicts and emits (operators/state_store_save.py).
4. Spark evaluates the functions over the buffers that come out: `sum(x) / count(*)` is a projection again.

       Project [k, sum#1 / count#2]                          (4)
         mapInArrow StateStoreSave        state/0/<p>        (3)
           Repartition by k into N                           (2)
             partial aggregate [k], [sum#1, count#2]
               new rows

Differs from Spark: Spark merges inside its physical aggregation operators; here the merge is operators/aggregates.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, plans, scala
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.operators.aggregates import COLLECTIONS, MERGES, AggregateFunction
from minispark_stream.operators.base import (
    BatchContext,
    StatefulOperator,
    check_event_time,
    event_time_column,
    event_time_names,
    nullable,
    positional,
)
from minispark_stream.operators.columns import EventTime
from minispark_stream.operators.state_store_save import StateStoreSave

# (session, Spark's physical plan of the batch, its partial aggregation) -> what to run before the shuffle
BeforeShuffle = Callable[[SparkSession, JavaObject, JavaObject], JavaObject]


@dataclass(frozen=True, kw_only=True)
class StreamingAggregation(StatefulOperator):
    """An aggregation whose buffers live in state. `keys` and `values` are the schemas of its state rows.

    `task_output` are the attributes that leave the state task (keys, then per function its buffers or its collected
    array); `projections` turn them into the columns of the aggregation. `event_time` is the grouping column that
    carries the watermark; `event_times` are the names of all that carry one.
    """

    keys: StructType
    values: StructType
    functions: tuple[AggregateFunction, ...]
    event_time: EventTime | None
    event_times: tuple[str, ...]
    task_output: JavaObject = field(repr=False, compare=False)
    projections: tuple[JavaObject, ...] = field(repr=False, compare=False)
    operator_name = "stateStoreSave"

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", self.keys, self.values)]

    def partitions(self, num_partitions: int) -> int:
        return num_partitions if self.keys.fields else 1

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return output_mode in ("append", "update") and watermark_ms > eviction_ms

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        if context.output_mode != "complete":
            check_event_time(context.session, self.event_times)
        partials = self.partial_rows(context, children)
        keys = partials.columns[: len(self.keys.fields)]
        task = StateStoreSave(
            info=context.state_info(self),
            watermarks=context.watermarks[self.operator_id],
            output=self.task_schema,
            metrics=context.accumulators[self.operator_id],
            output_mode=context.output_mode,
            keys=self.keys,
            values=self.values,
            functions=self.functions,
            event_time=self.event_time,
        )
        shuffled = partials.repartition(task.info.num_partitions, *keys)
        return self.evaluated(context.session, shuffled, task)

    def partial_rows(
        self, context: BatchContext, children: Sequence[JavaObject], before_shuffle: BeforeShuffle | None = None
    ) -> DataFrame:
        """(2) The new rows, partially aggregated; `before_shuffle` may put an operator on top of Spark's."""
        session = context.session
        physical = plans.physical(session, plans.with_children(session, self.plan, children))
        _, partial = _aggregate_nodes(physical)
        executable = plans.prepared(session, before_shuffle(session, physical, partial) if before_shuffle else partial)
        context.executed.append(executable)
        schema = expressions.java_schema(session, positional(self.keys, self.values))
        return plans.rdd_frame(session, executable.execute(), schema)

    @property
    def task_schema(self) -> pa.Schema:
        """What leaves the state task."""
        return to_arrow_schema(positional(self.keys, _emitted(self.values, self.functions)), timezone="UTC")

    def evaluated(self, session: SparkSession, shuffled: DataFrame, task: Any) -> JavaObject:
        """The state task over the shuffled rows (3), and the results of the functions (4)."""
        output = positional(self.keys, _emitted(self.values, self.functions))
        rows = plans.map_in_arrow(shuffled, task, output, self.task_output)
        for projection in self.projections:
            rows = plans.project(session, projection, rows)
        return rows


def compile_aggregation(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...], empty: JavaObject
) -> StreamingAggregation:
    """(1) Read keys, buffers and evaluation off Spark's own physical plan.

    Args:
        plan: the (streaming) Aggregate of the optimised plan.
        children: its compiled child.
        empty: the same Aggregate as a batch plan over no rows.

    Raises:
        AnalysisException: an aggregate function whose state cannot be merged here.
    """
    final, partial = _aggregate_nodes(plans.physical(session, empty))
    grouping = [e.toAttribute() for e in scala.items(final.groupingExpressions())]
    names = [(a.name(), a.exprId()) for a in grouping]
    evaluated: list[JavaObject] = list(grouping)
    functions: list[AggregateFunction] = []
    for expression, result in zip(scala.items(final.aggregateExpressions()), scala.items(final.aggregateAttributes())):
        function = expression.aggregateFunction()
        name = scala.class_name(function)
        buffers = scala.items(function.aggBufferAttributes())
        if name in COLLECTIONS:
            names.append((result.name(), result.exprId()))
            evaluated.append(result)
            functions.append(AggregateFunction(name, len(buffers), expressions.struct_type([result])))
        elif name in MERGES:
            names += [(a.name(), a.exprId()) for a in buffers]
            evaluated.append(expressions.alias(session, function.evaluateExpression(), result.name(), result.exprId()))
            functions.append(AggregateFunction(name, len(buffers)))
        else:
            raise AnalysisException(
                message=f"The aggregate function {expression.sql()} cannot be kept incrementally by minispark_stream: its "
                f"state ({name}) is an opaque sketch. Use one of: {', '.join(sorted([*MERGES, *COLLECTIONS]))}."
            )
    # The column metadata (which column carries a watermark) is the template's: a batch plan has no watermark nodes.
    columns = {a.exprId().id(): a for a in scala.items(plan.child().output())}
    key_columns = [columns.get(a.exprId().id(), a) for a in grouping]
    keys = nullable(expressions.struct_type(key_columns))
    values = nullable(expressions.struct_type(scala.items(partial.output())[len(grouping) :]))
    schema = expressions.java_schema(session, positional(keys, _emitted(values, functions)))
    no_rows = plans.analyzed(plans.rdd_frame(session, plans.empty_rows(session), schema))
    return StreamingAggregation(
        operator_id=operator_id,
        keys=keys,
        values=values,
        functions=tuple(functions),
        event_time=event_time_column(key_columns),
        event_times=event_time_names(key_columns),
        task_output=plans.rename(session, no_rows, names).output(),
        projections=(scala.seq(session, evaluated), _results(session, final, plan)),
        plan=plan,
        empty=empty,
        children=children,
    )


def _results(session: SparkSession, final: JavaObject, plan: JavaObject) -> JavaObject:
    """The result expressions, under the expression ids that the plan above expects (Spark may have renamed them)."""
    wanted = scala.items(plan.output())
    found = scala.items(final.resultExpressions())
    return scala.seq(
        session,
        [
            one if one.exprId().equals(to.exprId()) else expressions.alias(session, one.toAttribute(), to.name(), to.exprId())
            for one, to in zip(found, wanted)
        ],
    )


def _emitted(values: StructType, functions: Sequence[AggregateFunction]) -> StructType:
    """What follows the keys in the task's output: per function its buffers, or its collected array."""
    buffers = iter(values.fields)
    emitted = StructType()
    for function in functions:
        own = [next(buffers) for _ in range(function.width)]
        for one in own if function.result is None else function.result.fields:
            emitted.add(one.name, one.dataType, True)
    return emitted


def _aggregate_nodes(physical: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The final and the partial aggregation that Spark plans for a batch Aggregate."""
    final, partial = islice(physical_nodes(physical, "AggregateExec"), 2)
    return final, partial


def physical_nodes(node: JavaObject, name: str) -> Iterator[JavaObject]:
    """The nodes of a physical plan whose class name ends in `name`, from the top, along its first children."""
    while True:
        if scala.class_name(node).endswith(name):
            yield node
        if node.children().isEmpty():
            return
        node = node.children().head()
