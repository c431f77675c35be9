"""The books of running queries: one query of a name, one run on a checkpoint, and nothing kept of those that have ended."""

from __future__ import annotations

import gc
import threading
import uuid
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.errors import IllegalArgumentException

from minispark_stream import streaming_query_manager
from minispark_stream.engine.clock import SystemClock
from minispark_stream.engine.runtime.stream_failure import StreamFailure
from minispark_stream.streaming_query_manager import StreamingQueryManager

SESSION: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda key: "true"))


def new_manager() -> StreamingQueryManager:
    return StreamingQueryManager(SESSION, lambda: SESSION, "off", SystemClock())


class Run:
    """A query and its execution at once. Whoever looks at its name or id gives another thread time to look, too."""

    def __init__(self, manager: StreamingQueryManager, id: str, name: str | None, meet: threading.Barrier | None = None):
        self._manager, self._id, self._name, self._meet = manager, id, name, meet
        self.runId = self.run_id = str(uuid.uuid4())
        self.failure: StreamFailure | None = None
        self.stopped = False
        self.started = threading.Event()
        self.started.set()
        self.terminated = threading.Event()

    @property
    def id(self) -> str:
        self._wait()
        return self._id

    @property
    def name(self) -> str | None:
        self._wait()
        return self._name

    @property
    def _execution(self) -> Run:
        return self

    def stop(self) -> None:
        self.stopped = True
        self.end()

    def end(self, failure: StreamFailure | None = None) -> None:
        self.failure = failure
        self._manager._post(self, "ended", {})  # type: ignore[arg-type]
        self.terminated.set()
        self._manager._post(self, "terminated", {"id": self._id, "runId": self.run_id, "exception": None, "errorClassOnException": None})  # type: ignore[arg-type]

    def _wait(self) -> None:
        try:
            if self._meet is not None:
                self._meet.wait(0.1)
        except threading.BrokenBarrierError:
            pass


def register_both(*runs: Run) -> list[BaseException]:
    """Register at the same time; what was raised."""
    raised: list[BaseException] = []

    def register(run: Run) -> None:
        try:
            run._manager._register(run, run)  # type: ignore[arg-type]
        except Exception as e:
            raised.append(e)

    threads = [threading.Thread(target=register, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_of_two_that_start_at_once_one_has_the_name() -> None:
    manager, meet = new_manager(), threading.Barrier(2)
    runs = [Run(manager, id, "counts", meet) for id in ("1", "2")]
    [refused] = register_both(*runs)
    assert isinstance(refused, IllegalArgumentException) and "is already active" in str(refused)
    assert len(manager.active) == 1
    manager.active[0].stop()
    assert manager.active == [] and not streaming_query_manager._active_runs


def test_of_two_that_start_at_once_on_a_checkpoint_one_runs() -> None:
    """They may belong to two sessions."""
    meet = threading.Barrier(2)
    runs = [Run(new_manager(), "1", None, meet) for _ in range(2)]
    assert register_both(*runs) == []
    assert [run.stopped for run in runs] in ([True, False], [False, True])
    [running] = [run for run in runs if not run.stopped]
    assert streaming_query_manager._active_runs == {"1": running}
    running.stop()


def test_a_run_that_has_not_begun_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not leave the books before it has: the one that comes after it is refused, and one of the two runs."""
    monkeypatch.setattr(streaming_query_manager, "spark_error", lambda session, kind, condition: RuntimeError(condition))
    first, second = Run(new_manager(), "1", None), Run(new_manager(), "1", None)
    first.started.clear()
    assert register_both(first) == []
    assert [str(e) for e in register_both(second)] == ["CONCURRENT_QUERY"]
    assert not first.stopped and streaming_query_manager._active_runs == {"1": first}
    first.stop()


def test_a_query_that_has_just_ended_is_in_nobodys_way() -> None:
    """`awaitTermination()` has returned, but the query's thread has not come to the books yet."""
    manager: Any = new_manager()
    query_id = str(uuid.uuid4())
    old, new = Run(manager, query_id, "counts"), Run(manager, query_id, "counts")
    register_both(old)
    old.terminated.set()
    assert manager.active == [] and manager.get(query_id) is None
    assert register_both(new) == []
    old.end()
    assert manager.active == [new] and manager.get(query_id) is new and not old.stopped
    new.stop()


def test_ended_queries_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_jvm", object())
    monkeypatch.setattr(SparkContext, "_gateway", object())
    manager = new_manager()
    gone = []
    for failure in (None, StreamFailure("1", "2", OSError("disk full"), ""), None):
        run = Run(manager, "1", None)
        manager._register(run, run)  # type: ignore[arg-type]
        run.end(failure)
        gone.append(weakref.ref(run))
    del run
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]
    with pytest.raises(Exception, match="disk full"):
        manager.awaitAnyTermination()
    manager.resetTerminated()
    assert manager.awaitAnyTermination(0) is False
