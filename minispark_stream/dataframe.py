"""A streaming DataFrame is a PySpark DataFrame whose plan has one of our sources as a leaf.

`readStream.load()` makes a relation without rows that is marked as streaming, and remembers which source it stands
for. Everything a user does with the DataFrame from then on (select, join, groupBy, withWatermark, explain, ...) is
Spark's own analysis, with Spark's own columns, functions and errors; `collect()` on it raises what Spark raises.
Only `writeStream` is ours: for a plan with one of our leaves it gives our DataStreamWriter.

    LogicalRDD [value#0], isStreaming=true      <- the leaf; its RDD's id leads to StreamingRelation("text", ...)
    Project [explode(split(value#0, ' ')) AS word#1]
    Aggregate [word#1], [word#1, count(1)]

Models: StreamingRelation and DataFrame.writeStream (From query to the plan).
Differs from Spark: Spark's leaf is a StreamingRelation node that carries its source; ours is Spark SQL's relation
over an (empty) RDD, because that is a node that a plan may hold without any class of Structured Streaming.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming import DataStreamWriter as SparkDataStreamWriter

from minispark_stream.plan import catalyst
from minispark_stream.sources.base import StreamingRelation

if TYPE_CHECKING:
    from minispark_stream.session import MiniSparkSession


@dataclass(frozen=True)
class StreamingLeaf:
    """What a streaming leaf stands for, and the session whose engine is to run it."""

    relation: StreamingRelation
    session: MiniSparkSession


# (application id, RDD id) of a leaf -> what it stands for. Plans may hold a leaf for as long as they like, so entries stay.
_leaves: dict[tuple[str, int], StreamingLeaf] = {}


def streaming_dataframe(session: MiniSparkSession, relation: StreamingRelation) -> DataFrame:
    """The streaming DataFrame of a source that has not been started yet."""
    spark = session.spark
    rdd = catalyst.empty_rows(spark)
    _leaves[spark.sparkContext.applicationId, rdd.id()] = StreamingLeaf(relation, session)
    return catalyst.rdd_frame(spark, rdd, catalyst.java_schema(spark, relation.schema), streaming=True)


def streaming_leaf(application_id: str, node: Any) -> StreamingLeaf | None:
    """What a plan node stands for, or None when it is no leaf of ours."""
    if catalyst.class_name(node) != "LogicalRDD":
        return None
    return _leaves.get((application_id, node.rdd().id()))


def engine_of(df: DataFrame) -> MiniSparkSession | None:
    """The session whose engine runs this DataFrame's stream; None when it reads from no source of ours."""
    if not df.isStreaming:
        return None
    application_id = df.sparkSession.sparkContext.applicationId
    leaves = (streaming_leaf(application_id, leaf) for leaf in catalyst.items(catalyst.analyzed(df).collectLeaves()))
    return next((leaf.session for leaf in leaves if leaf is not None), None)


def _write_stream(df: DataFrame) -> SparkDataStreamWriter:
    from minispark_stream.readwriter import DataStreamWriter

    session = engine_of(df)
    return SparkDataStreamWriter(df) if session is None else DataStreamWriter(df, session)


# A query may begin at any DataFrame (`table.join(stream, ...)` is a plain PySpark call), so the decision who runs a
# query is made at the one place where every query begins.
ClassicDataFrame.writeStream = property(_write_stream)  # type: ignore[method-assign,assignment]
