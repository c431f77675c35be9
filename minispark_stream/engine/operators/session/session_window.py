"""A session window aggregation, seen from the driver: shuffled by its keys without the session.

Models: AggUtils.planStreamingAggregationForSession (From query to the plan).

A session is a time window that ends when nothing has happened for a certain gap: every row opens the session
[ts, ts + gap), and sessions of the same key that overlap or touch are merged. So it is only known which session a row belongs
to when all rows of the key are together, including those of earlier batches.

1. Spark's partial aggregation runs over the new rows, by their keys and the session of each row, [ts, ts + gap). With the conf
   sessionWindow.merge.sessions.in.local.partition, Spark already merges sessions before the shuffle, so fewer rows are
   shuffled.
2. The shuffle is by the keys *without* the session, so that a task gets all sessions of a key, sorted by key and session. If
   the keys have types that Arrow sorts as Spark does, the task of (3) sorts them, because Spark takes longer.
3. A task per partition inserts the sessions of the state among the new ones
   (engine/operators/session/session_window_state_store_restore.py).
4. Spark's MergingSessionsExec merges the sessions that overlap or touch. It takes them in the order of the task's output, in
   which a session of the state comes before a new one with the same start, even if it ends later.
5. A second task per partition saves and emits (engine/operators/session/session_window_state_store_save.py).
6. Spark evaluates the functions over the buffers.

    gap 5 minutes        12:00 a, 12:03 a, 12:20 a, 12:01 b
    partial aggregation  [12:00, 12:05) a, [12:03, 12:08) a, [12:20, 12:25) a, [12:01, 12:06) b
    sessions             [12:00, 12:08) a count 2, [12:20, 12:25) a count 1, [12:01, 12:06) b count 1

As in Spark, there must be a key besides the session, and `update` mode is refused.
Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import physical, scala
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.columns import EventTime
from minispark_stream.engine.operators.event_times import several_event_times
from minispark_stream.engine.operators.explained import SESSIONS, Decision, Entry
from minispark_stream.engine.operators.state_task import OperatorWatermarks


@dataclass(frozen=True, kw_only=True)
class SessionWindowAggregation(StreamingAggregation):
    """An aggregation in which the grouping column at position `session` is a session window.

    The key of a state row consists of the grouping columns without the session, and the start of the session; the value has all
    grouping columns and buffers. `order` is the sort order of the rows in a partition; `is_sorted_by_task`: who sorts them.
    """

    session: int
    order: JavaObject = field(repr=False, compare=False)
    is_sorted_by_task: bool
    operator_name: str = "sessionWindowStateStoreSaveExec"
    in_words = "session window aggregations"

    @property
    def num_cols_prefix_key(self) -> int:
        return len(self.keys) - 1

    def entries(self) -> Sequence[Entry]:
        grouping = scala.items(self.plan.groupingExpressions())
        by = [column for i, column in enumerate(grouping) if i != self.session]
        session = EventTime(self.session, is_window=True)
        return (Entry.of(dict(zip(self.values.names, grouping)), by, grouping, session),)

    def parts_of_told(self, what: str, side: int) -> Mapping[str, StructType]:
        return {"key": StructType(self.values.fields[: len(self.keys)])}  # the grouping columns; the buffers follow

    def decision(self, watermarks: OperatorWatermarks, output_mode: str) -> Decision:
        late_ms = self.late_ms(watermarks)  # restore drops late rows even in complete mode
        return replace(super().decision(watermarks, output_mode), keeps=SESSIONS, late_ms=late_ms)

    def refusal(self, session: SparkSession, output_mode: str) -> PySparkException | None:
        """As for other aggregations; besides, update mode is refused, because a session that grows becomes another row.

        Even in complete mode there must not be several watermarks, because restore needs the event time.
        """
        if output_mode == "update":
            return spark_error(
                session, UnsupportedOperationException, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", outputMode=output_mode,
                operation="session window streaming aggregations",
            )
        return several_event_times(session, self.event_times) or super().refusal(session, output_mode)

    def plan_batch(self, context: BatchContext, children: Sequence[JavaObject]) -> JavaObject:
        session, refusal = context.session, self.refusal(context.session, context.output_mode)
        restore = self.of_batch(context, self.restore, self.tasks)
        save = self.of_batch(context, self.save, self.tasks, output_mode=context.output_mode)
        new = self.new_rows(context, children[0])  # (1)
        by_key = physical.shuffled(session, new, self.shuffle_keys, self.partitions(context.num_partitions))  # (2)
        rows = by_key if self.is_sorted_by_task else physical.sorted_in_partitions(session, by_key, self.order)
        restored = context.map_partitions(self.tasks, rows, restore, refusal=refusal)  # (3)
        sorted_again = physical.scan(session, restored.execute(), restored.output(), self.order)
        merged = physical.over(session, self.merge, sorted_again)  # (4)
        saved = context.map_partitions(self.tasks, merged, save, gathered=True)  # (5)
        return self.evaluated(context, saved, by_key)  # (6)
