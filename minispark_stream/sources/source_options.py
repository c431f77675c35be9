"""The options of the sources that make their own rows, read and checked by Spark's rules.

Models: CaseInsensitiveStringMap and SimpleTableProvider. Spark's own map parses the numbers, so that a wrong one fails with
Spark's exception (`NumberFormatException: For input string: "x"`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.jvm.errors import illegal_argument, spark_error
from minispark_stream.jvm.scala import JavaObject, java_class, jvm


def case_insensitive(session: SparkSession, options: Mapping[str, str]) -> JavaObject:
    """`options` as Spark's map, which has `getLong`, `getInt`, `getBoolean` with a default."""
    texts = jvm(session).java.util.HashMap({name: value for name, value in options.items() if value is not None})
    return java_class(session, "org.apache.spark.sql.util.CaseInsensitiveStringMap")(texts)


def refuse_user_schema(session: SparkSession, provider: str, schema: StructType | None) -> None:
    """Raises UnsupportedOperationException when a schema was given: these sources have their own."""
    if schema is not None:
        raise spark_error(session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2242", provider=provider)


def check(valid: bool, value: int, option: str, rule: str) -> None:
    """Raises IllegalArgumentException in Spark's words unless `valid`."""
    if not valid:
        raise illegal_argument(f"Invalid value '{value}'. The option '{option}' must be {rule}")
