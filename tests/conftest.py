"""Fixtures that every test may ask for. A test that asks for none of them starts no JVM."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minispark_stream import MiniSparkSession

# Workers run this Python, and collect() gives timestamps in UTC on every machine.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["TZ"] = "UTC"
time.tzset()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for all tests: 2 cores, 2 shuffle partitions, UTC, no UI; with the Kafka connector if it can be had."""
    from pyspark.sql import SparkSession

    from tests.connectors import kafka_connector

    session = (
        SparkSession.builder.master("local[2]")
        .appName("minispark_stream tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .config("spark.jars", kafka_connector())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def mini(spark: SparkSession) -> MiniSparkSession:
    """The model, around the same Spark."""
    from minispark_stream import MiniSparkSession

    return MiniSparkSession(spark)
