"""What is different in each batch: the current time, and the seeds of random numbers.

Models: CurrentBatchTimestamp, which MicroBatchExecution.runBatch puts into the plan; IncrementalExecution.optimizedPlan, which
makes a literal of it and gives every ExpressionWithRandomSeed a new seed (From query to the plan).

    current_timestamp()       the timestamp of the batch, so that a batch that is run again sees the time of its first run
    rand(), rand(7), uuid()   a new seed, even if the query gives one: else the first row of each batch would get the same
    number

1. Before the plan is optimised, the current time is replaced by the time of the batch, an expression that is not deterministic.
2. In the optimised plan, each such expression becomes a literal, and each random function gets a new seed, whichever node has
   it. Spark's own `transformAllExpressions` does this. Its rule is made of methods of the JVM, so it never calls Python.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject

_WITHOUT_ZONE = ("CurrentTimestamp", "CurrentTimestampNanos")
_WITH_ZONE = ("LocalTimestamp", "LocalTimestampNanos", "CurrentDate")


def asks_for_current_time(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan or an expression contains current_timestamp(), current_date() or localtimestamp()."""
    return _contains(session, plan, "CURRENT_LIKE")


def changes_with_batch(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan or an expression contains anything that changes from batch to batch."""
    return asks_for_current_time(session, plan) or _contains(session, plan, "EXPRESSION_WITH_RANDOM_SEED")


def has_subquery(session: SparkSession, plan: JavaObject) -> bool:
    """Whether an expression of a plan has a plan of its own."""
    return _contains(session, plan, "PLAN_EXPRESSION")


def has_limit(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan limits the number of rows."""
    return _contains(session, plan, "LIMIT")


def depends_on_size(session: SparkSession, plan: JavaObject) -> bool:
    """Whether the size of a stream can change what the optimizer makes of a plan.

    The optimizer moves a semi or an anti join below an aggregation if the other side is small enough to be broadcast
    (PushDownLeftSemiAntiJoin).
    """
    has_aggregation = _contains(session, plan, "AGGREGATE") or _contains(session, plan, "DISTINCT_LIKE")
    return has_aggregation and _contains(session, plan, "LEFT_SEMI_OR_ANTI_JOIN")


def with_batch_time(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> JavaObject:  # (1)
    """An analysed plan in which the current time is that of a batch."""
    if not asks_for_current_time(session, plan):
        return plan
    batch_time = scala.java_class(session, "CurrentBatchTimestamp")
    found = scala.java_class(session, "java.util.HashMap")()
    for time in _current_times(session, plan):
        # A timestamp needs no time zone, but CurrentBatchTimestamp counts as resolved only if it has one, so it gets any text.
        zone = scala.some(session, "none") if scala.class_name(time) in _WITHOUT_ZONE else time.timeZoneId()
        found.put(time, batch_time(timestamp_ms, time.dataType(), zone))
    return plan.transformAllExpressions(scala.java_class(session, "PythonUtils").toScalaMap(found))


def with_literals_and_seeds(session: SparkSession, plan: JavaObject) -> JavaObject:  # (2)
    """An optimised plan in which the time of the batch is a literal, and every random function has a new seed."""
    return plan.transformAllExpressions(_rule(scala.jvm(session)))


def _current_times(session: SparkSession, plan: JavaObject) -> Iterator[JavaObject]:
    """The expressions in a plan that stand for the current time."""
    if asks_for_current_time(session, plan):
        for expression in scala.items(plan.expressions()):
            yield from _times_in(session, expression)
        for child in scala.items(plan.children()):
            yield from _current_times(session, child)


def _times_in(session: SparkSession, expression: JavaObject) -> Iterator[JavaObject]:
    if asks_for_current_time(session, expression):
        if scala.class_name(expression) in _WITHOUT_ZONE + _WITH_ZONE:
            yield expression
        for child in scala.items(expression.children()):
            yield from _times_in(session, child)


@lru_cache(maxsize=1)
def _rule(view: Any) -> JavaObject:
    """What each expression becomes, as a partial function that is defined for all expressions and never calls Python:

        e: ExpressionWithRandomSeed -> e.withNewSeed(random.nextLong())
        e: CurrentBatchTimestamp    -> e.toLiteral
        e                           -> e
    """
    seed = scala.method_handle(view, "java.util.Random.nextLong").bindTo(view.java.util.Random())
    renewed = scala.method_handle(view, "ExpressionWithRandomSeed.withNewSeed", view.java.lang.Long.TYPE)
    literal = scala.method_handle(view, "CurrentBatchTimestamp.toLiteral")
    cases = {
        "ExpressionWithRandomSeed": view.java.lang.invoke.MethodHandles.collectArguments(renewed, 1, seed),
        "CurrentBatchTimestamp": literal,
    }
    return view.scala.PartialFunction.fromFunction(scala.by_class(view, cases))


def _contains(session: SparkSession, plan: JavaObject, pattern: str) -> bool:
    return bool(plan.containsPattern(scala.constant(session, f"TreePattern.{pattern}")))
