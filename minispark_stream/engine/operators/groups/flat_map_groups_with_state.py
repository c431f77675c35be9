"""applyInPandasWithState, seen from the driver: a user's function keeps its own state for each key.

Models: the FlatMapGroupsInPandasWithState node and its strategy (SIGMOD'18 paper, 4.3.2: mapGroupsWithState; About state;
From query to the plan).

1. Once: read keys, state schema, timeout and the Python function off Spark's logical node.
2. In each batch: shuffle the rows by key to the partition whose store has the key, and sort them by key.
3. One task per partition calls the function (engine/operators/groups/apply_in_pandas_with_state.py).
4. Is another batch without data worth running? With a processing-time timeout always, because time has passed; with an
   event-time timeout if the watermark has moved; otherwise never.

       mapInArrow ApplyInPandasWithState        state/0/<p>        (3)
         Sort by k
           Repartition by k into N                                 (2)
             new rows

The function is sent as PySpark pickled it when the user called applyInPandasWithState, and the task unpickles it, as Spark's
own worker would.

Differs from Spark: state in format 1, the format of Spark 2.3, is refused; today, Spark writes it only if an internal conf says
so. Right above this operator, the rows may be shuffled; in Spark 4.3.0, this ends the query with a ClassCastException.
Shown by tests/spark/test_differences.py::test_what_only_the_model_refuses,
tests/spark/test_differences.py::test_a_shuffle_right_above_apply_in_pandas_with_state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, physical, scala, sessions
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.base import StatefulOperator, state_schema
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.event_times import check_event_time, event_time_column, event_time_names
from minispark_stream.engine.operators.explained import Entry, parts_of_function
from minispark_stream.engine.operators.groups.apply_in_pandas_with_state import ApplyInPandasWithState
from minispark_stream.engine.operators.groups.group_state_rows import NO_TIMESTAMP, state_row_schema
from minispark_stream.engine.operators.groups.grouped_map_pandas_with_state import PandasConf
from minispark_stream.engine.times import shown_time

STATE_FORMAT = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"


@dataclass(frozen=True, kw_only=True)
class FlatMapGroupsWithState(StatefulOperator):
    """The driver half. `state_rows` is the schema of values in the store; `event_times` are the columns with a watermark."""

    task: ApplyInPandasWithState = field(repr=False)
    state_rows: StructType
    event_times: tuple[str, ...]
    tasks: MapPartitions = field(repr=False, compare=False)
    operator_name = "applyInPandasWithState"

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        return [("default", self.task.keys, self.state_rows)]

    def entries(self) -> Sequence[Entry]:
        columns = scala.items(self.plan.child().output())
        keys = {columns[i].name(): columns[i] for i in self.task.grouping}
        return (Entry.of(keys, [*keys.values()], columns, self.lateness, columns),)

    @property
    def lateness(self) -> EventTime | None:
        return self.task.event_time if self.task.timeout == GroupStateTimeout.EventTimeTimeout else None

    def readable(self, store: str, rows: Sequence[tuple[bytes, bytes]], batch: BatchContext) -> list[dict[str, Any]]:
        """If a key has a timeout, it is shown as a time under the name of its clock."""
        found = super().readable(store, rows, batch)
        clock = "event timeout" if self.task.timeout == GroupStateTimeout.EventTimeTimeout else "clock timeout"
        for row in found:
            ms = row["value"].pop("timeoutTimestamp", NO_TIMESTAMP)
            row["value"] |= {} if ms == NO_TIMESTAMP else {clock: shown_time(ms)}
        return found

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return parts_of_function(what, self.task.keys, self.task.result) or super().parts_of_told(what, side)

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        """(4)"""
        match self.task.timeout:
            case GroupStateTimeout.ProcessingTimeTimeout:
                return True
            case GroupStateTimeout.EventTimeTimeout:
                return watermark_ms > eviction_ms
            case _:
                return False

    def output_watermark(self, watermark_ms: int) -> int | None:
        return None  # the rows that a user's function emits may be older than any watermark

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session = context.session
        check_event_time(session, self.event_times)
        task = self.of_batch(context, self.task, self.tasks, batch_timestamp_ms=context.timestamp_ms)
        keys = scala.items(self.plan.productElement(1))
        shuffled = physical.by_key(session, context.rows(children[0]), keys, task.info.num_partitions)  # (2)
        sorted_rows = physical.sorted_by(session, shuffled, keys)
        return context.leaf(context.map_partitions(self.tasks, sorted_rows, task))  # (3)


def pandas_conf(session: SparkSession) -> PandasConf:
    """How the rows of a query are converted to pandas and back."""
    return PandasConf.from_conf(partial(sessions.conf, session), partial(sessions.conf_bytes, session))


def compile_flat_map_groups_with_state(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...]
) -> FlatMapGroupsWithState:
    """(1) Read the operator off Spark's FlatMapGroupsInPandasWithState node `plan`; `children` is its compiled child.

    Raises:
        LookupError: the state has no columns.
        AnalysisException: the state format of the checkpoint (or, for a new query, of the session) is version 1.
    """
    if sessions.conf(session, STATE_FORMAT) != "2":
        raise AnalysisException(message=f"minispark_stream implements applyInPandasWithState only with {STATE_FORMAT}=2.")
    udf, grouping, _, state, _, timeout, child = (plan.productElement(i) for i in range(7))
    columns = scala.items(child.output())
    position = {column.exprId().id(): i for i, column in enumerate(columns)}
    key_columns = [columns[position[key.exprId().id()]] for key in scala.items(grouping)]
    schema, result = expressions.struct_type(columns), expressions.struct_type(scala.items(plan.output()))
    state, timeout = expressions.python_schema(state), str(timeout.toString())
    if not state.fields:
        raise LookupError("head of empty list")  # Spark's words for a state without columns
    return FlatMapGroupsWithState(
        operator_id=operator_id,
        task=ApplyInPandasWithState(
            command=expressions.command(session, udf),
            columns=schema,
            grouping=tuple(position[key.exprId().id()] for key in key_columns),
            keys=state_schema(session, expressions.struct_type(key_columns)),
            state=state,
            result=result,
            timeout=timeout,
            event_time=event_time_column(columns),
            pandas=pandas_conf(session),
        ),
        state_rows=state_schema(session, state_row_schema(state, timeout != GroupStateTimeout.NoTimeout)),
        event_times=event_time_names(columns),
        tasks=MapPartitions(session, schema, result, plan.output(), udf.func()),
        plan=plan,
        children=children,
    )
