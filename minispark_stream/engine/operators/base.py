"""What every stateful operator must provide to the engine.

Models: StateStoreWriter and StatefulOperator (About state): an operator has an id, state stores with schemas, two watermarks
in each batch, and a say in whether another batch is worth running.

An operator has two halves. The *driver half* is a `StatefulOperator`, made once from the template plan:

1. `metadata` and `schemas` are what the checkpoint says about its state; both are checked when a query restarts.
2. `plan_batch` puts a task around the rows of a batch. Which state the task works on comes from `BatchContext.state_info`.
3. `output_watermark` says what the operators above it may rely on, and before the next batch `should_run_another_batch` says
   whether time alone gives the operator work.

The *task half* is a `StateTask` (state_task.py): `mapInArrow` calls it on each partition, it opens its stores at version N and
commits version N + 1. (An aggregation and a join have another task before it, which only reads.)

    batch 7   plan_batch -> StateStoreSave(info with store_version=7, ...) over 5 partitions -> 8.delta, five times

Differs from Spark: nothing.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.accumulators import Accumulator
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.checkpointing.unsafe_row.plain import decode_rows
from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala, sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.decision import VALUES, Decision, Entry
from minispark_stream.engine.operators.metrics import Report
from minispark_stream.engine.operators.state_task import OfTask, OperatorWatermarks, StatefulOperatorStateInfo
from minispark_stream.engine.operators.told import EMITTED, FIRED
from minispark_stream.engine.state.operator_state_metadata import OperatorStateMetadata, StateStoreMetadata
from minispark_stream.engine.state.state_store import StateStoreConf

ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
ALWAYS_NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"


@dataclass(frozen=True)
class StateVariables:
    """What a processor of transformWithState has declared: the schemas that it gave as text; and what the metadata of its
    operator says of that: properties, and in which files the schemas of its column families are. `families`: what these say.
    """

    schemas: Mapping[str, StructType]
    properties: Mapping[str, Any]
    schema_paths: tuple[str, ...]
    families: Sequence[Sequence[Any]] = ()


@dataclass(frozen=True)
class BatchContext:
    """All that the plan of a batch depends on besides its data.

    `executed` collects the physical plans of the batch, what is below a stateful operator before what is above it: the metrics
    of all of them are the batch's. `began` collects how many seconds Spark took to begin each of them. `state_variables`
    remembers what the processors of transformWithState have declared, by operator id: every batch of a run is given the same
    dictionary. `allow_multiple` is `spark.sql.streaming.statefulOperator.allowMultiple`: whether the watermarks are those of
    several operators, or of one.
    `unique_ids`: in which files the state is that the batch begins with, by operator; None in checkpoint format 1. `tells`: see
    StatefulOperatorStateInfo.
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
    began: list[float] = field(default_factory=list)
    state_variables: dict[int, StateVariables] = field(default_factory=dict)
    unique_ids: Mapping[str, Any] | None = None
    tells: bool = False

    def rows(self, child: JavaObject) -> JavaObject:
        """The batch plan of a child as a physical plan."""
        return query_execution.planned(self.session, child)

    def map_partitions(self, tasks: MapPartitions, rows: JavaObject, task: Any, gathered: bool = False) -> JavaObject:
        """What `task` emits for each partition of a physical plan's rows, as a physical plan.

        When the rows are `gathered`, it begins when the task below has ended, if possible in its worker
        (engine/jvm/state_rdd.py).
        """
        return tasks.over(self._rdd(rows), task, gathered)

    def leaf(self, rows: JavaObject, in_one_partition: bool = False) -> JavaObject:
        """What a physical plan puts out, as a leaf of the batch's plan."""
        return plans.leaf_over(self.session, self._rdd(rows), rows.output(), False, in_one_partition)

    def answer(self, plan: JavaObject) -> JavaObject:
        """The rows of the whole batch, an RDD: of its plan from the top down to the operators, which are planned already."""
        return self._rdd(query_execution.planned_as_answer(self.session, plan))

    def _rdd(self, rows: JavaObject) -> JavaObject:
        """The rows of a physical plan. Code is compiled and tables are broadcast for that, which is no planning any more."""
        executable = query_execution.prepared(self.session, rows)
        self.executed.append(executable)
        began = time.monotonic()
        rdd = executable.execute()
        self.began.append(time.monotonic() - began)
        return rdd

    def of_task(self, operator: StatefulOperator, tasks: MapPartitions) -> OfTask:
        """What a task of an operator is given in this batch, whatever it does; its rows leave as those of `tasks`."""
        return {
            "info": self.state_info(operator),
            "watermarks": self.watermarks[operator.operator_id],
            "output": tasks.arrow_schema,
            "metrics": self.accumulators[operator.operator_id],
        }

    def state_info(self, operator: StatefulOperator) -> StatefulOperatorStateInfo:
        """(2) The state of an operator in this batch: batch N reads version N and writes version N + 1."""
        return StatefulOperatorStateInfo(
            state_dir=self.state_dir,
            operator_id=operator.operator_id,
            store_version=self.batch_id,
            num_partitions=operator.partitions(self.num_partitions),
            conf=self.state_conf,
            unique_ids=(self.unique_ids or {}).get(str(operator.operator_id), ()),
            tells=self.tells,
        )

    def new_unique_ids(self, operator: StatefulOperator) -> list[list[str]]:
        """For each partition, in which files the tasks have written the next version; of a task that ran twice, the last ones.

        Raises:
            RuntimeError: a partition has not been written, as when a foreachBatch function reads only a part of the batch.
        """
        written = {p: what.stores for p, what in self.accumulators[operator.operator_id].value if what.stores}
        if len(written) != (partitions := operator.partitions(self.num_partitions)):
            raise RuntimeError(f"assertion failed: CheckpointInfo length: {len(written)}, numPartitions: {partitions}")
        return [[str(store.unique_id) for _, store in sorted(stores.items())] for _, stores in sorted(written.items())]


