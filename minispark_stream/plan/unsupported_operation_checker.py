"""What may not run as a stream, and in which output mode.

Models: UnsupportedOperationChecker.checkForStreaming (SIGMOD'18 paper, section 5.1: "the query must be incrementalizable").

1. Output mode and aggregation: `complete` needs an aggregation, because it rewrites the whole result; an aggregation in
   `append` needs a watermark on a grouping column, because without one no result is ever final.
2. Operations that would need the whole stream: sorting outside `complete`, ...

    groupBy("k").count()                                append    refused: no watermark, no final row
    withWatermark("ts", ..).groupBy(window("ts"))       append    allowed: a window is final when the watermark passes it
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from minispark_stream.errors import analysis_error
from minispark_stream.plan import catalyst
from minispark_stream.plan.catalyst import JavaObject


def check_for_streaming(session: SparkSession, plan: JavaObject, output_mode: str) -> None:
    """Refuse what Spark refuses, with Spark's condition.

    Raises:
        AnalysisException: the plan or the combination with the output mode is not supported.
    """
    aggregates = [node for node in _streaming_nodes(plan) if catalyst.class_name(node) == "Aggregate"]
    if output_mode == "complete" and not aggregates:
        _unsupported_mode(session, output_mode, "no streaming aggregations")
    if output_mode == "append" and any(not _has_event_time(node) for node in aggregates):
        _unsupported_mode(session, output_mode, "streaming aggregations without watermark")
    for node in _streaming_nodes(plan):
        if catalyst.class_name(node) == "Sort" and not (output_mode == "complete" and aggregates):
            raise analysis_error(
                session, "_LEGACY_ERROR_TEMP_3102",
                msg="Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset "
                "in Complete output mode",
            )


def _streaming_nodes(plan: JavaObject) -> list[JavaObject]:
    if not plan.isStreaming():
        return []
    return [plan, *(n for child in catalyst.items(plan.children()) for n in _streaming_nodes(child))]


def _has_event_time(aggregate: JavaObject) -> bool:
    return any(
        catalyst.class_name(key) == "AttributeReference" and key.metadata().contains("spark.watermarkDelayMs")
        for key in catalyst.items(aggregate.groupingExpressions())
    )


def _unsupported_mode(session: SparkSession, output_mode: str, operation: str) -> NoReturn:
    error: AnalysisException = analysis_error(
        session, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", outputMode=output_mode, operation=operation
    )
    raise error
