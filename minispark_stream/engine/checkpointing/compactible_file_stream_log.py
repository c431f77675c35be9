"""A log whose files are merged from time to time, because a stream runs for a long time and each batch adds a file.

Models: CompactibleFileStreamLog, FileStreamSourceLog (Source document) and the base of the file sink's manifest log (Sink
document).

1. Every tenth batch (`interval`) writes a compact file, which repeats all entries so far and adds its own.
2. To read everything, read the last compact file and the plain files after it.
3. Files whose entries a compact file repeats are deleted, the oldest first. But another process may still be reading them, so
   they are deleted only when they are older than `cleanup_delay` (10 minutes), and only if that compact file is older than the
   last `minBatchesToRetain` batches. The folder is listed once, when the log is opened: a quick query adds thousands of files
   in ten minutes.
4. The names of the files show which batches were compacted, and so what the interval is; where they leave a choice, the conf
   decides.

    sources/0/   0  1  2 … 8  9.compact  10  11         9.compact = entries of 0 … 9
    everything = 9.compact, 10, 11

Compaction saves files, not space: the compact file of a source grows with every file that the source has ever seen. (A sink may
leave old entries out, see `compact_logs`.)

Differs from Spark: a kill during (3) loses nothing. Spark deletes in the order of the listing, which may be any order, and
takes the distance between the two newest compact files as the interval. If a kill leaves a gap between these two, Spark
can no longer read the log, or it merges and deletes by a wrong interval, until the history of the source or the rows of the
sink are lost. Here no gap arises. A log that has a gap, or that was begun with a longer interval than the conf's, can be
read: (4) uses Spark's interval only if the files confirm it. If a file that is needed is missing, the error also says what to
do.
Shown by
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestFileStreamSourceLog::test_a_kill_at_any_delete_loses_nothing,
tests/unit/engine/checkpointing/test_checkpoint_logs.py::TestFileStreamSourceLog::test_a_log_with_a_gap_is_read_and_goes_on,
tests/conformance/test_sinks.py::test_a_kill_within_the_clean_up_of_a_log_loses_nothing.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import TypeVar

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.errors import PySparkException, SparkRuntimeException
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, json_object, number, to_json

T = TypeVar("T")

_COMPACT = ".compact"


def batch_of_file(name: str) -> int | None:
    """The batch that a file of such a log, compact or not, belongs to; None for anything else."""
    return canonical_number(name.removesuffix(_COMPACT))


def is_compact(name: str) -> bool:
    """Whether a file of such a log repeats the entries before its own."""
    return name.endswith(_COMPACT)


def names_of_batch(batch_id: int) -> tuple[str, str]:
    """The names that the file of a batch may have: the plain one, and the compact one."""
    return str(batch_id), f"{batch_id}{_COMPACT}"


@dataclass(frozen=True)
class CompactionConf:
    """When to compact (every `interval` batches), and when files may be deleted."""

    interval: int = 10
    cleanup_delay_ms: int = 600_000
    delete_expired: bool = True
    min_batches_to_retain: int = 100


class CompactibleFileStreamLog(HDFSMetadataLog[tuple[T, ...]]):
    """A log in which the entry of a batch is a tuple of smaller entries; each of these is a line of JSON.

    Args:
        now_ms: the wall clock, which says how old a file is.
    """

    start_again = "start the query with a new checkpoint location"

    def __init__(
        self, path: str | CheckpointFileManager, conf: CompactionConf, now_ms: Callable[[], float] = lambda: time.time() * 1000
    ):
        super().__init__(path)
        self.conf = conf
        self._now_ms = now_ms
        self._not_deleted = deque(self._found())
        self.interval = self._compact_interval()

    @abstractmethod
    def to_line(self, entry: T) -> str: ...

    @abstractmethod
    def from_line(self, line: str) -> T:
        """Raises ValueError, KeyError."""

    def compact_logs(self, entries: tuple[T, ...]) -> tuple[T, ...]:
        """Those of all `entries` that a compact file should keep."""
        return entries

    def serialize(self, entry: tuple[T, ...]) -> bytes:
        return "\n".join(["v1", *map(self.to_line, entry)]).encode()

    def deserialize_lines(self, version: int, lines: list[str]) -> tuple[T, ...]:
        try:
            return tuple(self.from_line(line) for line in lines)
        except (KeyError, TypeError) as e:
            raise ValueError(f"an entry lacks {e}") from e

    def add(self, batch_id: int, entry: tuple[T, ...]) -> bool:
        if self.is_compaction_batch(batch_id):  # (1)
            entry = self.compact_logs((*self._merged(range(max(0, batch_id - self.interval), batch_id)), *entry))
        added = super().add(batch_id, entry)
        if added and self.conf.delete_expired:
            self._not_deleted.append((batch_id, self.file_name(batch_id), self._now_ms()))
            self._delete_expired(batch_id)
        return added

    def all_files(self) -> tuple[T, ...]:  # (2)
        """All entries of the log, as a compact file would keep them.

        Raises:
            SparkRuntimeException: a file that is needed is missing or damaged.
        """
        latest = self.get_latest_batch_id()
        if latest is None:
            return ()
        start = self._latest_compact(latest)
        return self.compact_logs(self._merged(range(max(0, start), latest + 1), latest))

    def is_compaction_batch(self, batch_id: int) -> bool:
        return (batch_id + 1) % self.interval == 0

    def file_name(self, batch_id: int) -> str:
        plain, compact = names_of_batch(batch_id)
        return compact if self.is_compaction_batch(batch_id) else plain

    def batch_id_of(self, name: str) -> int | None:
        return batch_of_file(name)

    def _latest_compact(self, batch_id: int) -> int:
        """The newest compaction batch up to a batch; -1 if there is none."""
        return (batch_id + 1) // self.interval * self.interval - 1

    def _merged(self, batches: range, latest: int | None = None) -> tuple[T, ...]:
        entries: list[T] = []
        for batch_id in batches:
            one = self.get(batch_id)
            if one is None:
                raise self._missing(f"{self.files.root}/{self.file_name(batch_id)}", latest)
            entries += one
        return tuple(entries)

    def _missing(self, file: str, latest: int | None) -> PySparkException:
        """The error if a file is missing, which is another one in compaction (without `latest`) than when all is read."""
        way_out = f"Nothing was changed. Restore the file from a copy, or {self.start_again}."
        if latest is None:
            text = f"Unable to find batch {file}. {way_out} SQLSTATE: 42K03"
            return PySparkException(text, "BATCH_METADATA_NOT_FOUND", {"batchMetadataFile": file})
        text = f"{file} doesn't exist (latestId: {latest}, compactInterval: {self.interval}). {way_out}"
        return SparkRuntimeException(message=text)

    def _compact_interval(self) -> int:  # (4)
        """Spark's choice, if the newest compact file and the plain files after it confirm it; else one that they do confirm."""
        found, default = self._not_deleted, self.conf.interval
        if not found:
            return default
        compact = [batch_id for batch_id, name, _ in found if is_compact(name)]
        latest_compact = compact[-1] if compact else -1
        plain = [batch_id for batch_id, _, _ in found if batch_id > latest_compact]

        def fits(interval: int) -> bool:
            return (latest_compact + 1) % interval == 0 and all((batch_id + 1) % interval for batch_id in plain)

        choice = compact_interval(default, compact)
        others: Iterable[int] = range(default, found[-1][0] + 3)
        if compact:
            others = sorted(divisors(latest_compact + 1), key=lambda interval: (interval < default, interval))
        return choice if fits(choice) else next(filter(fits, others), choice)

    def _delete_expired(self, batch_id: int) -> None:  # (3)
        files, keep_from = self._not_deleted, batch_id + 1 - self.conf.min_batches_to_retain
        covering = next((i for i, name, _ in reversed(files) if is_compact(name) and i < keep_from), 0)
        expired_ms = self._now_ms() - self.conf.cleanup_delay_ms
        while files[0][0] < covering and files[0][2] <= expired_ms:
            self.files.delete(files[0][1])
            files.popleft()

    def _found(self) -> list[tuple[int, str, float]]:
        """(batch, name, modification time in ms) of the files of the log, oldest batch first."""
        found = self.files.list(only_files=True)
        return sorted((i, name, ms) for name, _, ms in found if (i := self.batch_id_of(name)) is not None)


