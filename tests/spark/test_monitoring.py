"""What a listener for Prometheus shows of a query that ran on either engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, PrometheusListener

prometheus_client = pytest.importorskip("prometheus_client")


@pytest.fixture(params=["spark", "model"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return spark if request.param == "spark" else MiniSparkSession(spark)


def windows(session: Any, folder: Path) -> DataFrame:
    parts = F.split("value", ",")
    time = F.to_timestamp(F.concat(F.lit("2024-01-01 "), parts[0]))
    rows = session.readStream.text(str(folder)).select(time.alias("t"), parts[1].alias("k")).withWatermark("t", "10 minutes")
    return rows.groupBy(F.window("t", "5 minutes"), "k").count()


def soon(condition: Callable[[], bool]) -> None:
    """Spark tells listeners a moment later."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_end_has_its_condition(session: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.txt").write_text("12:01,a")
    registry = prometheus_client.CollectorRegistry()
    listener = PrometheusListener(registry=registry)
    session.streams.addListener(listener)
    try:
        def fails(data: DataFrame, batch_id: int) -> None:
            data.select(F.raise_error(F.lit("no"))).collect()

        writer = windows(session, tmp_path / "in").writeStream.foreachBatch(fails).outputMode("update").queryName("fails")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        with pytest.raises(Exception, match="no"):
            query.processAllAvailable()
        told = {"query": "fails", "query_id": str(query.id)}
        soon(lambda: registry.get_sample_value("spark_streaming_active", told) == 0)
        conditions = {sample.labels["condition"] for family in registry.collect() if family.name == "spark_streaming_ended"
                      for sample in family.samples}
        assert conditions == {"FOREACH_BATCH_USER_FUNCTION_ERROR"}
    finally:
        session.streams.removeListener(listener)
        listener.close()
