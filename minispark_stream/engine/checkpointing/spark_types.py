"""PySpark's types or, without a PySpark that has all of them, types with the same methods (types_without_pyspark.py).

Models: StructType (About state).

    StructType.fromJson({"type": "struct", "fields": [...]})      whichever of the two is there

So a checkpoint can be read where only numpy, pyarrow and xxhash are installed. Code that reads rows asks a type for its
`typeName()` and its parts, never for its class, so it needs no other types than these. (The name of a user-defined type is
anything, see `stored_type`.)

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import Any

from minispark_stream.engine.spark_versions import reads_with_pyspark

if reads_with_pyspark():
    from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType
else:
    from minispark_stream.engine.checkpointing.types_without_pyspark import (  # type: ignore[assignment]
        ArrayType,
        BinaryType,
        DataType,
        MapType,
        StructField,
        StructType,
    )

__all__ = ["ArrayType", "BinaryType", "DataType", "MapType", "StructField", "StructType", "stored_type"]


def stored_type(kind: Any) -> Any:
    """The type as which the values of a type are stored: that of a user-defined type is its SQL type."""
    return stored_type(kind.sqlType()) if hasattr(kind, "sqlType") else kind
