"""The sources of a checkpoint: which kinds they are, and what each batch read from them (Source document).

1. The kind is not written down. It follows from what is in the directory sources/<i>/ (or sources/<name>/), and from the form
   of the oldest offset whose form is known. Kafka and Event Hubs have offsets of one form: nothing says which of them it is.
2. A file source's offset is a number in its own log, sources/<i>/. A batch reads the log entries after the offset of the
   batch before, up to its own. Entry n is the file `n`, or is repeated in a later compact file `m.compact`.

    offsets/3 {"logOffset":4}   offsets/4 {"logOffset":6}     batch 4 reads the files of entries 5 and 6
    sources/0/  0 ... 8  9.compact                            both are in 9.compact: {"path":...,"batchId":5}

All files of the log are read once, and their entries are sorted by batch id, so a forged offset cannot cost more than this.
"""

from __future__ import annotations

import json
from bisect import bisect_right
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
from minispark_stream.tools.inspection.contents import Finding, LoggedBatch, SourceLog
from minispark_stream.tools.inspection.logs import Findings, attempt
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles

MAX_SOURCES = 1000  # a log with more sources is forged
SHOWN = 500  # characters of a log entry whose form is not known

FILES, RATE, RATE_MICRO_BATCH, DELTA = "files", "rate", "rate-micro-batch", "delta"
KAFKA = "offsets by partition: Kafka, Event Hubs or the like"
NUMBER = "a number: memory, socket or the like"
OTHER = "other"

LogFile = tuple[int, str, int]  # batch id, name, size


def read_sources(
    files: ReadOnlyFiles, found: tuple[LoggedBatch, ...]
) -> tuple[tuple[SourceLog, ...], tuple[LoggedBatch, ...], tuple[Finding, ...]]:
    """The sources, the batches with the files that each one read, and what is wrong."""
    findings = Findings()
    logs = _log_files(files)
    sources: list[SourceLog] = []
    by_source: dict[str, list[tuple[str, ...] | None]] = {}
    for source_id in sorted({*logs, *(i for b in found for i in b.offsets or ())}, key=_numbers_first)[:MAX_SOURCES]:
        offsets = [b.offsets.get(source_id) if b.offsets else None for b in found]
        latest = next((o for o in reversed(offsets) if o is not None), None)
        own_log = logs.get(source_id, [])
        kind = kind_of(offsets, _first_lines(files, source_id, own_log))
        source = SourceLog(source_id, kind, latest)
        by_source[source_id] = [None] * len(found)
        if kind == FILES:
            entries = _file_entries(files, source_id, own_log, findings)
            source = replace(
                source, num_files=len(entries), entries={name: f"{size:,} bytes" for _, name, size in own_log},
                paths=tuple(e.path for e in entries), logged=frozenset(e.batch_id for e in entries), errors=findings.errors,
            )
            by_source[source_id] = files_of_batches(found, offsets, entries)
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


def kind_of(offsets: Sequence[str | None], log: str | None) -> str:  # (1)
    """One of the names above, from the offsets of a source, the oldest first, and the beginning of its log (None: no log)."""
    if log is not None and '{"path":"' in log:
        return FILES
    kinds = [_kind(offset, log is not None) for offset in offsets if offset is not None]
    return next((kind for kind in kinds if kind != OTHER), OTHER)


def _kind(offset: str, has_log: bool) -> str:
    match value := json_value(offset):
        case {"logOffset": _}:
            return FILES
        case {"offset": _, "timestamp": _}:
            return RATE_MICRO_BATCH
        case {"sourceVersion": _, "reservoirVersion": _}:
            return DELTA
        case dict() if value and all(isinstance(v, dict) and all(p.isdigit() for p in v) for v in value.values()):
            return KAFKA
        case int() if has_log:
            return RATE
        case int():
            return NUMBER
        case _:
            return OTHER


def _first_lines(files: ReadOnlyFiles, source_id: str, own_log: Sequence[LogFile]) -> str | None:
    """The beginning of the newest file of a log that can be read; None if there is no file."""
    for _, name, _ in reversed(own_log):
        with files.budget.lent():
            text = _beginning(files, f"sources/{source_id}/{name}", Findings())
        if text:
            return text
    return "" if own_log else None


def json_value(offset: str) -> Any:
    """The JSON value of an offset; None if it is not JSON."""
    try:
        return json.loads(offset)
    except (ValueError, RecursionError):
        return None


def files_of_batches(
    found: Sequence[LoggedBatch], offsets: Sequence[str | None], entries: Sequence[FileEntry]
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
    files: ReadOnlyFiles, source_id: str, own_log: Sequence[LogFile], findings: Findings
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


def _beginning(files: ReadOnlyFiles, name: str, findings: Findings) -> str:
    data = attempt(lambda: files.open_text(name), name, findings)
    return (data or b"").removeprefix(b"\0")[:SHOWN].decode("utf-8", "replace")  # Kafka's begins with a byte for Spark 2.1.0
