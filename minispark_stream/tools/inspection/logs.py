"""The batches of a checkpoint, and which of them comes next (Execution flow, step 1; SIGMOD'18 paper, section 6.1).

Models: what MicroBatchExecution.populateStartOffsets would find, without running anything.

1. A batch is known if it has an entry in the offset log, in the commit log, or in both.
2. engine/checkpointing/recovery.py decides, for the engine and for this module, which batch a restart runs; here are the words.
3. Let O be the last batch of the offset log. A restart fails if offsets/O, offsets/(O - 1) (for O > 0), the last commit or
   `metadata` cannot be read; if one of these but the commit is missing; or if there is state or a commit, but no O.

    offsets/ 0 1 2   commits/ 0 1      batch 2 next, again: offsets/2 says what it reads, commits/2 is missing

An entry that cannot be read is a finding, and the other entries are still shown.

Nothing is written, and no session is needed.

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.commit_log import CommitLog, CommitMetadata
from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog, is_true
from minispark_stream.engine.checkpointing.offset_seq_log import OffsetSeqBase, OffsetSeqLog
from minispark_stream.engine.checkpointing.recovery import LogState, decide
from minispark_stream.engine.checkpointing.stream_metadata import read_id
from minispark_stream.tools.inspection.contents import Batch, Finding, NextBatch
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles

T = TypeVar("T")
UNREADABLE = (ValueError, RecursionError, OSError, PySparkException)


@dataclass(frozen=True)
class Logs:
    """The identity of the query and the entries of both logs, by batch id. An unreadable entry is None."""

    query_id: str | None
    offsets: dict[int, OffsetSeqBase | None]
    commits: dict[int, CommitMetadata | None]
    has_state: bool
    findings: tuple[Finding, ...]

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
    findings: list[Finding] = []
    offset_log = OffsetSeqLog(files.folder("offsets", text=True))
    commit_log = CommitLog(files.folder("commits", text=True))
    offsets = _entries(files, "offsets", offset_log, findings, needed=2)
    commits = _entries(files, "commits", commit_log, findings, needed=1)
    query_id = None
    if "metadata" in files.files:
        query_id = attempt(lambda: read_id(files.folder("", text=True)), "metadata", findings)
    elif offsets or commits:
        findings.append(Finding("error", "metadata", "the file is missing, so nobody knows which query this is: no restart"))
    has_state = any(name.startswith("state/") for name in files.files)
    return Logs(query_id, offsets, commits, has_state, tuple(findings))


def attempt(read: Callable[[], T], where: str, findings: list[Finding], level: str = "error") -> T | None:
    """What `read` returns; None, and a finding, if the file is damaged or gone. Raises LimitExceeded."""
    try:
        return read()
    except LimitExceeded:
        raise
    except UNREADABLE as e:
        says = "nested too deeply" if isinstance(e, RecursionError) else str(e)
        findings.append(Finding(level, where, says))
        return None


def _entries(
    files: ReadOnlyFiles, folder: str, log: HDFSMetadataLog[T], findings: list[Finding], needed: int
) -> dict[int, T | None]:
    """The entries of a log; a restart needs the last `needed` of them."""
    names = (name.removeprefix(f"{folder}/") for name in files.files if name.startswith(f"{folder}/"))
    ids = sorted(i for name in names if (i := canonical_number(name)) is not None)
    levels = dict.fromkeys(ids[-needed:], "error")
    return {
        i: attempt(lambda i=i: log.get(i), f"{folder}/{i}", findings, levels.get(i, "warning"))  # type: ignore[misc]
        for i in ids
    }


def batches(logs: Logs) -> tuple[Batch, ...]:  # (1)
    """The batches, oldest first, without the files that they read."""
    found = []
    for batch_id in sorted(logs.offsets.keys() | logs.commits.keys()):
        entry, commit = logs.offsets.get(batch_id), logs.commits.get(batch_id)
        metadata = entry.metadata if entry else None
        unreadable = [f"{name}/{batch_id}" for name, log in (("offsets", logs.offsets), ("commits", logs.commits))
                      if batch_id in log and log[batch_id] is None]
        found.append(Batch(
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


def next_batch(logs: Logs) -> NextBatch:
    """What a restart would do first."""
    fails = _why_it_fails(logs)  # (3)
    if fails:
        return NextBatch(None, False, f"no batch: a restart fails, because {fails}")
    restart = decide(max(logs.offsets, default=None), committed := max(logs.commits, default=None))  # (2)
    if restart.logs is LogState.NEW:
        return NextBatch(0, False, "batch 0 next: nothing was planned yet")
    last = max(logs.offsets)
    if restart.logs is LogState.DONE:
        says = f"batch {last + 1} next, a new one: batch {last} is in both logs, so it is done. "
        says += f"It begins where offsets/{last} ends"
        if (entry := logs.offsets[last]) is not None and entry.metadata is None:
            says += ". It was run with a continuous trigger, and a query in micro-batches cannot continue from it"
        return NextBatch(restart.batch_id, False, says)
    says = f"batch {last} next, again: offsets/{last} says what it reads"
    if last in logs.commits:
        says += f". It fails at its end, because commits/{last} exists already"
    else:
        says += f", but commits/{last} is missing, so it did not finish"
    if committed is None and restart.logs is LogState.COMMITS_LOST:
        says += f". commits/ is empty, although batch {last - 1} must have been committed before batch {last} was planned"
    elif restart.logs is not LogState.UNFINISHED:
        says += f". The last entry of commits/ is {committed}, although it should be {last - 1} or {last}: the logs disagree"
    return NextBatch(restart.batch_id, restart.again, says)


def _why_it_fails(logs: Logs) -> str:
    if not logs.offsets:
        left = "commits/" if logs.commits else "state/" if logs.has_state else ""
        return f"{left} is not empty, although offsets/ is" if left else ""
    last = max(logs.offsets)
    if logs.query_id is None:
        return "metadata is missing or cannot be read"
    if logs.offsets[last] is None:
        return f"offsets/{last} cannot be read"
    if logs.commits and logs.commits[max(logs.commits)] is None:
        return f"commits/{max(logs.commits)} cannot be read"
    if last > 0 and last - 1 not in logs.offsets:
        return f"offsets/{last - 1} is missing: batch {last} begins where it ends"
    if last > 0 and logs.offsets[last - 1] is None:
        return f"offsets/{last - 1} cannot be read"
    return ""
