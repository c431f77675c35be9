"""Catalyst expressions and schemas: columns, aliases, types.

Most of these are calls of Catalyst's own methods. The types of the rows in the engine's own tasks are made here. What matters
in a task is the bytes of a value, not the name of its type: it keeps most columns as they are and looks into few of them. The
rows travel between the JVM and the task by way of Arrow and PySpark, which know fewer types than Spark does. So

1. The fields of a struct are named after their positions, because two of them may have the same name; and all of them are
   nullable, because in a struct that is null, every field is null (`without_names`). State rows have this form in a task, too.
2. A value for which PySpark has no Arrow type is sent as what an UnsafeRow holds for it (`in_arrow`): months, or bytes.

    struct<v: interval year to month, v: variant not null>     (1) struct<_0: interval year to month, _1: variant>
                                                               (2) struct<_0: int, _1: binary>

No value changes: the JVM is told another type on the way in, and the real one on the way out (state_rdd.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    GeographyType,
    GeometryType,
    IntegerType,
    MapType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
    _parse_datatype_json_string,
)

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.scala import JavaObject

EVENT_TIME = "spark.watermarkDelayMs"  # in the metadata of a column under a watermark: its delay
_AS_BYTES = (CalendarIntervalType, VariantType, GeometryType, GeographyType)


def java_schema(session: SparkSession, schema: StructType) -> JavaObject:
    return session._jsparkSession.parseDataType(schema.json())


def python_schema(schema: JavaObject) -> StructType:
    """A Java StructType as PySpark's."""
    return StructType.fromJson(json.loads(schema.json()))


def new_attributes(session: SparkSession, schema: JavaObject) -> JavaObject:
    """Attributes with ids of their own for the columns of a Java schema (a Scala Seq)."""
    return scala.companion(session, "DataTypeUtils").toAttributes(schema)


def as_nullable(session: SparkSession, schema: StructType) -> StructType:
    """The schema with every column, field, element and map value nullable."""
    return python_schema(java_schema(session, schema).asNullable())


def type_name(session: SparkSession, data_type: DataType) -> str:
    """How Spark prints a type in its messages."""
    return str(session._jsparkSession.parseDataType(data_type.json()).toString())


def tree_string(session: SparkSession, schema: StructType) -> str:
    """What `df.printSchema()` prints."""
    return str(java_schema(session, schema).treeString())


def struct_type(attributes: Iterable[JavaObject]) -> StructType:
    """The schema of a list of attributes, column metadata included."""
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


def positional(*schemas: StructType) -> StructType:
    """The fields of several schemas, one after the other, under names that cannot clash."""
    result = StructType()
    for i, one in enumerate(f for schema in schemas for f in schema.fields):
        result.add(f"_{i}", one.dataType, True)
    return result


def without_names(schema: StructType) -> StructType:
    """(1) The same columns, but the fields inside of them have positions for names."""
    return StructType([StructField(f.name, by_position(f.dataType)) for f in schema])


def in_arrow(schema: StructType) -> StructType:
    """(2) As `without_names`, and only with types that PySpark can send to a task and back."""
    return StructType([StructField(f.name, by_position(f.dataType, _as_it_lies_in_a_row)) for f in schema])


def _as_it_lies_in_a_row(one: DataType) -> DataType:
    if isinstance(one, YearMonthIntervalType):
        return IntegerType()
    return BinaryType() if isinstance(one, _AS_BYTES) else one


def by_position(kind: DataType, of: Callable[[DataType], DataType] = lambda one: one) -> DataType:
    """(1) A type whose fields are named after their positions, with `of` applied to each part that has no parts itself."""
    match kind:
        case UserDefinedType():
            return by_position(kind.sqlType(), of)
        case StructType():
            fields = StructType()
            for i, field in enumerate(kind):
                fields.add(f"_{i}", by_position(field.dataType, of))
            return fields
        case ArrayType():
            return ArrayType(by_position(kind.elementType, of))
        case MapType():
            return MapType(by_position(kind.keyType, of), by_position(kind.valueType, of))
    return of(kind)


