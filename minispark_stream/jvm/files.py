"""Files as Spark's batch reader sees them: a listing, and a plan over some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm import expressions, scala
from minispark_stream.jvm.scala import JavaObject


def file_index(
    session: SparkSession, paths: JavaObject, options: Mapping[str, str], schema: JavaObject
) -> JavaObject:
    """Spark's batch listing of files below `paths` (a Scala Seq); `schema` may name the types of partition columns."""
    name = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
    no_cache = getattr(scala.companion(session, name), "$lessinit$greater$default$5")()
    index = scala.java_class(session, name)
    return index(
        session._jsparkSession, paths, scala.java_map(session, options), scala.some(session, schema), no_cache,
        scala.none(session), scala.none(session),
    )


def file_relation(
    session: SparkSession,
    file_format: str,
    paths: Iterable[str],
    schema: StructType,
    partition_columns: Iterable[str],
    options: Mapping[str, str],
) -> JavaObject:
    """The plan that reads some files, which need not exist any more (DataFrameReader.load would insist on it)."""
    sources = scala.java_class(session, "org.apache.spark.sql.execution.datasources.DataSource")
    source = sources(
        session._jsparkSession, file_format, scala.seq(session, paths),
        scala.some(session, expressions.java_schema(session, schema)), scala.seq(session, partition_columns),
        scala.none(session), scala.java_map(session, options), scala.none(session), scala.none(session),
    )
    relation = scala.companion(session, "org.apache.spark.sql.execution.datasources.LogicalRelation")
    return relation.apply(source.resolveRelation(False, True, False), False)
