"""The six numbers of a query that Spark's metrics system has, from the newest progress report.

Models: MetricsReporter (in no document).

    {"inputRowsPerSecond": 2.5, "durationMs": {"triggerExecution": 500}, ...}
    ->   {"inputRate-total": 2.5, "latency": 500, "eventTime-watermark": 0, ...}

Differs from Spark: nothing.
Shown by tests/spark/test_monitoring.py::test_the_six_gauges_are_those_of_spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minispark_stream.engine.times import iso_ms


def gauges(report: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a report, `{}` if there is none yet: they are 0 then. Rates are per second, times in milliseconds."""
    operators = report.get("stateOperators") or ()
    times, durations = report.get("eventTime") or {}, report.get("durationMs") or {}
    return {
        "inputRate-total": report.get("inputRowsPerSecond", 0.0),
        "processingRate-total": report.get("processedRowsPerSecond", 0.0),
        "latency": durations.get("triggerExecution", 0),
        "eventTime-watermark": iso_ms(times.get("watermark")) or 0,
        "states-rowsTotal": sum(operator["numRowsTotal"] for operator in operators),
        "states-usedBytes": sum(operator["memoryUsedBytes"] for operator in operators),
    }
