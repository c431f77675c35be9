"""What Spark's own streaming suites hold, in our own words: each case is a test of the kit, and runs on both engines at once.

The cases are in spark_suites/; the first line of each file there names Spark's test classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import SparkSession

from minispark_stream.testing import stream_test
from tests.conformance.spark_suites.cases import CASES, Test


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.__name__)
def test_a_case_of_sparks_suites(spark: SparkSession, one: Callable[[Test], None]) -> None:
    one(partial(stream_test, spark, engine="both"))
