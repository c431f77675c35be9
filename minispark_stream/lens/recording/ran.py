"""When the tasks of a batch ran, and when rows passed them (level "rows" of the trace).

Models: nothing of Spark, which shows the tasks of a stage in its UI.

    {"stages": [[[0, 1710000000012, 1710000000345]]], "clock": 1710000000360}      number, beginning and end of each task
    {"stages": ..., "receivers": 1, "ways": [{"from": 0, "rows": "a", "read": ...}], "clock": ...}      of real-time mode

1. A sink that previews the batch says when the batch itself was computed: other jobs of the same batch only show rows.
2. Times are in ms since the epoch; `clock` is the time at the end of the step, by which they find their places in the trace.
3. In real-time mode, the tasks of two stages are those of one job, in which the `receivers` come first. They also report the
   `ways` of rows (extras/real_time/ways.py).
4. Their first rows are shown here, those of the sources as well, because only now they are known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from minispark_stream.engine.jvm.ran_tasks import of_batch
from minispark_stream.engine.runtime.stream_execution import StreamExecution
from minispark_stream.lens.recording.previews import PreviewSink, harmless, preview


def ran(query: StreamExecution) -> Mapping[str, Any]:
    """`tasks`, if they are known; and in real-time mode the `rows` that were written, and those that were `read`."""
    batch_id = query.context.batch_id
    stages = harmless(lambda: of_batch(query.session, query.run_id, batch_id), "the tasks of this batch cannot be shown")
    of_tasks = query.pipelines()  # (3)
    shown = _first_rows(query, of_tasks.pop("first rows", {}))
    if stages is None:
        return shown
    begun_ms, ended_ms = query.sink.ran_ms if isinstance(query.sink, PreviewSink) else (0.0, float("inf"))  # (1)
    own = ([task for task in tasks if begun_ms <= task.began_ms <= ended_ms] for tasks in stages)
    found = {"stages": [[list(task) for task in tasks] for tasks in own if tasks], **of_tasks}
    return {"tasks": {**found, "clock": round(time.time() * 1000, 1)}, **shown}  # (2)


def _first_rows(query: StreamExecution, rows: Mapping[int | None, DataFrame]) -> Mapping[str, Any]:  # (4)
    """`rows` are those of each source by its number, and those that were written (None)."""
    shown = harmless(lambda: {number: preview(some) for number, some in rows.items()})
    if not shown:
        return {}
    read = {query.sources.name_of(query.sources[number]): some for number, some in shown.items() if number is not None}
    return {"rows": shown.get(None, []), "read": read}
