"""What the engine requires of a source, and what a source is made from.

Models: SparkDataStream, Source, SupportsAdmissionControl, ContinuousStream (Source document; Continuous processing).

    latest_offset(start, limit)   how far may the next batch read?      -> an offset, or None
    get_batch(start, end)         a *plan* for the rows in (start, end] -> a batch DataFrame; reads nothing
    commit(end)                   everything up to end is done with

The continuous engine asks a `ContinuousStream` instead:

    plan_input_partitions(start)  who reads what, without an end        -> one ContinuousInputPartition for each task
    merge_offsets(offsets)        how far all of them have come         -> an offset

An offset is the JSON text that goes into the offset log, for example `{"logOffset":3}`; two offsets are equal when
their texts are. The engine never looks inside.

A source that knows no limits has `get_offset`, any other one `latest_offset`. Spark also tells V1 from V2 sources, and asks V1
sources alone for their last batch once more at a restart (engine/runtime/populate_start_offsets.py); so a source says if it
`is_v1`.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

from minispark_stream.engine.clock import Clock
from minispark_stream.engine.plan.streaming_relation import StreamingRelation  # what a source's factory returns

Offset = str
Rows: TypeAlias = Sequence[tuple[Any, ...]] | pa.RecordBatch  # of a continuous stream: tuples, or the columns of its schema
MOST_ROWS = 1000  # that a continuous stream hands on together


# How much one batch may read: PySpark's own kinds of limit, as its Python data sources know them.
ALL_AVAILABLE = ReadAllAvailable()
__all__ = [
    "ALL_AVAILABLE", "MOST_ROWS", "CompositeReadLimit", "ContinuousInputPartition", "ContinuousStream", "Offset", "ReadLimit",
    "ReadMaxBytes", "ReadMaxFiles", "ReadMaxRows", "ReadMinRows", "Rows", "Source", "SourceSpec", "StreamingRelation",
    "SupportsAdmissionControl", "SupportsTriggerAvailableNow", "offset_by_partition",
]


@dataclass(frozen=True)
class SourceSpec:
    """What `readStream` was told when `load` is called.

    Attributes:
        session: the session that `readStream` belongs to.
        format: the name of the source as the user wrote it.
        path: what `load(path)` was given.
        schema: what `schema` was given.
        options: names in lower case.
        clock: the clock of the engine.
    """

    session: SparkSession
    format: str
    path: str | None
    schema: StructType | None
    options: Mapping[str, str]
    clock: Clock


@dataclass(frozen=True)
class CompositeReadLimit(ReadLimit):
    """Several limits that all hold, for example "at least 100 rows, or 5 minutes" and "at most 1,000 rows"."""

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
        """The newest offset there is, or None when there never was any data."""

    @abstractmethod
    def get_batch(self, start: Offset | None, end: Offset) -> DataFrame:
        """A batch DataFrame over the rows after `start` (None: from the beginning) up to and including `end`."""

    def commit(self, end: Offset) -> None:
        """All rows up to `end` are processed and will not be asked for again."""

    def files_between(self, start: Offset | None, end: Offset) -> Sequence[str]:
        """The files with the rows of `get_batch(start, end)`, for the trace; empty for what does not read files."""
        return ()

    def last_look(self, most: int) -> Mapping[str, Any]:
        """What the last look for an offset found, for the trace: the names of the `files` that it takes, and what else is to be
        shown, at most `most` names of a kind."""
        return {}

    def metrics(self, consumed: Offset | None) -> dict[str, str]:
        """What the progress report adds about this source, now that all is read up to `consumed` (ReportsSourceMetrics)."""
        return {}

    def stop(self) -> None:
        """The query ends; release what the source holds."""


class SupportsAdmissionControl(Source):
    """A source that can be told how much to read in one batch."""

    def default_read_limit(self) -> ReadLimit:
        return ALL_AVAILABLE

    @abstractmethod
    def latest_offset(self, start: Offset | None, limit: ReadLimit) -> Offset | None:
        """The newest offset that a batch beginning after `start` may read under `limit`."""

    def report_latest_offset(self) -> Offset | None:
        """The newest offset that exists regardless of any limit, for progress reports; None when unknown."""
        return None

    def get_offset(self) -> Offset | None:
        raise NotImplementedError("latest_offset(start, limit) is to be called instead")


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A source that can fix "what is available now" when a query with `availableNow` starts."""

    @abstractmethod
    def prepare_for_trigger_available_now(self) -> None:
        """Remember the newest offset now: later `latest_offset` calls must not go past it."""


def offset_of_another_source(offset: Offset, kind: str) -> RuntimeError:
    """What is said where a source is handed an offset of another kind: the query has changed, the checkpoint has not."""
    return RuntimeError(
        f"The offset {offset[:80]!r} is not one of a {kind} source. Give the query the sources that it had, in their order, or "
        "a new checkpoint location."
    )


def offset_by_partition(offsets: Mapping[int, Any]) -> Offset:
    """An object with the offset of each partition under its number: {"0":2,"1":1}."""
    return json.dumps({str(i): offsets[i] for i in sorted(offsets)}, separators=(",", ":"))


class ContinuousInputPartition(ABC):
    """What one task reads, sent to its worker.

    `start_offset` is where it begins: what `read` gave with the last row that was committed.
    """

    start_offset: Any

    @abstractmethod
    def read(self, stopped: threading.Event) -> Iterator[tuple[Rows, Any]]:
        """Those rows that are there, with the offset after them, without an end; waits for rows until `stopped` is set.

        Rows that come together belong to one epoch. There are at least one and at most `MOST_ROWS`.
        """


class ContinuousStream(ABC):
    """A source of the continuous engine. The offset of a partition is a JSON value, that of the stream the text of one."""

    description: str

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a new query begins."""

    @abstractmethod
    def plan_input_partitions(self, start: Offset) -> Sequence[ContinuousInputPartition]:
        """One partition for each task. Raises an exception when `start` is not of this stream."""

    @abstractmethod
    def merge_offsets(self, offsets: Mapping[int, Any]) -> Offset:
        """The offset of the stream, from the offsets of all partitions by their numbers."""

    def needs_reconfiguration(self) -> bool:
        """Whether the partitions have changed, so that the job must be started anew."""
        return False

    def commit(self, end: Offset) -> None:
        """All rows up to `end` are processed and will not be asked for again."""

    def stop(self) -> None:
        """The query ends; release what the stream holds."""
