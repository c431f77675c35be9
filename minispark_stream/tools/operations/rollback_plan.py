"""What a rollback to a batch removes from a checkpoint, what it keeps, and whether that batch can still be reached.

After a rollback to batch N, batch N is the last one that is done, and N + 1 comes next.

1. In offsets/ and commits/, all entries after N go. So do the entries of a file source's log after the one that offsets/N
   names: its files are new again. In the manifest of a file sink, the entries after N go; otherwise the sink would take the
   batches for written, and skip them.
2. Batch N + 1 begins with version N + 1 of the state. All files of later versions go, snapshots above all: Spark loads the
   newest snapshot up to the version that it needs, so one that is left would be loaded when the new line reaches its number.
3. Beside each file, Spark may keep its checksum, `.7.delta.crc` or `7_<id>.changelog.crc`, which goes with it.
4. The batch can be reached if offsets/N, commits/N and offsets/(N - 1) are there; if version N + 1 can be loaded in each
   partition; if no log would lose what only a later compact file repeats; and if the files are there that are read again.

    back from 7 to 3     offsets/4 to 7, commits/4 to 7, sources/0/4 to 7, state/0/0/5.delta to 8.delta and 8.snapshot go

Models: nothing of Spark, which has no such tool. What it needs was found out with real Spark.
Shown by tests/unit/tools/operations/test_rollback.py,
tests/spark/test_rollback.py::test_after_a_rollback_the_query_goes_on_as_if_it_had_never_run_on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    FileEntry,
    FileStreamSourceLog,
    batch_of_file,
    is_compact,
    log_offset,
)
from minispark_stream.tools.inspection.contents import LoggedBatch
from minispark_stream.tools.inspection.findings import SHUFFLE_PARTITIONS
from minispark_stream.tools.inspection.logs import UNREADABLE
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.inspection.report import CheckpointReport
from minispark_stream.tools.inspection.restart.of_state import num_partitions
from minispark_stream.tools.inspection.sources import read_entry
from minispark_stream.tools.inspection.state_reader import StoreState

SET_ASIDE = "metadata.rolled-back"  # the name that `metadata` has during a rollback
_STATE_FILE = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d{1,18})(_[0-9a-f-]{36})?\.(?:delta|snapshot|changelog|zip)")


class RollbackRefused(ValueError):
    """The batch cannot be reached; the text says why, and which batch can be."""


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback to `batch` does.

    `remove`: offsets, commits, sources, state, manifest -> the files that go. `reads_again`: the files of file sources that the
    next batches read again. `keeps` and `not_known` are sentences.
    """

    batch: int
    last: int
    remove: Mapping[str, tuple[str, ...]]
    reads_again: tuple[str, ...]
    keeps: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()


@dataclass
class Checkpoint:
    """What the plan is made from: the report of an inspection, all files, and the names in the manifest of the sink, if any."""

    report: CheckpointReport
    files: ReadOnlyFiles
    manifest: Sequence[str] | None = None
    batches: Mapping[int, LoggedBatch] = field(init=False)

    def __post_init__(self) -> None:
        self.batches = {b.batch_id: b for b in self.report.batches}

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)


def plan(checkpoint: Checkpoint, batch: int) -> RollbackPlan:
    """The plan of a rollback. Raises RollbackRefused."""
    reason = next(why_not(checkpoint, batch), None)
    if reason is not None:
        nearest = _nearest(checkpoint, batch)
        way = "no batch can be reached" if nearest is None else f"the nearest batch that can be reached is {nearest}"
        raise RollbackRefused(f"{checkpoint.report.path} cannot go back to batch {batch}: {reason}; {way}")
    remove = {
        "offsets": tuple(_after(checkpoint.files.files, "offsets", batch)),
        "commits": tuple(_after(checkpoint.files.files, "commits", batch)),
        "sources": tuple(_of_sources(checkpoint, batch)),
        "state": tuple(of_state(checkpoint.files.files, batch + 1)),
        "manifest": tuple(_after(dict.fromkeys(checkpoint.manifest or (), 0), "", batch)),
    }
    keeps = [
        f"version {batch + 1} of the state of operator {store.operator_id} ({store.name}), which loads in each partition"
        for store in checkpoint.report.states if store.partitions
    ]
    if (watermark := checkpoint.batches[batch].next_watermark_ms) is not None:
        keeps.append(f"the watermark of commits/{batch}, {watermark} ms")
    not_known = [
        "what foreachBatch, foreach, Kafka or a table has received of the batches that are taken back: they come again, with "
        "the same numbers. A Delta table skips the numbers that it knows of a query, even when it has been restored: restore "
        "it to the version before them, and give the copy another query id (--new-id)"
    ]
    if checkpoint.manifest is None:
        not_known.append("whether the query writes files: if it does, its folder must be named as the sink")
    again = tuple(path for _, path in _read_again(checkpoint, batch))
    return RollbackPlan(batch, checkpoint.last, remove, again, tuple(keeps), tuple(not_known))


