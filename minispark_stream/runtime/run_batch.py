"""Run one batch: steps 4 to 10 of the execution flow.

Models: MicroBatchExecution.runBatch (Execution flow; From query to the plan, "Plan execution").

    (4)  getBatch        each source with new data gives a plan; nothing is read
    (5)  ... (8)         the template plan is filled in and planned: IncrementalExecution
    (9)  addBatch        the sink's action is the one job that reads, computes and writes
    (10) commitOffsets   the watermark moves, then the batch is entered in the commit log

Differs from Spark: nothing, but that steps 5 to 8 happen in `IncrementalExecution` (see there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import SparkRuntimeException

from minispark_stream.checkpointing.commit_log import CommitMetadata
from minispark_stream.jvm import plans
from minispark_stream.jvm.errors import spark_error
from minispark_stream.jvm.scala import JavaObject
from minispark_stream.runtime.construct_next_batch import concurrent_update
from minispark_stream.runtime.incremental_execution import IncrementalExecution
from minispark_stream.runtime.previews import preview, state_rows
from minispark_stream.sinks.foreach_batch import ForeachBatchSink

if TYPE_CHECKING:
    from minispark_stream.runtime.micro_batch_execution import MicroBatchExecution


def run_batch(query: MicroBatchExecution) -> None:
    """Run the batch that has been constructed (or found unfinished in the log)."""
    with query.reporter.step(
        "runBatch", batchId=query.batch_id, start=query.described(query.start_offsets),
        end=query.described(query.end_offsets),
    ):
        new_data = _get_batch(query)  # (4)
        execution = _plan(query, new_data)  # (5) to (8)
        _add_batch(query, execution)  # (9)
        _commit(query, execution)  # (10)


def _get_batch(query: MicroBatchExecution) -> dict[int, JavaObject]:
    new_data = {}
    for ordinal, end in query.end_offsets.items():
        start = query.start_offsets.get(ordinal)
        if start == end:
            continue
        source = query.sources[ordinal]
        with query.reporter.step("getBatch", source=source.description, start=start, end=end) as step:
            data = source.get_batch(start, end)
            new_data[ordinal] = plans.analyzed(data)
            if query.recorder.level != "off":
                step.out(files=_files(source, start, end))
            if query.recorder.level == "rows":
                step.out(rows=preview(data))
    return new_data


def _files(source: Any, start: str | None, end: str) -> list[str]:
    return source.files_between(start, end) if hasattr(source, "files_between") else []


def _plan(query: MicroBatchExecution, new_data: dict[int, JavaObject]) -> IncrementalExecution:
    context = query.batch_context()
    shown = context.watermarks.get(0)
    with query.reporter.step(
        "queryPlanning", watermarkLate=shown and shown.late_ms, watermarkEviction=shown and shown.eviction_ms,
        timestamp=query.metadata.batch_timestamp_ms,
    ) as step:
        execution = IncrementalExecution(query.batch_template(), context, new_data)
        query.prepare_state()
        query.last_execution = execution
        if query.recorder.level != "off":
            step.out(
                plan=query.template.text,
                operators=[{"operatorId": op.operator_id, "operator": op.operator_name} for op in query.template.operators],
            )
    return execution


def _add_batch(query: MicroBatchExecution, execution: IncrementalExecution) -> None:
    operators = query.template.operators
    show = query.recorder.level == "rows"
    before = {op.operator_id: state_rows(query, op, query.batch_id) for op in operators} if show else {}
    with query.reporter.step("addBatch", sink=query.sink.description, batchId=query.batch_id) as step:
        data = execution.next_batch.persist() if show else execution.next_batch
        query.num_output_rows = query.sink.add_batch(query.batch_id, data)
        if show:
            step.out(rows=preview(data), emitted=data.count())
            data.unpersist()
        _verify_commits(query, execution)
        query.state_operators = execution.state_operators()
        for op, metrics in zip(operators, query.state_operators):
            with query.reporter.step(
                "stateOperator", operatorId=op.operator_id, operator=op.operator_name, outputMode=query.output_mode,
                version=query.batch_id,
            ) as state:
                state.out(metrics=metrics)
                if show:
                    state.out(before=before[op.operator_id], after=state_rows(query, op, query.batch_id + 1))
        step.out(numOutputRows=query.num_output_rows)


def _verify_commits(query: MicroBatchExecution, execution: IncrementalExecution) -> None:
    """Every partition of every operator must have written its version: a function that reads only a part breaks the state.

    Only foreachBatch can do so. Another sink may rightly do nothing: the file sink skips a batch that it has already.
    """
    if not isinstance(query.sink, ForeachBatchSink):
        return
    if query.conf("spark.sql.streaming.stateStore.commitValidation.enabled") == "false":
        return
    operators = query.template.operators
    expected = {(op.operator_id, p) for op in operators for p in range(op.partitions(query.num_partitions))}
    done = {(op.operator_id, p) for op in operators for p, _ in execution.context.accumulators[op.operator_id].value}
    if missing := sorted(expected - done):
        raise spark_error(
            query.session, SparkRuntimeException, "STATE_STORE_COMMIT_VALIDATION_FAILED", batchId=str(query.batch_id),
            expectedCommits=str(len(expected)), actualCommits=str(len(done)),
            missingCommits=", ".join(f"(operatorId={o}, partitionId={p})" for o, p in missing),
        )


def _commit(query: MicroBatchExecution, execution: IncrementalExecution) -> None:
    with query.progress_lock:
        query.update_watermark(execution)
        metadata = CommitMetadata(query.watermark_tracker.current_watermark)
        with query.reporter.step("commitOffsets", file=f"commits/{query.batch_id}") as step:
            if not query.commit_log.add(query.batch_id, metadata):
                raise concurrent_update(query.batch_id)
            step.out(text=query.commit_log.serialize(metadata).decode())
        query.committed_offsets = {**query.committed_offsets, **query.end_offsets}
