"""A session window aggregation, seen from the driver: shuffled by its keys without the session.

Models: AggUtils.planStreamingAggregationForSession (From query to the plan; About watermark: session windows).

A session is a time window that ends when nothing has happened for a gap: every row opens the session
[ts, ts + gap), and sessions of one key that touch become one. So which session a row belongs to is only known once all
rows of the key are together, those of earlier batches included.

1. Spark's partial aggregation runs over the new rows, by keys and by the session of a single row, [ts, ts + gap).
2. Optionally (conf sessionWindow.merge.sessions.in.local.partition) sessions merge before the shuffle, by Spark's own
   MergingSessionsExec: fewer rows to shuffle.
3. The shuffle is by the keys *without* the session, so that a task sees all sessions of a key.
4. One task per partition merges the new sessions with each other and with those of the state
   (operators/session_window_state_store_save.py).
5. Spark evaluates the functions over the merged buffers.

    gap 5 minutes        12:00 a, 12:03 a, 12:20 a, 12:01 b
    partial aggregation  [12:00, 12:05) a, [12:03, 12:08) a, [12:20, 12:25) a, [12:01, 12:06) b
    sessions             [12:00, 12:08) a count 2, [12:20, 12:25) a count 1, [12:01, 12:06) b count 1

As in Spark, there must be a key besides the session, and `update` mode is refused. Differs from Spark: nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from minispark_stream.jvm import scala, sessions
from minispark_stream.jvm.errors import analysis_error
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.operators.base import BatchContext, StatefulOperator, check_event_time
from minispark_stream.operators.session_window_state_store_save import SessionWindowStateStoreSave
from minispark_stream.operators.streaming_aggregation import StreamingAggregation, compile_aggregation, physical_nodes

MERGE_LOCALLY = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"


@dataclass(frozen=True, kw_only=True)
class SessionWindowAggregation(StatefulOperator):
    """An aggregation whose grouping column number `session` is a session window.

    A row of its state has the grouping columns without the session and the start of the session as its key, and all
    grouping columns and buffers as its value.
    """

    aggregation: StreamingAggregation
    session: int
    operator_name = "sessionWindowStateStoreSaveExec"

    @property
    def keys(self) -> StructType:
        """The grouping columns without the session."""
        return StructType([f for i, f in enumerate(self.aggregation.keys.fields) if i != self.session])

    @property
    def num_cols_prefix_key(self) -> int:
        return len(self.keys.fields)

    def schemas(self) -> list[tuple[str, StructType, StructType]]:
        start = StructField("sessionStartTime", TimestampType())
        values = [*self.aggregation.keys.fields, *self.aggregation.values.fields]
        return [("default", StructType([*self.keys.fields, start]), StructType(values))]

    def should_run_another_batch(self, output_mode: str, eviction_ms: int, watermark_ms: int) -> bool:
        return self.aggregation.should_run_another_batch(output_mode, eviction_ms, watermark_ms)

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session, base = context.session, self.aggregation
        if not self.keys.fields:
            raise analysis_error(session, "_LEGACY_ERROR_TEMP_3068")  # a session window as the only key
        check_event_time(session, base.event_times)
        merge_locally = sessions.conf(session, MERGE_LOCALLY) == "true"
        merged = base.partial_rows(context, children, _merged_in_partition if merge_locally else None)  # (1), (2)
        names = [name for i, name in enumerate(merged.columns[: len(base.keys.fields)]) if i != self.session]
        [(_, state_keys, state_values)] = self.schemas()
        task = SessionWindowStateStoreSave(
            info=context.state_info(self),
            watermarks=context.watermarks[self.operator_id],
            output=base.task_schema,
            metrics=context.accumulators[self.operator_id],
            output_mode=context.output_mode,
            keys=state_keys,
            values=state_values,
            functions=base.functions,
            session=self.session,
            event_time=base.event_time,
        )
        return base.evaluated(session, merged.repartition(task.info.num_partitions, *names), task)  # (3) to (5)


def compile_aggregate(
    session: SparkSession, plan: JavaObject, operator_id: int, children: tuple[Any, ...], empty: JavaObject
) -> StreamingAggregation | SessionWindowAggregation:
    """The operator of an Aggregate; which one depends on whether it groups by a session window.

    Raises: as compile_aggregation.
    """
    aggregation = compile_aggregation(session, plan, operator_id, children, empty)
    by_session = [i for i, f in enumerate(aggregation.keys.fields) if "spark.sessionWindow" in f.metadata]
    if not by_session:
        return aggregation
    return SessionWindowAggregation(
        operator_id=operator_id, aggregation=aggregation, session=by_session[0], plan=plan, empty=empty, children=children
    )


def _merged_in_partition(session: SparkSession, physical: JavaObject, partial: JavaObject) -> JavaObject:
    """(2) Spark's MergingSessionsExec as it would run after the shuffle of a batch query, but without asking for one."""
    merging = next(physical_nodes(physical, "MergingSessionsExec"))
    _, _, _, *rest, _ = (merging.productElement(i) for i in range(merging.productArity()))
    return merging.copy(scala.none(session), False, scala.none(session), *rest, partial)