def why_not(checkpoint: Checkpoint, batch: int) -> Iterator[str]:  # (4)
    """Why a batch cannot be reached; nothing if it can be."""
    names, found = checkpoint.files.files, checkpoint.batches.get(batch)
    if "metadata" not in names and SET_ASIDE not in names:
        yield "metadata is missing"
    if found is None or not found.committed or found.unreadable or f"commits/{batch}" not in names:
        yield f"commits/{batch} is missing or cannot be read"
        return
    if found.offsets is None:
        yield f"offsets/{batch} is missing or cannot be read"
        return
    if not found.conf and found.timestamp_ms is None:
        yield "it was run with a continuous trigger"
    before = checkpoint.batches.get(batch - 1)
    if batch > 0 and (before is None or before.offsets is None):
        yield f"offsets/{batch - 1}, without which no restart begins, is missing or cannot be read"
    yield from _why_no_state(checkpoint, found)
    yield from _why_no_source_log(checkpoint, batch)
    if checkpoint.manifest:
        yield from _why_no_log("_spark_metadata", checkpoint.manifest, batch)


def _nearest(checkpoint: Checkpoint, batch: int) -> int | None:
    by_distance = sorted((b for b in checkpoint.batches if b != batch), key=lambda b: (abs(b - batch), b))
    return next((b for b in by_distance if next(why_not(checkpoint, b), None) is None), None)


# -- (1) logs ---------------------------------------------------------------------------------------------------


def _entry(name: str) -> int | None:
    """The batch of an entry of a log, compact or not, or of its checksum."""
    return batch_of_file(_without_checksum(name))


def _without_checksum(name: str) -> str:  # (3)
    """The file that a checksum belongs to; any other name as it is."""
    if not name.endswith(".crc"):
        return name
    folder, slash, base = name.removesuffix(".crc").rpartition("/")
    return folder + slash + base.removeprefix(".")


def _after(names: Mapping[str, int], folder: str, last: int) -> Iterator[str]:
    """The entries of a log after the last one that stays, the newest first, and their checksums."""
    inside = [name for name in names if name.rpartition("/")[0] == folder]
    numbered = [(i, name) for name in inside if (i := _entry(name.rpartition("/")[2])) is not None and i > last]
    return (name for _, name in sorted(numbered, reverse=True))


def _file_sources(checkpoint: Checkpoint, batch: int) -> Iterator[tuple[str, int]]:
    """Each file source, and the entry of its own log that a batch has read up to.

    A stream that a query reads twice is one source with two numbers, and has a log under one of them.
    """
    offsets = checkpoint.batches[batch].offsets or {}
    ends = {s.source_id: log_offset(offsets.get(s.source_id)) for s in checkpoint.report.sources if s.kind == "files"}
    with_log = {i for i in ends if any(name.startswith(f"sources/{i}/") for name in checkpoint.files.files)}
    for source_id, n in ends.items():
        if source_id in with_log or n not in {ends[i] for i in with_log}:
            yield source_id, -1 if n is None else n


def _of_sources(checkpoint: Checkpoint, batch: int) -> Iterator[str]:
    for source_id, last in _file_sources(checkpoint, batch):
        yield from _after(checkpoint.files.files, f"sources/{source_id}", last)


