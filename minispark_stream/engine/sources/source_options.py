"""The checks that the sources which make their own rows have in common, in Spark's words.

Models: SimpleTableProvider. Spark's own map parses the numbers (engine/jvm/builders.py), so that a wrong one fails with Spark's
exception (`NumberFormatException: For input string: "x"`).

    readStream.format("rate").option("rowsPerSecond", 0)   Invalid value '0'. The option 'rowsPerSecond' must be positive

Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm.errors import illegal_argument, spark_error


def refuse_user_schema(session: SparkSession, provider: str, schema: StructType | None) -> None:
    """Raises UnsupportedOperationException when a schema was given: these sources have their own."""
    if schema is not None:
        raise spark_error(session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2242", provider=provider)


def check(valid: bool, value: int, option: str, rule: str) -> None:
    """Raises IllegalArgumentException in Spark's words unless `valid`."""
    if not valid:
        raise illegal_argument(f"Invalid value '{value}'. The option '{option}' must be {rule}")
