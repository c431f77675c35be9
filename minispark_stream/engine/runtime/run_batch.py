"""Run one batch: steps 4 to 10 of the execution flow.

Models: MicroBatchExecution.runBatch (Execution flow; From query to the plan, "Plan execution").

    (4)  getBatch         each source with new data returns a plan; nothing is read yet
    (5)  ... (8)          the new data is put into the template plan, and this is planned: IncrementalExecution
    (9)  addBatch         the sink acts on the rows: only now does a job read, compute and write them
    (10) commitOffsets    the watermark moves, then the batch is written into the commit log

    batch 2, files (1, 2]  ->  3 rows in  ->  state version 2 becomes 3  ->  1 row out  ->  commits/2, watermark 12:04

Each step passes its result on to the next one: the new data, the plan over it, the context with what the batch did. If a step
raises an error, the batch is in the offset log but not in the commit log, so a restart runs it again. The same is true if the
query is stopped before (10).

If a foreachBatch function reads only a part of its batch, some state may not be written. Then the query fails, but only after
(10): a restart does not run the batch again, and the next batch fails, because it does not find the state. In checkpoint format
2, the query fails in (9), because the ids of the files are missing, and a restart runs the batch again.

Differs from Spark: in Spark, a foreachBatch function that calls `stop()` gets an InterruptedException, and if it catches that,
the batch is committed. Here it gets none, and the batch is not committed.
Shown by tests/spark/test_differences.py::test_a_foreach_batch_function_that_ignores_a_stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from minispark_stream.engine.checkpointing.commit_log import CommitMetadata
from minispark_stream.engine.jvm import plans
from minispark_stream.engine.jvm.errors import concurrent_stream_log_update
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.observer import step
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.running_query import RunningQuery
from minispark_stream.engine.runtime.watermark_tracker import MeasuredWatermark
from minispark_stream.engine.sources.base import Offset, Source


@step("runBatch")
def run_batch(query: RunningQuery, context: MicroBatchExecutionContext) -> MicroBatchExecutionContext:
    """Run the batch that has been constructed, or that was found unfinished in the log."""
    new_data = get_batches(query, context)  # (4)
    execution = plan_batch(query, context, new_data)  # (5) to (8)
    query.start_maintenance(execution)  # if there is state: snapshots and clean-up, in the background
    query.check_not_stopped()  # stop() may have come while the driver planned; after this there are Spark jobs to cancel
    context = add_batch(query, context, execution)  # (9)
    query.check_not_stopped()  # stop() may have come in the sink, when there was no job to cancel
    context = update_watermark(query, context, execution)
    commit_offsets(query, context)  # (10)
    if query.sink.calls_function:  # a partition that it has not read has no next version of its state
        query.planner.verify_commits(execution)
    return context


def get_batches(query: RunningQuery, context: MicroBatchExecutionContext) -> dict[int, JavaObject]:
    """For each source with new rows, the plan over these, by the number of the source."""
    return {
        ordinal: plans.analyzed(get_batch(query, query.sources[ordinal], context.start_offsets.get(ordinal), end))
        for ordinal, end in context.end_offsets.items()
        if end != context.start_offsets.get(ordinal)
    }


@step("getBatch")
def get_batch(query: RunningQuery, source: Source, start: Offset | None, end: Offset) -> DataFrame:
    return source.get_batch(start, end)


@step("queryPlanning")
def plan_batch(
    query: RunningQuery, context: MicroBatchExecutionContext, new_data: Mapping[int, JavaObject]
) -> IncrementalExecution:
    """One Spark plan for this batch: the template, with the new data in the place of the sources."""
    execution = query.planner.plan(context, new_data)
    query.reporter.move(execution.began_ms, "queryPlanning", "addBatch")  # in this time, Spark began to run plans
    return execution


@step("addBatch")
def add_batch(
    query: RunningQuery, context: MicroBatchExecutionContext, execution: IncrementalExecution
) -> MicroBatchExecutionContext:
    """Pass the rows to the sink, whose action runs the plan, and with it the stateful operators."""
    data = execution.sized_batch() if query.sink.calls_function else execution.next_batch
    num_output_rows = query.sink.add_batch(context.batch_id, data)
    state_operators = tuple(state_operator(query, execution, operator) for operator in execution.template.operators)
    return replace(
        context, execution=execution, num_output_rows=num_output_rows, state_operators=state_operators,
        new_unique_ids=None if context.unique_ids is None else execution.new_unique_ids(),
    )


@step("stateOperator")
def state_operator(query: RunningQuery, execution: IncrementalExecution, operator: StatefulOperator) -> dict[str, Any]:
    """What a stateful operator did with its state in this batch, as an entry of the progress report."""
    return execution.state_operator_progress(operator)


@step("updateWatermark")
def update_watermark(
    query: RunningQuery, context: MicroBatchExecutionContext, execution: IncrementalExecution
) -> MicroBatchExecutionContext:
    """The watermark of the next batch follows from the event times that were measured in this one."""
    stats = execution.event_time_stats()
    measured = [
        MeasuredWatermark(node.node_id, stats[node.observation], node.delay_ms)
        for node in execution.template.watermarks
        if node.observation in stats
    ]
    return replace(
        context,
        watermark_tracker=context.watermark_tracker.update_watermark(measured),
        event_time_stats=tuple(one.stats for one in measured),
    )


@step("commitOffsets")
def commit_offsets(query: RunningQuery, context: MicroBatchExecutionContext) -> CommitMetadata:
    """Write into the commit log that the batch is done: a restart will not run it again."""
    metadata = CommitMetadata(context.watermark_tracker.current_watermark, context.new_unique_ids)
    if not query.commit_log.add(context.batch_id, metadata):
        raise concurrent_stream_log_update(context.batch_id)
    return metadata
