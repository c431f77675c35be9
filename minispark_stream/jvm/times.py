"""Time: durations written as text, and current_timestamp() and its kin fixed to the time of a batch.

    "10s" -> 10000 ms        "7d" -> 604800000 ms        "250" -> 250 ms

Models: JavaUtils.timeStringAs; CurrentBatchTimestamp, as MicroBatchExecution.runBatch puts it in.
Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from minispark_stream.jvm import plans, scala
from minispark_stream.jvm.scala import JavaObject

_JAVA_UTILS = "org.apache.spark.network.util.JavaUtils"


def time_string_as_ms(session: SparkSession, text: str) -> int:
    """A duration such as "10s" in milliseconds; a bare number is a number of milliseconds.

    Raises:
        NumberFormatException: the text is no duration (an IllegalArgumentException in Python).
    """
    return int(scala.java_class(session, _JAVA_UTILS).timeStringAsMs(text))


def time_string_as_sec(session: SparkSession, text: str) -> int:
    """The same in whole seconds; a bare number is a number of seconds."""
    return int(scala.java_class(session, _JAVA_UTILS).timeStringAsSec(text))


def replace_current_time(session: SparkSession, plan: JavaObject, timestamp_ms: int) -> JavaObject:
    """`plan` with current_timestamp(), current_date() and localtimestamp() fixed to one instant.

    A batch that is run again must see the time of its first run (MicroBatchExecution.runBatch does the same).
    """
    pattern = scala.jvm(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return _replace_in_plan(session, plan, pattern, timestamp_ms)


def asks_for_current_time(session: SparkSession, plan: JavaObject) -> bool:
    return bool(plan.containsPattern(scala.jvm(session).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


def _replace_in_plan(session: SparkSession, node: JavaObject, pattern: JavaObject, timestamp_ms: int) -> JavaObject:
    if not node.containsPattern(pattern):
        return node
    children = [_replace_in_plan(session, c, pattern, timestamp_ms) for c in scala.items(node.children())]
    node = plans.with_children(session, node, children) if children else node
    j = scala.jvm(session)
    expression_class = j.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.Expression")
    arguments = scala.gateway(session).new_array(j.java.lang.Object, node.productArity())
    for i in range(node.productArity()):
        argument = node.productElement(i)
        if expression_class.isInstance(argument):
            argument = _replace_in_expression(session, argument, pattern, timestamp_ms)
        elif hasattr(argument, "getClass") and argument.getClass().getName().startswith("scala.collection.immutable"):
            elements = scala.items(argument) if argument.getClass().getName() != "scala.collection.immutable.Map" else []
            if elements and all(expression_class.isInstance(e) for e in elements):
                argument = scala.seq(session, [_replace_in_expression(session, e, pattern, timestamp_ms) for e in elements])
        arguments[i] = argument
    return node.makeCopy(arguments)


def _replace_in_expression(session: SparkSession, node: JavaObject, pattern: JavaObject, timestamp_ms: int) -> JavaObject:
    if not node.containsPattern(pattern):
        return node
    if scala.class_name(node) in ("CurrentTimestamp", "CurrentDate", "LocalTimestamp"):
        j = scala.jvm(session)
        zone = j.scala.Option.apply(session.conf.get("spark.sql.session.timeZone"))
        expressions = j.org.apache.spark.sql.catalyst.expressions
        return expressions.CurrentBatchTimestamp(timestamp_ms, node.dataType(), zone).toLiteral()
    children = [_replace_in_expression(session, c, pattern, timestamp_ms) for c in scala.items(node.children())]
    return plans.with_children(session, node, children) if children else node
