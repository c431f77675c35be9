"""A stream of rows that are added by hand, for real-time mode on either engine.

Models: LowLatencyMemoryStream (in no document: it is newer).

    clicks = LowLatencyMemoryStream(mini, "user string, n int")        or LowLatencyMemoryStream(spark, ...)
    query = clicks.to_df().writeStream.outputMode("update").foreach(show).trigger(realTime="5 seconds").start()
    clicks.add_data([("ann", 1)])                                      a task has the row a few milliseconds later

With a session of the model, the rows are the model's (extras/real_time/low_latency_memory_stream.py); with any other session,
this is Spark's own object (extras/jvm/low_latency_memory_stream.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.sources.memory import fitting_rows
from minispark_stream.extras.jvm.low_latency_memory_stream import LowLatencyMemoryStreamOfSpark
from minispark_stream.extras.real_time.low_latency_memory_stream import LowLatencyRows
from minispark_stream.session import MiniSparkSession


class LowLatencyMemoryStream:
    """A stream of rows that are added by hand.

    Args:
        session: a MiniSparkSession or a SparkSession, whose queries read the stream.
        schema: a StructType or a DDL string.
        num_partitions: how many tasks read it.
    """

    def __init__(self, session: SparkSession, schema: StructType | str, num_partitions: int = 1):
        kind = LowLatencyRows if isinstance(session, MiniSparkSession) else LowLatencyMemoryStreamOfSpark
        self._stream = kind(session, schema, num_partitions)

    def add_data(self, rows: Iterable[Any]) -> str:
        """Add rows (tuples, dicts or Rows); returns the offset at which all of them are read, such as {"0":2}.

        Raises:
            PySparkTypeError, PySparkValueError: a row does not fit the schema; then none is added.
        """
        return self._stream.add_data(fitting_rows(rows, self._stream.schema))

    def to_df(self) -> DataFrame:
        """The streaming DataFrame over this stream."""
        return self._stream.to_df()
