"""transformWithState and transformWithStateInPandas: refused, as Spark refuses them on the default state store.

Models: TransformWithStateInPySparkExec on the HDFSBackedStateStoreProvider (About state; SIGMOD'18 paper, 4.3.2).

A StatefulProcessor has any number of named state variables (values, lists, maps, timers). Each of them is a column family
of one store, and of Spark's state store providers only RocksDB's has column families:

1. Spark analyses the query and starts it: nothing is wrong with it as such.
2. In the first batch, when its offsets are logged, the state stores are opened and their provider refuses.
3. The query ends; with another provider it could go on from its checkpoint.

    provider               Spark                                          here
    HDFSBacked (default)   STORE_BACKEND_NOT_SUPPORTED_FOR_TWS            the same
    RocksDB                runs                                           UNSUPPORTED_FEATURE.STATE_STORE_PROVIDER

Differs from Spark: there is no RocksDB provider here, so there is nothing on which transformWithState runs. Spark also lets
the processor declare its variables before it refuses, and leaves their schemas in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.errors import spark_error
from minispark_stream.operators.base import BatchContext
from minispark_stream.plan.catalyst import JavaObject
from minispark_stream.state.schema_files import OperatorStateMetadata
from minispark_stream.state.state_store import HDFS_PROVIDER


@dataclass(frozen=True)
class TransformWithState:
    """The node of the plan; it has no state that could be opened."""

    operator_id: int
    operator_name: str
    empty: JavaObject = field(repr=False, compare=False)
    children: tuple[Any, ...]

    def metadata(self, num_partitions: int) -> OperatorStateMetadata:
        return OperatorStateMetadata(self.operator_id, self.operator_name, ())

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return []

    def partitions(self, num_partitions: int) -> int:
        return num_partitions

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return False

    def output_watermark(self, watermark_ms: int) -> int | None:
        return watermark_ms

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> NoReturn:
        """(2)"""
        condition = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
        raise spark_error(context.session, UnsupportedOperationException, condition, stateStoreProvider=HDFS_PROVIDER)


def compile_transform_with_state(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...], empty: JavaObject
) -> TransformWithState:
    """(1)"""
    in_pandas = str(plan.userFacingDataType().toString()).lower() == "pandas"
    return TransformWithState(
        operator_id, f"transformWithStateIn{'Pandas' if in_pandas else 'PySpark'}Exec", empty, children
    )
