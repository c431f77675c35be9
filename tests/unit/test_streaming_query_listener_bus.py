"""The bus of listeners: on which thread they are told, in which order, and what an error of one of them does."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from minispark_stream.streaming_query_listener_bus import StreamingQueryListenerBus

QUERY = {"id": "00000000-0000-0000-0000-000000000001", "runId": "00000000-0000-0000-0000-000000000002"}
STARTED = {**QUERY, "name": "q", "timestamp": "2024-01-01T12:00:00.000Z"}
TERMINATED = {**QUERY, "exception": None, "errorClassOnException": None}


class Listener(StreamingQueryListener):
    """Notes what it is told, and on which thread. It waits, before it has heard of its first batch, until it `may` go on."""

    def __init__(self) -> None:
        self.told: list[tuple[str, threading.Thread]] = []
        self.may, self.ended = threading.Event(), threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self._note(f"started {event.name}")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        assert self.may.wait(60)
        self._note(f"progress {event.progress.batchId}")

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._note("terminated")

    def _note(self, what: str) -> None:
        self.told.append((what, threading.current_thread()))
        if what == "terminated":
            self.ended.set()
        raise ValueError("an error that goes no further")


def test_a_listener_that_waits_holds_nobody_up_and_misses_nothing() -> None:
    bus, listeners = StreamingQueryListenerBus(lambda **event: SimpleNamespace(**event)), [Listener(), Listener()]  # type: ignore[arg-type]
    for listener in listeners:
        bus.add(listener)
    bus.post("started", STARTED)
    assert [[what for what, _ in listener.told] for listener in listeners] == [["started q"]] * 2
    for batch in (0, 1):
        bus.post("progress", {"batchId": batch})
    bus.post("terminated", TERMINATED)
    for listener in listeners:
        listener.may.set()
    for listener in listeners:
        assert listener.ended.wait(60)
        assert [what for what, _ in listener.told] == ["started q", "progress 0", "progress 1", "terminated"]
        assert [thread is threading.current_thread() for _, thread in listener.told] == [True, False, False, False]


def test_a_listener_that_was_removed_hears_nothing_more() -> None:
    bus, gone, stays = StreamingQueryListenerBus(lambda **event: SimpleNamespace(**event)), Listener(), Listener()  # type: ignore[arg-type]
    for listener in (gone, stays):
        bus.add(listener)
    bus.remove(gone)
    bus.post("terminated", TERMINATED)
    assert stays.ended.wait(60) and not gone.told
