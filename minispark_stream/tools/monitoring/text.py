"""Samples as the families of prometheus_client, which writes them in Prometheus' text format.

    Sample("batch_id", 7, ("counts", "65e6..."))   ->   spark_streaming_batch_id{query="counts",query_id="65e6..."} 7.0

Names of queries and paths may have any character; prometheus_client escapes what the format needs to be escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from minispark_stream.tools.monitoring.families import MetricFamily, Sample

if TYPE_CHECKING:
    from prometheus_client import Metric


def families_of(samples: Iterable[Sample], known: Mapping[str, MetricFamily], common: tuple[str, ...]) -> Iterator[Metric]:
    """The samples by family, in the order of `known`; families without a sample are left out.

    Args:
        common: the labels that each family has before its own.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    for name, family in known.items():
        if name in by_name:
            labels = [*common, *family.labels]
            metric: CounterMetricFamily | GaugeMetricFamily
            if family.is_counter:
                metric = CounterMetricFamily(family.in_prometheus, family.says, labels=labels)
            else:
                metric = GaugeMetricFamily(family.in_prometheus, family.says, labels=labels)
            for sample in by_name[name]:
                metric.add_metric([one.encode("utf-8", "replace").decode() for one in sample.labels], sample.value)
            yield metric


def as_text(samples: Iterable[Sample], known: Mapping[str, MetricFamily], common: tuple[str, ...]) -> str:
    """The samples in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Samples(Collector):
        def collect(self) -> Iterator[Metric]:
            return families_of(samples, known, common)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Samples())
    return generate_latest(registry).decode()