@dataclass(frozen=True, kw_only=True)
class StatefulOperator(ABC):
    """The driver half of a stateful operator, a node of the template.

    `plan` is Spark's node. What a subclass does not override is what most operators do.
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
        """(1) Store name, key schema and value schema of each store."""

    @property
    def store_names(self) -> Sequence[str]:
        return [name for name, _, _ in self.schemas()]

    @property
    def checks_values(self) -> bool:
        """Whether the value schema, too, must be that of the checkpoint."""
        return True

    @abstractmethod
    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        """The operator's rows in this batch, given the batch plans of its children."""

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        """Keys and values of a store as the trace shows them: each with the name of its `store`, its `key` and its `value`."""
        [(keys, values)] = [(keys, values) for name, keys, values in self.schemas() if name == store]
        decoded = (decode_rows(UnsafeRowCodec(schema), part) for schema, part in zip((keys, values), zip(*rows)))
        return [{"store": store, "key": key, "value": value} for key, value in zip(*decoded)]

    def without_indexes(self, rows: Mapping[bytes, bytes], batch: BatchContext) -> Mapping[bytes, bytes]:
        """The rows of a store that are state, without those by which the engine only finds others."""
        return rows

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        """The parts of the rows that its tasks tell of (told.py), by name, in order; mostly of those that come in."""
        return {"row": expressions.struct_type(self.entries()[side].row)}

    def entries(self) -> Sequence[Entry]:
        """How rows come in, for each input; none where they cannot be followed."""
        return ()

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        """What decides about rows and state in a batch with these watermarks."""
        return Decision(VALUES, self.late_ms(watermarks))

    @property
    def lateness(self) -> EventTime | None:
        """The column by which rows are late; None: none is, whatever the watermark."""
        return None

    def late_ms(self, watermarks: OperatorWatermarks) -> int | None:
        """Up to when rows are late."""
        return None if self.lateness is None else watermarks.late_ms

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        """(3) Whether there is work without data, now that the watermark has come from `eviction_ms` to `watermark_ms`."""
        return watermark_ms > eviction_ms

    def output_watermark(self, watermark_ms: int) -> int | None:
        """(3) What the operator's output is not older than, when its input has `watermark_ms`; None: no promise."""
        return watermark_ms

    def partitions(self, num_partitions: int) -> int:
        """How many partitions the state has in a query with `num_partitions`."""
        return num_partitions

    def metadata(self, num_partitions: int, variables: StateVariables | None) -> OperatorStateMetadata:
        """(1) What `state/<operator>/_metadata` says about this operator, and the state variables that it has declared."""
        stores = tuple(StateStoreMetadata(name, self.num_cols_prefix_key, num_partitions) for name, _, _ in self.schemas())
        return OperatorStateMetadata(self.operator_id, self.operator_name, stores)

    @property
    def passes_rows_on(self) -> bool:
        """Whether its output are rows of its input, in the batch in which they come, unless it drops them."""
        return False

    @property
    def num_cols_prefix_key(self) -> int:
        """How many columns of the key a prefix scan would go by; 0 where Spark has none."""
        return 0


