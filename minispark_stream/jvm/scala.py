"""Scala values and classes, seen from Python through py4j.

    items(seq)               a Scala collection as a list
    seq(session, values)     a list as a Scala Seq
    class_name(node)         the simple class name of a plan node or an expression: "Aggregate", "LogicalRDD", ...
    java_class(session, n)   a Java class by its full name

Nothing here knows about plans or streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

JavaObject = Any


def jvm(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def gateway(session: SparkSession) -> Any:
    return session.sparkContext._gateway


@lru_cache(maxsize=256)
def _java_class(view: Any, name: str) -> Any:
    found = view
    for part in name.split("."):
        found = getattr(found, part)
    return found


def java_class(session: SparkSession, name: str) -> Any:
    """A Java class by its full name. Each look-up asks the JVM, so the answer is kept."""
    return _java_class(jvm(session), name)


@lru_cache(maxsize=8)
def _nil(view: Any) -> JavaObject:
    return _java_class(view, "scala.jdk.javaapi.CollectionConverters").asScala(view.java.util.ArrayList()).toList()


def items(seq: JavaObject) -> list[JavaObject]:
    """A Scala collection as a list."""
    return [seq.apply(i) for i in range(seq.size())]


def seq(session: SparkSession, values: Iterable[JavaObject]) -> JavaObject:
    """A Scala (immutable) Seq: a List, built from its end, one call to the JVM for each element."""
    result = _nil(jvm(session))
    for value in reversed(list(values)):
        result = getattr(result, "$colon$colon")(value)
    return result


def class_name(node: JavaObject) -> str:
    """The simple Scala class name of a plan node or expression: "Aggregate", "LogicalRDD", ..."""
    return str(node.getClass().getSimpleName())


def companion(session: SparkSession, name: str) -> JavaObject:
    """The Scala object `name` (a companion without static forwarders cannot be reached by its plain name)."""
    return getattr(java_class(session, name + "$"), "MODULE$")


@lru_cache(maxsize=8)
def _none(view: Any) -> JavaObject:
    return view.scala.Option.empty()


def none(session: SparkSession) -> JavaObject:
    return _none(jvm(session))


def java_map(session: SparkSession, values: Mapping[str, str]) -> JavaObject:
    """An immutable Scala Map."""
    j = jvm(session)
    return j.org.apache.spark.api.python.PythonUtils.toScalaMap(j.java.util.HashMap(dict(values)))


def some(session: SparkSession, value: JavaObject) -> JavaObject:
    return jvm(session).scala.Option.apply(value)
