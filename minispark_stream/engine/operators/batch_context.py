"""What the plan of a batch depends on besides its data, and the physical plans of which it consists.

Models: IncrementalExecution, its arguments and the physical plans that it makes (Execution flow, steps 5 to 8).

1. `map_partitions` puts a task over the rows of a physical plan, and `leaf` takes the rows that the task emits into a plan. So
   the plan of a batch consists of parts, with a task between each two of them.
2. The context collects the parts in the order in which they are made, from the bottom up. When the batch has run, their metrics
   are those of the batch.

    a windowed count    executed: files -> partial aggregation -> shuffle,    merge,    merge,    final aggregation

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import physical, plans, query_execution
from minispark_stream.engine.jvm.errors import as_captured
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.metrics import Report
from minispark_stream.engine.operators.state_task import OperatorWatermarks
from minispark_stream.engine.state.state_store import StateStoreConf


@dataclass(frozen=True)
class StateVariables:
    """The state variables that a processor of transformWithState has declared.

    `schemas` are the schemas of the variables. The metadata of the operator describes them by its `properties`, and names the
    files (`schema_paths`) that contain the schemas of its column families. `families` is what is in these files. `fields` are
    those of the variables, each as `variable.field type`; `ttl_ms` is the time to live of the variables that have one.
    """

    schemas: Mapping[str, StructType]
    properties: Mapping[str, Any]
    schema_paths: tuple[str, ...]
    families: Sequence[Sequence[Any]] = ()
    fields: Sequence[str] = ()
    ttl_ms: Mapping[str, int] = field(default_factory=dict)
    in_avro: bool = False


@dataclass(frozen=True)
class BatchContext:
    """All that the plan of a batch depends on besides its data.

    `allow_multiple` is the conf `spark.sql.streaming.statefulOperator.allowMultiple`: whether each operator has watermarks of
    its own. `executed` collects the physical plans of the batch, from the bottom up, and `of_inputs` those of them that may
    read a source or a table: what a batch has read and observed is in the metrics of these. `began` collects how many seconds
    Spark took to begin each plan. `state_variables` has what the processors of transformWithState have declared, by operator
    id; all batches of a run share this dictionary. So they do with `state_schemas`, in which the first of them puts what the
    first rows of its stores must look like. `unique_ids` are the ids of the files that the batch begins with, by operator, in
    checkpoint format 2. For `wants_told`, see StatefulOperatorStateInfo. `observed` makes of a task the one
    that is given to Spark (Observer.task).
    """

    session: SparkSession
    batch_id: int
    timestamp_ms: int
    state_dir: str
    state_conf: StateStoreConf
    output_mode: str
    num_partitions: int
    watermarks: Mapping[int, OperatorWatermarks]
    allow_multiple: bool
    accumulators: Mapping[int, Accumulator[list[Report]]]
    executed: list[JavaObject] = field(default_factory=list)
    of_inputs: list[JavaObject] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    state_variables: dict[int, StateVariables] = field(default_factory=dict)
    state_schemas: dict[int, Sequence[tuple[str, StructType, StructType]]] = field(default_factory=dict)
    unique_ids: Mapping[str, Any] | None = None
    wants_told: bool = False
    observed: Callable[[Any], Any] = lambda task: task

    def rows(self, child: JavaObject) -> JavaObject:
        """The batch plan of a child as a physical plan."""
        return query_execution.planned(self.session, child)

    def map_partitions(
        self, tasks: MapPartitions, rows: JavaObject, task: Any, gathered: bool = False, of_inputs: bool = True,
        refusal: PySparkException | None = None,
    ) -> JavaObject:
        """(1) The physical plan of the rows that `task` emits for each partition of another physical plan, `rows`.

        Some operators of Spark find out in their tasks that they must refuse to run: then each partition raises the `refusal`.

        If the rows are `gathered`, the task only begins when the task below has ended, and if possible in the same worker
        (engine/jvm/state_rdd.py). Such rows come from a task, so no plan over them is one `of_inputs`, nor is one over a `cut`.
        """
        error = None if refusal is None else as_captured(refusal)._origin
        return tasks.over(self._rdd(rows, of_inputs and not gathered), self.observed(task), gathered, error)

    def cut(self, rows: JavaObject) -> JavaObject:
        """The rows of a physical plan that reads inputs, as a plan with nothing below it.

        Spark sends an aggregation to each of its tasks with the plan below it, and each task answers with the metrics of both.
        """
        return physical.scan(self.session, self._rdd(rows, of_inputs=True), rows.output())

    def leaf(self, rows: JavaObject, partitioning: JavaObject = None, of_inputs: bool = False) -> JavaObject:
        """(1) The rows of a physical plan as a leaf of the batch's plan; mostly a task has emitted them (else: `of_inputs`)."""
        return plans.leaf_over(self.session, self._rdd(rows, of_inputs), rows.output(), False, partitioning)

    def answer(self, plan: JavaObject) -> JavaObject:
        """The rows of the whole batch as an RDD. `plan` is the part of its plan above the operators, which are leaves in it."""
        return self._rdd(query_execution.planned_as_answer(self.session, plan), of_inputs=True)

    def _rdd(self, rows: JavaObject, of_inputs: bool) -> JavaObject:
        """The rows of a physical plan. Spark compiles code and broadcasts tables here, which does not count as planning."""
        executable = query_execution.prepared(self.session, rows)
        self.executed.append(executable)  # (2)
        if of_inputs:
            self.of_inputs.append(executable)
        began = time.monotonic()
        rdd = executable.execute()
        self.began.append(time.monotonic() - began)
        return rdd
