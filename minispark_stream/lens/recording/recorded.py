"""What the trace keeps of each step of the engine.

The engine announces a step with its named arguments, and its result when it has ended. `RECORDED` says what the trace keeps of
them: what goes in, from the arguments; and what comes out, from the arguments and the result. lens/steps/ declares both, with
their types.

    get_batch(query, source=..., start=..., end=...)      {"step": "getBatch",
                                                   ->      "inputs": {"source": "0: FileStreamSource[in]", ...},
    returns a DataFrame                                    "outputs": {"files": ["2.csv"]}}

1. At the level "rows", the sink is a PreviewSink, and Spark jobs are run to show rows (previews.py); in real-time mode, tasks
   keep them (ran.py).
2. The trace keeps many batches, so it keeps only the first names of the files of a batch, and how many more there were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog
from minispark_stream.engine.operators.base import StatefulOperator
from minispark_stream.engine.plan.nodes import Node, SourceLeaf, Static, Watermark, fold
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext, Offsets
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.engine.runtime.trigger_executor import ProcessingTimeTrigger, RealTimeTrigger
from minispark_stream.engine.sources.base import ReadLimit
from minispark_stream.lens.recording.arrivals import arrivals, take
from minispark_stream.lens.recording.previews import PreviewSink, harmless, preview, warn_of_nulls
from minispark_stream.lens.recording.ran import ran
from minispark_stream.lens.recording.shown_state import shown_state
from minispark_stream.lens.recording.told import told, where
from minispark_stream.lens.trace.events import MAX_ROWS

Values = Mapping[str, Any]

MAX_FILES = 100  # how many names of files an event shows


def _nothing(*_: Any, **__: Any) -> Values:
    return {}


@dataclass(frozen=True)
class Recorded:
    """`before`: what goes into a step, from (query, **arguments). `after`: what comes out, from the result as well."""

    before: Callable[..., Values] = _nothing
    after: Callable[..., Values] = _nothing


def _trigger(query: StreamExecution) -> Values:
    interval = f"({query.trigger.interval_ms} ms)" if isinstance(query.trigger, ProcessingTimeTrigger) else ""
    return {"trigger": type(query.trigger).__name__ + interval}


def _triggered(query: StreamExecution, ran: bool) -> Values:
    return {"ran": ran, "message": query.status["message"]}


def _logs(query: StreamExecution, context: MicroBatchExecutionContext) -> Values:
    offsets, commits = query.offset_log.get_latest(), query.commit_log.get_latest()
    return {"offsetLog": offsets and offsets[0], "commitLog": commits and commits[0]}


def _logged(log: HDFSMetadataLog[Any], context: MicroBatchExecutionContext, entry: Any) -> Values:
    in_memory = {} if log.is_in_file(context.batch_id) else {"inMemory": True}
    return {"text": log.serialize(entry).decode(), **in_memory}


def _populated(query: StreamExecution, after: MicroBatchExecutionContext, **_: Any) -> Values:
    return {
        "batchId": after.batch_id,
        **_range(query, after),
        "rerun": after.is_current_batch_constructed,
        "watermark": after.watermark_tracker.current_watermark,
    }


def _constructed(query: StreamExecution, after: MicroBatchExecutionContext, **_: Any) -> Values:
    if isinstance(query.trigger, RealTimeTrigger):  # there is always a batch, and where it ends is not known yet
        return {"realTime": True, "run": True, "watermark": after.metadata.batch_watermark_ms}
    return {
        "end": _by_name(query, after.end_offsets),
        "newData": after.is_new_data_available(),
        "anotherBatch": after.another_batch,
        "run": after.is_current_batch_constructed,
        "watermark": after.metadata.batch_watermark_ms,
    }


def _latest(query: StreamExecution, source: Any, start: str | None, limit: ReadLimit) -> Values:
    values = ", ".join(f"{name} {value}" for name, value in vars(limit).items())
    words = f"{type(limit).__name__}({values})" if values else "all available"
    return {"source": query.sources.name_of(source), "start": start, "limit": words}


def _found(query: StreamExecution, found: Any, source: Any, start: str | None, limit: ReadLimit) -> Values:
    end, _ = found
    look = source.last_look(MAX_ROWS)
    return {"end": end, **look, "files": _first(look.get("files", ()))}


def _batch(query: StreamExecution, data: Any, source: Any, start: str | None, end: str) -> Values:
    found: dict[str, Any] = {"files": _first(source.files_between(start, end))}
    if isinstance(query.sink, PreviewSink):
        ordinal = query.sources.number_of(source)
        taken = take(query.session, query.planner.sources, ordinal, query.sources.name_of(source), data)
        if taken is not None:
            query.sink.taken[ordinal] = taken
        rows = harmless(lambda: preview(data)) if taken is None else taken.first(MAX_ROWS, data.columns)
        if rows is not None:
            found["rows"] = rows
            if found["files"] and query.context.batch_id == 0:
                warn_of_nulls(rows, source.description)
    return found


def _first(names: Sequence[str]) -> list[str]:
    """(2) All names if they are few; otherwise the first ones, and one text for the others, "and 19900 more"."""
    more = len(names) - MAX_FILES
    return [*names[:MAX_FILES], f"and {more} more"] if more > 0 else list(names)


def _watermarks(query: StreamExecution, context: MicroBatchExecutionContext, **_: Any) -> Values:
    late_ms, eviction_ms = query.planner.watermarks_of_query(context)
    has_state = query.planner.has_state(context)
    return {
        "watermarkLate": late_ms if has_state else None,
        "watermarkEviction": eviction_ms if has_state else None,
        "timestamp": context.metadata.batch_timestamp_ms,
    }


def _planned(
    query: StreamExecution, execution: IncrementalExecution, context: MicroBatchExecutionContext, **_: Any
) -> Values:
    template, whole = execution.template, query.planner.whole_template(context)
    operators, of_whole = (
        [{"operatorId": op.operator_id, "operator": op.operator_name} for op in one.operators] for one in (template, whole)
    )
    shown = whole if of_whole == operators else template  # a source without new rows is in the whole plan only
    return {"plan": template.text, "operators": operators, "tree": fold(shown.root, partial(_tree, query, execution))}


def _tree(query: StreamExecution, execution: IncrementalExecution, node: Node, children: list[Values | None]) -> Values | None:
    """Where a watermark enters the plan and how it rises, operator by operator; nodes that only pass it on are left out."""
    below = [child for child in children if child is not None]
    match node:
        case Static():
            return None
        case SourceLeaf():
            return {"source": query.sources.name_of(query.sources[node.ordinal])}
        case Watermark():
            return {"watermark": node.column, "delayMs": node.delay_ms, "below": below}
        case StatefulOperator():
            output_ms = execution.batch.watermarks[node.operator_id].output_ms
            return {"operatorId": node.operator_id, "operator": node.operator_name, "output": output_ms, "below": below}
    return below[0] if len(below) == 1 else {"below": below}


def _added(
    query: StreamExecution, after: MicroBatchExecutionContext, context: Any, execution: IncrementalExecution
) -> Values:
    added: dict[str, Any] = {"numOutputRows": after.num_output_rows}
    if isinstance(query.sink, PreviewSink):
        added |= {**query.sink.shown, **arrivals(execution, query.sink.taken)}
        query.sink.taken = {}
    written = query.sink.written or {}
    added["written"] = {**written, "added": _first(written["added"])} if "added" in written else query.sink.written
    return {**added, **(ran(query) if query.observer.wants_told else {})}


def _operator(query: StreamExecution, execution: IncrementalExecution, operator: StatefulOperator) -> Values:
    watermarks = execution.batch.watermarks[operator.operator_id]
    return {
        "operatorId": operator.operator_id,
        "operator": operator.operator_name,
        "outputMode": query.output_mode,
        "version": execution.batch.batch_id,
        "stores": list(operator.store_names),
        "functions": list(operator.functions),
        "watermarkLate": watermarks.late_ms,
        "watermarkEviction": watermarks.eviction_ms,
        "decides": operator.decision(watermarks, query.output_mode).to_json(),
    }


def _operated(
    query: StreamExecution, metrics: Values, execution: IncrementalExecution, operator: StatefulOperator
) -> Values:
    if not query.observer.wants_told:  # (1)
        return {"metrics": metrics}
    rows = harmless(lambda: shown_state(execution.batch, operator))
    decided = harmless(lambda: told(execution, operator))
    kept = {"where": where(execution, operator)}
    return {"metrics": metrics, **(rows or {}), **({} if decided is None else {"told": decided}), **kept}


def _tracked(
    query: StreamExecution, after: MicroBatchExecutionContext, context: Any, execution: IncrementalExecution
) -> Values:
    tracker, stats = after.watermark_tracker, execution.event_time_stats()
    operators = [
        {
            "node": node.column,
            "delayMs": node.delay_ms,
            "watermark": tracker.operators.get(node.node_id),
            **(vars(stats[node.observation]) if node.observation in stats else {}),
        }
        for node in execution.template.watermarks
    ]
    return {"watermark": tracker.current_watermark, "operators": operators}


def _range(query: StreamExecution, context: MicroBatchExecutionContext) -> Values:
    return {"start": _by_name(query, context.start_offsets), "end": _by_name(query, context.end_offsets)}


def _by_name(query: StreamExecution, offsets: Offsets) -> Values:
    return query.sources.by_name(offsets)


RECORDED: Mapping[str, Recorded] = {
    "startQuery": Recorded(
        lambda write, sink: {
            "name": write.name, "outputMode": write.output_mode, "sink": sink.description, "checkpoint": write.shown_checkpoint,
        },
        lambda write, run, sink: {"id": run.id, "runId": run.run_id, "plan": run.plan_text},
    ),
    "trigger": Recorded(_trigger, _triggered),
    "populateStartOffsets": Recorded(_logs, _populated),
    "constructNextBatch": Recorded(lambda query, context: {"start": _by_name(query, context.start_offsets)}, _constructed),
    "latestOffset": Recorded(_latest, _found),
    "walCommit": Recorded(
        lambda query, context, entry: {"file": f"offsets/{context.batch_id}"},
        lambda query, result, context, entry: _logged(query.offset_log, context, entry),
    ),
    "commitSource": Recorded(lambda query, source, end: {"source": query.sources.name_of(source), "end": end}),
    "purge": Recorded(lambda query, before: {"before": before}, lambda query, deleted, before: {"deleted": deleted}),
    "runBatch": Recorded(lambda query, context: {"batchId": context.batch_id, **_range(query, context)}),
    "getBatch": Recorded(
        lambda query, source, start, end: {"source": query.sources.name_of(source), "start": start, "end": end}, _batch
    ),
    "queryPlanning": Recorded(_watermarks, _planned),
    "addBatch": Recorded(
        lambda query, context, execution: {"sink": query.sink.description, "batchId": context.batch_id}, _added
    ),
    "stateOperator": Recorded(_operator, _operated),
    "updateWatermark": Recorded(
        lambda query, context, execution: {
            "policy": context.watermark_tracker.policy, "watermark": context.watermark_tracker.current_watermark,
        },
        _tracked,
    ),
    "commitOffsets": Recorded(
        lambda query, context: {"file": f"commits/{context.batch_id}"},
        lambda query, metadata, context: _logged(query.commit_log, context, metadata),
    ),
    "getStartOffset": Recorded(
        lambda query: {"commitLog": query.commit_log.get_latest_batch_id()},
        lambda query, start: {"epoch": query.context.batch_id, "start": start},
    ),
    "runContinuous": Recorded(),
    "addOffset": Recorded(
        lambda query, epoch, end: {"epoch": epoch, "file": f"offsets/{epoch}"}, lambda query, text, **_: {"text": text.decode()}
    ),
    "commitEpoch": Recorded(
        lambda query, epoch, messages, end: {
            "epoch": epoch, "end": end, "writers": len(messages), "sink": query.sink.description, "file": f"commits/{epoch}",
        }
    ),
    "maintenance": Recorded(
        lambda query, store_id: {
            "operatorId": store_id.operator_id, "partition": store_id.partition_id, "store": store_id.store_name,
        },
        lambda query, result, store_id: {
            "snapshot": result.snapshot, "deleted": list(result.deleted), "bytes": result.num_bytes, "worker": result.worker,
            "fromMemory": result.from_memory, "milliseconds": result.milliseconds,
            **({"tables": dict(result.tables)} if result.tables else {}),
        },
    ),
    "finishTrigger": Recorded(after=lambda query, progress, context: {"progress": progress}),
}
