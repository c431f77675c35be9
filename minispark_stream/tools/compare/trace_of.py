"""The trace of a query of real Structured Streaming: what it has done so far, without a change to its code.

    query = spark.readStream ... .start()         any code, on real Structured Streaming
    trace_of(query).draw(batch=3)                 while it runs, or after it has ended

1. A query of the model records its own trace.
2. For real Structured Streaming, the JVM says where the checkpoint is; the progress reports of the query and the log files of
   the checkpoint become the same events (spark_trace.py).

A query keeps only its newest reports, and a temporary checkpoint is deleted when its query stops: `Trace.note` says what is
missing. A listener that is added before the query starts has everything (trace_listener.py).
"""

from __future__ import annotations

from pyspark.sql.streaming import StreamingQuery

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.queries import look_at
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.streaming_query import StreamingQuery as ModelQuery
from minispark_stream.tools.compare.spark_batch import spark_batches
from minispark_stream.tools.compare.spark_trace import spark_trace


def trace_of(query: StreamingQuery) -> Trace:
    """The trace of every batch that a query still knows, with `draw`, `stepper`, `event_time` and others.

    Args:
        query: a query of real Structured Streaming or of the model, running or ended.

    Returns:
        the trace as of now. The trace of a model query with `trace="rows"` contains rows. Spark reports neither rows
        nor the watermarks of its operators, so its trace has no `join`, `sessions` and `watermarks`.

    Raises:
        TypeError: `query` is not a query.
    """
    if isinstance(query, ModelQuery):
        return query.trace  # (1)
    sessions.refuse_connect("trace_of", "query", query, "live(query) works over Connect, too")
    if not isinstance(query, StreamingQuery):
        raise TypeError(f"trace_of takes the StreamingQuery that start() returned, not {type(query).__name__}")
    seen, error = look_at(query), query.exception()  # (2)
    batches = spark_batches(seen.checkpoint, query.recentProgress, seen.source_names, seen.is_real_time)
    return spark_trace(batches, query.name, seen.plan, None if error is None else str(error))