def compact_interval(default: int, compact: Sequence[int]) -> int:
    """Spark's choice: the distance of the two newest compact files; with one or none, what fits the conf."""
    if len(compact) >= 2:
        return compact[-1] - compact[-2]
    return derive_compact_interval(default, compact[-1]) if compact else default


def derive_compact_interval(default: int, latest_compact: int) -> int:
    """An interval that fits the one compact file there is: a divisor of its id + 1, not below `default` if possible.

    derive_compact_interval(5, 11) is 6: if 11 was compacted, the interval is 2, 3, 4, 6 or 12, and 6 is the first above 5.
    """
    total = latest_compact + 1
    return next((i for i in divisors(total) if default <= i and default < total // 2), total)


@lru_cache
def divisors(total: int) -> tuple[int, ...]:
    """The divisors of a number, smallest first. Spark's have 32 bits; of a greater, forged one, not all divisors are found."""
    small = [i for i in range(1, min(isqrt(total), 1 << 16) + 1) if total % i == 0]
    return tuple(sorted({*small, *(total // i for i in small)}))


@dataclass(frozen=True)
class FileEntry:
    """A file that the source has seen: its percent-encoded URI, its modification time in ms, and the batch that logged it."""

    path: str
    timestamp: int
    batch_id: int


def log_offset(offset: str | None) -> int | None:
    """The entry of the log that an offset of a file source names: `{"logOffset":3}`, or 3 by Spark 2.1; otherwise None."""
    try:
        if offset is None or re.fullmatch("[+-]?[0-9]{1,18}", offset):
            return None if offset is None else int(offset)
        return number(json_object(offset), "logOffset", None)
    except (ValueError, RecursionError):
        return None


class FileStreamSourceLog(CompactibleFileStreamLog[FileEntry]):
    """The log in `<checkpoint>/sources/<i>` of a file source."""

    def to_line(self, entry: FileEntry) -> str:
        return to_json({"path": entry.path, "timestamp": entry.timestamp, "batchId": entry.batch_id})

    def from_line(self, line: str) -> FileEntry:
        values = json_object(line)
        if not isinstance(values["path"], str):
            raise ValueError("path must be a text")
        return FileEntry(values["path"], number(values, "timestamp", None), number(values, "batchId", None))

    def files_of(self, start: int, end: int) -> list[FileEntry]:
        """The files that the entries `start` to `end`, both included, added to the log.

        Raises:
            SparkRuntimeException: an entry is missing, and the latest compact file does not repeat it.
        """
        found = {
            batch_id: [e for e in entries if e.batch_id == batch_id]
            for batch_id in range(start, end + 1) if (entries := self.get(batch_id)) is not None
        }
        missing = [batch_id for batch_id in range(start, end + 1) if batch_id not in found]
        if missing:
            found |= self._from_latest_compact(missing)
            missing = [batch_id for batch_id in missing if batch_id not in found]
        if missing:
            batches = ", ".join(map(str, missing))
            text = f"batch {batches} doesn't exist" if len(missing) == 1 else f"batches ({batches}) don't exist"
            raise SparkRuntimeException(message=f"{text} in {self.files.root}")
        return [entry for batch_id in sorted(found) for entry in found[batch_id]]

    def _from_latest_compact(self, wanted: list[int]) -> dict[int, list[FileEntry]]:
        latest = self.get_latest_batch_id()
        compact = -1 if latest is None else self._latest_compact(latest)
        entries = self.get(compact) if compact >= 0 else None
        by_batch: dict[int, list[FileEntry]] = {}
        for entry in entries or ():
            by_batch.setdefault(entry.batch_id, []).append(entry)
        return {batch_id: by_batch[batch_id] for batch_id in wanted if batch_id in by_batch}
