"""How an aggregation becomes an operator: Spark plans the aggregation, and this module takes that plan apart.

Models: StatefulAggregationStrategy (From query to the plan).

1. Spark's strategy plans the streaming Aggregate. From the top, its plan consists of the final aggregation, save, a merge,
   restore, the partial aggregation, and the place where the new rows come in.
2. Save and restore are replaced by our own tasks. The other operators are kept, but they no longer ask for a shuffle.
3. If one of the keys is a session window, the operator is a SessionWindowAggregation, otherwise a StreamingAggregation.

    groupBy("k").avg("v")     final [k] <- save [k] <- merge [k] <- restore [k] <- merge [k] <- partial [k] <- new rows
    keys (k), values (sum, count)

Differs from Spark: state in format 1, the format of Spark 2.3, is refused; today, Spark writes it only if an internal conf says
so.
Shown by tests/spark/test_differences.py::test_what_only_the_model_refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from minispark_stream.engine.jvm import expressions, physical, scala, sessions
from minispark_stream.engine.jvm.expressions import without_names
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.aggregation.state_store_restore import StateStoreRestore
from minispark_stream.engine.operators.aggregation.state_store_save import StateStoreSave
from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.base import StatefulOperator, state_schema
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.event_times import event_time_column, event_time_names
from minispark_stream.engine.operators.session.session_window import SessionWindowAggregation
from minispark_stream.engine.operators.session.session_window_state_store_restore import SessionWindowStateStoreRestore
from minispark_stream.engine.operators.session.session_window_state_store_save import SessionWindowStateStoreSave
from minispark_stream.engine.operators.session.streaming_session_window_state_manager import (
    SAME_ORDER,
    StreamingSessionWindowStateManager,
)
from minispark_stream.engine.plan.nodes import control_of
from minispark_stream.engine.state.operator_state_metadata import AGGREGATION, AGGREGATION_IN_REAL_TIME

STATE_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"


@dataclass(frozen=True, kw_only=True)
class RefusedAggregation(StatefulOperator):
    """An aggregation that Spark's strategy refuses. As in Spark, the error is raised when the first batch is planned."""

    error: AnalysisException
    operator_name = "stateStoreSave"

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return []

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        raise self.error


def compile_aggregate(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> StreamingAggregation | RefusedAggregation:
    """The operator of the streaming Aggregate `plan`.

    Args:
        children: its child, compiled.

    Raises:
        AnalysisException: the state format of the checkpoint (or, for a new query, of the session) is version 1.
    """
    if sessions.conf(session, STATE_FORMAT) != "2":
        raise AnalysisException(message=f"minispark_stream implements aggregations only with {STATE_FORMAT}=2.")
    try:
        planned = physical.planned_by(session, "StatefulAggregationStrategy", plan)
    except AnalysisException as error:
        return RefusedAggregation(operator_id=operator_id, error=error, plan=plan, children=children)
    final, save, merge, restore, *below, _ = physical.chain(planned)  # (1)
    is_session = scala.class_name(restore) == "SessionWindowStateStoreRestoreExec"
    partial = below if is_session else below[1:]  # without sessions, there is another merge below restore
    grouping = scala.items(merge.groupingExpressions())
    end_of_keys = len(grouping)
    if (control := control_of(merge)) is not None:  # in real-time mode; it is the last one, and not in the state
        grouping = grouping[:-1]
    rows = state_schema(session, expressions.struct_type(scala.items(merge.output())))
    common = {  # (2)
        "operator_id": operator_id,
        "tasks": MapPartitions(session, rows, rows, merge.output()),
        "event_time": event_time_column(grouping),
        "event_times": event_time_names(grouping),
        "partial": tuple(reversed(partial)),
        "merge": physical.without_distribution(session, merge),
        "final": physical.without_distribution(session, final),
        "plan": plan,
        "children": children,
    }
    width = len(grouping)
    if not is_session:  # (3)
        keys, values = StructType(rows.fields[:width]), StructType(rows.fields[end_of_keys:])
        unnamed = without_names(keys), without_names(values)
        return StreamingAggregation(
            operator_name=AGGREGATION if control is None else AGGREGATION_IN_REAL_TIME,
            restore=StateStoreRestore(keys=unnamed[0], values=unnamed[1]),
            save=StateStoreSave(keys=unnamed[0], values=unnamed[1], event_time=common["event_time"]),
            keys=keys,
            values=values,
            shuffle_keys=tuple(grouping),
            **common,
        )
    position = [a.exprId().id() for a in grouping].index(save.sessionExpression().exprId().id())
    without_session = [i for i in range(width) if i != position]
    start = StructField("sessionStartTime", TimestampType(), nullable=False)
    keys = state_schema(session, StructType([*(rows.fields[i] for i in without_session), start]))
    state = StreamingSessionWindowStateManager(without_names(keys), without_names(rows), position)
    sorts = all(rows.fields[i].dataType in SAME_ORDER for i in without_session)
    return SessionWindowAggregation(
        restore=SessionWindowStateStoreRestore(state=state, event_time=common["event_time"], sorts=sorts),
        save=SessionWindowStateStoreSave(state=state, event_time=common["event_time"]),
        keys=keys,
        values=rows,
        shuffle_keys=tuple(grouping[i] for i in without_session),
        session=position,
        order=restore.requiredChildOrdering().head(),
        is_sorted_by_task=sorts,
        **common,
    )
