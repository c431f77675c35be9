"""limit(n) on a stream: the first n rows that ever arrive, and no more.

Models: StreamingGlobalLimitExec (About state). One task gets all rows; its state is one number.

1. Read how many rows have passed so far.
2. Let rows pass until there are n.
3. If any row passed, put the new number into the state; commit.

    limit(5)     batch 0: 3 rows, 3 pass, state 3     batch 1: 4 rows, 2 pass, state 5     batch 2: none passes

In complete mode, a limit above the aggregation limits the result of each batch, and is Spark SQL's own; a limit below the
aggregation limits the stream, as in append mode.

Differs from Spark: the limit of a stream stays in a batch in which this stream has no new rows. In such a batch, Spark's
optimizer removes the limit, and with it its state, so the next batch finds no state and ends the query. Therefore the plan of
a query with a limit is the same whichever of its sources have new rows.
Shown by tests/spark/test_differences.py::test_a_limit_stays_in_a_batch_without_rows_for_it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, NullType, StructField, StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.jvm import expressions, physical, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import concat
from minispark_stream.engine.operators.explained import COUNT, Decision, Entry
from minispark_stream.engine.operators.metrics import StateMetrics
from minispark_stream.engine.operators.state_task import OperatorWatermarks, StateTask, Stopwatch
from minispark_stream.engine.operators.told import BEYOND, PASSED, Told
from minispark_stream.engine.state.state_store import StateStore

KEY = StructType([StructField("key", NullType())])
VALUE = StructType([StructField("value", LongType())])


@dataclass(frozen=True, kw_only=True)
class StreamingGlobalLimit(StatefulOperator):
    """The driver half."""

    task: GlobalLimit
    tasks: MapPartitions = field(repr=False, compare=False)
    operator_name = "globalLimit"
    passes_rows_on = True

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", KEY, VALUE)]

    def partitions(self, num_partitions: int) -> int:
        return 1

    def entries(self) -> Sequence[Entry]:
        return (Entry({}, [], row=scala.items(self.plan.output())),)

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        return Decision(COUNT, limit=self.task.limit)

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return False

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        task = self.of_batch(context, self.task, self.tasks)
        together = physical.shuffled(context.session, context.rows(children[0]), [], 1)
        return context.leaf(context.map_partitions(self.tasks, together, task))


def compile_global_limit(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> StreamingGlobalLimit:
    """Read the operator off Spark's GlobalLimit node `plan`."""
    columns = expressions.struct_type(scala.items(plan.output()))
    tasks = MapPartitions(session, columns, columns, plan.output())
    task = GlobalLimit(limit=int(plan.limitExpr().value()))
    return StreamingGlobalLimit(operator_id=operator_id, task=task, tasks=tasks, plan=plan, children=children)


@dataclass(frozen=True, kw_only=True)
class GlobalLimit(StateTask):
    """The task half; calling it runs the one partition (for mapInArrow)."""

    limit: int

    def run(self, stores: Sequence[StateStore], batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], StateMetrics]:
        """Process the partition with its open store; returns the rows that pass and what happened."""
        clock = Stopwatch()
        [store] = stores
        [key] = UnsafeRowCodec(KEY).encode([pa.nulls(1)], 1)
        codec = UnsafeRowCodec(VALUE)
        _, known = store.get([key])
        before = codec.decode(known)[0][0].as_py() if known else 0  # (1)
        rows = concat(batches)
        passed = min(rows.num_rows, max(0, self.limit - before))  # (2)
        updates_ms = clock.lap()
        if passed:  # (3)
            store.put([key], codec.encode([pa.array([before + passed])]))
        return [rows.slice(0, passed)], self.committed(
            clock, stores, lambda: (Told(PASSED, rows.slice(0, passed)), Told(BEYOND, rows.slice(passed))),
            num_rows_updated=int(passed > 0), all_updates_time_ms=updates_ms,
        )
