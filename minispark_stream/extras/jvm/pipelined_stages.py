"""What a query with state in real-time mode needs of Spark's JVM: the partition of a row, and one job over several RDDs.

Models: nothing of Spark.

    with_partition(session, rows, keys, 3)    the rows of a physical plan, and pmod(hash(keys), 3)
    empty_partitions(session, 3)              an RDD of 3 partitions without rows
    together(session, [rdd, rdd])             the partitions of both as those of one RDD
    free_slots(session)                       how many tasks can start now
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import expressions, physical, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject


def with_partition(session: SparkSession, rows: JavaObject, keys: Iterable[JavaObject], partitions: int) -> JavaObject:
    """The rows of a physical plan with one more column, the partition into which a shuffle by `keys` would put each."""
    hashed = scala.java_class(session, "HashPartitioning")(scala.seq(session, keys), partitions)
    partition = expressions.alias(session, hashed.partitionIdExpression(), "partition")
    return physical.projected(session, rows, scala.seq(session, [*scala.items(rows.output()), partition]))


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
