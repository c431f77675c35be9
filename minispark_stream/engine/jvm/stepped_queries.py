"""A query of real Structured Streaming whose triggers follow a clock of our own.

    query, clock = start_by_clock(writer, step_clock, "/data/checkpoint")
    last_progress(query)["batchId"]
    clock.stop(query)

Models: StreamingQueryManager.startQuery with a `triggerClock`, as Spark's own tests call it. The public writer does not take a
clock, so all other arguments of that call are read out of the writer.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.spark_versions import spark_of


class JavaClock:
    """A clock of the model (engine/clock.py) as a Java object."""

    def __init__(self, clock: Any):
        self._clock = clock
        self._ending: StreamingQuery | None = None

    def getTimeMillis(self) -> int:
        return self._clock.get_time_millis()

    def nanoTime(self) -> int:
        return self._clock.get_time_millis() * 1_000_000

    def waitTillTime(self, target_ms: int) -> int:
        self._clock.wait_till_time(target_ms, self)  # only `is_set` is asked for
        return self._clock.get_time_millis()

    def is_set(self) -> bool:
        """Whether to stop waiting. (Spark stops a query by an interrupt, which does not reach a thread waiting in Python.)"""
        return self._ending is not None and not self._ending.isActive

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query of this clock."""
        self._ending = query
        query.stop()

    class Java:
        implements = [ENGINE["Clock"]]


def start_by_clock(writer: DataStreamWriter, clock: Any, checkpoint: str) -> tuple[StreamingQuery, JavaClock]:
    """Start a query with a foreachBatch function and a processing-time trigger, as `writer.start()` does.

    Raises:
        what `writer.start()` raises.
    """
    session, java_writer, java_clock = writer._spark, writer._jwrite, JavaClock(clock)
    names = ("name", "sink_name") if spark_of(session.version).names_sources else ("name",)
    df = _field(java_writer, "ds")
    sink_class = scala.java_class(session, "ForeachBatchSink")
    none = scala.none(session)
    query = scala.call(
        session._jsparkSession.streams().startQuery,
        **dict.fromkeys(names, none),
        checkpoint=scala.some(session, checkpoint),
        df=df,
        options=scala.java_map(session, {}),
        sink=sink_class(_field(java_writer, "foreachBatchWriter"), df.exprEnc()),
        output_mode=_field(java_writer, "outputMode"),
        use_temp_checkpoint=False,
        recover_from_checkpoint=True,
        trigger=_field(java_writer, "trigger"),
        clock=java_clock,
        catalog_and_identifier=none,
        catalog_table=none,
    )
    return StreamingQuery(query), java_clock


def plan_text(df: DataFrame) -> str:
    """The plan of a query as Spark has analysed it."""
    return str(df._jdf.queryExecution().analyzed())


def last_progress(query: StreamingQuery) -> Mapping[str, Any] | None:
    """Spark's newest report. PySpark cannot read a report of a batch that took no time, because it lacks the infinite rates."""
    progress = query._jsq.lastProgress()
    return None if progress is None else json.loads(progress.json())


def _field(owner: JavaObject, name: str) -> JavaObject:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)
