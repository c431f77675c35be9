"""Gauges in Spark's own metrics system, from which its sinks (JMX, Graphite, Prometheus) and its pages take them.

A metrics system takes gauges in bundles, each from an object of a JVM class, and the one that Spark has for a query belongs to
Spark's own engine. So the gauges are put into its registry one by one, under the names that the bundle would give them.

    counts    ->   app-20240101.driver.spark.streaming.counts.inputRate-total
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.contract import ENGINE
from minispark_stream.engine.jvm.scala import JavaObject

_ALWAYS_THERE = "BlockManager"  # a bundle of every driver, whose name shows what names begin with


class Gauges:
    """Some gauges, which the metrics system has from now on until `remove`.

    Args:
        bundle: what their names have in common, such as `spark.streaming.counts`.
        values: name -> value.
    """

    def __init__(self, session: SparkSession, bundle: str, values: Mapping[str, float]):
        system = _field(session, "SparkEnv", "metricsSystem", session.sparkContext._jsc.sc().env())
        self._registry = _field(session, "MetricsSystem", "registry", system)
        other = system.buildRegistryName(system.getSourcesByName(_ALWAYS_THERE).head())
        self._prefix = f"{other.removesuffix(_ALWAYS_THERE)}{bundle}."
        gauge = scala.java_class(session, "com.codahale.metrics.DefaultSettableGauge")
        self._gauges: dict[str, Any] = {name: gauge(value) for name, value in values.items()}
        for name, one in self._gauges.items():
            self._registry.register(self._prefix + name, one)

    def set(self, values: Mapping[str, float]) -> None:
        """Give each gauge its value."""
        for name, value in values.items():
            self._gauges[name].setValue(value)

    def remove(self) -> None:
        """Take them out of the metrics system."""
        for name in self._gauges:
            self._registry.remove(self._prefix + name)


def _field(session: SparkSession, of_class: str, name: str, owner: JavaObject) -> JavaObject:
    """A field of an object. SparkEnv has methods with types of optional jars, so py4j cannot look at its methods."""
    field = scala.java_class(session, "java.lang.Class").forName(ENGINE[of_class]).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)
