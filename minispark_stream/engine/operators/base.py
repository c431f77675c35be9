"""What every stateful operator must provide to the engine.

Models: StateStoreWriter and StatefulOperator (About state): an operator has an id, state stores with schemas, two watermarks
in each batch, and helps to decide whether another batch is worth running.

An operator has two halves. The *driver half* is a `StatefulOperator`, which is made from a node of the query's plan:

1. `metadata` and `schemas` say what the checkpoint contains of its state; both are checked when a query restarts.
2. `plan_batch` plans the operator's task over the rows of a batch. `BatchContext.state_info` says which state the task works
   on.
3. `output_watermark` says what operators above it can rely on. Before the next batch, `should_run_another_batch` says whether
   the operator has work even without data, because time has passed.

The *task half* is a `StateTask` (state_task.py): `mapInArrow` calls it on each partition, where it opens its stores at version
N and commits version N + 1. (An aggregation and a join have another task before it, which only reads.)

    batch 7   plan_batch -> StateStoreSave(info with store_version=7, ...) over 5 partitions -> 8.delta, five times

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, sessions
from minispark_stream.engine.jvm.errors import as_captured
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.decision import VALUES, Decision, Entry
from minispark_stream.engine.operators.metrics import Report
from minispark_stream.engine.operators.state_task import OfTask, OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.operators.told import EMITTED, FIRED
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, StateStoreMetadata
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStoreConf, StateStoreMetrics

ALWAYS_NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"


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
    id; all batches of a run share this dictionary. `unique_ids` are the ids of the files that the batch begins with, by
    operator, in checkpoint format 2. For `wants_told`, see StatefulOperatorStateInfo. `observed` makes of a task the one
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
        """The physical plan of the rows that `task` emits for each partition of another physical plan, `rows`.

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

    def leaf(self, rows: JavaObject, in_one_partition: bool = False, of_inputs: bool = False) -> JavaObject:
        """The rows of a physical plan as a leaf of the batch's plan; mostly a task has emitted them (else: `of_inputs`)."""
        return plans.leaf_over(self.session, self._rdd(rows, of_inputs), rows.output(), False, in_one_partition)

    def answer(self, plan: JavaObject) -> JavaObject:
        """The rows of the whole batch as an RDD. `plan` is the part of its plan above the operators, which are leaves in it."""
        return self._rdd(query_execution.planned_as_answer(self.session, plan), of_inputs=True)

    def _rdd(self, rows: JavaObject, of_inputs: bool) -> JavaObject:
        """The rows of a physical plan. Spark compiles code and broadcasts tables here, which does not count as planning."""
        executable = query_execution.prepared(self.session, rows)
        self.executed.append(executable)
        if of_inputs:
            self.of_inputs.append(executable)
        began = time.monotonic()
        rdd = executable.execute()
        self.began.append(time.monotonic() - began)
        return rdd

    def of_task(self, operator: StatefulOperator, tasks: MapPartitions) -> OfTask:
        """The arguments that every task of an operator takes in this batch; its rows leave with the types of `tasks`."""
        number = operator.operator_id
        return {
            "info": self.state_info(operator), "watermarks": self.watermarks[number], "output": tasks.arrow_schema,
            "metrics": self.accumulators[number],
        }

    def state_info(self, operator: StatefulOperator) -> StatefulOperatorStateInfo:
        """(2) The state of an operator in this batch: batch N reads version N and writes version N + 1."""
        return StatefulOperatorStateInfo(
            state_dir=self.state_dir, operator_id=operator.operator_id, store_version=self.batch_id,
            num_partitions=operator.partitions(self.num_partitions),
            conf=self.state_conf,
            unique_ids=(self.unique_ids or {}).get(str(operator.operator_id), ()),
            schemas=operator.schemas() if self.state_conf.format_validation_enabled else (),
            checks_values=operator.checks_values,
            wants_told=self.wants_told,
        )

    def written(self, operator: StatefulOperator) -> dict[int, Mapping[str, StateStoreMetrics]]:
        """The partitions whose next version the tasks have written, and what they said of its stores."""
        return {p: what.stores for p, what in self.accumulators[operator.operator_id].value if what.stores}

    def new_unique_ids(self, operator: StatefulOperator) -> list[list[str]]:
        """For each partition, the ids of the files that contain the next version; if a task ran twice, those of the last run.

        Raises:
            RuntimeError: a partition has not been written, because a foreachBatch function has read only a part of the batch.
        """
        written = self.written(operator)
        if len(written) != (partitions := operator.partitions(self.num_partitions)):
            raise RuntimeError(f"assertion failed: CheckpointInfo length: {len(written)}, numPartitions: {partitions}")
        return [[str(store.unique_id) for _, store in sorted(stores.items())] for _, stores in sorted(written.items())]


