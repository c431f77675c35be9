"""The rows of the rate sources, with a time and a counting value, made by Spark SQL.

Models: RateStreamMicroBatchPartitionReader, RatePerMicroBatchStreamPartitionReader (Source document, "rate").

1. Four numbers describe a batch: its first value, the value after its last one, the time at which it begins, and its duration.
2. These numbers are data: each partition gets a row with them. As literals, they would be a part of the code that Spark
   generates, and this would be compiled again in each batch; this way, the plan is made once, and a batch only brings its rows.
3. Each partition begins with another value, and skips the values of the other partitions. It makes RUN values at a time, so
   that they are never all in memory.

    first 2, last 7, 2 partitions, from 12:00:00 on, 5 seconds
    partition 0     2 at 12:00:00, 4 at 12:00:02, 6 at 12:00:04
    partition 1     3 at 12:00:01, 5 at 12:00:03

Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, LongType, StructField, StructType, TimestampType

from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala

SCHEMA = StructType([StructField("timestamp", TimestampType()), StructField("value", LongType())])
RUN = 10_000
_NUMBERS = StructType([StructField("batch", ArrayType(LongType()))])


class StripedRows:
    """Makes the rows of batches, in `partitions` partitions."""

    def __init__(self, session: SparkSession, partitions: int):
        self._session, self._partitions = session, partitions
        rows = plans.rdd_frame(session, plans.empty_rows(session), expressions.java_schema(session, _NUMBERS))
        named = rows.selectExpr(
            "batch[0] AS first", "batch[1] AS last", "batch[2] AS start_ms", "batch[3] / (batch[1] - batch[0]) AS ms_per_value",
            "batch[0] + spark_partition_id() AS own",
        )
        begins = f"explode(sequence(own, last - 1, {partitions * RUN}L)) AS begin"  # (3)
        runs = named.where("own < last").selectExpr("*", begins)
        end = f"begin + least({partitions * (RUN - 1)}L, last - 1 - begin)"
        values = runs.selectExpr("*", f"explode(sequence(begin, {end}, {partitions}L)) AS value")
        made = values.selectExpr(
            "timestamp_millis(start_ms + CAST(round((value - first) * ms_per_value) AS BIGINT)) AS timestamp", "value"
        )
        planned = query_execution.planned(session, query_execution.of_new_data(session, plans.analyzed(made)))
        *self._operators, self._scan = physical.chain(planned)
        self._fields_of_scan = scala.fields(self._scan)
        self._schema = expressions.java_schema(session, SCHEMA)

    def of(self, first: int, last: int, start_ms: int, span_ms: int = 0) -> DataFrame:
        """(1) The values from `first` up to, but without, `last`, spread evenly over `span_ms` from `start_ms` on."""
        if first == last:
            return plans.rdd_frame(self._session, plans.empty_rows(self._session), self._schema)
        below = scala.call(self._scan.copy, **self._fields_of_scan | {"rdd": self._numbers(first, last, start_ms, span_ms)})
        for operator in reversed(self._operators):
            below = physical.over(self._session, operator, below)
        rows = query_execution.prepared(self._session, below).execute()
        return plans.rdd_frame(self._session, rows, self._schema)

    def _numbers(self, *of_batch: int) -> scala.JavaObject:
        """(2) One row for each partition, with the numbers of the batch."""
        numbers = scala.gateway(self._session).new_array(scala.jvm(self._session).long, len(of_batch))
        for i, number in enumerate(of_batch):
            numbers[i] = number
        array = scala.java_class(self._session, "GenericArrayData")(numbers)
        row = scala.java_class(self._session, "InternalRow").fromSeq(scala.seq(self._session, [array]))
        return plans.one_row_each(self._session, row, self._partitions)
