"""A query of real Structured Streaming, seen from Python: what PySpark's handle does not say.

    look_at(query)      ->  SparkQuery(checkpoint="file:/data/checkpoint", output_mode="append", plan="Aggregate ...")

Models: StreamExecution.resolvedCheckpointRoot, outputMode and analyzedPlan.
Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.streaming import StreamingQuery


class SparkQuery(NamedTuple):
    """Where the checkpoint of a query is, its output mode in small letters, and its analysed plan as text."""

    checkpoint: str
    output_mode: str
    plan: str


def look_at(query: StreamingQuery) -> SparkQuery:
    """Ask a query that runs or has ended."""
    execution = query._jsq.streamingQuery()
    return SparkQuery(
        checkpoint=str(execution.resolvedCheckpointRoot()),
        output_mode=str(execution.outputMode().toString()).lower(),
        plan=str(execution.analyzedPlan().toString()),
    )