def by_key(session: SparkSession, rows: JavaObject, keys: Sequence[JavaObject], num_partitions: int) -> JavaObject:
    """The rows of a physical plan, shuffled by their keys (StatefulOpClusteredDistribution).

    Raises:
        IllegalArgumentException: there are no keys.
    """
    if not keys:
        distribution = "StatefulOpClusteredDistribution"
        raise IllegalArgumentException(f"requirement failed: The expressions for hash of a {distribution} should not be Nil")
    return physical.shuffled(session, rows, keys, num_partitions)


def parts_of_function(what: str, keys: StructType, result: StructType) -> Mapping[str, StructType] | None:
    """Of a function of the user's: the parts of what it gave, and of the keys whose timers fired; None for what came in."""
    return {EMITTED: {"row": result, "key": keys}, FIRED: {"key": keys}}.get(what)


def event_time_column(attributes: Sequence[JavaObject]) -> EventTime | None:
    """The first column that carries a watermark."""
    for i, attribute in enumerate(attributes):
        if attribute.metadata().contains("spark.watermarkDelayMs"):
            return EventTime(i, is_window=scala.class_name(attribute.dataType()) == "StructType")
    return None


def event_time_names(attributes: Sequence[JavaObject]) -> tuple[str, ...]:
    """The columns that carry a watermark, as Spark prints them; a column that is there twice is one column."""
    return tuple(dict.fromkeys(str(a.toString()) for a in attributes if a.metadata().contains("spark.watermarkDelayMs")))


def check_event_time(session: SparkSession, names: Sequence[str]) -> None:
    """At most one of an operator's columns may carry a watermark; `names` are those that do.

    Raises:
        AnalysisException: MULTIPLE_EVENT_TIME_COLUMNS, unless `statefulOperator.allowMultiple` is off: then the first counts.
    """
    if len(names) > 1 and sessions.flag(session, ALLOW_MULTIPLE):
        raise analysis_error(session, "MULTIPLE_EVENT_TIME_COLUMNS", eventTimeCols=f"({','.join(names)})")


def state_schema(session: SparkSession, schema: StructType) -> StructType:
    """The schema of rows as a state store has them: with nulls everywhere. What Spark 4.2 and older wrote was not so."""
    return nullable(schema) if sessions.flag(session, ALWAYS_NULLABLE) else schema


def nullable(schema: StructType) -> StructType:
    """The same schema, where nulls may be everywhere."""
    def relax(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: True if k in ("nullable", "containsNull", "valueContainsNull") else relax(v) for k, v in node.items()}
        return [relax(v) for v in node] if isinstance(node, list) else node

    return StructType.fromJson(relax(schema.jsonValue()))
