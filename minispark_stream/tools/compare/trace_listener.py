"""A listener that keeps the traces of all queries of a session, from the time when it is added.

    listener = TraceListener(spark)
    spark.streams.addListener(listener)             before the queries start
    ...
    listener.traces["counts"].timeline()            by name, or by id if the query has no name

1. When a query starts, the listener asks it where its checkpoint is.
2. After every batch, the listener keeps the progress report and the log files of the batch, which Spark deletes later. When a
   query is started again on its checkpoint, its trace continues.
3. When the query ends, the listener keeps its error.

Over Spark Connect, a listener may not know where the checkpoint is (tools/held_query.py), unless `checkpoints` says it. Spark
Connect of 3.5 runs a listener in a process of the server, where nobody can ask it for its traces, so it is refused there.

It keeps the newest `max_queries` queries, and the newest `max_batches` batches of each.

Spark notifies listeners of a batch a moment after the batch has ended.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minispark_stream.engine.spark_versions import is_of_connect, spark_of
from minispark_stream.lens.trace.trace import Trace
from minispark_stream.tools.compare.spark_batch import SparkBatch, spark_batches
from minispark_stream.tools.compare.spark_trace import spark_trace
from minispark_stream.tools.held_query import as_model_query, look


@dataclass
class _Watched:
    """What is known about a query. A query of the model keeps its own trace; `earlier` is that of its earlier runs."""

    name: str | None
    checkpoint: str | None
    plan: str | None
    source_names: tuple[str, ...]
    batches: deque[SparkBatch]
    query: Any = None
    earlier: Trace = Trace(())
    error: str | None = None
    is_real_time: bool = False

    @property
    def trace(self) -> Trace:
        if self.query is not None:
            return self.earlier + self.query.trace
        return spark_trace(list(self.batches), self.name, self.plan, self.error)


class TraceListener(StreamingQueryListener):
    """Keeps the traces of all queries of a session; add it with `session.streams.addListener`.

    Args:
        session: the SparkSession, or MiniSparkSession, whose queries are started.
        max_batches: how many batches of a query are kept.
        max_queries: how many queries are kept.
        checkpoints: where the checkpoints of some queries are, by the names of the queries.

    Raises:
        PySparkRuntimeError: the session is one of Spark Connect 3.5.
    """

    def __init__(
        self, session: SparkSession, max_batches: int = 1000, max_queries: int = 100,
        checkpoints: Mapping[str, str] | None = None,
    ):
        if is_of_connect(session) and not spark_of(session.version).listens_in_client:
            raise PySparkRuntimeError(
                f"TraceListener: Spark Connect {session.version} runs listeners in a process of the server, which has no trace "
                "to give; trace_of(query, checkpoint=...) works there, and TraceListener over Spark Connect from 4.0 on"
            )
        self._checkpoints = dict(checkpoints or {})
        self._session = session
        self._max_batches = max_batches
        self._max_queries = max_queries
        self._watched: dict[str, _Watched] = {}  # by the id of the query

    @property
    def traces(self) -> Mapping[str, Trace]:
        """Traces by the names of their queries, or by their ids if they have no name; a name means its latest query."""
        return {watched.name or id: watched.trace for id, watched in list(self._watched.items())}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        query = self._session.streams.get(str(event.id))  # (1)
        if query is None:
            return  # of another session
        before = self._watched.pop(str(event.id), None) or _Watched(None, None, None, (), deque(maxlen=self._max_batches))
        if as_model_query(query) is not None:
            earlier = before.earlier if before.query is None else before.trace
            now = replace(before, name=event.name, query=query, earlier=earlier)
        else:
            seen = look(query, self._checkpoints.get(str(event.name)))
            now = replace(
                before, name=event.name, checkpoint=seen.checkpoint, plan=seen.plan or None, source_names=seen.source_names,
                error=None, is_real_time=seen.real_time_ms > 0,
            )
        self._watched[str(event.id)] = now
        while len(self._watched) > self._max_queries:
            del self._watched[next(iter(self._watched))]

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        watched = self._watched.get(str(event.progress.id))
        if watched is not None and watched.query is None:
            report = json.loads(event.progress.json)
            if watched.checkpoint is None and report["stateOperators"]:  # over Spark Connect, the plan of a batch has it
                query = self._session.streams.get(str(event.progress.id))
                watched.checkpoint = None if query is None else look(query).checkpoint
            watched.batches += spark_batches(watched.checkpoint, [report], watched.source_names, watched.is_real_time)  # (2)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        watched = self._watched.get(str(event.id))
        if watched is not None:
            watched.error = event.exception  # (3)
