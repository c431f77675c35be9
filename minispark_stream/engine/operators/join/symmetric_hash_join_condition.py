"""The condition of a stream-stream join: what it requires of each side, what of each pair, and how long a row must wait.

Models: JoinConditionSplitPredicates, and StreamingJoinHelper, which reads a time range (About state; SIGMOD'18 paper, 4.3).

1. The condition is divided at its `AND`s. A part that only uses columns of one side belongs to that side; all others, and those
   that are random, belong to pairs.
2. If the condition limits the distance between the event times of both sides, it says how far the state watermark of each side
   is from the watermark.

    k1 = k2 AND v1 > 0 AND v1 < v2 AND t2 BETWEEN t1 AND t1 + 10 minutes
    left: v1 > 0      both: v1 < v2, the range      shifts: left -10 minutes - 1 ms, right -1 ms

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.operators.event_times import event_time_column


@dataclass(frozen=True)
class Condition:
    """The join condition without the equal keys: what it requires of left rows, of right rows, and of pairs."""

    left: JavaObject | None
    right: JavaObject | None
    both: JavaObject | None


def split(session: SparkSession, condition: JavaObject, plan: JavaObject) -> Condition:
    """(1) Divide the condition into what it requires of each side and of each pair (JoinConditionSplitPredicates)."""
    if not condition.isDefined():
        return Condition(None, None, None)
    left, right = plan.left().outputSet(), plan.right().outputSet()
    parts: tuple[list[JavaObject], list[JavaObject], list[JavaObject]] = ([], [], [])
    for part in _conjuncts(condition.get()):
        of_left, of_right = (part.deterministic() and part.references().subsetOf(side) for side in (left, right))
        if of_left:
            parts[0].append(part)
        if of_right:
            parts[1].append(part)
        if not of_left and not of_right:
            parts[2].append(part)
    conjunction = scala.java_class(session, "And")
    return Condition(*(reduce(conjunction, some) if some else None for some in parts))


def _conjuncts(expression: JavaObject) -> Iterator[JavaObject]:
    if scala.class_name(expression) == "And":
        yield from _conjuncts(expression.left())
        yield from _conjuncts(expression.right())
    else:
        yield expression


def pairs_that_match(session: SparkSession, candidates: JavaObject, condition: JavaObject | None) -> JavaObject | None:
    """The filter between the two tasks: the condition for pairs. New rows, which unlike pairs have a side, also pass it."""
    if condition is None:
        return None
    side = next(column for column in scala.items(candidates) if column.name() == "side")
    is_new = scala.java_class(session, "IsNotNull")(side)
    return scala.java_class(session, "Or")(is_new, condition)


def columns_read(condition: JavaObject | None, side: list[JavaObject]) -> frozenset[int]:
    """The positions of the columns of a side that a condition reads."""
    if condition is None:
        return frozenset()
    read = condition.references()
    return frozenset(i for i, column in enumerate(side) if read.contains(column))


def shifts_ms(session: SparkSession, plan: JavaObject, condition: JavaObject) -> tuple[int | None, int | None]:
    """(2) How far the state watermark of each side is from the watermark, according to the time range in the condition."""
    helper = scala.companion(session, "StreamingJoinHelper")
    left, right = plan.left(), plan.right()
    some_time = 1 << 40  # any time will do, as the helper only adds and subtracts; py4j passes one this large as a Java long
    watermark = scala.some(session, some_time)

    def shift(own: JavaObject, other: JavaObject) -> int | None:
        if event_time_column(scala.items(own.output())) is None:
            return None
        bound = helper.getStateValueWatermark(own.outputSet(), other.outputSet(), condition, watermark)
        return int(bound.get()) - some_time if bound.isDefined() else None

    return shift(left, right), shift(right, left)
