"""The leaf of a query in real-time mode: its rows have one more column, in which a reader says what is not data.

Models: nothing of Spark.

The leaf stands for the same source, so everything that a batch knows of its sources stays as it is.

    LogicalRDD [k#1, v#2]     ->     LogicalRDD [k#1, v#2, spark control row#7]

A watermark must not measure such a row, so the template (engine/runtime/template.py) asks for `control_of`.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import StreamingLeaf, new_leaf, streaming_leaf

_CONTROL = "spark control row"  # no name that a user gives


class RealTimeLeaves:
    """Makes the leaves of one query; leaves of the same `load()` stay leaves of one source."""

    def __init__(self, session: SparkSession):
        self._session = session
        self._made: dict[StreamingLeaf, StreamingLeaf] = {}

    def __call__(self, leaf: JavaObject) -> JavaObject:
        found = streaming_leaf(self._session, leaf)
        assert found is not None
        schema = StructType([*found.relation.schema.fields]).add(_CONTROL, StringType())
        stream = self._made.setdefault(found, replace(found, relation=replace(found.relation, schema=schema)))
        control = expressions.new_attributes(
            self._session, expressions.java_schema(self._session, StructType().add(_CONTROL, StringType()))
        )
        columns = [a.withNullability(True) for a in scala.items(leaf.output())]
        attributes = scala.seq(self._session, [*columns, control.head()])
        return new_leaf(self._session, stream, lambda rdd: plans.leaf_over(self._session, rdd, attributes, streaming=True))


def control_of(plan: JavaObject) -> JavaObject | None:
    """The column of the control rows of a plan, if it has one."""
    return next((a for a in scala.items(plan.output()) if a.name() == _CONTROL), None)
