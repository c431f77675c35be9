"""The numbers of queries as Prometheus and OpenTelemetry get them."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from minispark_stream.tools.monitoring.listeners import OpenTelemetryListener, PrometheusListener

prometheus_client = pytest.importorskip("prometheus_client")
NASTY = 'counts "of"\nall \\words'


def tell(listener: Any, name: str = NASTY) -> None:
    """One batch of a query, and its end."""
    report = {"id": "q", "name": name, "timestamp": "2024-01-01T12:00:00.000Z", "batchId": 3, "inputRowsPerSecond": 2.5,
              "durationMs": {"addBatch": 1}, "sources": [{"numInputRows": 5}]}
    listener.onQueryStarted(SimpleNamespace(id="q", name=name, timestamp="2024-01-01T12:00:00.000Z"))
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report))))


def test_prometheus_reads_what_it_is_served():
    from prometheus_client.parser import text_string_to_metric_families

    listener = PrometheusListener(port=0, registry=prometheus_client.CollectorRegistry())
    tell(listener)
    try:
        text = urlopen(f"http://127.0.0.1:{listener.port}/metrics", timeout=5).read().decode()
    finally:
        listener.close()
    samples = {one.name: one for family in text_string_to_metric_families(text) for one in family.samples}
    assert samples["spark_streaming_inputRate_total"].value == 2.5
    assert samples["spark_streaming_inputRate_total"].labels == {"query": NASTY, "query_id": "q"}
    assert samples["spark_streaming_source_rows_total"].value == 5
    assert samples["spark_streaming_source_rows_total"].labels["source"] == "0"


def test_a_closed_listener_leaves_its_registry():
    registry = prometheus_client.CollectorRegistry()
    for _ in range(2):
        listener = PrometheusListener(registry=registry)
        tell(listener)
        assert b"spark_streaming_batch_id" in prometheus_client.generate_latest(registry)
        listener.close()
    assert prometheus_client.generate_latest(registry) == b""


def test_open_telemetry_gets_the_numbers_with_their_attributes():
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    listener = OpenTelemetryListener(sdk.MeterProvider([reader]).get_meter("test"))
    tell(listener)
    found = {
        metric.name: metric.data.data_points
        for resource in reader.get_metrics_data().resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    }
    (rate,) = found["spark.streaming.inputrate-total"]  # the SDK writes names in lower case
    assert rate.value == 2.5 and dict(rate.attributes) == {"query": NASTY, "query_id": "q"}
    (rows,) = found["spark.streaming.source_rows"]
    assert rows.value == 5 and rows.attributes["source"] == "0"


def test_a_listener_that_would_run_elsewhere_says_where_it_runs():
    with pytest.raises(TypeError, match=r"PrometheusListener cannot be sent .* Spark Connect 3\.5 .* from 4\.0 on"):
        pickle.dumps(PrometheusListener(registry=prometheus_client.CollectorRegistry()))
