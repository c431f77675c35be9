"""The leaf of a query in real-time mode: its rows have one more column, in which a reader says what is not data.

Models: nothing of Spark.

The leaf stands for the same source, so what a batch knows of its sources stays as it is.

    LogicalRDD [k#1, v#2]     ->     LogicalRDD [k#1, v#2, spark control row#7]

A watermark must not measure such a row, so the template (engine/runtime/template.py) asks for `control_of` (nodes.py).
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.nodes import CONTROL
from minispark_stream.engine.plan.streaming_relation import streaming_dataframe, streaming_leaf


def real_time_leaf(session: SparkSession, leaf: JavaObject) -> JavaObject:
    """A leaf with the columns of `leaf`, all of which may be null, and with the column of the control rows at its end."""
    found = streaming_leaf(session, leaf)
    assert found is not None
    schema = StructType([*found.relation.schema.fields]).add(CONTROL, StringType())
    made = plans.analyzed(streaming_dataframe(found.session, replace(found.relation, schema=schema)))
    columns = [*scala.items(leaf.output()), made.output().last()]
    attributes = scala.seq(session, [column.withNullability(True) for column in columns])
    return plans.leaf_over(session, made.rdd(), attributes, streaming=True)
