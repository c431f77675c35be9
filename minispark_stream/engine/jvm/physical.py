"""Spark's physical plans: how to have one made, take it apart, and put it together again.

    planned_by(session, strategy, plan)   what one of Spark's strategies makes of a logical plan
    chain(plan)                           the operators of a plan, from the top
    over(session, node, rows)             an operator on top of other rows
    projected(session, rows, columns)     some columns of the rows
    shuffled(session, rows, keys, n)      the rows in n partitions, those with the same key in the same one
    gathered(session, rows)               the rows, of which a task first collects all
    scan(session, rdd, output)            the rows of an RDD
    leaf(session, plan)                   the rows as a leaf of a logical plan

A plan must be prepared once, as a whole (query_execution.py). Whatever is put on top of a prepared plan is another plan: it
begins with a leaf over the rows of the first one, or over the rows that a task emits.

These are calls of Spark SQL's own methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.errors import illegal_argument
from minispark_stream.engine.jvm.scala import JavaObject


def executable(df: DataFrame) -> JavaObject:
    """The physical plan of `df`, ready to run (QueryExecution.executedPlan)."""
    return df._jdf.queryExecution().executedPlan()


def spark_plan(df: DataFrame) -> JavaObject:
    """The physical plan of `df`, without shuffles (QueryExecution.sparkPlan)."""
    return df._jdf.queryExecution().sparkPlan()


def count_udf_operators(df: DataFrame) -> int:
    """How many operators of a plan without branches call Python UDFs; each of them has a worker."""
    names = [scala.class_name(node) for node in chain(spark_plan(df))]
    return sum(name.endswith("EvalPythonExec") for name in names)


def planned_by(session: SparkSession, strategy: str, plan: JavaObject) -> JavaObject:
    """The physical plan that one of Spark's strategies makes of a logical plan, down to the nodes of other strategies."""
    return getattr(session._jsparkSession.sessionState().planner(), strategy)().apply(plan).head()


def chain(plan: JavaObject) -> list[JavaObject]:
    """The operators of a plan without branches, from the top."""
    below = plan.children()
    return [plan] if below.isEmpty() else [plan, *chain(below.head())]


def over(session: SparkSession, node: JavaObject, rows: JavaObject) -> JavaObject:
    """The operator `node`, on top of other rows with the same attributes."""
    return node.withNewChildren(scala.seq(session, [rows]))


def projected(session: SparkSession, rows: JavaObject, columns: JavaObject) -> JavaObject:
    """Some columns of the rows of a physical plan; `columns` is a Scala Seq."""
    return scala.java_class(session, "ProjectExec")(columns, rows)


def filtered(session: SparkSession, rows: JavaObject, condition: JavaObject) -> JavaObject:
    """The rows of a physical plan for which `condition` is true."""
    return scala.java_class(session, "FilterExec")(condition, rows)


def raising(session: SparkSession, rows: JavaObject, error: JavaObject) -> JavaObject:
    """The rows of a physical plan, of which the first one that a task asks for raises `error`, an exception of Java."""
    failure = scala.java_class(session, "scala.util.Failure")(error)
    get = scala.call(
        scala.java_class(session, "Invoke"),
        targetObject=scala.companion(session, "Literal").fromObject(failure), functionName="get",
        dataType=scala.companion(session, "BooleanType"), arguments=scala.seq(session, []),
        methodInputTypes=scala.seq(session, []), propagateNull=True, returnNullable=True, isDeterministic=True,
    )
    return filtered(session, rows, get)


def without_distribution(session: SparkSession, node: JavaObject) -> JavaObject:
    """The aggregation `node`, which no longer asks for a shuffle: its rows are already where they must be."""
    fields = scala.fields(node) | {"requiredChildDistributionExpressions": scala.none(session)}
    return scala.call(node.copy, **fields)


def shuffled(session: SparkSession, rows: JavaObject, keys: Iterable[JavaObject], num_partitions: int) -> JavaObject:
    """The rows of a physical plan in `num_partitions` partitions; Spark's hash of its keys says where a row goes."""
    hashed = scala.java_class(session, "HashPartitioning")(scala.seq(session, keys), num_partitions)
    origin = scala.companion(session, "REPARTITION_BY_NUM")
    exchange = scala.java_class(session, "ShuffleExchangeExec")
    return exchange(hashed, rows, origin, scala.none(session), False)


def gathered(session: SparkSession, rows: JavaObject) -> JavaObject:
    """The rows of a physical plan, in the same order, of which a task asks for all before it passes the first one on."""
    one_row = scala.java_class(session, "OneRowRelationExec")()
    return scala.java_class(session, "CartesianProductExec")(one_row, rows, scala.none(session))


def by_key(session: SparkSession, rows: JavaObject, keys: Sequence[JavaObject], num_partitions: int) -> JavaObject:
    """The rows of a physical plan, shuffled by their keys (StatefulOpClusteredDistribution).

    Raises:
        IllegalArgumentException: there are no keys.
    """
    if not keys:
        distribution = "StatefulOpClusteredDistribution"
        raise illegal_argument(
            f"requirement failed: The expressions for hash of a {distribution} should not be Nil. An AllTuples should be used "
            "to represent a distribution that only has a single partition."
        )
    return shuffled(session, rows, keys, num_partitions)


def sorted_in_partitions(session: SparkSession, rows: JavaObject, order: JavaObject) -> JavaObject:
    """The rows of a physical plan, each partition sorted; `order` is a Scala Seq of SortOrders."""
    return scala.java_class(session, "SortExec")(order, False, rows, 0)


def scan(session: SparkSession, rdd: JavaObject, output: JavaObject, order: JavaObject | None = None) -> JavaObject:
    """The rows of an RDD as a physical plan with nothing below it; `output` are their attributes (a Scala Seq).

    If the partitions are sorted already, `order` says so. If Spark did not know, it would sort them again.
    """
    unknown = scala.java_class(session, "UnknownPartitioning")(0)
    order = scala.seq(session, []) if order is None else order
    return scala.java_class(session, "RDDScanExec")(output, rdd, "rows", unknown, order, scala.none(session))


def sorted_by(session: SparkSession, rows: JavaObject, keys: Iterable[JavaObject]) -> JavaObject:
    """The rows of a physical plan, each partition sorted by some columns in ascending order."""
    return sorted_in_partitions(session, rows, scala.seq(session, [expressions.ascending(session, key) for key in keys]))


def leaf(session: SparkSession, rows: JavaObject) -> JavaObject:
    """The rows of an executable plan as a leaf of a logical plan, with the same attributes."""
    return plans.leaf_over(session, rows.execute(), rows.output(), streaming=False)


def observed_each_time(session: SparkSession, plan: JavaObject) -> dict[str, JavaObject]:
    """What each CollectMetricsExec in a plan has observed, by its name, as a Java row.

    If rows have been read more than once, they count each time. What such a node itself says is of the last time only.
    """
    nodes = scala.companion(session, "CollectMetricsExec").mapPlans(plan, scala.identity(session))
    accumulators = scala.java_class(session, "AccumulatorContext")
    to_row = scala.companion(session, "CatalystTypeConverters").convertToScala
    return {
        node.name(): to_row(accumulators.get(node.accumulatorId()).get().value(), node.metricsSchema())
        for node in scala.items(nodes) if scala.class_name(node) == "CollectMetricsExec"
    }
