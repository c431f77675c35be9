"""What every stateful operator must provide to the engine.

Models: StateStoreWriter and StatefulOperator (About state): an operator has an id, state stores with schemas, two watermarks
in each batch, and helps to decide whether another batch is worth running.

An operator has two halves. The *driver half* is a `StatefulOperator`, which is made from a node of the query's plan:

1. `metadata` and `schemas` say what the checkpoint contains of its state; both are checked when a query restarts.
2. `plan_batch` plans the operator's task over the rows of a batch. The driver half holds this task; `of_batch` adds which state
   the task works on in the batch.
3. `output_watermark` says what operators above it can rely on. Before the next batch, `should_run_another_batch` says whether
   the operator has work even without data, because time has passed.

The *task half* is a `StateTask` (state_task.py): `mapInArrow` calls it on each partition, where it opens its stores at version
N and commits version N + 1. (An aggregation and a join have another task before it, which only reads.)

    batch 7   plan_batch -> StateStoreSave(info with store_version=7, ...) over 5 partitions -> 8.delta, five times

Differs from Spark: nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, sessions
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.batch_context import BatchContext, StateVariables
from minispark_stream.engine.operators.explained import Explained
from minispark_stream.engine.operators.state_task import StatefulOperatorStateInfo, StateTask
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, StateStoreMetadata
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStoreMetrics

ALWAYS_NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
OfBatch = TypeVar("OfBatch", bound=StateTask)


@dataclass(frozen=True, kw_only=True)
class StatefulOperator(Explained):
    """The driver half of a stateful operator, a node of the template.

    `plan` is Spark's node. The methods that a subclass need not override do what is right for most operators, as do those of
    `Explained`.
    """

    operator_id: int
    plan: JavaObject = field(repr=False, compare=False)
    children: tuple[Any, ...]

    @property
    @abstractmethod
    def operator_name(self) -> str:
        """Spark's short name, as it is in the metadata and in progress reports."""

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

    def of_batch(self, context: BatchContext, task: OfBatch, tasks: MapPartitions, **also: Any) -> OfBatch:
        """(2) A task of the operator, with what it works on in this batch; its rows leave with the types of `tasks`."""
        return replace(
            task, info=self.state_info(context), watermarks=context.watermarks[self.operator_id], output=tasks.arrow_schema,
            metrics=context.accumulators[self.operator_id], **also,
        )

    def state_info(self, context: BatchContext) -> StatefulOperatorStateInfo:
        """The state of the operator in this batch: batch N reads version N and writes version N + 1.

        What is loaded is checked by the schemas of the run's first batch, although the optimizer may have put a join's columns
        in another order in a batch for which a stream has no rows.
        """
        schemas = context.state_schemas
        if self.operator_id not in schemas:
            schemas[self.operator_id] = self.schemas() if context.state_conf.format_validation_enabled else ()
        return StatefulOperatorStateInfo(
            state_dir=context.state_dir, operator_id=self.operator_id, store_version=context.batch_id,
            num_partitions=self.partitions(context.num_partitions),
            conf=context.state_conf,
            unique_ids=(context.unique_ids or {}).get(str(self.operator_id), ()),
            schemas=schemas[self.operator_id],
            checks_values=self.checks_values,
            wants_told=context.wants_told,
        )

    def written(self, context: BatchContext) -> dict[int, Mapping[str, StateStoreMetrics]]:
        """The partitions whose next version the tasks have written, and what they said of its stores."""
        return {p: what.stores for p, what in context.accumulators[self.operator_id].value if what.stores}

    def new_unique_ids(self, context: BatchContext) -> list[list[str]]:
        """For each partition, the ids of the files that contain the next version; if a task ran twice, those of the last run.

        Raises:
            RuntimeError: a partition has not been written, because a foreachBatch function has read only a part of the batch.
        """
        written = self.written(context)
        if len(written) != (partitions := self.partitions(context.num_partitions)):
            raise RuntimeError(f"assertion failed: CheckpointInfo length: {len(written)}, numPartitions: {partitions}")
        return [[str(store.unique_id) for _, store in sorted(stores.items())] for _, stores in sorted(written.items())]

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
    def num_cols_prefix_key(self) -> int:
        """How many columns of the key are the prefix of a prefix scan in Spark; 0 if it has none."""
        return 0


def state_schema(session: SparkSession, schema: StructType) -> StructType:
    """The schema of rows in a state store. It allows nulls everywhere, except in checkpoints of Spark 4.2 and older."""
    return expressions.as_nullable(session, schema) if sessions.flag(session, ALWAYS_NULLABLE) else schema
