"""A Python task over each partition of rows, which knows the number of its partition.

Models: StateStoreRDD, which opens the stores of `partition.index`, whatever task the partition runs in (About state).

`mapInArrow` tells its function the number of the task. But a task is not a partition: after `coalesce`, one task runs several
partitions, and after a union with other rows, partition 0 may run in task 5. So the partition itself says its number:

1. In front of the rows of each partition comes a row of nulls, so that a partition without rows says its number too.
2. The column `partition` has the number of the partition of each row (`spark_partition_id`).
3. The task takes the number from the first row, and drops that row (operators/state_task.py).

    partition 0      (0, null), (0, "a"), (0, "c")      ->  the task is given 0 and the rows "a", "c"
    partition 1      (1, null)                          ->  the task is given 1 and no rows

Differs from Spark: Spark's operators are given the number with the iterator over their rows.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, plans, scala
from minispark_stream.jvm.scala import JavaObject


def map_partitions(session: SparkSession, rows: JavaObject, columns: StructType, task: Any, result: StructType) -> JavaObject:
    """The plan of what `task` makes of each partition of some rows.

    Args:
        rows: the RDD of rows, of Spark's internal kind.
        columns: their schema, with nullable columns under names that do not clash.
        task: what mapInArrow calls; in the first batch of a partition, the first row has nothing but the number.
        result: the schema of what the task emits.
    """
    return plans.analyzed(_numbered(session, rows, columns).mapInArrow(task, result))


def _numbered(session: SparkSession, rows: JavaObject, columns: StructType) -> DataFrame:
    context = session.sparkContext._jsc
    row = scala.java_class(session, "org.apache.spark.sql.catalyst.expressions.GenericInternalRow")(len(columns))
    nulls = scala.jvm(session).java.util.ArrayList([row] * rows.getNumPartitions())
    first = context.parallelize(nulls, len(nulls)).rdd()  # (1)
    union = scala.java_class(session, "org.apache.spark.rdd.SQLPartitioningAwareUnionRDD")
    both = union(context.sc(), scala.seq(session, [first, rows]), len(nulls), plans.internal_rows(session))
    frame = plans.rdd_frame(session, both, expressions.java_schema(session, columns))
    return frame.select(F.spark_partition_id().alias("partition"), *frame.columns)  # (2)
