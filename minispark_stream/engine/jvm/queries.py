"""What PySpark's handle of a real streaming query does not say, asked of the query's Java object.

    look_at(query)      ->  SparkQuery(checkpoint="file:/data/checkpoint", output_mode="append", plan="Aggregate ...")

Models: StreamExecution.resolvedCheckpointRoot, outputMode, analyzedPlan and trigger; WatermarkTracker.watermarkMap.
Differs from Spark: nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.spark_versions import spark_of


class SparkQuery(NamedTuple):
    """Where the checkpoint of a query is, its output mode in small letters, and its analysed plan as text.

    `source_names` says what its sources are called in the checkpoint: each has a name or a number. `watermarks` are what the
    `withWatermark` operators have measured in this run, by their ids in the plan; None as long as they have seen no row.
    `interval_ms` is that of a processing-time trigger, `real_time_ms` how long a batch lasts in real-time mode; 0 for other
    triggers. `sink` is the class of the sink.
    """

    checkpoint: str
    output_mode: str
    plan: str
    source_names: tuple[str, ...]
    watermarks: Mapping[str, int | None] = {}
    interval_ms: int = 0
    real_time_ms: int = 0
    sink: str = ""


def ask(session: SparkSession, part: str, method: str, *arguments: Any) -> Any:
    """What a method of a Java object answers. `part` of the session, "streams" or "readStream", gives the object."""
    return getattr(getattr(session._jsparkSession, part)(), method)(*arguments)


def refuse(session: SparkSession, part: str, method: str, *arguments: Any) -> NoReturn:
    """Raises what py4j says of arguments for which a Java object has no method."""
    raise AssertionError(ask(session, part, method, *arguments))


def look_at(query: StreamingQuery) -> SparkQuery:
    """Ask a query, which may be running or have ended."""
    execution = query._jsq.streamingQuery()
    trigger = execution.trigger()
    version = spark_of(str(execution.sparkSession().version()))
    return SparkQuery(
        checkpoint=str(execution.resolvedCheckpointRoot()),
        output_mode=str(execution.outputMode().toString()).lower(),
        plan=str(execution.analyzedPlan().toString()),
        source_names=_source_names(execution.analyzedPlan()) if version.names_sources else (),
        watermarks=dict(_watermarks(execution)) if version.tells_watermarks else {},
        interval_ms=int(trigger.intervalMs()) if scala.class_name(trigger) == "ProcessingTimeTrigger" else 0,
        real_time_ms=int(trigger.batchDurationMs()) if scala.class_name(trigger) == "RealTimeTrigger" else 0,
        sink=scala.class_name(execution.sink()),
    )


def _watermarks(execution: JavaObject) -> Iterator[tuple[str, int | None]]:
    tracker = execution.watermarkTracker() if scala.class_name(execution).endswith("MicroBatchExecution") else None
    for entry in scala.items(tracker.watermarkMap().toSeq()) if tracker is not None else ():  # None before the first batch
        yield str(entry._1()), entry._2().get() if entry._2().isDefined() else None


def _source_names(plan: JavaObject) -> tuple[str, ...]:
    """The names of the sources in a plan. (A reference to a common table expression is a streaming leaf, but not a source.)"""
    leaves = dict.fromkeys(x for x in scala.items(plan.collectLeaves()) if scala.class_name(x).startswith("StreamingRelation"))
    numbers = itertools.count()
    names = [leaf.sourceIdentifyingName().nameOpt() for leaf in leaves]
    return tuple(str(name.get() if name.isDefined() else next(numbers)) for name in names)
