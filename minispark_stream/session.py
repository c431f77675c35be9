"""The entry point: a Spark session whose streams run on this engine.

    mini = MiniSparkSession(spark)
    mini.readStream ... .writeStream ... .start()      # this engine
    mini.read ... , mini.table("counts"), mini.sql     # the wrapped session
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, SparkSession

from minispark_stream import dataframe  # noqa: F401 - gives DataFrame.writeStream its choice of engine
from minispark_stream.clock import Clock, SystemClock
from minispark_stream.readwriter import DataStreamReader
from minispark_stream.streaming_query_manager import StreamingQueryManager


class MiniSparkSession:
    """`readStream` and `streams` are the model's; every other attribute is the wrapped session's.

    Args:
        spark: a classic (not Connect) SparkSession.
        trace: what queries record: "steps" (default), "rows" (with previews of rows and state; costs extra jobs) or "off".
        clock: the clock of the engine; tests hand in a ManualClock.

    Raises:
        PySparkValueError: an unknown trace level.
    """

    def __init__(self, spark: SparkSession, trace: str = "steps", clock: Clock | None = None):
        if trace not in ("off", "steps", "rows"):
            raise PySparkValueError(
                errorClass="VALUE_NOT_ALLOWED",
                messageParameters={"arg_name": "trace", "allowed_values": "['off', 'steps', 'rows']"},
            )
        self.spark = spark
        self.clock = clock or SystemClock()
        self._streams = StreamingQueryManager(spark, trace, self.clock)

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802
        return DataStreamReader(self)

    @property
    def streams(self) -> StreamingQueryManager:
        return self._streams

    def table(self, name: str) -> DataFrame:
        return self.spark.table(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)
