"""Durations written as text.

    "10s" -> 10000 ms        "7d" -> 604800000 ms        "250" -> 250 ms

Models: JavaUtils.timeStringAs.
Differs from Spark: nothing.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala


def time_string_as_ms(session: SparkSession, text: str) -> int:
    """A duration such as "10s" in milliseconds; a bare number is a number of milliseconds.

    Raises:
        NumberFormatException: the text is not a duration (an IllegalArgumentException in Python).
    """
    return int(scala.java_class(session, "JavaUtils").timeStringAsMs(text))


def time_string_as_sec(session: SparkSession, text: str) -> int:
    """The same in whole seconds; a bare number is a number of seconds."""
    return int(scala.java_class(session, "JavaUtils").timeStringAsSec(text))
