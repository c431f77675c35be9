"""What mends a checkpoint on which no query can start, one reason after the other: each function is for one of them.

1. `metadata` is missing or cannot be read. Nothing else has the id of the query: it gets a new one, or the one that is given.
2. The newest entry of the offset log cannot be read, and its batch is not committed: it goes, and the batch is planned anew.
   The entries of a file source's log stay, so the batch still reads the files that were planned for it.
3. A file whose name is a number in another spelling (`010`) is taken for an entry by Spark: it goes.
4. An entry of a file source's log is missing. If it is asked for, it is made again: it gets the files of the folders of the
   source that are in no other entry, and were there when its batch was planned. These may be files that the batch did not
   read, because an option leaves them out; so the answer names them.
5. Anything else: the batches since the newest one that can be reached are taken back (rollback_plan.py), which is possible if a
   version of the state can be loaded in each partition.

    sources/0/ 0 2    in/ a.json b.json c.json, of which 0 and 2 have a.json and c.json    ->  sources/0/1 gets b.json

Each works in place, on a copy that nobody else knows yet.

Models: nothing of Spark, which has no such tool.
Shown by tests/unit/tools/operations/test_repair.py.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.compactible_file_stream_log import (
    CompactionConf,
    FileEntry,
    FileStreamSourceLog,
    log_offset,
)
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.lens.view.words import plural
from minispark_stream.tools.inspection.contents import Refusal, SourceLog
from minispark_stream.tools.inspection.unread_files import local_path
from minispark_stream.tools.operations.rollback_plan import SET_ASIDE, Checkpoint, plan, why_not

_ENTRY = re.compile(r"sources/([^/]+)/([0-9]+)")


class RepairRefused(ValueError):
    """The checkpoint cannot be mended without a guess; the text says why, and what can be done."""


@dataclass(frozen=True)
class Decided:
    """What whoever calls `repair` has decided."""

    query_id: str | None = None
    rebuild_source_log: bool = False


@dataclass(frozen=True)
class Mend:
    """What was mended. `costs`: what is lost by it, or to be known; `manifest`: the entries of a file sink that go."""

    says: str
    costs: str
    manifest: tuple[str, ...] = ()


def mend(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager, asked: Decided) -> Mend | None:
    """Mend the reason why a restart fails; None if batches must be taken back instead. Raises RepairRefused."""
    kinds: tuple[Callable[..., Mend | None], ...] = (_metadata, _offsets, _spelling, _source_log)
    return next((done for kind in kinds if (done := kind(found, refused, copy, asked)) is not None), None)


def _metadata(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager, asked: Decided) -> Mend | None:  # (1)
    if refused.where != "metadata":
        return None
    if SET_ASIDE in found.files.files:
        raise RepairRefused(f"there is {SET_ASIDE}: a rollback was killed. Call it again, with the same arguments")
    if "metadata" in found.files.folders:
        raise RepairRefused("metadata is a folder: look at what it contains, and remove it")
    query_id = asked.query_id or str(uuid.uuid4())
    copy.create_atomic("metadata", to_json({"id": query_id}).encode(), overwrite=True)
    costs = "a Delta table knows batches by the id: with another one than before, a batch that runs again is written twice"
    return Mend(f"metadata is written again, with the id {query_id}", costs)


def _offsets(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager, asked: Decided) -> Mend | None:  # (2)
    batch = canonical_number(refused.where.removeprefix("offsets/"))
    if batch is None or batch != found.last or f"commits/{batch}" in found.files.files:
        return None
    if refused.where not in found.files.files or found.batches[batch].offsets is not None:
        return None
    copy.delete(refused.where)
    costs = f"a sink may have some rows of batch {batch} already, which may have other rows now; foreachBatch gets it again"
    return Mend(f"{refused.where} cannot be read and is not committed: it goes, and batch {batch} is planned anew", costs)


def _spelling(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager, asked: Decided) -> Mend | None:  # (3)
    name = refused.where.rpartition("/")[2].removesuffix(".compact")
    if not re.fullmatch("[+-]?[0-9]+", name) or canonical_number(name) is not None or refused.where not in found.files.files:
        return None
    copy.delete(refused.where)
    return Mend(f"{refused.where} goes, which Spark takes for entry {int(name)}", "nothing: no entry has this name")


def _source_log(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager, asked: Decided) -> Mend | None:  # (4)
    at = _ENTRY.fullmatch(refused.where)
    if at is None or refused.where in found.files.files or not asked.rebuild_source_log:
        return None
    number = int(at[2])
    source = next(source for source in found.report.sources if source.source_id == at[1])
    ends = ((log_offset((one.offsets or {}).get(at[1])), one.timestamp_ms) for _, one in sorted(found.batches.items()))
    planned_ms = next((ms for end, ms in ends if end is not None and end >= number and ms is not None), None)
    files = _in_no_entry(source, planned_ms) if planned_ms is not None else {}
    if not files:
        raise RepairRefused(f"{refused.where} is missing, and no file beside those of the other entries was there for it")
    entry = tuple(FileEntry(uri, ms, number) for uri, ms in sorted(files.items()))
    log = FileStreamSourceLog(f"{copy.location}/sources/{at[1]}", CompactionConf())
    copy.create_atomic(refused.where, log.serialize(entry), overwrite=True)  # which removes the checksum of the lost one
    says = f"{refused.where} is made again, with {plural(len(files), 'file')}: {', '.join(sorted(files))}"
    return Mend(says, "a file of these that the batch did not read will never be read; look at the names")


def _in_no_entry(source: SourceLog, until_ms: int) -> Mapping[str, int]:
    """Files of the source's folders that no entry has, by URI, with their times."""
    known = {path for uri in source.paths if (path := local_path(uri)) is not None}
    found = {}
    for folder in {os.path.dirname(path) for path in known}:
        for file in Path(folder).glob("*"):
            ms = file.stat().st_mtime_ns // 1_000_000
            if file.is_file() and not file.name.startswith((".", "_")) and str(file) not in known and ms <= until_ms:
                found[f"file://{quote(str(file))}"] = ms
    return found


def roll_back(found: Checkpoint, refused: Refusal, copy: CheckpointFileManager) -> Mend:  # (5)
    """Take the batches back since the newest one that can be reached. Raises RepairRefused."""
    reachable = (batch for batch in sorted(found.batches, reverse=True) if next(why_not(found, batch), None) is None)
    batch = next(reachable, None)
    if batch is None:
        last = next(why_not(found, found.last), "there is no batch")
        raise RepairRefused(f"{refused}; and no batch can be gone back to: {last}. Begin with a new checkpoint")
    planned = plan(found, batch)
    kinds = ("state", "sources", "commits", "offsets")
    names = [name for kind in kinds for name in planned.remove[kind]]
    if not names:  # it would be the same once more
        raise RepairRefused(f"{refused}; and to go back to batch {batch} does not mend it. Begin with a new checkpoint")
    for name in names:
        copy.delete(name)
    lost = [name for name in planned.remove["state"] if not name.endswith(".crc")]
    says = f"{refused.where}: {refused.says}. Back to batch {batch}, the newest one that can be reached: "
    says += f"{plural(found.last - batch, 'batch')} and {plural(len(lost), 'file')} of state are taken back"
    costs = [*planned.not_known, f"{plural(len(planned.reads_again), 'file')} will be read again"]
    return Mend(says, "; ".join(costs), planned.remove["manifest"])