@dataclass(frozen=True, kw_only=True)
class StatefulOperator(ABC):
    """The driver half of a stateful operator, a node of the template.

    `plan` is Spark's node. The methods that a subclass need not override do what is right for most operators.
    """

    operator_id: int
    plan: JavaObject = field(repr=False, compare=False)
    children: tuple[Any, ...]

    @property
    @abstractmethod
    def operator_name(self) -> str:
        """Spark's short name, as it is in the metadata and in progress reports."""

    @abstractmethod
    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        """(1) The name, key schema and value schema of each store."""

    @property
    def store_names(self) -> Sequence[str]:
        return [name for name, _, _ in self.schemas()]

    @property
    def checks_values(self) -> bool:
        """Whether not only the key schema but also the value schema must fit that of the checkpoint."""
        return True

    def begin_run(self, context: BatchContext) -> None:
        """What an operator learns, and may refuse, before the first batch of a run reads anything."""

    def refusal(self, session: SparkSession, output_mode: str) -> PySparkException | None:
        """The error with which each task refuses to run; None if none does."""
        return None

    @abstractmethod
    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        """The operator's rows in this batch, given the batch plans of its children."""

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        """Rows of a store as the trace shows them: dictionaries with the name of the `store`, the `key` and the `value`."""
        [(keys, values)] = [(keys, values) for name, keys, values in self.schemas() if name == store]
        decoded = (decode_rows(UnsafeRowCodec(schema), part) for schema, part in zip((keys, values), zip(*rows)))
        return [{"store": store, "key": key, "value": value} for key, value in zip(*decoded)]

    def without_indexes(self, rows: Mapping[bytes, bytes], batch: BatchContext) -> Mapping[bytes, bytes]:
        """The rows of a store without those that are only an index to others."""
        return rows

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        """The schemas of the rows that its tasks report as `what` (told.py), by name; mostly these are rows of the input."""
        return {"row": expressions.struct_type(self.entries()[side].row)}

    @property
    def functions(self) -> Sequence[Mapping[str, Any]]:
        """The aggregate functions whose buffers are the last columns of its values (expressions.aggregate_functions)."""
        return ()

    def entries(self) -> Sequence[Entry]:
        """How rows come in, for each input; empty if they cannot be followed."""
        return ()

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        """The rules for rows and state in a batch with these watermarks."""
        return Decision(VALUES, self.late_ms(watermarks))

    @property
    def lateness(self) -> EventTime | None:
        """The column whose time decides whether a row is late; None if no row ever is."""
        return None

    def late_ms(self, watermarks: OperatorWatermarks) -> int | None:
        """Rows up to this time are late; None if no row ever is."""
        return None if self.lateness is None else watermarks.late_ms

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        """(3) Whether there is work without data, now that the watermark has moved from `eviction_ms` to `watermark_ms`."""
        return watermark_ms > eviction_ms

    def output_watermark(self, watermark_ms: int) -> int | None:
        """(3) The watermark of the operator's output if that of its input is `watermark_ms`; None if it has none."""
        return watermark_ms

    def partitions(self, num_partitions: int) -> int:
        """How many partitions the operator's state has in a query with `num_partitions`."""
        return num_partitions

    def metadata(self, num_partitions: int, variables: StateVariables | None) -> OperatorStateMetadata:
        """(1) What `state/<operator>/_metadata` says about this operator and the state variables that it has declared."""
        if variables is not None:
            store = StateStoreMetadata(DEFAULT_STORE_NAME, 0, num_partitions, variables.schema_paths)
            return OperatorStateMetadata(self.operator_id, self.operator_name, (store,), variables.properties)
        stores = tuple(StateStoreMetadata(name, self.num_cols_prefix_key, num_partitions) for name, _, _ in self.schemas())
        return OperatorStateMetadata(self.operator_id, self.operator_name, stores)

    @property
    def passes_rows_on(self) -> bool:
        """Whether its output consists of rows of its input, which leave in the batch in which they come or never."""
        return False

    @property
    def num_cols_prefix_key(self) -> int:
        """How many columns of the key are the prefix of a prefix scan in Spark; 0 if it has none."""
        return 0


def parts_of_function(what: str, keys: StructType, result: StructType) -> Mapping[str, StructType] | None:
    """`parts_of_told` of a user's function: for rows that it returned and for keys whose timers fired; None for other rows."""
    return {EMITTED: {"row": result, "key": keys}, FIRED: {"key": keys}}.get(what)


def state_schema(session: SparkSession, schema: StructType) -> StructType:
    """The schema of rows in a state store. It allows nulls everywhere, except in checkpoints of Spark 4.2 and older."""
    return expressions.as_nullable(session, schema) if sessions.flag(session, ALWAYS_NULLABLE) else schema
