"""The progress report of a trigger, in Spark's format.

Models: ProgressContext.finishTrigger and StreamingQueryProgress (SIGMOD'18 paper, section 7.4).
The JSON has the same keys as Spark's.

1. After a batch, it reports the rows and offsets of each source, event times and watermark, and what the state operators and
   the sink counted.
2. Without a batch, it reports every `spark.sql.streaming.noDataProgressEventInterval` (10 s) the same, but without rows.

    {"batchId": 2, "numInputRows": 3, "durationMs": {"addBatch": 310, ...}, "eventTime": {"watermark": "...12:04:00.000Z"}, ...}

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from minispark_stream.engine.jvm.progress import metrics_as_json
from minispark_stream.engine.observer import step
from minispark_stream.engine.runtime.micro_batch_execution_context import MicroBatchExecutionContext
from minispark_stream.engine.runtime.running_query import RunningQuery
from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats
from minispark_stream.engine.sources.base import Offset
from minispark_stream.engine.state.state_files import LAST_UPLOADED
from minispark_stream.engine.times import iso_time


@step("finishTrigger")
def finish_trigger(query: RunningQuery, context: MicroBatchExecutionContext) -> dict[str, Any]:
    """(1) The report of a batch."""
    assert context.execution is not None
    rows = context.num_input_rows
    if rows is None:
        rows = context.execution.num_input_rows() if context.is_new_data_available() else {}
    times = event_time(
        context.event_time_stats, context.metadata.batch_watermark_ms, bool(context.watermark_tracker.operators)
    )
    progress = _progress(query, context, rows, times)
    if (observed := context.execution.metrics_of_user()) and (metrics := metrics_as_json(observed)):
        progress["observedMetrics"] = metrics
    return progress


def quiet_progress(query: RunningQuery, context: MicroBatchExecutionContext) -> dict[str, Any]:
    """(2) The report of a trigger without a batch."""
    last = context.previous or context
    times = event_time([], context.metadata.batch_watermark_ms, bool(last.event_time_stats))
    progress = _progress(query, context, {}, times)
    progress["stateOperators"] = [_quiet(operator) for operator in last.state_operators]
    progress["sink"]["numOutputRows"] = -1 if last.num_output_rows is None else 0
    return progress


# In the report of a stateful operator, these entries say what a batch did; the others say what is in the state.
_DONE = (
    "numRowsUpdated", "allUpdatesTimeMs", "numRowsRemoved", "allRemovalsTimeMs", "commitTimeMs", "numRowsDroppedByWatermark",
)


def _quiet(operator: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a stateful operator that has done nothing since (StateOperatorProgress.copyForNoExecution)."""
    of_state = (LAST_UPLOADED, "stateOnCurrentVersionSizeBytes")
    custom = {name: value if name.startswith(of_state) else 0 for name, value in operator["customMetrics"].items()}
    return {**operator, **dict.fromkeys(_DONE, 0), "customMetrics": custom}


def event_time(stats: Sequence[EventTimeStats], watermark_ms: int, has_watermark: bool) -> Mapping[str, str]:
    """The `eventTime` entry: the event times in the batch, and its watermark. Without a watermark, it is empty."""
    if not has_watermark:
        return {}
    report: dict[str, str] = {}
    for seen in stats:
        if seen.count > 0:  # of several operators, Spark reports only the first one that had a row
            times = {"avg": seen.avg, "max": seen.max, "min": seen.min}
            report = {name: iso_time(ms) for name, ms in times.items()}
            break
    return {**report, "watermark": iso_time(watermark_ms)}


def _progress(
    query: RunningQuery, context: MicroBatchExecutionContext, rows: Mapping[int, int], times: Mapping[str, str]
) -> dict[str, Any]:
    now_ms, reporter = query.clock.get_time_millis(), query.reporter
    total = sum(rows.values())
    return {
        **reporter.query,
        "timestamp": iso_time(reporter.trigger_start_ms),
        "batchId": context.batch_id,
        "batchDuration": now_ms - reporter.trigger_start_ms,
        "numInputRows": total,
        **reporter.rates(total, now_ms),
        "durationMs": reporter.durations(),
        **({"eventTime": times} if times else {}),
        "stateOperators": list(context.state_operators),
        "sources": [
            {
                "description": source.description,
                "startOffset": _json(context.start_offsets.get(i)),
                "endOffset": _json(context.end_offsets.get(i)),
                "latestOffset": _json(context.latest_offsets.get(i)),
                "numInputRows": rows.get(i, 0),
                **reporter.rates(rows.get(i, 0), now_ms),
                **({"metrics": metrics} if (metrics := source.metrics(context.end_offsets.get(i))) else {}),
            }
            for i, source in enumerate(query.sources)
        ],
        "sink": {
            "description": query.sink.description,
            "numOutputRows": -1 if context.num_output_rows is None else context.num_output_rows,
        },
    }


def _json(offset: Offset | None) -> Any:
    """An offset inside a progress report: as JSON if it is JSON, else as its text."""
    if offset is None:
        return None
    try:
        return json.loads(offset)
    except ValueError:
        return offset