def alias(session: SparkSession, expression: JavaObject, name: str, expr_id: JavaObject | None = None) -> JavaObject:
    """`expression AS name`, under a given expression id, or under a new one."""
    make = scala.java_class(session, "Alias")
    expr_id = expr_id or scala.companion(session, "NamedExpression").newExprId()
    nothing = scala.seq(session, [])
    return make(expression, name, expr_id, nothing, scala.none(session), nothing)


def ascending(session: SparkSession, expression: JavaObject) -> JavaObject:
    """The SortOrder that sorts by an expression in ascending order."""
    direction = scala.companion(session, "Ascending")
    return scala.companion(session, "SortOrder").apply(expression, direction, scala.seq(session, []))


def column(session: SparkSession, expression: JavaObject) -> Column:
    """A Catalyst expression as a PySpark column."""
    return Column(scala.java_class(session, "ExpressionUtils").column(expression))


def cast(session: SparkSession, expression: JavaObject, kind: DataType, zone: str) -> Column:
    """`expression` cast to another type; times in it are read in the time zone `zone`, which need not be the session's."""
    make = scala.companion(session, "Cast")
    data_type = session._jsparkSession.parseDataType(kind.json())
    return column(session, make.apply(expression, data_type, scala.some(session, zone), False))


def is_column(expression: JavaObject) -> bool:
    return scala.class_name(expression) == "AttributeReference"


def has_watermark(expression: JavaObject) -> bool:
    """Whether an expression is a column under a watermark."""
    return is_column(expression) and bool(expression.metadata().contains(EVENT_TIME))


def aggregate_functions(aggregation: JavaObject) -> list[dict[str, Any]]:
    """The aggregate functions of a physical aggregation, in the order of their buffers in its rows.

    Returns:
        the name of each: that of its column in the result, or what it computes if it is only a part of one; Spark's name of the
        `function`; and how many `buffers` it has.
    """
    names = {
        column.child().exprId().id(): column.name() for column in scala.items(aggregation.resultExpressions())
        if scala.class_name(column) == "Alias" and is_column(column.child())
    }
    found = []
    for one in scala.items(aggregation.aggregateExpressions()):
        function = one.aggregateFunction()
        found.append({
            "name": names.get(one.resultAttribute().exprId().id(), one.sql()),
            "function": function.prettyName(),
            "buffers": function.aggBufferAttributes().size(),
        })
    return found


def expression_ids(session: SparkSession, node: JavaObject) -> list[int]:
    """The expression ids of a node's columns."""
    ids = scala.texts(session, node.output(), "NamedExpression.exprId", "ExprId.id")
    return [int(one) for one in ids]


def python_type(data_type: JavaObject) -> DataType:
    """A Java type as PySpark's."""
    return _parse_datatype_json_string(data_type.json())


def command(session: SparkSession, udf: JavaObject) -> bytes:
    """What a PythonUDF sends to the worker: a function and its type, pickled."""
    return bytes(udf.func().command().toArray(scala.java_class(session, "scala.reflect.ClassTag").Byte()))


def with_command(session: SparkSession, udf: JavaObject, pickled: bytes, children: Iterable[JavaObject]) -> JavaObject:
    """The PythonUDF with another function, and over other arguments."""
    given = udf.func()
    function = scala.call(
        scala.java_class(session, "SimplePythonFunction"),
        command=bytearray(pickled), envVars=given.envVars(), pythonIncludes=given.pythonIncludes(),
        pythonExec=given.pythonExec(), pythonVer=given.pythonVer(), broadcastVars=given.broadcastVars(),
        accumulator=given.accumulator(),
    )
    return scala.call(udf.copy, **scala.fields(udf) | {"func": function, "children": scala.seq(session, children)})
