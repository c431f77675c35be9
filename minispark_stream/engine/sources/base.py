"""What the engine requires of a source, and what a source is made from.

Models: SparkDataStream, Source, SupportsAdmissionControl, ContinuousStream, SupportsRealTimeMode (Source document; Continuous
processing).

    latest_offset(start, limit)   how far may the next batch read?      -> an offset, or None
    get_batch(start, end)         a *plan* for the rows in (start, end] -> a batch DataFrame; reads nothing
    commit(end)                   everything up to `end` has been processed

The continuous engine asks a `ContinuousStream` instead:

    plan_input_partitions(start)  what each task reads, without an end  -> one ContinuousInputPartition for each task
    merge_offsets(offsets)        how far all tasks together have come  -> an offset

A source that `SupportsRealTimeMode` answers these two questions, too: its tasks read until the time of a batch is over.

An offset is the JSON text that is written into the offset log, for example `{"logOffset":3}`; two offsets are equal if their
texts are. The engine never looks inside.

A source without limits has `get_offset`, any other source `latest_offset`. Besides, Spark distinguishes V1 sources from V2
sources. At a restart, it asks only V1 sources for their last batch once more (engine/runtime/populate_start_offsets.py), so a
source says whether it `is_v1`.

Differs from Spark: nothing.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.clock import Clock
from minispark_stream.engine.plan.streaming_relation import StreamingRelation  # what a source's factory returns

Offset = str
StreamedRows: TypeAlias = Sequence[tuple[Any, ...]] | pa.RecordBatch  # of a continuous stream: tuples, or columns
MOST_ROWS = 1000  # at most this many rows of a continuous stream are passed on together


# How much one batch may read is said by PySpark's own limits, which its Python data sources use, too.
ALL_AVAILABLE = ReadAllAvailable()
__all__ = [
    "ALL_AVAILABLE", "MOST_ROWS", "CompositeReadLimit", "ContinuousInputPartition", "ContinuousStream", "Offset", "ReadLimit",
    "ReadMaxBytes", "ReadMaxFiles", "ReadMaxRows", "ReadMinRows", "Source", "SourceSpec", "StreamedRows", "StreamingRelation",
    "SupportsAdmissionControl", "SupportsRealTimeMode", "SupportsTriggerAvailableNow", "offset_by_partition",
]


@dataclass(frozen=True)
class SourceSpec:
    """What `readStream` was given until `load` is called.

    Attributes:
        session: the session that `readStream` belongs to.
        format: the name of the source as the user wrote it.
        path: the argument of `load`.
        schema: the argument of `schema`.
        options: the options; their names are in lower case.
        clock: the clock of the engine.
        spelling: how the user spelt the names of the options.
    """

    session: SparkSession
    format: str
    path: str | None
    schema: StructType | None
    options: Mapping[str, str]
    clock: Clock
    spelling: Mapping[str, str] = field(default_factory=dict)

    @property
    def spelt_options(self) -> dict[str, str]:
        """The options under the names that the user wrote: those of Hadoop's own settings have capital letters."""
        return {self.spelling.get(name, name): value for name, value in self.options.items()}


@dataclass(frozen=True)
class CompositeReadLimit(ReadLimit):
    """Several limits that all apply, for example "at least 100 rows, or 5 minutes" and "at most 1,000 rows"."""

    limits: tuple[ReadLimit, ...]


class Source(ABC):
    """A stream of rows with replayable offsets.

    Attributes:
        description: what progress reports call the source.
        is_v1: whether it is a V1 source in Spark.
    """

    description: str
    is_v1: bool = True

    @abstractmethod
    def get_offset(self) -> Offset | None:
        """The newest offset there is; None if there has never been any data."""

    @abstractmethod
    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        """A batch DataFrame over the rows after `start` (None: from the beginning) up to and including `end`."""

    def commit(self, end: Offset) -> None:
        """All rows up to `end` have been processed and will not be asked for again."""

    def files_between(self, start: Offset | None, end: Offset) -> Sequence[str]:
        """The files that `get_batch(start, end)` reads, for the trace; empty if the source does not read files."""
        return ()

    def last_look(self, most: int) -> Mapping[str, Any]:
        """What the last search for an offset found, for the trace.

        This may contain the names of the `files` to read and other values to show; of each kind, at most `most` names.
        """
        return {}

    def metrics(self, consumed: Offset | None) -> dict[str, str]:
        """Metrics of this source for the progress report, when everything up to `consumed` is read (ReportsSourceMetrics)."""
        return {}

    def stop(self) -> None:
        """The query ends; release the source's resources."""


