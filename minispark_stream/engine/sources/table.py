"""Tables as streams: `readStream.table("t")` and `SELECT ... FROM STREAM t`.

Models: FindDataSourceTable, StreamingRelation (From query to the plan).

1. Spark's analyzer finds the table, with its columns, format, folder and options, and puts a StreamingRelation into the plan,
   which Spark's own engine would read.
2. Each such leaf is replaced by a file source over the folder, with the very same attributes. The rest of the plan stays.

    SELECT k FROM STREAM t    Project [k#1]
                              +- SubqueryAlias spark_catalog.default.t
                                 +- StreamingRelation FileSource[/warehouse/t], [k#1, v#2]    <- becomes a leaf of the model

Differs from Spark: nothing.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from minispark_stream.engine.jvm import expressions, plans, scala
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.plan.streaming_relation import StreamingRelation, leaf_over_files
from minispark_stream.engine.sources.file import FILE_FORMATS, file_stream_relation


def with_tables_of_files(session: SparkSession, df: DataFrame) -> DataFrame:
    """`df`, in which tables of files are sources of `session`, one of the model."""
    if not df.isStreaming:
        return df
    plan = plans.analyzed(df)
    replaced: dict[str, JavaObject] = {}
    for leaf in scala.items(plan.collectLeaves()):  # (1)
        if scala.class_name(leaf) == "StreamingRelation" and leaf.dataSource().className().lower() in FILE_FORMATS:
            replaced[_columns(leaf)] = leaf_over_files(session, _source(session, leaf), leaf.output())
    if not replaced:
        return df
    return plans.of_rows(session, plans.with_leaves(session, plan, lambda leaf: replaced.get(_columns(leaf), leaf)))  # (2)


def _columns(leaf: JavaObject) -> str:
    """The ids of a leaf's columns, which identify the leaf."""
    return " ".join(str(a.exprId().id()) for a in scala.items(leaf.output()))


def _source(session: SparkSession, leaf: JavaObject) -> StreamingRelation:
    found = leaf.dataSource()
    stored = found.options()
    options = {key.lower(): stored.apply(key) for key in scala.items(stored.keys().toSeq())}
    schema = expressions.python_schema(found.sourceInfo().schema())
    asked = {**options, "format": found.className().lower()}
    source = file_stream_relation(session, asked["format"], options.pop("path"), schema, options)
    name = leaf.sourceIdentifyingName().nameOpt()
    name = name.get() if name.isDefined() else None
    return replace(source, name=name, in_spark=lambda: plans.of_rows(session, leaf), asked=asked)
