"""Where the partitions of a state are computed: on a cluster, each partition always on the same host.

Models: StateStoreRDD.getPreferredLocations, which prefers the executor that had the store last (About state).

1. Every partition has a place, which is a host. The hosts of all executors take turns, and a host has as many turns as its
   executors have cores: the more cores a host has, the more partitions it gets.
2. The places change when executors come or go, and only then.
3. Spark learns the places from an RDD with one row in each partition, whose preferred locations are the places. A union with
   this RDD, partition by partition, prefers the host that its inputs name most often. Rows that come from a shuffle name up to
   five executors, those that have at least a fifth of them, so this RDD names its host VOTES times.

    executors 1 (host a, 2 cores), 2 (host b, 1 core)     places of 5 partitions: a, b, a, a, b

If a host is busy, Spark waits for `spark.locality.wait` before it takes another one. A place is a host, not one of the
executors on it, because Spark's union of RDDs only passes on hosts.

Differs from Spark: in Spark, a coordinator in the driver remembers which executor had which store; here the host of a
partition is computed, and no task has to report.
Shown by tests/unit/engine/jvm/test_executors.py::test_each_host_has_partitions_for_its_cores.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, islice
from typing import NamedTuple

from pyspark.sql import SparkSession

from minispark_stream.engine.jvm import plans, scala
from minispark_stream.engine.jvm.scala import JavaObject

VOTES = 6  # a shuffle names five executors at most, which may be on one host


class Executor(NamedTuple):
    host: str
    cores: int


class Places:
    """(2) The places, computed again only when the executors have changed."""

    def __init__(self, session: SparkSession):
        self._session, self._context = session, session.sparkContext._jsc.sc()
        self._known, self._executors = "", list[Executor]()

    def of(self, partitions: int) -> list[str]:
        """The host of each partition; an empty list if there is only one host, or none yet."""
        known = str(self._context.getExecutorMemoryStatus().keySet().toString())
        if known != self._known:
            active = scala.items(self._context.statusStore().executorList(True))
            every = [(str(e.id()), str(e.hostPort()), e.totalCores()) for e in active]
            self._executors = [Executor(at.rpartition(":")[0], cores) for name, at, cores in every if name != "driver"]
            self._known = known
        return places(self._executors, partitions)


def places(executors: Iterable[Executor], partitions: int) -> list[str]:
    """(1) The host of each partition; an empty list if there are fewer than two hosts."""
    every = sorted(executors)
    if len({executor.host for executor in every}) < 2:
        return []
    turns = range(max(executor.cores for executor in every))
    return list(islice(cycle(e.host for turn in turns for e in every if e.cores > turn), partitions))


def one_row_at_each(session: SparkSession, row: JavaObject, hosts: list[str]) -> JavaObject:
    """(3) An RDD with one partition for each of the `hosts`, which prefers this host and has `row` in it."""
    pair = scala.java_class(session, "scala.Tuple2")
    rows = scala.seq(session, [pair(row, scala.strings(session, [host] * VOTES)) for host in hosts])
    return session.sparkContext._jsc.sc().makeRDD(rows, plans.internal_rows(session))
