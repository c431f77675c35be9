"""Why did a query emit nothing? The question can be asked about a query of either engine, or about a checkpoint.

    explain_output("/data/checkpoint")        a checkpoint alone
    explain_output(query)                     of the model or of real Structured Streaming, running or not

A query of the model answers the question itself. For a query of Spark, the JVM knows where the checkpoint is and which output
mode the query has, and the rest is in the checkpoint and in the progress reports (tools/inspection/why_no_output.py).

Differs from Spark: Spark has no such answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from minispark_stream.tools.inspection.why_no_output import OutputExplanation, explain_checkpoint, explain_query

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def explain_output(query_or_checkpoint: StreamingQuery | str | Path) -> OutputExplanation:
    """What a query has in its state, what it dropped, which watermark it waits for, and what would have to arrive.

    Args:
        query_or_checkpoint: a query of the model or of Spark, or the path of a checkpoint as `inspect` takes it.

    Returns:
        the answer, which prints as text and is shown as a table in Jupyter.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: the directory is not a checkpoint.
        TypeError: the argument is something else, such as a DataFrame that no query runs.
    """
    if isinstance(query_or_checkpoint, (str, Path)):
        return explain_checkpoint(str(query_or_checkpoint))

    from minispark_stream.engine.jvm import sessions
    from minispark_stream.engine.jvm.queries import look_at  # a query has PySpark; a checkpoint is read without it
    from minispark_stream.streaming_query import StreamingQuery as ModelQuery

    if isinstance(query_or_checkpoint, ModelQuery):
        return query_or_checkpoint.explain_output()
    by_path = "explain_output of the checkpoint's path works for any query"
    sessions.refuse_connect("explain_output of a query", "query_or_checkpoint", query_or_checkpoint, by_path)
    if not hasattr(query_or_checkpoint, "recentProgress"):
        wanted = "a query, as start() returns it, or the path of a checkpoint"
        raise TypeError(f"explain_output takes {wanted}, not {query_or_checkpoint!r}")
    seen = look_at(query_or_checkpoint)
    return explain_query(
        query_or_checkpoint, seen.checkpoint, seen.output_mode, plan=seen.plan, measured=seen.watermarks,
        interval_ms=seen.interval_ms,
    )
