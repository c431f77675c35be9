"""What an inspection finds: plain data, the same in text, JSON and HTML.

    report = inspect("/data/checkpoint")
    report.next.says           "batch 3 next, a new one: ..."
    report.batches[-1]         offsets, watermark, time, confs, commit, files of each source
    report.operators[0]        operator -> stores -> partitions: versions on disk, keys, bytes, sample rows
    report.findings            what is wrong, or worth a look
    report.rows(...), report.find(...), report.diff(...)      the state itself, read when asked for

Everything here was read before the report was made, but for the state that the last three read again.

Differs from Spark: nothing of Spark is modelled here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from minispark_stream.inspection.state_reader import StateReader

Row = Mapping[str, Any]  # a decoded key or value, made of what JSON has


@dataclass(frozen=True)
class Finding:
    """Something to know. `level`: "error" (damaged, or a restart fails), "warning" (look at it), "note"."""

    level: str
    where: str
    says: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.says}"


@dataclass(frozen=True)
class Batch:
    """A batch as the two logs have it. Times in ms since the epoch.

    `offsets` None: no entry in the offset log. `files`: of each source, what the batch read, None where that is not known.
    """

    batch_id: int
    offsets: tuple[str | None, ...] | None
    watermark_ms: int | None
    timestamp_ms: int | None
    conf: Mapping[str, str]
    committed: bool
    next_watermark_ms: int | None
    files: tuple[tuple[str, ...] | None, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class NextBatch:
    """What a restart does first. `batch_id` None: it fails."""

    batch_id: int | None
    rerun: bool
    says: str


@dataclass(frozen=True)
class SourceLog:
    """A source as its offsets, and its directory under sources/, show it. `entries`: file name -> what is in it."""

    ordinal: int
    kind: str
    latest_offset: str | None
    entries: Mapping[str, str] = field(default_factory=dict)
    num_files: int | None = None


@dataclass(frozen=True)
class VersionFiles:
    """A version of a store: its files with their sizes in bytes, and how many keys it has, None where not known."""

    version: int
    files: Mapping[str, int]
    num_keys: int | None = None


@dataclass(frozen=True)
class StateRow:
    partition: int
    key: Row
    value: Row


@dataclass(frozen=True)
class StateChange:
    """`mark`: "+" added, "~" changed, "-" removed."""

    mark: str
    partition: int
    key: Row
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Partition:
    """The files of one partition of a store; `num_keys`, `num_bytes` and `sample` are of `version`."""

    partition: int
    versions: tuple[VersionFiles, ...]
    version: int | None = None
    num_keys: int | None = None
    num_bytes: int | None = None
    sample: tuple[StateRow, ...] = ()
    not_decoded: str | None = None

    @property
    def file_bytes(self) -> int:
        return sum(sum(v.files.values()) for v in self.versions)


@dataclass(frozen=True)
class Schemas:
    """Key and value schema of a store, or of a column family of it (transformWithState has one for each state variable)."""

    name: str
    key: StructType
    value: StructType


@dataclass(frozen=True)
class Store:
    """A store of an operator, over all partitions. `schemas` is empty when the file is missing or cannot be read."""

    name: str
    schemas: tuple[Schemas, ...]
    partitions: tuple[Partition, ...]

    @property
    def num_keys(self) -> int | None:
        known = [p.num_keys for p in self.partitions if p.num_keys is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def history(self) -> Mapping[int, int]:
        """Version -> keys over all partitions, for the versions that all of them know."""
        by_version: dict[int, list[int]] = {}
        for partition in self.partitions:
            for version in partition.versions:
                if version.num_keys is not None:
                    by_version.setdefault(version.version, []).append(version.num_keys)
        return {v: sum(keys) for v, keys in sorted(by_version.items()) if len(keys) == len(self.partitions)}


@dataclass(frozen=True)
class Operator:
    """A stateful operator. `name` and `num_partitions` are None when its metadata is missing."""

    operator_id: int
    name: str | None
    num_partitions: int | None
    stores: tuple[Store, ...]
    provider: str
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class CheckpointReport:
    """A checkpoint at one moment. Shows itself as text (`str`), and in Jupyter."""

    path: str
    query_id: str | None
    next: NextBatch
    batches: tuple[Batch, ...]
    sources: tuple[SourceLog, ...]
    operators: tuple[Operator, ...]
    findings: tuple[Finding, ...]
    reader: StateReader = field(compare=False)

    def rows(
        self, operator: int = 0, *, store: str | None = None, partition: int | None = None, version: int | None = None,
        limit: int | None = None,
    ) -> tuple[StateRow, ...]:
        """The decoded rows of a state, sorted by key within a partition.

        Args:
            operator: id of the stateful operator.
            store: name of its store; may be left out when it has only one.
            partition: one partition; all of them when left out.
            version: version N is the state before batch N; when left out, the one that the next batch begins with.
            limit: the most rows to decode.

        Raises:
            ValueError: there is no such operator, store, partition or version, or a row does not fit the schema.
            SparkRuntimeException: a file is missing or damaged.
        """
        return self.reader.rows(operator, store, partition, version, limit)

    def find(
        self, key: Any, operator: int = 0, *, store: str | None = None, partition: int | None = None,
        version: int | None = None,
    ) -> tuple[StateRow, ...]:
        """The rows with this key.

        Args:
            key: a mapping from some or all key columns to values; or a list of all of them; or the value of the first.
                Values are written as the report shows them: `{"window": {"start": "2024-01-01 12:00:00"}, "k": "a"}`.

        Raises: as `rows` does.
        """
        return self.reader.find(key, operator, store, partition, version)

    def diff(
        self, before: int, after: int, operator: int = 0, *, store: str | None = None, partition: int | None = None
    ) -> tuple[StateChange, ...]:
        """What is different in version `after` from version `before`. Raises: as `rows` does."""
        return self.reader.diff(before, after, operator, store, partition)

    def to_dict(self) -> dict[str, Any]:
        """The whole report, made of what JSON has."""
        return dict(as_json(self))

    def to_json(self, indent: int | None = None) -> str:
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)
        return text.encode("utf-8", "replace").decode("utf-8")

    def to_html(self, path: str | Path) -> Path:
        """Write one page that needs nothing else; returns its path."""
        from minispark_stream.inspection.html import page

        target = Path(path)
        target.write_text(page(self), encoding="utf-8", errors="replace")
        return target

    def __str__(self) -> str:
        from minispark_stream.inspection.text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"<CheckpointReport of {self.path}: {self.next.says}>"

    def _repr_html_(self) -> str:
        from minispark_stream.inspection.html import fragment

        return fragment(self)


def as_json(value: Any) -> Any:
    """What JSON has in the place of `value`: dataclasses as dicts, schemas as Spark's JSON, everything else as it is."""
    if isinstance(value, StructType):
        return value.jsonValue()
    if is_dataclass(value):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value) if f.name != "reader"}
    if isinstance(value, Mapping):
        return {str(name): as_json(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(v) for v in value]
    return value
