"""The trace of a query of real Structured Streaming: what it has done so far, without a change to its code.

    query = spark.readStream ... .start()         any code, on real Structured Streaming
    trace_of(query).draw(batch=3)                 while it runs, or after it has ended
    trace_of("progress.jsonl").timeline()         reports that somebody saved or pasted (tools/reports.py)

1. A query of the model records its own trace.
2. For real Structured Streaming, the JVM says where the checkpoint is; the progress reports of the query and the log files of
   the checkpoint become the same events (spark_trace.py). Over Spark Connect there is no JVM to ask (tools/held_query.py).
3. Reports alone become a trace without log entries and files; with `checkpoint`, what it still has is added.

A query keeps only its newest reports, and a temporary checkpoint is deleted when its query stops: `Trace.note` says what is
missing. A listener that is added before the query starts has everything (trace_listener.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minispark_stream.lens.trace.trace import Trace
from minispark_stream.tools.compare.spark_batch import spark_batches
from minispark_stream.tools.compare.spark_trace import spark_trace
from minispark_stream.tools.held_query import as_model_query, error_of, is_query, look, reports
from minispark_stream.tools.reports import is_saved, read_saved, the_one

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def trace_of(
    query: StreamingQuery | str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    checkpoint: str | Path | None = None,
    name: str | None = None,
) -> Trace:
    """The trace of every batch that a query still knows, with `draw`, `stepper`, `event_time` and others.

    Args:
        query: a query of real Structured Streaming (also over Spark Connect) or of the model, running or ended; or progress
            reports: a file of them, their text, or a list such as `query.recentProgress`.
        checkpoint: where the checkpoint is. A classic session knows it; over Spark Connect, only a stateful query says it.
        name: the name or the id of the query, if there are reports of several.

    Returns:
        the trace as of now. The trace of a model query with `trace="rows"` contains rows. Spark reports neither rows
        nor the watermarks of its operators, so its trace has no `join`, `sessions` and `watermarks`.

    Raises:
        TypeError: `query` is neither a query nor reports.
        FileNotFoundError: there is no such file.
        ValueError: the file has no reports, or those of several queries.
    """
    given: Any = query
    where = None if checkpoint is None else str(checkpoint)
    if is_saved(given) or isinstance(given, (str, Path)):  # (3)
        saved = the_one(read_saved(given), name)
        return spark_trace(spark_batches(where, saved.reports), saved.name, error=saved.error)
    if not is_query(given):
        wanted = "the StreamingQuery that start() returned, or progress reports"
        raise TypeError(f"trace_of takes {wanted}, not {type(given).__name__}")
    if (own := as_model_query(given)) is not None:
        return own.trace  # (1)
    seen, error = look(given, where), error_of(given)  # (2)
    batches = spark_batches(seen.checkpoint, reports(given), seen.source_names, seen.real_time_ms > 0)
    return spark_trace(batches, given.name, seen.plan or None, error)
