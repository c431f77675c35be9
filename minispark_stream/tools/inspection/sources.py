"""The sources of a checkpoint: which kinds they are, and what each batch read from them (Source document).

1. The kind is not written down; it follows from the form of the offset and the directory sources/<i>/ (or sources/<name>/).
2. A file source's offset is a number in its own log, sources/<i>/. A batch reads the log entries after the offset of the
   batch before, up to its own. Entry n is the file `n`, or is repeated in a later compact file `m.compact`.

    offsets/3 {"logOffset":4}   offsets/4 {"logOffset":6}     batch 4 reads the files of entries 5 and 6
    sources/0/  0 ... 8  9.compact                            both are in 9.compact: {"path":...,"batchId":5}

All files of the log are read once, and their entries are sorted by batch id, so a forged offset cannot cost more than this.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minispark_stream.engine.checkpointing.budget import LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import canonical_number
from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    FileEntry,
    FileStreamSourceLog,
    batch_of_file,
    log_offset,
)
from minispark_stream.engine.checkpointing.metadata_log import HDFSMetadataLog
from minispark_stream.engine.checkpointing.offset_seq_log import SOURCE_NAME
from minispark_stream.tools.inspection.contents import Batch, Finding, SourceLog
from minispark_stream.tools.inspection.logs import attempt
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles

MAX_SOURCES = 1000  # a log with more sources is forged
SHOWN = 500  # characters of a log entry whose form is not known

LogFile = tuple[int, str, int]  # batch id, name, size


def read_sources(
    files: ReadOnlyFiles, found: tuple[Batch, ...]
) -> tuple[tuple[SourceLog, ...], tuple[Batch, ...], tuple[Finding, ...]]:
    """The sources, the batches with the files that each one read, and what is wrong."""
    findings: list[Finding] = []
    logs = _log_files(files)
    sources: list[SourceLog] = []
    by_source: dict[str, list[tuple[str, ...] | None]] = {}
    for source_id in sorted({*logs, *(i for b in found for i in b.offsets or ())}, key=_numbers_first)[:MAX_SOURCES]:
        offsets = [b.offsets.get(source_id) if b.offsets else None for b in found]
        latest = next((o for o in reversed(offsets) if o is not None), None)
        own_log = logs.get(source_id, [])
        kind = kind_of(latest, bool(own_log))
        source = SourceLog(source_id, kind, latest)
        by_source[source_id] = [None] * len(found)
        if kind == "files":
            entries = _file_entries(files, source_id, own_log, findings)
            sizes = {name: f"{size:,} bytes" for _, name, size in own_log}
            source = replace(source, num_files=len(entries), entries=sizes, paths=tuple(entry.path for entry in entries))
            by_source[source_id] = files_of_batches(found, offsets, entries)
            _check_log_reaches(source_id, found, offsets, entries, own_log, findings)
        else:
            source = replace(source, entries={
                name: _beginning(files, f"sources/{source_id}/{name}", findings) for _, name, _ in own_log
            })
        sources.append(source)
    with_files = tuple(replace(b, files={s: of[i] for s, of in by_source.items()}) for i, b in enumerate(found))
    return tuple(sources), with_files, tuple(findings)


def _numbers_first(source_id: str) -> tuple[bool, int, str]:
    number = canonical_number(source_id)
    return (number is None, number or 0, source_id)


def kind_of(offset: str | None, has_log: bool) -> str:  # (1)
    """`files`, `kafka`, `rate`, `rate-micro-batch`, `delta`, or `other`."""
    match value := _value(offset):
        case {"logOffset": _}:
            return "files"
        case {"offset": _, "timestamp": _}:
            return "rate-micro-batch"
        case {"sourceVersion": _, "reservoirVersion": _}:
            return "delta"
        case dict() if value and all(isinstance(v, dict) and all(p.isdigit() for p in v) for v in value.values()):
            return "kafka"
        case int() if has_log:
            return "rate"
        case int():
            return "a number: memory, socket or the like"
        case _:
            return "other"


def _value(offset: str | None) -> Any:
    """The JSON value of an offset; None if there is none, or it is not JSON."""
    try:
        return None if offset is None else json.loads(offset)
    except (ValueError, RecursionError):
        return None


def files_of_batches(
    found: Sequence[Batch], offsets: Sequence[str | None], entries: Sequence[FileEntry]
) -> list[tuple[str, ...] | None]:  # (2)
    """What each batch read; None if its start is not known, because the entry of the batch before is gone."""
    ids = [entry.batch_id for entry in entries]
    result: list[tuple[str, ...] | None] = []
    for i, (batch, offset) in enumerate(zip(found, offsets)):
        end = log_offset(offset)
        follows = i > 0 and found[i - 1].batch_id == batch.batch_id - 1
        start = -1 if batch.batch_id == 0 else log_offset(offsets[i - 1]) if follows else None
        if follows and start is None and found[i - 1].offsets is not None and offsets[i - 1] is None:
            before = log_offset(offsets[i - 2]) if i > 1 else None  # a named source that missed a batch continues from there
            start = -1 if before is None else before  # otherwise, the source had nothing yet
        if batch.offsets is None or start is None:
            result.append(None)
        elif end is None:
            result.append(())
        else:
            result.append(tuple(e.path for e in entries[bisect_right(ids, start):bisect_right(ids, end)]))
    return result


def _log_files(files: ReadOnlyFiles) -> dict[str, list[LogFile]]:
    """The files in the log of each source, by batch id."""
    logs: dict[str, list[LogFile]] = {}
    for path, size in files.files.items():
        folder, _, rest = path.partition("/")
        source_id, _, name = rest.partition("/")
        in_a_source = folder == "sources" and SOURCE_NAME.fullmatch(source_id)
        if in_a_source and (batch_id := batch_of_file(name)) is not None:
            logs.setdefault(source_id, []).append((batch_id, name, size))
    return {i: sorted(found) for i, found in logs.items()}


def _file_entries(
    files: ReadOnlyFiles, source_id: str, own_log: Sequence[LogFile], findings: list[Finding]
) -> list[FileEntry]:
    """Every entry of a file source's log, by the id under which the file was logged."""
    folder = files.folder(f"sources/{source_id}", text=True)
    log = FileStreamSourceLog(folder, CompactionConf(delete_expired=False))
    entries: dict[tuple[int, str], FileEntry] = {}
    for _, name, _ in own_log:
        one = attempt(lambda name=name: read_entry(log, name), f"sources/{source_id}/{name}", findings)  # type: ignore[misc]
        entries |= {(e.batch_id, e.path): e for e in one or ()}
    return [entries[key] for key in sorted(entries, key=lambda k: k[0])]


