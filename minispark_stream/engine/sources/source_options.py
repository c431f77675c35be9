"""Checks of options that several sources have in common, with Spark's texts.

Models: SimpleTableProvider. Spark's own map parses the numbers (engine/jvm/builders.py), so that a wrong one fails with Spark's
exception (`NumberFormatException: For input string: "x"`).

    readStream.format("rate").option("rowsPerSecond", 0)   Invalid value '0'. The option 'rowsPerSecond' must be positive

As in Spark, unknown options are ignored. If one looks like a misspelt option, there is a warning:

    readStream.option("maxFilePerTrigger", 1)              UserWarning: no source has an option maxfilepertrigger: is it ...

Differs from Spark: Spark does not warn.
Shown by tests/unit/test_session.py::test_an_option_that_is_misspelt_is_warned_of.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm.errors import illegal_argument, spark_error

KNOWN = {name.lower(): name for name in (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "fileNameOnly", "cleanSource", "sourceArchiveDir",
    "maxCachedFiles", "rowsPerSecond", "rowsPerBatch", "rampUpTime", "numPartitions", "startingOffsets", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "failOnDataLoss",
)}


def warn_of_misspelt(options: Iterable[str]) -> None:
    """Warn of options (in lower case) whose names are nearly those of known options."""
    for name in options:
        if name not in KNOWN and (near := get_close_matches(name, KNOWN, 1, 0.85)):
            warnings.warn(f"no source has an option {name}: is it {KNOWN[near[0]]}?", stacklevel=5)


def refuse_user_schema(session: SparkSession, provider: str, schema: StructType | None) -> None:
    """Raises UnsupportedOperationException if a schema was given: these sources have a schema of their own."""
    if schema is not None:
        raise spark_error(session, UnsupportedOperationException, "_LEGACY_ERROR_TEMP_2242", provider=provider)


def check(valid: bool, value: int, option: str, rule: str) -> None:
    """Raises IllegalArgumentException with Spark's text unless `valid`."""
    if not valid:
        raise illegal_argument(f"Invalid value '{value}'. The option '{option}' must be {rule}")
