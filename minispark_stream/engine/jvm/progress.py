"""The report of a batch as the object that Spark gives to listeners.

    progress_of(session, {"batchId": 2, ...}, {"checks": <Row>})     ->  PySpark's StreamingQueryProgress

The JSON of a report contains offsets as JSON, and values of the user's observed metrics, such as times, as text. A listener is
given each offset as a text, and each observed metric as a Row with Python values.

Models: StreamingQueryProgress, as PySpark reads it from the JVM (SIGMOD'18 paper, section 7.4).
Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.errors import JavaError
from minispark_stream.engine.jvm.scala import JavaObject


def metrics_as_json(observed: Mapping[str, JavaObject]) -> dict[str, Any]:
    """The Java row of each metric of the user as JSON; none of them if JSON has no form for a value, such as an interval."""
    try:
        return {name: json.loads(row.json()) for name, row in sorted(observed.items())}
    except (PySparkException, JavaError):
        return {}


def progress_of(
    session: SparkSession, report: Mapping[str, Any], observed: Mapping[str, JavaObject]
) -> StreamingQueryProgress:
    """The report as an object. `report` is its JSON as a dict, `observed` the Java row of each metric of the user."""
    whole = {
        "eventTime": {},  # the JSON leaves empty maps out, but the object needs them
        **{name: value for name, value in report.items() if name != "observedMetrics"},
        "sources": [{"metrics": {}, **source} for source in report["sources"]],
        "sink": {"metrics": {}, **report["sink"]},
    }
    read = scala.companion(session, "StreamingQueryProgress").fromJson(json.dumps(whole))
    made = scala.call(
        scala.java_class(session, "StreamingQueryProgress"), id=read.id(), runId=read.runId(), name=read.name(),
        timestamp=read.timestamp(), batchId=read.batchId(), batchDuration=read.batchDuration(), durationMs=read.durationMs(),
        eventTime=read.eventTime(), stateOperators=read.stateOperators(), sources=read.sources(), sink=read.sink(),
        observedMetrics=scala.java_class(session, "java.util.HashMap")(dict(observed)),
    )
    return StreamingQueryProgress.fromJObject(made)
