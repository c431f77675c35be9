"""What a query in real-time mode needs of Spark's JVM: what it plans once, the partition of a row, one job over several RDDs.

Models: nothing of Spark.

    rows_of_task(session, schema, task, 3)    the rows that a task emits in each of 3 partitions
    PlannedOnce(session, frame)               a plan over an RDD, planned once, then put over the RDD of each batch
    with_partition(session, rows, keys, 3)    the rows of a physical plan, and pmod(hash(keys), 3)
    with_number(session, rows, expr_id)       the rows of a physical plan, and a number that each has for itself
    row_by_row(session, node, number, ...)    an aggregation that emits a group when the next one begins
    with_way_back(session, rows, at)          the rows of a physical plan, and a control row for what comes back from its end
    empty_partitions(session, 3)              an RDD of 3 partitions without rows
    together(session, [rdd, rdd])             the partitions of both as those of one RDD
    free_slots(session)                       how many tasks can start now
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import control_rows, expressions, physical, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.jvm.state_rdd import PlannedTask

COMES_BACK = "comes back"  # in the column of the control rows: of this row of data, a copy is to come back


def rows_of_task(session: SparkSession, schema: StructType, task: Any, partitions: int) -> DataFrame:
    """The rows that a task emits, which is given the number of its partition; `schema` is theirs."""
    numbers = session.range(0, partitions, 1, partitions)
    [node, *_] = physical.chain(physical.spark_plan(numbers.mapInArrow(_no_task, schema)))
    plan = physical.executable(numbers)
    scan = physical.scan(session, plan.execute(), plan.output())
    rows = PlannedTask(session, node, schema).over(scan, task)
    return plans.rdd_frame(session, rows.execute(), expressions.java_schema(session, schema))


def _no_task(batches: Any) -> Any:
    raise NotImplementedError


class PlannedOnce:
    """The plan of `frame`, which has no branches and begins with an RDD."""

    def __init__(self, session: SparkSession, frame: DataFrame):
        self._session = session
        *self._nodes, self._scan = physical.chain(physical.executable(frame))

    def over(self, rdd: JavaObject) -> JavaObject:
        """The RDD of its rows over those of another RDD with the same columns."""
        below = physical.scan(self._session, rdd, self._scan.output())
        for node in reversed(self._nodes):
            below = physical.over(self._session, node, below)
        return below.execute()


def with_partition(session: SparkSession, rows: JavaObject, keys: Sequence[JavaObject], partitions: int) -> JavaObject:
    """The rows of a physical plan with one more column, the partition into which a shuffle by `keys` would put each."""
    hashed_keys = keys or [scala.companion(session, "Literal").TrueLiteral()]  # without keys, there is one partition
    hashed = scala.java_class(session, "HashPartitioning")(scala.seq(session, hashed_keys), partitions)
    partition = expressions.alias(session, hashed.partitionIdExpression(), "partition")
    return physical.projected(session, rows, scala.seq(session, [*scala.items(rows.output()), partition]))


def with_number(session: SparkSession, rows: JavaObject, expr_id: JavaObject) -> JavaObject:
    """The rows of a physical plan with one more column, which is different in each row."""
    unique = scala.java_class(session, "MonotonicallyIncreasingID")()
    number = expressions.alias(session, unique, "number", expr_id)
    return physical.projected(session, rows, scala.seq(session, [*scala.items(rows.output()), number]))


def row_by_row(
    session: SparkSession, node: JavaObject, number: JavaObject, rdd: JavaObject, columns: JavaObject, emits_number: bool = True
) -> JavaObject:
    """An aggregation of the rows of an RDD that have the same keys and the same `number`, and are next to each other.

    A hash aggregation emits its first row after it has seen the last one; one of sorted rows emits a group when the next one
    begins. So Spark is told that the rows are sorted.

    Args:
        node: the aggregation without the number, hashing or sorting.
        columns: the attributes of the rows (a Scala Seq).
        emits_number: whether the number is among the columns of the result, after the keys.
    """
    fields = scala.fields(node)
    keys, results = scala.items(fields["groupingExpressions"]), scala.items(fields["resultExpressions"])
    if emits_number:
        results.insert(len(keys), number)
    keys.append(number)
    order = scala.seq(session, [expressions.ascending(session, key) for key in keys])
    return scala.call(scala.java_class(session, "SortAggregateExec"), **fields | {
        "requiredChildDistributionExpressions": scala.none(session),
        "groupingExpressions": scala.seq(session, keys), "resultExpressions": scala.seq(session, results),
        "initialInputBufferOffset": fields["initialInputBufferOffset"] + 1,
        "child": physical.scan(session, rdd, columns, order),
    })


def with_way_back(session: SparkSession, merged: JavaObject, at: int) -> JavaObject:
    """The rows of a physical plan, in which the column `at`, that of the control rows, has also what comes back from its end.

    It becomes null for a row of data, and a struct for others: what it was, and a struct of all columns but this and the next.
    A row that says `COMES_BACK` becomes one row of data, and one of the others.
    """
    columns, literal = scala.items(merged.output()), scala.java_class(session, "Literal")
    struct, array = scala.companion(session, "CreateStruct"), scala.java_class(session, "CreateArray")
    comes_back = struct.apply(scala.seq(session, [*columns[:at], *columns[at + 2:]]))
    both = struct.apply(scala.seq(session, [columns[at], comes_back]))
    null = literal(None, both.dataType())

    def chosen(condition: JavaObject, then: list[JavaObject], otherwise: JavaObject) -> JavaObject:
        return scala.java_class(session, "If")(condition, array(scala.seq(session, then), True), otherwise)

    marked = scala.java_class(session, "EqualTo")(columns[at], scala.companion(session, "Literal").apply(COMES_BACK))
    one = array(scala.seq(session, [both]), True)
    controls = chosen(control_rows.is_data(session, columns[at]), [null], chosen(marked, [null, both], one))
    explode = scala.java_class(session, "Explode")(controls)
    control = expressions.new_attributes(session, explode.elementSchema())
    others = scala.seq(session, [*columns[:at], *columns[at + 1:]])
    rows = scala.java_class(session, "GenerateExec")(explode, others, False, control, merged)
    columns[at] = expressions.alias(session, control.head(), columns[at].name())
    return physical.projected(session, rows, scala.seq(session, columns))


def empty_partitions(session: SparkSession, partitions: int) -> JavaObject:
    """An RDD without rows in so many partitions."""
    return session.sparkContext._jsc.parallelize(scala.jvm(session).java.util.ArrayList(), partitions).rdd()


def together(session: SparkSession, rdds: Iterable[JavaObject]) -> JavaObject:
    """One RDD of rows, whose partitions are those of all `rdds`, in their order."""
    return session.sparkContext._jsc.sc().union(scala.seq(session, rdds), plans.internal_rows(session))


def free_slots(session: SparkSession) -> int:
    """How many tasks can run at the same time, besides those that run now."""
    context = session.sparkContext._jsc.sc()
    slots = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())
    running = sum(executor.numRunningTasks() for executor in context.statusTracker().getExecutorInfos())
    return int(slots) - int(running)
