"""A query of real Structured Streaming, seen from Python: what PySpark's handle does not say.

    checkpoint_and_mode(query)      ->  ("/data/checkpoint", "append")

Models: StreamExecution.resolvedCheckpointRoot and outputMode.
Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql.streaming import StreamingQuery


def checkpoint_and_mode(query: StreamingQuery) -> tuple[str, str]:
    """Where the checkpoint of a running or ended query is, and its output mode in small letters."""
    execution = query._jsq.streamingQuery()
    return str(execution.resolvedCheckpointRoot()), str(execution.outputMode().toString()).lower()
