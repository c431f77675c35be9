"""The numbers of running queries: Spark's own gauges, and what a listener for Prometheus shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, PrometheusListener
from minispark_stream.tools.compare.runner import confs_set
from minispark_stream.tools.monitoring.families import FAMILIES, SPARKS_OWN

prometheus_client = pytest.importorskip("prometheus_client")
ROWS = ["12:01,a", "12:07,b", "12:40,a"]


@pytest.fixture(params=["spark", "model"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return spark if request.param == "spark" else MiniSparkSession(spark)


def windows(session: Any, folder: Path) -> DataFrame:
    parts = F.split("value", ",")
    time = F.to_timestamp(F.concat(F.lit("2024-01-01 "), parts[0]))
    rows = session.readStream.text(str(folder)).select(time.alias("t"), parts[1].alias("k")).withWatermark("t", "10 minutes")
    return rows.groupBy(F.window("t", "5 minutes"), "k").count()


def in_metrics_system(spark: SparkSession, name: str) -> dict[str, Any]:
    """The gauges that Spark's metrics system has of a query."""
    found: Any = spark.sparkContext._jsc.sc().env()
    for of_class, name_of_field in (("SparkEnv", "metricsSystem"), ("metrics.MetricsSystem", "registry")):
        field = spark._jvm.java.lang.Class.forName(f"org.apache.spark.{of_class}").getDeclaredField(name_of_field)  # type: ignore[union-attr]
        field.setAccessible(True)
        found = field.get(found)
    gauges = found.getGauges()
    begin = f"{spark.sparkContext.applicationId}.driver.spark.streaming.{name}."
    return {name: gauge.getValue() for name in SPARKS_OWN if (gauge := gauges.get(begin + name)) is not None}


def soon(condition: Callable[[], bool]) -> None:
    """Spark tells listeners a moment later."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_six_gauges_are_those_of_spark(session: Any, spark: SparkSession, tmp_path: Path) -> None:
    """By name and value: in the metrics system, in the newest report, and in what Prometheus reads; and gone at the end."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.txt").write_text("\n".join(ROWS))
    registry = prometheus_client.CollectorRegistry()
    listener = PrometheusListener(registry=registry)
    session.streams.addListener(listener)
    try:
        with confs_set(spark, {"spark.sql.streaming.metricsEnabled": "true"}):
            writer = windows(session, tmp_path / "in").writeStream.format("noop").outputMode("append").queryName("gauges")
            query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert set(SPARKS_OWN) == set(in_metrics_system(spark, "gauges"))
        query.processAllAvailable()  # the batch, and one without data, which evicts two windows
        told = {"query": "gauges", "query_id": str(query.id)}
        soon(lambda: registry.get_sample_value("spark_streaming_batch_id", told) == 1)
        own = in_metrics_system(spark, "gauges")
        assert own["eventTime-watermark"] == 1_704_112_200_000 and own["states-rowsTotal"] == 1 and own["states-usedBytes"] > 0
        shown = {name: registry.get_sample_value(FAMILIES[name].in_prometheus, told) for name in SPARKS_OWN}
        rates = ("inputRate-total", "processingRate-total")  # a report rounds them
        assert {k: v for k, v in shown.items() if k not in rates} == {k: v for k, v in own.items() if k not in rates}
        assert [shown[k] for k in rates] == pytest.approx([own[k] for k in rates], abs=0.1)
        removed = {**told, "operator": "0", "name": "stateStoreSave"}
        assert registry.get_sample_value("spark_streaming_state_rows_removed_total", removed) == 2
        assert registry.get_sample_value("spark_streaming_source_rows_total", {**told, "source": "0"}) == 3
        query.stop()
        soon(lambda: registry.get_sample_value("spark_streaming_active", told) == 0)
        assert registry.get_sample_value("spark_streaming_ended", {**told, "condition": "none"}) == 1
        assert in_metrics_system(spark, "gauges") == {}
    finally:
        session.streams.removeListener(listener)
        listener.close()


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
