"""What an inspection finds in a checkpoint, as plain data: the same for text, JSON and HTML.

    contents.next.says         "batch 3 next, a new one: ..."
    contents.batches[-1]       offsets, watermark, time, confs, commit, files of each source
    contents.operators[0]      operator -> stores -> partitions: versions on disk, keys, bytes, sample rows
    contents.findings          what is wrong, or worth looking at
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.lens.trace.values import state_mark
from minispark_stream.lens.view.words import one_line

DecodedRow = Mapping[str, Any]  # a decoded key or value, of JSON values


@dataclass(frozen=True)
class Finding:
    """Something worth knowing. `level`: "error" (damaged, or a restart fails), "warning" (look at it), "note".

    `command`: what mends it, or shows more of it, as arguments of `python -m minispark_stream`; "" if there is no such command.
    """

    level: str
    where: str
    says: str
    command: str = ""

    def __str__(self) -> str:
        command = f" -> minispark_stream {self.command}" if self.command else ""
        return one_line(f"{self.level}: {self.where}: {self.says}{command}")


@dataclass(frozen=True)
class LoggedBatch:
    """A batch as the two logs have it. Times in ms since the epoch.

    `offsets`: by the id of the source; None if the offset log has no entry. `files`: what the batch read from each source; None
    if this is not known.
    """

    batch_id: int
    offsets: Mapping[str, str | None] | None
    watermark_ms: int | None
    timestamp_ms: int | None
    conf: Mapping[str, str]
    committed: bool
    next_watermark_ms: int | None
    files: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


START, FIRST, END = "at start()", "in its first batch", "at the end of its first batch"  # when a restart is refused


@dataclass(frozen=True)
class Refusal:
    """Why a restart fails, as Spark says it.

    `when`: `START`, `FIRST` or `END`. `condition`: Spark's error condition, None if its error has none. `message`: words of
    Spark's message, "" if the condition says it all, or if they are those of a parser. `where`: the file or the folder.
    """

    when: str
    where: str
    says: str
    condition: str | None = None
    message: str = ""

    @property
    def quoted(self) -> str:
        """How Spark's error begins."""
        return f"[{self.condition}] " if self.condition else f'"{self.message}": ' if self.message else ""

    def __str__(self) -> str:
        return f"{self.quoted}{self.where}: {self.says}"


@dataclass(frozen=True)
class Unknown:
    """Something that decides about a restart, but could not be read."""

    where: str
    says: str

    def __str__(self) -> str:
        return f"{self.where}: {self.says}"


Reasons = Iterator[Refusal | Unknown]


@dataclass(frozen=True)
class NextBatch:
    """What a restart of the same query does first (restart.py).

    `batch_id`: the batch that it runs, None if it is refused before it has one; `rerun`: whether it was planned before.
    `refused`: why the restart fails, if it does. `unknown`: why this cannot be told; "" if it can.
    """

    batch_id: int | None
    rerun: bool
    says: str
    refused: Refusal | None = None
    unknown: Unknown | None = None


@dataclass(frozen=True)
class SourceLog:
    """What the offsets of a source, and its directory in sources/, say about it. `entries`: file name -> what is in it.

    `source_id`: its name, or else its number. Of a file source, `paths` are all files in its log; `logged` the numbers of the
    entries that its files have, in compact files, too; `errors` the files that cannot be read, and why.
    """

    source_id: str
    kind: str
    latest_offset: str | None
    entries: Mapping[str, str] = field(default_factory=dict)
    num_files: int | None = None
    paths: tuple[str, ...] = field(default=(), compare=False, repr=False)
    logged: frozenset[int] = field(default=frozenset(), compare=False, repr=False)
    errors: Mapping[str, Exception] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class VersionFiles:
    """A version of a store: its files with their sizes in bytes, and how many keys it has (None if not known)."""

    version: int
    files: Mapping[str, int]
    num_keys: int | None = None


@dataclass(frozen=True)
class DecodedStateRow:
    """A row of state, decoded."""

    partition: int
    key: DecodedRow
    value: DecodedRow


@dataclass(frozen=True)
class StateChange:
    """`mark`: "+" added, "~" changed, "-" removed, "" as it was."""

    mark: str
    partition: int
    key: DecodedRow
    before: DecodedRow | None
    after: DecodedRow | None

    @staticmethod
    def of(was: DecodedStateRow | None, now: DecodedStateRow | None) -> StateChange:
        """The change from one row to the other; if one of them is None, the row was added or removed."""
        some = now or was
        assert some is not None
        before, after = was.value if was else None, now.value if now else None
        return StateChange(state_mark(before, after), some.partition, some.key, before, after)


@dataclass(frozen=True)
class StorePartition:
    """The files of one partition of a store; `num_keys`, `num_bytes` and `sample` are those of `version`."""

    partition: int
    versions: tuple[VersionFiles, ...]
    version: int | None = None
    num_keys: int | None = None
    num_bytes: int | None = None
    sample: tuple[DecodedStateRow, ...] = ()
    not_decoded: str | None = None

    @property
    def file_bytes(self) -> int:
        """The size of all its files, in bytes."""
        return sum(sum(v.files.values()) for v in self.versions)


@dataclass(frozen=True)
class Schemas:
    """The schemas of keys and values of a store, or of one of its column families (a state variable of transformWithState)."""

    name: str
    key: StructType
    value: StructType


@dataclass(frozen=True)
class Store:
    """A store of an operator, over all partitions. `schemas` is empty if the file is missing or cannot be read."""

    name: str
    schemas: tuple[Schemas, ...]
    partitions: tuple[StorePartition, ...]

    @property
    def num_keys(self) -> int | None:
        """The number of keys in all partitions; None if that of a partition is not known."""
        known = [p.num_keys for p in self.partitions if p.num_keys is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def history(self) -> Mapping[int, int]:
        """Version -> number of keys in all partitions, for the versions for which all of them are known."""
        by_version: dict[int, list[int]] = {}
        for partition in self.partitions:
            for version in partition.versions:
                if version.num_keys is not None:
                    by_version.setdefault(version.version, []).append(version.num_keys)
        return {v: sum(keys) for v, keys in sorted(by_version.items()) if len(keys) == len(self.partitions)}


@dataclass(frozen=True)
class StoredOperator:
    """A stateful operator. `name` and `num_partitions` are None if its metadata is missing."""

    operator_id: int
    name: str | None
    num_partitions: int | None
    stores: tuple[Store, ...]
    provider: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Contents:
    """A checkpoint at one moment."""

    path: str
    query_id: str | None
    next: NextBatch
    batches: tuple[LoggedBatch, ...]
    sources: tuple[SourceLog, ...]
    operators: tuple[StoredOperator, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing is wrong; 1: a restart fails; 2: it starts, but there is something to look at; 3: this cannot be told."""
        if self.next.refused is not None:
            return 1
        if self.next.unknown is not None:
            return 3
        return 2 if any(finding.level != "note" for finding in self.findings) else 0
