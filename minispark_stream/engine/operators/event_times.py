"""Which columns of an operator's rows have a watermark.

Models: WatermarkSupport (About watermark).

1. The first column under a watermark has the event times of the rows (`event_time_column`).
2. Two such columns are too many: `several_event_times` is the error. Some operators of Spark find it when a batch is planned
   (`check_event_time`), and others in their tasks, after the sink has been given the batch.

    a and b have a watermark      groupBy("a", "b")      [MULTIPLE_EVENT_TIME_COLUMNS] ... (a#7-T1000ms,b#9-T1000ms) ...

Differs from Spark: nothing.
Shown by tests/conformance/test_ending.py::test_what_tasks_refuse_is_an_error_of_the_function_that_reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, scala, sessions
from minispark_stream.engine.jvm.errors import analysis_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.columns import EventTime

ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"


def event_time_column(columns: Sequence[JavaObject]) -> EventTime | None:
    """The first column that has a watermark; other expressions have none."""
    for i, column in enumerate(columns):
        if expressions.has_watermark(column):
            return EventTime(i, is_window=scala.class_name(column.dataType()) == "StructType")
    return None


def event_time_names(attributes: Sequence[JavaObject]) -> tuple[str, ...]:
    """The columns that have a watermark, as Spark prints them, each of them once."""
    return tuple(dict.fromkeys(str(a.toString()) for a in attributes if expressions.has_watermark(a)))


def several_event_times(session: SparkSession, names: Sequence[str]) -> AnalysisException | None:
    """The error (MULTIPLE_EVENT_TIME_COLUMNS) if several of an operator's columns have a watermark; `names` are those that do.

    If `statefulOperator.allowMultiple` is off, there is none, and the first one counts.
    """
    if len(names) > 1 and sessions.flag(session, ALLOW_MULTIPLE):
        return analysis_error(session, "MULTIPLE_EVENT_TIME_COLUMNS", eventTimeCols=f"({','.join(names)})")
    return None


def check_event_time(session: SparkSession, names: Sequence[str]) -> None:
    """Raises AnalysisException if there are `several_event_times`."""
    if (error := several_event_times(session, names)) is not None:
        raise error
