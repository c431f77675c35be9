"""How the stores of a join are committed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import MANY_ROWS, FourStores


class Store:
    """A store that commits once four are about to."""

    def __init__(self, num_keys: int, meeting: threading.Barrier | None, name: str, committed: list[str]):
        self.num_keys, self._meeting, self._name, self._committed = num_keys, meeting, name, committed

    def commit(self) -> None:
        if self._meeting is not None:
            self._meeting.wait(timeout=10)
        if self._name == "broken":
            raise OSError("the disk is full")
        self._committed.append(self._name)

    def metrics(self) -> str:
        return self._name


def stores(num_keys: int, meeting: threading.Barrier | None, *names: str) -> tuple[Any, list[str]]:
    committed: list[str] = []
    return [Store(num_keys, meeting, name, committed) for name in names], committed


def test_stores_with_many_rows_are_committed_at_the_same_time() -> None:
    many, committed = stores(MANY_ROWS, threading.Barrier(4), "a", "b", "c", "d")
    assert FourStores().commit(many) == ["a", "b", "c", "d"]
    assert sorted(committed) == ["a", "b", "c", "d"]


def test_stores_with_few_rows_are_committed_one_after_the_other() -> None:
    few, committed = stores(10, None, "a", "b", "broken", "d")
    with pytest.raises(OSError, match="the disk is full"):
        FourStores().commit(few)
    assert committed == ["a", "b"]


def test_that_one_of_many_cannot_be_committed_is_an_error() -> None:
    many, _ = stores(MANY_ROWS, None, "a", "b", "broken", "d")
    with pytest.raises(OSError, match="the disk is full"):
        FourStores().commit(many)
