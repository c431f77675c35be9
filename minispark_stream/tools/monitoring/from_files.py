"""The numbers of a checkpoint, from its files alone: no session, no Java, and the query need not run.

    for sample in metrics("/data/checkpoint"): ...
    python -m minispark_stream metrics /data/checkpoint > /var/lib/node_exporter/checkpoint.prom

It reads what `inspect` reads, the state of the next batch, too. A file source's log names its files. Those beside them that no
batch has read are waiting, unless the options of the source leave them out, which is not in a checkpoint.

Shown by tests/unit/tools/monitoring/test_from_files.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.tools.inspection.checkpoint import LEVELS, inspect
from minispark_stream.tools.inspection.contents import Contents, SourceLog
from minispark_stream.tools.inspection.unread_files import local_path
from minispark_stream.tools.monitoring.families import Sample


def metrics(checkpoint: str | Path, filesystem: fs.FileSystem | None = None, *, max_bytes: int = 256 << 20) -> list[Sample]:
    """The numbers of a checkpoint; the first label of each is its path.

    Raises:
        FileNotFoundError, ValueError, OSError: as from `inspect`.
    """
    found = inspect(str(checkpoint), filesystem, max_bytes=max_bytes)
    commits = CheckpointFileManager(str(checkpoint), filesystem).list("commits", only_files=True)
    times = {n: ms for name, _, ms in commits if (n := canonical_number(name)) is not None}
    return [Sample(one.name, one.value, (found.path, *one.labels)) for one in _samples(found, times)]


def _samples(found: Contents, committed: dict[int, int]) -> Iterator[Sample]:
    yield Sample("checkpoint_restart", found.exit_code)
    levels = Counter(finding.level for finding in found.findings)
    yield from (Sample("checkpoint_findings", levels[level], (level,)) for level in LEVELS)
    planned = [batch for batch in found.batches if batch.offsets is not None]
    if planned:
        yield Sample("checkpoint_planned_batch", planned[-1].batch_id)
        if (ms := planned[-1].timestamp_ms) is not None:
            yield Sample("checkpoint_last_plan_timestamp_seconds", ms / 1000)
    if committed:
        yield Sample("checkpoint_committed_batch", max(committed))
        yield Sample("checkpoint_last_commit_timestamp_seconds", committed[max(committed)] / 1000)
    yield from _watermark(found)
    for source in found.sources:
        yield from _files(source)
    for operator in found.operators:
        for store in operator.stores:
            where = str(operator.operator_id), store.name
            if store.num_keys is not None:
                yield Sample("checkpoint_state_rows", store.num_keys, where)
            yield Sample("checkpoint_state_file_bytes", sum(p.file_bytes for p in store.partitions), where)


def _watermark(found: Contents) -> Iterator[Sample]:
    if not found.batches:
        return
    last = found.batches[-1]
    if ms := last.next_watermark_ms or last.watermark_ms:  # 0: the query has none, or saw no row with a time
        yield Sample("checkpoint_watermark_timestamp_seconds", ms / 1000)
        if last.timestamp_ms is not None:
            yield Sample("checkpoint_watermark_lag_seconds", (last.timestamp_ms - ms) / 1000)


def _files(source: SourceLog) -> Iterator[Sample]:
    if source.num_files is None:
        return
    where = (source.source_id,)
    yield Sample("checkpoint_files_read", source.num_files, where)
    read = {path for one in source.paths if (path := local_path(one)) is not None}
    if len(read) == len(source.paths):
        folders = {os.path.dirname(path) for path in read}
        yield Sample("checkpoint_files_waiting", sum(_unread(folder, read) for folder in folders), where)


def _unread(folder: str, read: set[str]) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(not e.name.startswith((".", "_")) and e.path not in read and e.is_file() for e in entries)
    except OSError:  # the folder is gone: nothing waits there
        return 0
