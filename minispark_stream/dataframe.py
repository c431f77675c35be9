"""A streaming DataFrame is a PySpark DataFrame whose plan has one of our sources as a leaf.

`readStream.load()` makes a relation without rows that is marked as streaming (plan/streaming_relation.py). Everything a user
does with the DataFrame from then on (select, join, groupBy, withWatermark, explain, ...) is Spark's own analysis, with Spark's
own columns, functions and errors; `collect()` on it raises what Spark raises. Only `writeStream` is ours: for a plan with one
of our leaves it gives our DataStreamWriter.

Models: DataFrame.writeStream (From query to the plan).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter

from minispark_stream.plan.streaming_relation import engine_of
from minispark_stream.readwriter import DataStreamWriter


def _write_stream(df: DataFrame) -> SparkDataStreamWriter:
    session = engine_of(df)
    return SparkDataStreamWriter(df) if session is None else DataStreamWriter(df, session)


# A query may begin at any DataFrame (`table.join(stream, ...)` is a plain PySpark call), so the decision who runs a
# query is made at the one place where every query begins.
ClassicDataFrame.writeStream = property(_write_stream)  # type: ignore[method-assign,assignment]
