"""Catalyst expressions and schemas: columns, aliases, types."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm import scala
from minispark_stream.jvm.scala import JavaObject


def java_schema(session: SparkSession, schema: StructType) -> JavaObject:
    return session._jsparkSession.parseDataType(schema.json())


def struct_type(attributes: Iterable[JavaObject]) -> StructType:
    """The schema of a list of attributes, column metadata included."""
    import json

    fields = [
        {
            "name": a.name(),
            "type": json.loads(a.dataType().json()),
            "nullable": bool(a.nullable()),
            "metadata": json.loads(a.metadata().json()),
        }
        for a in attributes
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def alias(session: SparkSession, expression: JavaObject, name: str, expr_id: JavaObject) -> JavaObject:
    """`expression AS name`, under a given expression id."""
    make = scala.java_class(session, "org.apache.spark.sql.catalyst.expressions.Alias")
    nil = scala._nil(scala.jvm(session))
    return make(expression, name, expr_id, nil, scala.none(session), nil)


def column(session: SparkSession, expression: JavaObject) -> Column:
    """A Catalyst expression as a PySpark column."""
    return Column(scala.java_class(session, "org.apache.spark.sql.classic.ExpressionUtils").column(expression))


_EXPRESSION_ID = re.compile(r"#(\d+)L?(?:-T\d+ms)?(?=, |\)$)")


def expression_ids(node: JavaObject) -> list[int]:
    """The expression ids of a node's columns; read off its text in one call, because a wide table has many."""
    return [int(i) for i in _EXPRESSION_ID.findall(node.output().toString())]
