"""The types of rows in the engine's own tasks: what matters there is the bytes of a value, not the name of its type.

A task keeps most columns as they are and looks into few of them. The rows travel between the JVM and the task by way of Arrow
and PySpark, which know fewer types than Spark does. So

1. The fields of a struct are named after their positions, because two of them may have the same name; and all of them are
   nullable, because in a struct that is null, every field is null (`without_names`). State rows have this form in a task, too.
2. A value for which PySpark has no Arrow type is sent as what an UnsafeRow holds for it (`in_arrow`): months, or bytes.

    struct<v: interval year to month, v: variant not null>     (1) struct<_0: interval year to month, _1: variant>
                                                               (2) struct<_0: int, _1: binary>

No value changes: the JVM is told another type on the way in, and the real one on the way out (engine/jvm/state_rdd.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable

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
)

AS_BYTES = (CalendarIntervalType, VariantType, GeometryType, GeographyType)


def without_names(schema: StructType) -> StructType:
    """(1) The same columns, but the fields inside of them have positions for names."""
    return StructType([StructField(f.name, by_position(f.dataType)) for f in schema])


def in_arrow(schema: StructType) -> StructType:
    """(2) As `without_names`, and only with types that PySpark can send to a task and back."""
    return StructType([StructField(f.name, by_position(f.dataType, _as_it_lies_in_a_row)) for f in schema])


def _as_it_lies_in_a_row(one: DataType) -> DataType:
    if isinstance(one, YearMonthIntervalType):
        return IntegerType()
    return BinaryType() if isinstance(one, AS_BYTES) else one


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