class SupportsAdmissionControl(Source):
    """A source that can be told how much to read in one batch."""

    def default_read_limit(self) -> ReadLimit:
        return ALL_AVAILABLE

    @abstractmethod
    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        """The newest offset that a batch beginning after `start` may read under `limit`."""

    def report_latest_offset(self) -> Offset | None:
        """The newest offset that exists, regardless of any limit, for progress reports; None if it is not known."""
        return None

    def get_offset(self) -> Offset | None:
        raise NotImplementedError("latest_offset(start, limit) is to be called instead")


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A source that can fix "what is available now" when a query with `availableNow` starts."""

    @abstractmethod
    def prepare_for_trigger_available_now(self) -> None:
        """Remember the newest offset now: later `latest_offset` calls must not go past it."""


def offset_of_another_source(offset: Offset, kind: str) -> RuntimeError:
    """The error when a source gets an offset of another kind of source, because the query has changed since."""
    return RuntimeError(
        f"The offset {offset[:80]!r} is not one of a {kind} source. Give the query the sources that it had, in their order, or "
        "a new checkpoint location."
    )


def offset_by_partition(offsets: Mapping[int, Any]) -> Offset:
    """A JSON object with the offset of each partition under its number: {"0":2,"1":1}."""
    return to_json({str(i): offsets[i] for i in sorted(offsets)})


class ContinuousInputPartition(ABC):
    """What one task reads; it is sent to the task's worker.

    `start_offset` says where it begins: the offset that `read` gave with the last row that was committed.
    """

    start_offset: Any

    @abstractmethod
    def read(self, stopped: threading.Event) -> Iterator[tuple[StreamedRows, Any]]:
        """Yields rows, as soon as there are any, with the offset after them. It has no end, and waits until `stopped` is set.

        Rows that are yielded together belong to the same epoch. These are at least one and at most `MOST_ROWS`.
        """


class ContinuousStream(ABC):
    """A source of the continuous engine. The offset of a partition is a JSON value, that of the stream the text of one."""

    description: str

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a new query begins."""

    @abstractmethod
    def plan_input_partitions(self, start: Offset) -> Sequence[ContinuousInputPartition]:
        """One partition for each task. Raises an exception if `start` is not an offset of this stream."""

    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        """The offset of the stream, from the offsets of all partitions by their numbers."""
        return offset_by_partition(offsets)

    def needs_reconfiguration(self) -> bool:
        """Whether the partitions have changed, so that the job must be started anew."""
        return False

    def commit(self, end: Offset) -> None:
        """All rows up to `end` have been processed and will not be asked for again."""

    def stop(self) -> None:
        """The query ends; release the stream's resources."""


class SupportsRealTimeMode(SupportsAdmissionControl):
    """A source that tasks can also read by themselves, each of them until the time of its batch is over."""

    def prepare_for_real_time_mode(self) -> None:
        """Called once before the first batch. Raises UnsupportedOperationException: an option asks for a limit."""

    @abstractmethod
    def plan_input_partitions(self, start: Offset | None) -> Sequence[ContinuousInputPartition]:
        """One partition for each task, from `start` (None: from the beginning)."""

    def stop_reading(self) -> None:
        """The query is being stopped, on another thread than its own: let the tasks that still read end."""

    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        """The offset of the source, from the offsets of all partitions by their numbers."""
        return offset_by_partition(offsets)
