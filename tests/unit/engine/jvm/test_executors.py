"""The places of partitions, without Spark; tests/spark/test_cluster.py has a Spark that follows them."""

from __future__ import annotations

from minispark_stream.engine.jvm.executors import Executor, places


def test_each_host_has_partitions_for_its_cores() -> None:
    """In whatever order Spark names the executors."""
    executors = [Executor("b", 1), Executor("a", 2)]
    assert places(executors, 5) == places(executors[::-1], 5) == ["a", "b", "a", "a", "b"]


def test_one_host_is_no_choice() -> None:
    assert places([Executor("a", 2), Executor("a", 3)], 4) == places([], 4) == []
