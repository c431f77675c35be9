"""What every stateful operator is to the engine.

Models: StateStoreWriter (About state): an operator has an id, state stores with schemas, two watermarks per batch, and a say
in whether another batch is worth running.

An operator is one file with two halves. The *driver half* is a `StatefulOperator`: made once from the template plan, it
plans a batch around its state (`plan_batch`). The *task half* is a callable that `mapInArrow` runs on each partition: it
opens the stores at version N, works, and commits version N+1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm import scala, sessions
from minispark_stream.jvm.errors import analysis_error
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.operators.metrics import Report
from minispark_stream.state.operator_state_metadata import OperatorStateMetadata
from minispark_stream.state.state_store import StateStoreConf


@dataclass(frozen=True)
class OperatorWatermarks:
    """The two watermarks of a stateful operator in one batch, in milliseconds.

    Rows not after `late_ms` are dropped; state not after `eviction_ms` is removed. They differ because the rows of a
    batch were let in under the watermark of the batch before.
    """

    late_ms: int
    eviction_ms: int


@dataclass(frozen=True)
class BatchContext:
    """All that the plan of a batch depends on besides its data.

    `executed` collects the physical plans of the batch, what is below a stateful operator before what is above it: the
    metrics of all of them are the batch's.
    """

    session: SparkSession
    batch_id: int
    timestamp_ms: int
    state_dir: str
    state_conf: StateStoreConf
    output_mode: str
    num_partitions: int
    watermarks: Mapping[int, OperatorWatermarks]
    accumulators: Mapping[int, Accumulator[list[Report]]]
    executed: list[JavaObject] = field(default_factory=list)

    def of_task(
        self, operator_id: int, output: pa.Schema
    ) -> tuple[str, int, int, StateStoreConf, pa.Schema, Accumulator[list[Report]]]:
        """What every `StateTask` begins with."""
        return self.state_dir, operator_id, self.batch_id, self.state_conf, output, self.accumulators[operator_id]


@runtime_checkable
class StatefulOperator(Protocol):
    """The driver half of a stateful operator, a node of the template."""

    @property
    def operator_id(self) -> int: ...

    @property
    def operator_name(self) -> str: ...

    @property
    def children(self) -> tuple[Any, ...]: ...

    @property
    def empty(self) -> JavaObject:
        """The operator as a batch plan over no rows."""

    def metadata(self, num_partitions: int) -> OperatorStateMetadata:
        """What `state/<operator>/_metadata/metadata` says about this operator."""

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        """Store name, key schema and value schema of each store."""

    def partitions(self, num_partitions: int) -> int:
        """How many partitions the state has."""

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        """Whether the operator has work without data, now that the watermark has come from `eviction_ms` to `watermark_ms`."""

    def output_watermark(self, watermark_ms: int) -> int | None:
        """What the operator's output is not older than, when its input has `watermark_ms`; None: no promise."""

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        """The operator's rows in this batch, given the batch plans of its children."""


def positional(*schemas: StructType) -> StructType:
    """The fields of several schemas, one after the other, under names that cannot clash."""
    result = StructType()
    for i, one in enumerate(f for schema in schemas for f in schema.fields):
        result.add(f"_{i}", one.dataType, True)
    return result


def event_time_column(attributes: Sequence[JavaObject]) -> tuple[int, bool] | None:
    """Position of the first column that carries a watermark, and whether it is a window (whose `end` is what counts)."""
    for i, attribute in enumerate(attributes):
        if attribute.metadata().contains("spark.watermarkDelayMs"):
            return i, scala.class_name(attribute.dataType()) == "StructType"
    return None


def event_time_names(attributes: Sequence[JavaObject]) -> tuple[str, ...]:
    """The columns that carry a watermark, as Spark prints them; a column that is there twice is one column."""
    return tuple(dict.fromkeys(str(a.toString()) for a in attributes if a.metadata().contains("spark.watermarkDelayMs")))


def check_event_time(session: SparkSession, names: Sequence[str]) -> None:
    """At most one of an operator's columns may carry a watermark; `names` are those that do.

    Raises:
        AnalysisException: MULTIPLE_EVENT_TIME_COLUMNS, unless `statefulOperator.allowMultiple` is off: then the first counts.
    """
    if len(names) > 1 and sessions.conf(session, "spark.sql.streaming.statefulOperator.allowMultiple") == "true":
        raise analysis_error(session, "MULTIPLE_EVENT_TIME_COLUMNS", eventTimeCols=f"({','.join(names)})")


def nullable(schema: StructType) -> StructType:
    """State rows may hold nulls everywhere (statefulOperator.alwaysNullableOutput)."""

    def relax(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: True if k in ("nullable", "containsNull", "valueContainsNull") else relax(v) for k, v in node.items()}
        return [relax(v) for v in node] if isinstance(node, list) else node

    return StructType.fromJson(relax(schema.jsonValue()))
