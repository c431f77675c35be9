"""Declares which parts of the running query the stages of the loop use.

Models: the fields that the methods of MicroBatchExecution share: sources, logs, the progress lock (Execution flow).

1. A stage (populate_start_offsets.py, construct_next_batch.py, run_batch.py, finish_trigger.py) takes a `RunningQuery` and a
   context. The query has what stays the same from the first batch to the last; the context has what is known of one batch.
2. The sources are created once, before the first batch. Then each of them has a number, a name and a read limit.
3. `processAllAvailable` waits until a trigger has found nothing new.

    files of in/ and of clicks/    sources  0: FileStreamSource[in]   1: FileStreamSource[clicks]
                                   ids      {"0": 0, "1": 1}          by which the offset log identifies them

Differs from Spark: nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import SparkSession

from minispark_stream.engine.checkpointing.commit_log import CommitLog
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqLog
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.observer import Observer
from minispark_stream.engine.runtime.incremental_execution import IncrementalExecution
from minispark_stream.engine.runtime.micro_batch_execution_context import Offsets
from minispark_stream.engine.runtime.progress_reporter import ProgressReporter
from minispark_stream.engine.runtime.query_planner import QueryPlanner
from minispark_stream.engine.sinks.base import Sink
from minispark_stream.engine.sources.base import Offset, ReadLimit, Source


class RunningQuery(Protocol):
    """(1) A query, as its stages see it."""

    session: SparkSession
    checkpoint: str
    sources: QuerySources
    sink: Sink
    planner: QueryPlanner
    offset_log: OffsetSeqLog
    commit_log: CommitLog
    clock: Clock
    observer: Observer
    reporter: ProgressReporter
    progress_lock: ProgressLock
    no_data_batches_enabled: bool
    min_batches_to_retain: int

    def conf(self, key: str) -> str | None:
        """A conf of this query's session (or its default); None if there is neither."""

    def update_status(self, *, message: str) -> None:
        """Say what the query is doing now."""

    def start_maintenance(self, execution: IncrementalExecution) -> None:
        """From now on, write snapshots and delete old files in the background, if the batch has state."""

    def check_not_stopped(self) -> None:
        """Raises QueryStopped after `stop()`."""


@dataclass(frozen=True)
class QuerySources:
    """(2) The sources of a query, by number.

    `names` are their names in sources/ and in the trace. `ids` has the number of each source by its id in the offset log.
    """

    sources: Sequence[Source] = ()
    names: Sequence[str] = ()
    ids: Mapping[str, int] = field(default_factory=dict)
    read_limits: Mapping[int, ReadLimit] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Source:
        return self.sources[number]

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    def number_of(self, source: Source) -> int:
        return next(i for i, one in enumerate(self.sources) if one is source)

    def name_of(self, source: Source) -> str:
        """The description of a source after its name or number, since several sources may have the same description."""
        return f"{self.names[self.number_of(source)]}: {source.description}"

    def by_name(self, offsets: Offsets) -> dict[str, Offset]:
        """Offsets by names that people can read."""
        return {self.name_of(self.sources[i]): offset for i, offset in sorted(offsets.items())}


class ProgressLock(threading.Condition):
    """(3) Held while the sources are asked, so that `processAllAvailable` begins to wait either before that or after it."""

    no_new_data = False
