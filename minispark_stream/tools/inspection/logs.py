"""The batches of a checkpoint, from its two logs (Execution flow, step 1; SIGMOD'18 paper, section 6.1).

Models: what MicroBatchExecution.populateStartOffsets would find, without running anything.

1. A batch is known if it has an entry in the offset log, in the commit log, or in both.
2. An entry that cannot be read is a finding, and the other entries are still shown.

    offsets/ 0 1 2   commits/ 0 1      three batches, the last one not committed

What a restart does with them is decided in restart/foretold.py.

Nothing is written, and no session is needed.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, is_true
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase, OffsetSeqLog
from minispark_stream.engine.checkpointing.recovery import Restart, decide
from minispark_stream.engine.checkpointing.stream_metadata import read_id
from minispark_stream.tools.inspection.contents import Finding, LoggedBatch
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles, is_unread

T = TypeVar("T")
UNREADABLE = (ValueError, RecursionError, OSError, PySparkException)


@dataclass(frozen=True)
class Logs:
    """The identity of the query and the entries of both logs, by batch id. An unreadable entry is None; `errors` says why."""

    query_id: str | None
    offsets: dict[int, OffsetSeqBase | None]
    commits: dict[int, CommitMetadata | None]
    findings: tuple[Finding, ...]
    errors: Mapping[str, Exception] = field(default_factory=dict)

    @property
    def restart(self) -> Restart:
        """Which batch comes next, from the ids of the entries alone."""
        return decide(max(self.offsets, default=None), max(self.commits, default=None))

    @property
    def last_offsets(self) -> OffsetSeqBase | None:
        """The newest entry of the offset log that can be read."""
        readable = [entry for entry in self.offsets.values() if entry is not None]
        return readable[-1] if readable else None

    @property
    def conf(self) -> Mapping[str, str]:
        """The confs of the newest readable offsets, by which the state was written."""
        metadata = self.last_offsets.metadata if self.last_offsets else None
        return metadata.conf if metadata else {}

    @property
    def codec(self) -> str:
        """How state files are compressed."""
        return self.conf.get("spark.sql.streaming.stateStore.compression.codec", "lz4")

    @property
    def row_checksum(self) -> bool:
        """Whether each row of the state has a checksum before it."""
        return is_true(self.conf.get("spark.sql.streaming.stateStore.rowChecksum.enabled"))


def read_logs(files: ReadOnlyFiles) -> Logs:
    """Read both logs and the identity of the query."""
    findings = Findings()
    offset_log = OffsetSeqLog(files.folder("offsets", text=True))
    commit_log = CommitLog(files.folder("commits", text=True))
    offsets = _entries(files, "offsets", offset_log, findings, needed=2)
    commits = _entries(files, "commits", commit_log, findings, needed=1)
    query_id = None
    if "metadata" in files.files:
        query_id = attempt(lambda: read_id(files.folder("", text=True)), "metadata", findings)
    return Logs(query_id, offsets, commits, tuple(findings), findings.errors)


class Findings(list[Finding]):
    """What was found while reading. `errors`: the files that could not be read, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, Exception] = {}


def attempt(read: Callable[[], T], where: str, findings: Findings, level: str = "error") -> T | None:
    """What `read` returns; None, and a finding, if the file is damaged or gone. Raises LimitExceeded."""
    try:
        return read()
    except LimitExceeded:
        raise
    except UNREADABLE as e:
        findings.errors[where] = e  # (2)
        says = "nested too deeply" if isinstance(e, RecursionError) else str(e)
        findings.append(Finding("note" if is_unread(e) else level, where, says))
        return None


def _entries(
    files: ReadOnlyFiles, folder: str, log: HDFSMetadataLog[T], findings: Findings, needed: int
) -> dict[int, T | None]:
    """The entries of a log; a restart needs the last `needed` of them."""
    names = (name.removeprefix(f"{folder}/") for name in files.files if name.startswith(f"{folder}/"))
    ids = sorted(i for name in names if (i := canonical_number(name)) is not None)
    levels = dict.fromkeys(ids[-needed:], "error")
    return {
        i: attempt(lambda i=i: log.get(i), f"{folder}/{i}", findings, levels.get(i, "warning"))  # type: ignore[misc]
        for i in ids
    }


def batches(logs: Logs) -> tuple[LoggedBatch, ...]:  # (1)
    """The batches, oldest first, without the files that they read."""
    found = []
    for batch_id in sorted(logs.offsets.keys() | logs.commits.keys()):
        entry, commit = logs.offsets.get(batch_id), logs.commits.get(batch_id)
        metadata = entry.metadata if entry else None
        unreadable = [f"{name}/{batch_id}" for name, log in (("offsets", logs.offsets), ("commits", logs.commits))
                      if batch_id in log and log[batch_id] is None]
        found.append(LoggedBatch(
            batch_id,
            entry.by_id() if entry else None,
            metadata.batch_watermark_ms if metadata else None,
            metadata.batch_timestamp_ms if metadata else None,
            dict(metadata.conf) if metadata else {},
            batch_id in logs.commits,
            commit.next_batch_watermark_ms if commit else None,
            unreadable=tuple(unreadable),
        ))
    return tuple(found)
