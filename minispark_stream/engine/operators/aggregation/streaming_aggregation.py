"""A streaming aggregation, seen from the driver: Spark's own plan, with a Python task where Spark has a state operator.

Models: StatefulAggregationStrategy and AggUtils.planStreamingAggregation (From query to the plan; SIGMOD'18 paper, 5.2).

An aggregate function consists of *buffers* (what must be remembered), a *merge* (how two sets of buffers become one) and an
*evaluation* (what the user sees). For example, the buffers of `avg(x)` are a sum and a count. All of these are Spark's, and are
planned once (engine/operators/aggregation/stateful_aggregation_strategy.py). In each batch,

1. Spark's *partial* aggregation makes, in each of its tasks, one row of group keys and buffers for each key of the new rows.
2. The rows are shuffled by key to the partition whose store has the key, and there Spark merges the rows of equal keys.
3. A task per partition *restores*: it puts the old buffers of each key beside the new ones
   (engine/operators/aggregation/state_store_restore.py).
4. Spark merges the two.
5. A second task per partition *saves* the merged buffers, evicts and emits (engine/operators/aggregation/state_store_save.py).
6. Spark evaluates the functions over the buffers that are emitted.

       final aggregation [k], [sum / count]                 (6)     a: 4.0
         mapInArrow StateStoreSave        state/0/<p>       (5)     a: sum 16.0, count 4
           merge [k], [sum, count]                          (4)     a: sum 16.0, count 4
             mapInArrow StateStoreRestore state/0/<p>       (3)     a: sum 6.0, count 3    a: sum 10.0, count 1
               merge [k], [sum, count]                              a: sum 10.0, count 1
                 shuffle by k into N                        (2)
                   partial aggregation [k], [sum, count]    (1)     a: sum 10.0, count 1
                     new rows

So every function that Spark can aggregate on a stream works here as well, sketches included, with the same bytes in the state.

Differs from Spark: a map may be a key beside any aggregate function. If Spark 4.3.0 has to sort rows by their keys, as it does
to find the greatest of some texts, it ends the query, because maps have no order.
Shown by tests/spark/test_differences.py::test_a_map_is_a_key_beside_a_value_of_any_type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, physical, scala
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.event_times import several_event_times
from minispark_stream.engine.operators.explained import EMITS, GROUPS, Decision, Entry
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StateTask
from minispark_stream.engine.state.operator_state_metadata import AGGREGATION


@dataclass(frozen=True, kw_only=True)
class StreamingAggregation(StatefulOperator):
    """An aggregation whose buffers are kept in state.

    Attributes:
        restore, save: its two tasks.
        keys, values: the schemas of its state rows.
        event_time: the grouping column that has the watermark.
        event_times: the names of all grouping columns that have one.
        tasks: plans both tasks, which receive and emit the same columns: grouping columns and buffers.
        shuffle_keys: the columns by which rows are shuffled.
        partial, merge, final: Spark's operators; those of `partial` below the shuffle, `merge` before restore and again before
            save, `final` after save.
    """

    restore: StateTask
    save: StateTask
    keys: StructType
    values: StructType
    event_time: EventTime | None
    event_times: tuple[str, ...]
    tasks: MapPartitions = field(repr=False, compare=False)
    shuffle_keys: tuple[JavaObject, ...] = field(repr=False, compare=False)
    partial: tuple[JavaObject, ...] = field(repr=False, compare=False)
    merge: JavaObject = field(repr=False, compare=False)
    final: JavaObject = field(repr=False, compare=False)
    operator_name: str = AGGREGATION
    in_words = "aggregations"

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", self.keys, self.values)]

    @cached_property
    def functions(self) -> Sequence[Mapping[str, Any]]:
        return expressions.aggregate_functions(self.final)

    def partitions(self, num_partitions: int) -> int:
        return num_partitions if self.keys.fields else 1

    def entries(self) -> Sequence[Entry]:
        grouping = scala.items(self.plan.groupingExpressions())
        return (Entry.of(dict(zip(self.keys.names, grouping)), grouping, grouping, self.event_time),)

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return {"key": self.keys}  # the first columns of the rows; the buffers follow

    @property
    def lateness(self) -> EventTime | None:
        return self.event_time

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        if output_mode == "complete":
            return Decision(GROUPS, emits=EMITS[output_mode])
        leaves_ms = None if self.event_time is None else watermarks.eviction_ms
        return Decision(GROUPS, self.late_ms(watermarks), (leaves_ms,), emits=EMITS[output_mode])

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return output_mode in ("append", "update") and watermark_ms > eviction_ms

    def refusal(self, session: SparkSession, output_mode: str) -> PySparkException | None:
        """The error with which each task refuses to run; None if none does.

        There are several watermarks (MULTIPLE_EVENT_TIME_COLUMNS), or none in append mode
        (UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK). The check at the start of a query does not find all of this, because
        the plan is not optimised yet, and it may be off.
        """
        if output_mode == "append" and self.event_time is None:
            condition = "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK"
            return analysis_error(session, condition, outputMode="Append", statefulOperator=self.in_words)
        return several_event_times(session, self.event_times) if output_mode != "complete" else None

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session, refusal = context.session, self.refusal(context.session, context.output_mode)
        restore = self.of_batch(context, self.restore, self.tasks)
        save = self.of_batch(context, self.save, self.tasks, output_mode=context.output_mode)
        new = self.new_rows(context, children[0])
        by_key = physical.shuffled(session, new, self.shuffle_keys, self.partitions(context.num_partitions))  # (2)
        merged = physical.over(session, self.merge, context.cut(by_key))
        restored = context.map_partitions(self.tasks, merged, restore, of_inputs=False)  # (3)
        both = physical.over(session, self.merge, restored)  # (4)
        saved = context.map_partitions(self.tasks, both, save, gathered=True, refusal=refusal)  # (5)
        return self.evaluated(context, saved, by_key)  # (6)

    def evaluated(self, context: BatchContext, saved: JavaObject, by_key: JavaObject) -> JavaObject:
        """(6) What the functions make of the buffers that are emitted.

        The rows are still in the partitions into which they were shuffled. Because Spark knows it, it does not shuffle them
        again for a join by these keys; and if all are in one partition, a sort need not run the tasks for a sample.
        """
        session = context.session
        if self.keys.fields:
            partitioning = physical.over(session, self.final, by_key).outputPartitioning()
        else:
            partitioning = scala.companion(session, "SinglePartition")
        return context.leaf(physical.over(session, self.final, saved), partitioning)

    def new_rows(self, context: BatchContext, child: JavaObject) -> JavaObject:
        """(1) The new rows, partially aggregated, as a physical plan."""
        return reduce(lambda below, node: physical.over(context.session, node, below), self.partial, context.rows(child))

