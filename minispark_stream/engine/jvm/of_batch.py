"""Replaces what differs from batch to batch in a plan: the current time, and the seeds of random numbers.

Models: CurrentBatchTimestamp, as MicroBatchExecution.runBatch puts it in; IncrementalExecution.optimizedPlan, which gives every
ExpressionWithRandomSeed a new seed (From query to the plan).

    current_timestamp()       the timestamp of the batch, so that a batch that is run again sees the time of its first run
    rand(), rand(7), uuid()   a new seed, even where the query names one: else the first row of each batch had the same number

Differs from Spark: nothing.
"""

from __future__ import annotations

import random

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.jvm.scala import JavaObject

_CURRENT_TIME = ("CurrentTimestamp", "CurrentDate", "LocalTimestamp")
_WITH_SEED = "org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed"
_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"


def asks_for_current_time(session: SparkSession, plan: JavaObject) -> bool:
    """Whether a plan or an expression contains current_timestamp(), current_date() or localtimestamp()."""
    return bool(plan.containsPattern(_patterns(session).CURRENT_LIKE()))


def changes_with_batch(session: SparkSession, plan: JavaObject) -> bool:
    """Whether there is anything in a plan or an expression for `plan_of_batch` to replace."""
    return asks_for_current_time(session, plan) or bool(plan.containsPattern(_patterns(session).EXPRESSION_WITH_RANDOM_SEED()))


def plan_of_batch(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> JavaObject:
    """`plan` with the current time fixed to that of a batch, and with new seeds."""
    if not changes_with_batch(session, plan):
        return plan
    children = [plan_of_batch(session, child, timestamp_ms) for child in scala.items(plan.children())]
    plan = plans.with_children(session, plan, children) if children else plan
    arguments = scala.gateway(session).new_array(scala.java_class(session, "java.lang.Object"), plan.productArity())
    for i, argument in enumerate(scala.elements(plan)):
        arguments[i] = _argument_of_batch(session, argument, timestamp_ms)
    return plan.makeCopy(arguments)


def _argument_of_batch(session: SparkSession, argument: JavaObject, timestamp_ms: int) -> JavaObject:
    """A field of a plan node: an expression, an Option or a Seq with expressions, or something else."""
    if _is_a(session, argument, _EXPRESSION):
        return _expression_of_batch(session, argument, timestamp_ms)
    if _is_a(session, argument, "scala.Some"):
        return scala.some(session, _argument_of_batch(session, argument.get(), timestamp_ms))
    if _is_a(session, argument, "scala.collection.immutable.Seq"):
        return scala.seq(session, [_argument_of_batch(session, one, timestamp_ms) for one in scala.items(argument)])
    return argument


def _expression_of_batch(session: SparkSession, expression: JavaObject, timestamp_ms: int) -> JavaObject:
    if not changes_with_batch(session, expression):
        return expression
    if scala.class_name(expression) in _CURRENT_TIME:
        zone = scala.some(session, session.conf.get("spark.sql.session.timeZone"))
        literal = scala.java_class(session, "org.apache.spark.sql.catalyst.expressions.CurrentBatchTimestamp")
        return literal(timestamp_ms, expression.dataType(), zone).toLiteral()
    children = [_expression_of_batch(session, child, timestamp_ms) for child in scala.items(expression.children())]
    expression = plans.with_children(session, expression, children) if children else expression
    if _is_a(session, expression, _WITH_SEED):
        return expression.withNewSeed(random.getrandbits(64) - 2**63)
    return expression


def _is_a(session: SparkSession, value: JavaObject, name: str) -> bool:
    return bool(scala.java_class(session, "java.lang.Class").forName(name).isInstance(value))


def _patterns(session: SparkSession) -> JavaObject:
    return scala.java_class(session, "org.apache.spark.sql.catalyst.trees.TreePattern")
