"""Why a query in real-time mode, `trigger(realTime=...)`, is refused: in Spark's words if Spark refuses it too.

Models: RealTimeModeAllowlist, UnsupportedOperationChecker.checkAdditionalRealTimeModeConstraints, MicroBatchExecution (in no
document: real-time mode is newer).

The rules are checked in this order, (1) to (3) by `start()`, the others on the query's thread:

1. The sink must write row by row: console, foreach and Kafka do. `realTimeMode.allowlistCheck` turns the check off.
2. A batch must last at least `realTimeMode.minBatchDuration`.
3. The output mode must be Update.
4. Each source must be able to read until a batch's time is over; of those that PySpark has, only Kafka's can.
5. A query that obeys all of these rules runs in Spark. Here, it is refused, because there is no engine for it.

    rate to noop, "5 seconds"           start(): OPERATOR_OR_SINK_NOT_IN_ALLOWLIST                  (1)
    rate to console, "1 second"         start(): INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL  (2)
    files to console, "5 seconds"       the query ends: INPUT_STREAM_NOT_SUPPORTED                  (4)

Differs from Spark: (5). Real-time mode would be a third engine: its batch lasts for minutes, its readers end by the clock, its
stages run at the same time and pass rows on one by one, and its offsets are logged at the end. If the check of (1) is off,
Spark refuses some sinks for another reason.
Shown by tests/unit/engine/runtime/test_real_time_mode.py::test_what_spark_would_run_is_refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import sessions
from minispark_stream.engine.jvm.errors import analysis_error, spark_error
from minispark_stream.engine.runtime.trigger_executor import RealTimeTrigger
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.engine.sources.base import Source

_CONFS = "spark.sql.streaming.realTimeMode"
_ALLOWED_SINKS = ("ConsoleSink", "ForeachSink", "KafkaSink")
_SUPPORTED_SOURCES = ("KafkaMicroBatchStream",)
_SQL = "org.apache.spark.sql.execution"
_JAVA_CLASSES = {  # by the names that the classes have here
    "MemorySink": f"{_SQL}.streaming.sources.MemorySink",
    "ForeachBatchSink": f"{_SQL}.streaming.sources.ForeachBatchSink",
    "NoopSink": f"{_SQL}.datasources.noop.NoopTable$",
    "FileStreamSink": f"{_SQL}.streaming.sinks.FileStreamSink",
    "PythonDataSourceSink": f"{_SQL}.datasources.v2.python.PythonTable",
    "DeltaSink": "org.apache.spark.sql.delta.sources.DeltaSink",
    "FileStreamSource": f"{_SQL}.streaming.runtime.FileStreamSource",
    "RateStream": f"{_SQL}.streaming.sources.RateStreamMicroBatchStream",
    "RatePerMicroBatchStream": f"{_SQL}.streaming.sources.RatePerMicroBatchStream",
    "TextSocketStream": f"{_SQL}.streaming.sources.TextSocketMicroBatchStream",
    "PythonMicroBatchStream": f"{_SQL}.datasources.v2.python.PythonMicroBatchStream",
    "PythonMicroBatchStreamWithAdmissionControl": f"{_SQL}.datasources.v2.python.PythonMicroBatchStreamWithAdmissionControl",
}


def check_sink_and_interval(session: SparkSession, trigger: RealTimeTrigger, sink: Sink) -> None:
    """(1), (2)

    Raises:
        IllegalArgumentException: the sink cannot be used, or batches would be too short.
    """
    if sessions.flag(session, f"{_CONFS}.allowlistCheck") and type(sink).__name__ not in _ALLOWED_SINKS:
        condition = "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"
        raise spark_error(session, IllegalArgumentException, condition, errorType="sink", message=f"{_java_class(sink)} is")
    if trigger.batch_ms < (least_ms := sessions.conf_ms(session, f"{_CONFS}.minBatchDuration")):
        condition = "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL"
        numbers = {"interval": str(trigger.batch_ms), "minBatchDuration": str(least_ms)}
        raise spark_error(session, IllegalArgumentException, condition, **numbers)


def check_output_mode(session: SparkSession, output_mode: str) -> None:
    """(3)

    Raises:
        AnalysisException: it is not Update.
    """
    if output_mode != "update":
        raise analysis_error(session, "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED", outputMode=output_mode.capitalize())


def check_sources(session: SparkSession, sources: Iterable[Source]) -> None:
    """(4), (5)

    Raises:
        IllegalArgumentException: a source cannot be read in this mode.
        AnalysisException: all of them can.
    """
    for source in sources:
        if type(source).__name__ not in _SUPPORTED_SOURCES:
            condition = "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"
            raise spark_error(session, IllegalArgumentException, condition, className=_java_class(source))
    raise AnalysisException(
        message="minispark_stream has no engine for real-time mode: it has those for micro-batches and for continuous "
        "processing, which trigger(continuous=...) starts."
    )


def _java_class(one: object) -> str:
    return _JAVA_CLASSES.get(type(one).__name__, f"{type(one).__module__}.{type(one).__qualname__}")
