"""Spark's own LowLatencyMemoryStream, for a query of Spark's engine.

Models: nothing of Spark.

    stream = LowLatencyMemoryStreamOfSpark(spark, "k string, v int", num_partitions=1)
    stream.add_data([("a", 1)])     the offset {"0":1}

Its rows are made in the driver's JVM, without a job: the tasks of a query may occupy all slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, scala
from minispark_stream.extras.jvm.contract import EXTRAS


class LowLatencyMemoryStreamOfSpark:
    """What LowLatencyRows is for the model."""

    def __init__(self, session: SparkSession, schema: StructType | str, num_partitions: int):
        self._session = session
        self.schema = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
        encoder = scala.java_class(session, EXTRAS["Encoders"]).row(expressions.java_schema(session, self.schema))
        stream = scala.java_class(session, EXTRAS["LowLatencyMemoryStream"])
        self._stream = stream.apply(session._jsparkSession, num_partitions, encoder)

    def add_data(self, rows: Sequence[tuple[Any, ...]]) -> str:
        made = scala.seq(self._session, [])
        if rows:
            converted: pa.Table = LocalDataToArrowConversion.convert(rows, self.schema, False)
            made = scala.as_scala(self._session, self._session.createDataFrame(converted, self.schema)._jdf.collectAsList())
        return str(self._stream.addData(made).json())

    def to_df(self) -> DataFrame:
        return DataFrame(self._stream.toDF(), self._session)