def read_entry(log: HDFSMetadataLog[Any], name: str) -> Any:
    """A log's entry in the file `name`. Raises ValueError, which names the file."""
    try:
        return log.deserialize(log.files.open(name))
    except LimitExceeded:
        raise
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{log.files.root}/{name}: {e}") from e


def _beginning(files: ReadOnlyFiles, name: str, findings: list[Finding]) -> str:
    data = attempt(lambda: files.open_text(name), name, findings)
    return (data or b"")[:SHOWN].decode("utf-8", "replace")


def _check_log_reaches(
    source_id: str, found: Sequence[Batch], offsets: Sequence[str | None], entries: Sequence[FileEntry],
    own_log: Sequence[LogFile], findings: list[Finding],
) -> None:
    """Each offset that a restart may need must be in the source's log."""
    ids = [entry.batch_id for entry in entries]
    in_names = {batch_id for batch_id, _, _ in own_log}
    for batch, offset in list(zip(found, offsets))[-2:]:
        n = log_offset(offset)
        if n is None or n < 0 or n in in_names or (at := bisect_left(ids, n)) < len(ids) and ids[at] == n:
            continue
        says = f"batch {batch.batch_id} reads up to entry {n}, which the log does not have: running it again would fail"
        findings.append(Finding("error", f"sources/{source_id}", says))
