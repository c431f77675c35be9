"""How a Python task is run over each partition of some rows, and learns the number of its partition.

Models: StateStoreRDD, which opens the stores of `partition.index`, whatever task the partition runs in (About state).

A function in `mapInArrow` can only learn the number of its Spark task. But a task is not a partition: after `coalesce`, one
task runs several partitions, and after a union with other rows, partition 0 may run in task 5. So the rows themselves say it:

1. A row of nulls is put before the rows of each partition, so that a partition without rows says its number, too.
2. The rows are numbered (`monotonically_increasing_id`): without its lowest 33 bits, a number is that of the partition.

The task takes the partition from the number of the first row, and drops that row (engine/operators/state_task.py).

    partition 0      (0, null), (1, "a"), (2, "c")      ->  the task is given 0 and the rows "a", "c"
    partition 1      (2**33, null)                      ->  the task is given 1 and no rows

If one such task follows another in a plan, Spark would give each a worker at the same time, and both workers would need the
state. So the second task can be made to wait:

3. Its rows are *gathered* before it begins: they are multiplied by a single row without columns, and of a product, Spark first
   collects one side. By then, the first task has ended, and unless other workers are idle as well, Spark gives the second task
   the first one's worker, which has the state in memory.

On a cluster,

4. the first rows say where Spark should run the task, so that it finds its state there (executors.py).

Unless a function of the user sees them, the rows of a task have the types of engine/jvm/expressions.py. If its result should
have others,

5. the rows that the task emits get their own types back: they are read once more, under the attributes that they should have.

How such a task is planned does not depend on the batch. So it is planned once, as `mapInArrow` over no rows. A batch brings its
rows and its task (`over`), and these replace the empty ones in copies of Spark's operators:

    planned once    MapInArrow(no task) <- Project(number, ...) <- RDDScan(no rows)
    batch           MapInArrow(task)    <- Project(number, ...) <- RDDScan(first rows, rows)
    gathered        MapInArrow(task) <- RDDScan(CartesianProduct(one row, Project(number, ...) <- RDDScan(first rows, rows)))

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, physical, plans, query_execution, scala
from minispark_stream.engine.jvm.executors import Places, one_row_at_each
from minispark_stream.engine.jvm.expressions import in_arrow, without_names
from minispark_stream.engine.jvm.scala import JavaObject


class MapPartitions:
    """Plans a task over the partitions of some rows.

    Args:
        columns: the schema of the rows. A task gets the number of each row first, and then these columns as `_0`, `_1`, ...
        result: the schema of the rows that the task emits.
        output: the attributes of these rows (a Scala Seq).
        function: a user's function inside the task (its Java half). It sees the rows as they are, and the workers get its
            environment and broadcasts.
    """

    def __init__(
        self, session: SparkSession, columns: StructType, result: StructType, output: JavaObject, function: JavaObject = None
    ):
        self._session = session
        self._width = len(columns)
        self._is_retyped = function is None and in_arrow(result) != without_names(result)
        if function is None:
            columns, result = in_arrow(columns), in_arrow(result)
        self._return_type = expressions.positional(result)
        self.arrow_schema = to_arrow_schema(self._return_type, timezone="UTC")
        schema = expressions.java_schema(session, expressions.positional(columns))
        rows = plans.rdd_frame(session, plans.empty_rows(session), schema)
        numbered = rows.select(F.monotonically_increasing_id().alias("number"), *rows.columns)  # (2)
        plan = plans.analyzed(numbered.mapInArrow(_no_task, self._return_type))
        self._map, self._project, self._scan = physical.chain(query_execution.planned(session, plan))
        prepared = physical.chain(query_execution.prepared(session, self._project))
        self._generated = [node for node in prepared if scala.class_name(node) == "WholeStageCodegenExec"]  # at most one
        self._task = PlannedTask(session, self._map, self._return_type, function)
        self._output, self._emitted, self._fields_of_scan = output, self._map.output(), scala.fields(self._scan)
        self._first_row = scala.java_class(session, "GenericInternalRow")(self._width)
        self._places = None if session.sparkContext._jsc.sc().isLocal() else Places(session)
        self._first_rows, self._first_rows_for = None, list[object]()

    def over(self, rows: JavaObject, task: Any, gathered: bool = False, error: JavaObject = None) -> JavaObject:
        """The physical plan of the rows that `task`, a function for mapInArrow, emits for each partition of the RDD `rows`.

        With an `error`, an exception of Java, each partition raises it instead of running the task.
        """
        scan = scala.call(self._scan.copy, **self._fields_of_scan | {"rdd": self._with_first(rows)})
        below = physical.over(self._session, self._project, scan)
        if error is not None:
            below = physical.raising(self._session, below, error)
        if gathered:  # (3) Made an RDD of its own, the product has all rows before Spark looks for a worker for the task.
            for node in self._generated:
                below = physical.over(self._session, node, below)
            all_rows = {"rdd": physical.gathered(self._session, below).execute(), "output": self._project.output()}
            below = scala.call(self._scan.copy, **self._fields_of_scan | all_rows)
        emitted = self._task.over(below, task, self._emitted if self._is_retyped else self._output)
        if not self._is_retyped:
            return emitted
        return scala.call(self._scan.copy, **self._fields_of_scan | {"rdd": emitted.execute(), "output": self._output})  # (5)

    def _with_first(self, rows: JavaObject) -> JavaObject:
        """(1), (4) `rows` with the first rows before them. These are made anew only if the places of the partitions change."""
        number = rows.getNumPartitions()
        hosts = self._places.of(number) if self._places is not None else []
        if self._first_rows_for != [number, hosts]:
            self._first_rows_for = [number, hosts]
            if hosts:
                self._first_rows = one_row_at_each(self._session, self._first_row, hosts)
            else:
                self._first_rows = plans.one_row_each(self._session, self._first_row, number)
        both = scala.seq(self._session, [self._first_rows, rows])
        union = scala.java_class(self._session, "SQLPartitioningAwareUnionRDD")
        return union(self._session.sparkContext._jsc.sc(), both, number, plans.internal_rows(self._session))


class PlannedTask:
    """A `mapInArrow` that was planned once (a MapInArrowExec), and gets another task in each batch.

    `return_type` is the schema of the rows that the task emits, and `function` as in MapPartitions.
    """

    def __init__(self, session: SparkSession, node: JavaObject, return_type: StructType, function: JavaObject = None):
        self._session, self._node, self._udf, self._return_type = session, node, node.func(), return_type
        self._fields, self._fields_of_udf = scala.fields(node), scala.fields(self._udf)
        self._function = scala.fields(function or self._udf.func())

    def over(self, rows: JavaObject, task: Any, output: JavaObject = None) -> JavaObject:
        """The physical plan of the rows that `task` emits for those of another one, under the attributes `output`."""
        named = {"name": type(task).__name__, "func": self._python_function(task)}  # the name is what `explain` prints
        changed = {"func": scala.call(self._udf.copy, **self._fields_of_udf | named), "child": rows}
        return scala.call(self._node.copy, **self._fields | changed | ({} if output is None else {"output": output}))

    def _python_function(self, task: Any) -> JavaObject:
        """The task in the form in which Spark sends it to its workers. Only the task itself differs from batch to batch."""
        function = scala.java_class(self._session, "SimplePythonFunction")
        command = bytearray(CloudPickleSerializer().dumps((task, self._return_type)))
        return scala.call(function, **self._function | {"command": command})


def _no_task(batches: Any) -> Any:
    """The task of a plan until a batch brings the real one."""
    raise NotImplementedError
