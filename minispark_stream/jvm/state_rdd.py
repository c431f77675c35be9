"""A Python task over each partition of rows, which knows the number of its partition.

Models: StateStoreRDD, which opens the stores of `partition.index`, whatever task the partition runs in (About state).

`mapInArrow` tells its function the number of the task. But a task is not a partition: after `coalesce`, one task runs several
partitions, and after a union with other rows, partition 0 may run in task 5. So the partition itself says its number:

1. In front of the rows of each partition comes a row of nulls, so that a partition without rows says its number too.
2. The column `partition` has the number of the partition of each row (`spark_partition_id`).

The task takes the number from the first row, and drops that row (operators/state_task.py).

    partition 0      (0, null), (0, "a"), (0, "c")      ->  the task is given 0 and the rows "a", "c"
    partition 1      (1, null)                          ->  the task is given 1 and no rows

How such a task is planned does not depend on the batch. So it is planned once, as `mapInArrow` over no rows; each batch brings
its rows and its task (`over`).

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, physical, plans, scala
from minispark_stream.jvm.scala import JavaObject


class MapPartitions:
    """The plan of a task over the partitions of some rows.

    Args:
        columns: the schema of the rows. A task finds them under the names `_0`, `_1`, ..., after the number of the partition.
        result: the schema of what the task emits.
        output: the attributes of what it emits (a Scala Seq).
        function: a user's function inside the task; the workers get its environment and broadcasts.
    """

    def __init__(
        self, session: SparkSession, columns: StructType, result: StructType, output: JavaObject, function: JavaObject = None
    ):
        self._session = session
        self._width = len(columns)
        self._return_type = expressions.positional(result)
        self.arrow_schema = to_arrow_schema(self._return_type, timezone="UTC")
        schema = expressions.java_schema(session, expressions.positional(columns))
        rows = plans.rdd_frame(session, plans.empty_rows(session), schema)
        numbered = rows.select(F.spark_partition_id().alias("partition"), *rows.columns)  # (2)
        plan = plans.analyzed(numbered.mapInArrow(_no_task, self._return_type))
        self._map, self._project, self._scan = physical.chain(physical.physical(session, plan))
        self._udf, self._output = self._map.func(), output
        _, *self._worker = scala.elements(function or self._udf.func())
        self._map_fields, self._udf_fields, self._scan_fields = map(scala.elements, (self._map, self._udf, self._scan))
        self._numbers: dict[int, JavaObject] = {}

    def over(self, rows: JavaObject, task: Any) -> JavaObject:
        """The physical plan of what `task`, a function for mapInArrow, emits for each partition of the RDD `rows`."""
        attributes, _, *rest = self._scan_fields
        project = physical.over(self._session, self._project, self._scan.copy(attributes, self._numbered(rows), *rest))
        name, _, *rest = self._udf_fields
        udf = self._udf.copy(name, self._python_function(task), *rest)
        _, _, _, *rest = self._map_fields
        return self._map.copy(udf, self._output, project, *rest)

    def _numbered(self, rows: JavaObject) -> JavaObject:
        """(1) The first rows are the same in every batch."""
        context, number = self._session.sparkContext._jsc, rows.getNumPartitions()
        if number not in self._numbers:
            row = scala.java_class(self._session, "org.apache.spark.sql.catalyst.expressions.GenericInternalRow")(self._width)
            first = scala.jvm(self._session).java.util.ArrayList([row] * number)
            self._numbers[number] = context.parallelize(first, number).rdd()
        both = scala.seq(self._session, [self._numbers[number], rows])
        union = scala.java_class(self._session, "org.apache.spark.rdd.SQLPartitioningAwareUnionRDD")
        return union(context.sc(), both, number, plans.internal_rows(self._session))

    def _python_function(self, task: Any) -> JavaObject:
        """The task as Spark sends it to its workers. All but the task itself is the same in every batch."""
        function = scala.java_class(self._session, "org.apache.spark.api.python.SimplePythonFunction")
        return function(bytearray(CloudPickleSerializer().dumps((task, self._return_type))), *self._worker)


def _no_task(batches: Any) -> Any:
    """What a plan has until a batch gives it a task."""
    raise NotImplementedError
