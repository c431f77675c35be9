"""A stream in a plan: a leaf without rows that remembers which source it stands for.

Models: StreamingRelation (From query to the plan).

    LogicalRDD [value#0], isStreaming=true      <- the leaf; its RDD's id leads to StreamingRelation("text", ...)
    Project [explode(split(value#0, ' ')) AS word#1]
    Aggregate [word#1], [word#1, count(1)]

Differs from Spark: Spark's leaf is a StreamingRelation node that carries its source; ours is Spark SQL's relation
over an (empty) RDD, because that is a node that a plan may hold without any class of Structured Streaming.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, plans, scala


@dataclass(frozen=True)
class StreamingRelation:
    """What `readStream.load()` leaves in the plan: enough to create the source when a query starts.

    `create(session, metadata_path)` is called once per query on the query's own thread, with the query's session
    and the source's own folder in the checkpoint (`sources/<i>`).
    """

    source_name: str
    schema: StructType
    create: Callable[[SparkSession, str], Any]


@dataclass(frozen=True)
class StreamingLeaf:
    """What a streaming leaf stands for, and the MiniSparkSession whose engine is to run it."""

    relation: StreamingRelation
    session: Any


# (application id, RDD id) of a leaf -> what it stands for. Plans may hold a leaf for as long as they like, so entries stay.
_leaves: dict[tuple[str, int], StreamingLeaf] = {}


def streaming_dataframe(session: Any, relation: StreamingRelation) -> DataFrame:
    """The streaming DataFrame of a source that has not been started yet; `session` is the MiniSparkSession."""
    spark = session.spark
    rdd = plans.empty_rows(spark)
    _leaves[spark.sparkContext.applicationId, rdd.id()] = StreamingLeaf(relation, session)
    return plans.rdd_frame(spark, rdd, expressions.java_schema(spark, relation.schema), streaming=True)


def streaming_leaf(application_id: str, node: Any) -> StreamingLeaf | None:
    """What a plan node stands for, or None when it is no leaf of ours."""
    if scala.class_name(node) != "LogicalRDD":
        return None
    return _leaves.get((application_id, node.rdd().id()))


def streaming_sources(session: SparkSession, plan: Any) -> list[tuple[tuple[int, ...], StreamingRelation]]:
    """The streaming leaves of an analysed plan, in order: what identifies the source, and what it stands for.

    A stream that is used twice (`df.union(df)`) is one source with two leaves, and two lines in the offset log.
    """
    found = []
    for leaf in scala.items(plan.collectLeaves()):
        stream = streaming_leaf(session.sparkContext.applicationId, leaf)
        if stream is not None:
            found.append((leaf_key(leaf), stream.relation))
    return found


def leaf_key(leaf: Any) -> tuple[int, ...]:
    """What tells one streaming leaf from another."""
    return (leaf.rdd().id(), *(a.exprId().id() for a in scala.items(leaf.output())))


def engine_of(df: DataFrame) -> Any | None:
    """The MiniSparkSession whose engine runs this DataFrame's stream; None when it reads from no source of ours."""
    if not df.isStreaming:
        return None
    application_id = df.sparkSession.sparkContext.applicationId
    leaves = (streaming_leaf(application_id, leaf) for leaf in scala.items(plans.analyzed(df).collectLeaves()))
    return next((leaf.session for leaf in leaves if leaf is not None), None)
