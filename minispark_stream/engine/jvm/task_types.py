"""The types of rows in the engine's own tasks, where it counts which bytes a value has, and not what its type is called.

A task keeps most columns as they are and looks into few of them. Between the JVM and the task, Arrow and PySpark know fewer
types than Spark has. So

1. The fields of a struct go by their place, since two of them may have one name; and a null may be everywhere, since a struct
   that is null has nulls in fields which cannot be null (`without_names`). In a task, state rows have this form, too.
2. A value that PySpark has no Arrow type for goes as what an UnsafeRow has in its place (`in_arrow`): months, or bytes.

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
    """(1) The same columns; what is inside of them has no names any more."""
    return StructType([StructField(f.name, by_position(f.dataType)) for f in schema])


def in_arrow(schema: StructType) -> StructType:
    """(2) `without_names`, in types that PySpark can send to a task and back."""
    return StructType([StructField(f.name, by_position(f.dataType, _as_it_lies_in_a_row)) for f in schema])


def _as_it_lies_in_a_row(one: DataType) -> DataType:
    if isinstance(one, YearMonthIntervalType):
        return IntegerType()
    return BinaryType() if isinstance(one, AS_BYTES) else one


def by_position(kind: DataType, of: Callable[[DataType], DataType] = lambda one: one) -> DataType:
    """(1) A type whose fields go by their place, with `of` applied to what has no parts."""
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