def _why_no_source_log(checkpoint: Checkpoint, batch: int) -> Iterator[str]:
    for source_id, last in _file_sources(checkpoint, batch):
        inside = [name.rpartition("/")[2] for name in checkpoint.files.files if name.startswith(f"sources/{source_id}/")]
        yield from _why_no_log(f"sources/{source_id}", inside, last)
    for source_id, path in _read_again(checkpoint, batch):
        parts = urlsplit(path)
        if parts.scheme in ("", "file") and not os.path.exists(unquote(parts.path)):
            yield f"{unquote(parts.path)}, which would be read again (source {source_id}), is gone"
            return


def _why_no_log(folder: str, names: Sequence[str], last: int) -> Iterator[str]:
    """Whether a log can be read up to an entry without the files after it, as its compact files repeat those before."""
    entries = {i: name for name in names if (i := batch_of_file(name)) is not None and i <= last}
    begin = max((i for i, name in entries.items() if is_compact(name)), default=0)
    missing = [i for i in range(begin, last + 1) if i not in entries]
    if missing:
        yield f"{folder}/{missing[0]} is missing: only a later compact file repeats it"


def _read_again(checkpoint: Checkpoint, batch: int) -> Iterator[tuple[str, str]]:
    """The files that the removed entries of source logs name."""
    for source_id, last in _file_sources(checkpoint, batch):
        folder = checkpoint.files.folder(f"sources/{source_id}", text=True)
        log = FileStreamSourceLog(folder, CompactionConf(delete_expired=False))
        seen: dict[str, None] = {}
        for name in _after(checkpoint.files.files, f"sources/{source_id}", last):
            if not name.endswith(".crc"):
                with checkpoint.files.budget.lent():
                    seen |= {e.path: None for e in _entries(log, name.rpartition("/")[2]) if e.batch_id > last}
        yield from ((source_id, path) for path in sorted(seen))


def _entries(log: FileStreamSourceLog, name: str) -> Sequence[FileEntry]:
    try:
        found: Sequence[FileEntry] = read_entry(log, name)
        return found
    except LimitExceeded:
        raise
    except UNREADABLE:  # it goes, so it need not be readable
        return ()


# -- (2) state --------------------------------------------------------------------------------------------------


def of_state(names: Mapping[str, int], version: int) -> Iterator[str]:
    """The files of later versions than the one that stays, and their checksums."""
    for name in names:
        if (found := _STATE_FILE.fullmatch(_without_checksum(name))) and int(found[1]) > version:
            yield name


def _why_no_state(checkpoint: Checkpoint, batch: LoggedBatch) -> Iterator[str]:
    version = batch.batch_id + 1
    partitions = canonical_number(batch.conf.get(SHUFFLE_PARTITIONS, ""))
    for store in checkpoint.report.states:
        existing = {p for p in store.partitions if partitions is None or p < partitions}
        opened = range(num_partitions(store.key_schema, existing, partitions))
        if (lost := next((p for p in opened if p not in existing), None)) is not None:
            yield f"partition {lost} of the state of operator {store.operator_id} is missing"
        for p in sorted(existing):
            yield from _why_not_loaded(checkpoint, store, p, version)


def _why_not_loaded(checkpoint: Checkpoint, store: StoreState, partition: int, version: int) -> Iterator[str]:
    versions = store.partitions[partition]
    root = f"state/{store.operator_id}/{partition}"
    with_ids = [name for name in checkpoint.files.files
                if name.startswith(f"{root}/") and (f := _STATE_FILE.fullmatch(name)) and f[2] and int(f[1]) == version]
    if with_ids and not _has_unique_ids(checkpoint, version - 1):
        yield f"commits/{version - 1} does not say which of the files of version {version} counts (stateUniqueIds)"
        return
    try:
        versions.load(version)
    except (*UNREADABLE, KeyError) as e:
        yield f"version {version} of its state cannot be loaded: {' '.join(str(e).split())}"


def _has_unique_ids(checkpoint: Checkpoint, batch: int) -> bool:
    text = checkpoint.files.open_text(f"commits/{batch}")
    return b"stateUniqueIds" in text
