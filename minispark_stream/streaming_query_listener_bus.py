"""The listeners of a session, and how they are told what its queries do.

Models: StreamingQueryListenerBus (SIGMOD'18 paper, section 7.4).

1. That a query starts is told on the query's own thread: all listeners know of it when `start()` returns.
2. Whatever else happens waits in a queue. One thread takes it out and tells the listeners, so a listener that is slow, or that
   waits for a query, holds no query up. The thread ends when the queue is empty.
3. An error of a listener is logged, and the next listener is told.

    batch 0 ends       queue: progress 0                     a listener sends it over a slow network
    batch 1 ends       queue: progress 1                     it has not come back yet
    stop()             queue: progress 1, terminated         it is told in this order

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

logger = logging.getLogger(__name__)

_EVENTS = {
    "started": (QueryStartedEvent, "onQueryStarted"),
    "idle": (QueryIdleEvent, "onQueryIdle"),
    "terminated": (QueryTerminatedEvent, "onQueryTerminated"),
}


class StreamingQueryListenerBus:
    """Tells the listeners of one session. `progress_of(**event)` makes the report of a batch from its values."""

    def __init__(self, progress_of: Callable[..., StreamingQueryProgress]):
        self._progress_of = progress_of
        self._listeners: list[StreamingQueryListener] = []
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._is_telling = False

    def add(self, listener: StreamingQueryListener) -> None:
        _check_listener(listener)
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: StreamingQueryListener) -> None:
        _check_listener(listener)
        with self._lock:
            found = next((i for i, one in enumerate(self._listeners) if one is listener), None)
            if found is not None:
                del self._listeners[found]

    def post(self, kind: str, event: dict[str, Any]) -> None:
        """Tell every listener of an event: "started" at once, "progress", "idle" and "terminated" soon."""
        if kind == "started":  # (1)
            self._tell(kind, event)
            return
        with self._lock:  # (2)
            self._waiting.append((kind, event))
            if not self._is_telling:
                self._is_telling = True
                threading.Thread(target=self._tell_all, name="stream listener bus", daemon=True).start()

    def _tell_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_telling = False
                    return
                kind, event = self._waiting.popleft()
            self._tell(kind, event)

    def _tell(self, kind: str, event: dict[str, Any]) -> None:
        for listener in list(self._listeners):
            try:
                if kind == "progress":
                    listener.onQueryProgress(QueryProgressEvent(self._progress_of(**event)))
                else:
                    event_class, method = _EVENTS[kind]
                    getattr(listener, method)(event_class.fromJson(event))  # type: ignore[attr-defined]
            except Exception:  # (3)
                logger.warning("Listener %s threw an exception", listener, exc_info=True)


def _check_listener(listener: Any) -> None:
    """Raises AttributeError, as PySpark does, if the argument is not a listener."""
    if not isinstance(listener, StreamingQueryListener):
        kind = type(listener._jlistener)  # which the class of a listener has, as a property: py4j refuses it
        raise AttributeError(f"'{kind.__name__}' object has no attribute '_get_object_id'")
