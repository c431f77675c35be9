"""One batch of a query with state in real-time mode: its plan in two pipelines, which run in one job.

Models: IncrementalExecution of a query in real-time mode, the pipelined shuffles of its stages.

1. Below a stateful operator, Spark's plan gets one more column, the partition of each row, and a task that sends the rows
   (streaming_state.py). This is a pipeline of its own, and nothing comes out of it.
2. The rows of the operator are those of a task that receives.
3. The job runs over all partitions of all pipelines, those of the sink first, so that their numbers are those of the rows.
4. A task that waits for others that are not running would wait for ever. So the job only starts if there are free slots for all
   of its tasks.

    dropDuplicates, 2 partitions to read, 3 of the state     3 tasks (receive, write) and 2 tasks (read, send): 5 slots

An aggregation has three parts, as in micro-batches, but each works row by row (low_latency_aggregate.py):

    final [k, number]              evaluates the functions
      what comes back, as the column of the control rows
        merge [k, number]          merges the buffers of a group
          LowLatencyAggregate      receives, and has the state
    SendingTask
      partial [k, number]          makes buffers of each row

What comes back does so from the end of the pipeline. This is the writer or, below another stateful operator, a sender; above
that, the control rows are as they were.

Differs from Spark: if there are not enough free slots, Spark says so at once. Here the job waits for ten seconds, because the
model's own short jobs, which start Python workers, may be about to end. An
aggregation of the results of another one, which Spark refuses if `unsupportedOperationCheck` is on, is refused in any case.
Shown by tests/conformance/test_real_time_state.py::test_what_is_refused.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from minispark_stream.engine.jvm import expressions, physical, plans, scala, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.jvm.expressions import in_arrow
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import MapPartitions
from minispark_stream.engine.operators.aggregation.streaming_aggregation import StreamingAggregation
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.operators.batch_context import BatchContext
from minispark_stream.engine.operators.deduplication.streaming_deduplicate import StreamingDeduplicate
from minispark_stream.engine.operators.event_times import several_event_times
from minispark_stream.engine.plan.nodes import Node, Stateless, Watermark, control_of
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.template import Template
from minispark_stream.extras.jvm.pipelined_stages import (
    PlannedOnce,
    empty_partitions,
    free_slots,
    row_by_row,
    together,
    with_number,
    with_partition,
    with_way_back,
)
from minispark_stream.extras.real_time.channel import Switchboard
from minispark_stream.extras.real_time.low_latency_aggregate import LowLatencyAggregate, StateFromEnd
from minispark_stream.extras.real_time.low_latency_deduplicate import LowLatencyDeduplicate
from minispark_stream.extras.real_time.low_latency_reader import RealTimeWriterTask, ReportsOfReaders
from minispark_stream.extras.real_time.streaming_state import Channel, SendingTask

_OTHERS_END_S = 10  # how long other tasks are given to end, such as those that start Python workers
_LOOK_AGAIN_S = 0.02
_NOTHING = StructType().add("nothing", LongType())


class Pipelines:
    """What all batches of a run have in common.

    `receivers` is the number of tasks of the current batch out of which something comes.
    `pushes`: how many control rows follow rows; `follows`: where tasks report which rows have passed, if they shall.
    """

    def __init__(self, session: SparkSession, pushes: int, follows: ReportsOfReaders | None = None):
        self._session, self.pushes, self._follows, self.receivers = session, pushes, follows, 0
        self._switchboard = Switchboard(sessions.driver_host(session))
        self._sending: dict[int, MapPartitions] = {}
        self._nothing = expressions.new_attributes(session, expressions.java_schema(session, _NOTHING))
        self.number_id = scala.companion(session, "NamedExpression").newExprId()
        self._tasks: dict[int, tuple[StatefulOperator, MapPartitions]] = {}

    def cut_off(self) -> None:
        """The current batch is not to be committed."""
        self._switchboard.cut_off()

    def stop(self) -> None:
        self._switchboard.stop()

    def channel(self, operator: StatefulOperator, rows: JavaObject) -> Channel:
        names = [column.exprId().id() for column in scala.items(rows.output())]
        control = control_of(rows)
        assert control is not None
        return Channel(self._switchboard.ref, operator.operator_id, names.index(control.exprId().id()), self._follows)

    def tasks(self, operator: StatefulOperator, rows: JavaObject) -> MapPartitions:
        """Plans a task that emits rows as those that come in; anew if the plan of the batch is another one."""
        planned_for, tasks = self._tasks.get(operator.operator_id, (None, None))
        if tasks is None or planned_for is not operator:
            schema = expressions.struct_type(scala.items(rows.output()))
            tasks = MapPartitions(self._session, schema, schema, rows.output())
            self._tasks[operator.operator_id] = operator, tasks
        return tasks

    def send(
        self, context: BatchContext, channel: Channel, rows: JavaObject, keys: list[JavaObject], partitions: int,
        of_state: StateFromEnd | None,
    ) -> JavaObject:
        """(1) The RDD of tasks that send the rows of a physical plan to the partition of their keys."""
        numbered = with_partition(self._session, rows, keys, partitions)
        if channel.operator_id not in self._sending:
            schema = expressions.struct_type(scala.items(numbered.output()))
            self._sending[channel.operator_id] = MapPartitions(self._session, schema, _NOTHING, self._nothing)
        sent = context.map_partitions(self._sending[channel.operator_id], numbered, SendingTask(channel, partitions, of_state))
        return context.leaf(sent).rdd()

    def whole_job(self, rows: JavaObject, senders: Sequence[JavaObject]) -> JavaObject:
        """(3) The RDD of the partitions of the rows that are written, and of all senders.

        Raises:
            SparkRuntimeException: there are not enough free slots for all tasks (CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT).
        """
        self._switchboard.forget()
        self.receivers = int(rows.getNumPartitions())
        needed = self.receivers + sum(rdd.getNumPartitions() for rdd in senders)
        until = time.monotonic() + _OTHERS_END_S
        while needed > (slots := free_slots(self._session)) and time.monotonic() < until:  # (4)
            time.sleep(_LOOK_AGAIN_S)
        if needed > slots:
            numbers = {"numTasks": str(needed), "numSlots": str(slots)}
            raise spark_error(self._session, SparkRuntimeException, "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT", **numbers)
        return together(self._session, [rows, *senders])


class PipelinedExecution(IncrementalExecution):
    """The plan of one batch. `senders` are the RDDs of the tasks out of which nothing comes."""

    def __init__(self, pipelines: Pipelines, template: Template, batch: BatchContext, new_data: Mapping[int, JavaObject]):
        self._pipelines = pipelines
        self.senders: list[JavaObject] = []
        self._with_way_back: JavaObject = None  # the column of the control rows above an aggregation
        self._comes_back = StructType()
        self._comes_back_to: Channel | None = None
        super().__init__(template, batch, new_data)

    def _plan(self, node: Node, children: list[JavaObject]) -> JavaObject:
        if isinstance(node, StreamingDeduplicate):
            return self._deduplicate(node, children[0])
        if isinstance(node, StreamingAggregation):
            return self._aggregate(node, children[0])
        if isinstance(node, Stateless | Watermark) and self._with_way_back is not None:
            return plans.with_children(self.batch.session, node.plan.rewriteAttrs(self._with_way_back), children)
        return super()._plan(node, children)

    @cached_property
    def next_batch(self) -> DataFrame:
        """The rows of the batch, with what comes back to an aggregation."""
        if self._comes_back_to is None:
            return super().next_batch
        schema = expressions.python_schema(self.template.schema)
        schema.fields[-1].dataType = self._comes_back
        return plans.rdd_frame(self.batch.session, self.rows, expressions.java_schema(self.batch.session, schema))

    def of_state(self, control: int) -> StateFromEnd | None:
        """What the end of the pipelines planned so far does for an aggregation; `control` is where its control column is."""
        return None if self._comes_back_to is None else StateFromEnd(self._comes_back_to, control)

    def whole_job(self, rows: JavaObject) -> JavaObject:
        """The RDD of all tasks, given that of the rows that are written. The job is to start now."""
        return self._pipelines.whole_job(rows, self.senders)

    def _send(self, channel: Channel, rows: JavaObject, keys: list[JavaObject], partitions: int) -> int:
        """Send rows to an operator; what comes back to an aggregation below it comes from the senders."""
        of_state = self.of_state(channel.control)
        self._comes_back_to = self._with_way_back = None
        self.senders.append(self._pipelines.send(self.batch, channel, rows, keys, partitions, of_state))
        return int(self.senders[-1].getNumPartitions())

    def _aggregate(self, operator: StreamingAggregation, child: JavaObject) -> JavaObject:
        if self._comes_back_to is not None:
            raise AnalysisException(
                message="minispark_stream cannot run an aggregation of the results of another one in real-time mode, because "
                "what comes back to the first one would become a group of the second one. Use a trigger with micro-batches."
            )
        session, context, stages = self.batch.session, self.batch, self._pipelines
        rows = with_number(session, context.rows(child), stages.number_id)
        number = rows.output().last()

        def over(node: JavaObject, below: JavaObject, of_inputs: bool = False, emits_number: bool = True) -> JavaObject:
            rdd = context.leaf(below, of_inputs=of_inputs).rdd()
            return row_by_row(session, node, number, rdd, below.output(), emits_number)

        [partial] = operator.partial
        new = over(partial, rows, of_inputs=True)
        tasks, channel = stages.tasks(operator, new), stages.channel(operator, new)
        partitions = operator.partitions(context.num_partitions)
        task = LowLatencyAggregate(
            **vars(operator.of_batch(context, operator.save, tasks, output_mode=context.output_mode)),
            channel=channel,
            senders=self._send(channel, new, list(operator.shuffle_keys), partitions),
        )
        empty = physical.scan(session, empty_partitions(session, partitions), new.output())
        refusal = operator.refusal(session, context.output_mode)
        grouped = context.map_partitions(tasks, empty, task, of_inputs=False, refusal=refusal)
        merged = over(operator.merge, grouped)
        at = len(operator.keys)
        with_both = with_way_back(session, merged, at)
        from_to = scala.seq(session, [merged.output().apply(at)]).zip(scala.seq(session, [with_both.output().apply(at)]))
        self._with_way_back = scala.companion(session, "AttributeMap").apply(from_to)
        of_state = in_arrow(StructType([*operator.keys.fields, *operator.values.fields]))
        self._comes_back = StructType().add("_0", StringType()).add("_1", expressions.positional(of_state))
        self._comes_back_to = channel
        final = over(operator.final.rewriteAttrs(self._with_way_back), with_both, emits_number=False)
        return context.leaf(final)

    def _deduplicate(self, operator: StreamingDeduplicate, child: JavaObject) -> JavaObject:  # (2)
        session, context = self.batch.session, self.batch
        rows = context.rows(child)
        columns = scala.items(rows.output())
        channel = self._pipelines.channel(operator, rows)
        partitions = operator.partitions(context.num_partitions)
        task = LowLatencyDeduplicate(
            **vars(operator.of_batch(context, operator.task, operator.tasks)),
            channel=channel,
            pushes=self._pipelines.pushes,
            senders=self._send(channel, rows, [columns[i] for i in operator.task.positions], partitions),
        )
        empty = physical.scan(session, empty_partitions(session, partitions), rows.output())
        refusal = several_event_times(session, operator.event_times)
        return context.leaf(context.map_partitions(operator.tasks, empty, task, of_inputs=False, refusal=refusal))


def planned_writer(execution: IncrementalExecution, writer: RealTimeWriterTask, has_control: bool) -> PlannedOnce:
    """The writer over the rows of a batch, which has their control column, of nulls if they have none, as the last one."""
    session, schema = execution.batch.session, expressions.positional(execution.next_batch.schema)
    rows = plans.rdd_frame(session, execution.rows, expressions.java_schema(session, schema))
    if not has_control:
        rows = rows.select("*", F.lit(None).cast("string").alias("control"))
    if isinstance(execution, PipelinedExecution):
        writer = replace(writer, of_state=execution.of_state(len(rows.columns) - 1))
    return PlannedOnce(session, rows.mapInArrow(writer, _NOTHING))
