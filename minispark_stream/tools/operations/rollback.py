"""Back to a batch: `minispark_stream rollback CHECKPOINT N`, in a copy, or in place with a backup.

1. Without a target, nothing is changed: the plan (rollback_plan.py) says what would be.
2. In place: the whole checkpoint is copied to the backup first. Then `metadata` gets another name. From here on, no start of
   the query succeeds (STREAMING_CHECKPOINT_MISSING_METADATA_FILE), whatever has been removed so far. The sink's manifest, the
   state, the logs of the sources, the commits and the offsets follow, the newest first; `metadata` comes back last. So who is
   killed leaves what Spark refuses, and a second call finishes it.
3. As a copy: for the same reason, the copy appears with the entries of its offsets, and ends with `metadata`; the entries of
   the manifest are removed just before, so that the copy and the sink go back together. The checkpoint itself is not changed.
   If its sink has gone back, it must not be started any more.

    rollback(ck, 3)                     the plan, nothing is changed
    rollback(ck, 3, to="/data/copy")    the copy is a checkpoint whose next batch is 4

Nothing keeps a query from running meanwhile. So both logs are listed once more before anything is removed; stop the query
before.

Models: nothing of Spark, which has no such tool.
Shown by tests/spark/test_rollback.py, tests/unit/tools/operations/test_rollback.py::test_a_kill_at_any_file_operation.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.file_stream_sink_log import FOLDER
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.lens.view.words import one_line, plural, short
from minispark_stream.tools.inspection.checkpoint import inspect
from minispark_stream.tools.inspection.read_only_files import ReadOnlyFiles
from minispark_stream.tools.operations.rollback_plan import SET_ASIDE, Checkpoint, RollbackPlan, RollbackRefused, plan

NO_SINK = "none"
ORIGINAL = (
    "if a copy goes back, start no query from the original again: the manifest of the sink goes back with the copy, so what "
    "the original does next would stand in it without these batches"
)
_SHOWN = 6  # files of a kind that are named


@dataclass(frozen=True)
class Rollback:
    """What was done, or, if `done` is None, what would be. `done`: the checkpoint whose next batch is `plan.batch` + 1."""

    checkpoint: str
    sink: str | None
    plan: RollbackPlan
    done: str | None = None

    @property
    def next_batch(self) -> int:
        return self.plan.batch + 1

    def __str__(self) -> str:
        taken = f"batches {self.next_batch} to {self.plan.last} are taken back"
        if self.plan.last <= self.plan.batch:
            taken = "nothing is taken back"
        lines = [f"back to batch {self.plan.batch}; the next batch is {self.next_batch}: {taken}"]
        for kind, names in self.plan.remove.items():
            if names:
                some = " ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
                lines.append(f"  remove       {plural(len(names), 'file')} of {kind}: {some}")
        lines += [f"  keep         {says}" for says in self.plan.keeps]
        if again := self.plan.reads_again:
            some = ", ".join(map(short, again[:_SHOWN])) + (" ..." if len(again) > _SHOWN else "")
            lines.append(f"  read again   {plural(len(again), 'file')}: {some}")
        lines += [f"  not known    {says}" for says in self.plan.not_known]
        if self.plan.remove.get("manifest"):
            lines.append(f"  afterwards   {ORIGINAL}")
        lines.append(f"done: {self.done}" if self.done else "nothing was changed: --to COPY or --in-place --backup DIR does it")
        return "\n".join(map(one_line, lines))

    __repr__ = __str__


def rollback(
    checkpoint: str | Path, n: int, *, to: str | Path | None = None, sink: str | Path | None = None, in_place: bool = False,
    backup: str | Path | None = None, new_id: bool = False, filesystem: fs.FileSystem | None = None, max_bytes: int = 256 << 20,
) -> Rollback:
    """Go back to batch `n`, so that the next batch is `n` + 1. Without `to` and `in_place`, nothing is changed.

    Args:
        to: where to write a checkpoint that has gone back. It must not exist, or be what a killed call has left.
        sink: the folder that the query writes files into; "none" if it writes none, although a folder beside looks like it.
        in_place: whether this checkpoint goes back; `backup` is where a copy of it is kept.
        new_id: whether the copy has another query id. A Delta table knows batches by it, and skips those that it knows.
        filesystem, max_bytes: as for `inspect`.

    Raises:
        RollbackRefused: the batch cannot be reached; the text says why, and which batch can be.
        FileNotFoundError, ValueError: as from `inspect`; or the arguments do not fit together.
    """
    if to is not None and in_place or in_place != (backup is not None):
        raise ValueError("a rollback is made in a copy (to), or in place with a backup (in_place and backup)")
    if new_id and in_place:
        raise ValueError("a query gets another id in a copy (to) only")
    found = _read(str(checkpoint), filesystem, sink, max_bytes)
    planned = plan(found, n)
    folder = None if sink is None or str(sink) == NO_SINK else str(sink)
    answer = Rollback(found.report.path, folder, planned)
    if to is None and not in_place:
        return answer  # (1)
    source = CheckpointFileManager(str(checkpoint), filesystem)
    manifest = CheckpointFileManager(f"{folder}/{FOLDER}", filesystem) if folder else None
    _check_unchanged(found, source)
    names = [name for name in found.files.files if not is_left_out(name)]
    if in_place:
        kept = CheckpointFileManager(str(backup), filesystem)
        if "metadata" in found.files.files and not _is_copy(kept, found, filesystem):
            _check_empty(kept)
            if manifest is not None:
                _copy(manifest, CheckpointFileManager(f"{kept.location}/{FOLDER}", filesystem), planned.remove["manifest"])
            _copy(source, kept, names)
            _copy(source, kept, ["metadata"])
        _in_place(source, manifest, planned)
        return Rollback(answer.checkpoint, folder, planned, source.root)
    copy = CheckpointFileManager(str(to), filesystem)
    gone = {name for of_kind in planned.remove.values() for name in of_kind}
    kept_manifest = CheckpointFileManager(f"{copy.location}/{FOLDER}", filesystem)
    metadata = to_json({"id": str(uuid.uuid4())}).encode() if new_id else None
    left = [name for name in names if name not in gone]
    write_copy(source, copy, left, manifest, kept_manifest, planned.remove["manifest"], metadata)
    return Rollback(answer.checkpoint, folder, planned, copy.root)


def _read(path: str, filesystem: fs.FileSystem | None, sink: str | Path | None, max_bytes: int) -> Checkpoint:
    report = inspect(path, filesystem, max_bytes=max_bytes)
    files = ReadOnlyFiles(path, filesystem, Budget(max_bytes))
    last = max((b.batch_id for b in report.batches), default=-1)
    return Checkpoint(report, files, manifest_names(files, last, sink, filesystem))


def manifest_names(
    files: ReadOnlyFiles, last: int, sink: str | Path | None, filesystem: fs.FileSystem | None
) -> list[str] | None:
    """The names in the manifest of the sink; None if it is not known whether there is one. Raises RollbackRefused.

    Args:
        last: the last batch of the checkpoint.
    """
    if sink is None:
        if filesystem is None and (near := _sink_beside(files)):
            raise RollbackRefused(
                f"{near} has the manifest of a file sink, written together with the commits of this checkpoint: it must go "
                f"back, too. Name the folder as the sink; or, if another query writes into it, say that the sink is {NO_SINK}"
            )
        return None
    if str(sink) == NO_SINK:
        return []
    names = [name for name, _, _ in CheckpointFileManager(f"{sink}/{FOLDER}", filesystem).list(only_files=True)]
    newest = max((int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdigit()), default=-1)
    if newest < 0:
        raise RollbackRefused(f"{sink} is not the folder of a file sink: it has no {FOLDER} with entries")
    if newest > last and SET_ASIDE not in files.files:
        says = f"{sink} has batch {newest} in its manifest, but the last batch of the checkpoint is {last}"
        raise RollbackRefused(f"{says}: another query has written it")
    return names


def _sink_beside(files: ReadOnlyFiles) -> Path | None:
    """A folder near the checkpoint whose manifest has an entry that was written between the plan of a batch and its commit."""
    if not files.location.startswith("file:"):
        return None
    home = Path(files.location.removeprefix("file:"))
    commits = sorted((int(p.name) for p in home.glob("commits/[0-9]*") if p.name.isdigit()), reverse=True)[:2]
    try:
        near = [home.parent, home.parent.parent, *(p for p in home.parent.iterdir() if p.is_dir())]
        for folder, batch, end in ((folder, batch, end) for folder in near for batch in commits for end in ("", ".compact")):
            entry = folder / FOLDER / f"{batch}{end}"
            if entry.is_file() and _time(home / f"offsets/{batch}") <= _time(entry) <= _time(home / f"commits/{batch}"):
                return folder
    except OSError:  # a folder that may not be listed, or an entry that is gone
        return None
    return None


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


def _check_unchanged(found: Checkpoint, source: CheckpointFileManager) -> None:
    before = {name for name in found.files.files if name.rpartition("/")[0] in ("offsets", "commits")}
    after = {f"{log}/{name}" for log in ("offsets", "commits") for name, _, _ in source.list(log, only_files=True)}
    if before != after:
        raise RollbackRefused(f"{source.root} is changing: a query runs on it. Stop it first")


def _check_empty(manager: CheckpointFileManager) -> None:
    """Nothing is there, or the part of a checkpoint that a killed call has left, on which Spark may have refused to start."""
    names = {name for name, _, _ in manager.list() if not name.endswith(".tmp")}
    if names - {"offsets", "commits", "sources", "state", FOLDER, ".metadata.crc"}:
        raise RollbackRefused(f"{manager.root} is not empty")


def _is_copy(manager: CheckpointFileManager, found: Checkpoint, filesystem: fs.FileSystem | None) -> bool:
    """Whether there is the whole backup already, of a call that was killed when it had made it."""
    if not manager.exists("metadata"):
        return False
    there = ReadOnlyFiles(manager.location, filesystem, found.files.budget).files
    needed = {name: size for name, size in found.files.files.items() if name == "metadata" or not is_left_out(name)}
    return needed.items() <= dict(there).items()


# -- what is done ----------------------------------------------------------------------------------------------


def write_copy(
    source: CheckpointFileManager, copy: CheckpointFileManager, names: Sequence[str], manifest: CheckpointFileManager | None,
    kept_manifest: CheckpointFileManager, entries: Sequence[str], metadata: bytes | None = None,
) -> None:  # (3)
    """Write a checkpoint in an empty folder.

    Args:
        names: the files, but `metadata`, which comes last.
        manifest: that of the sink, from which `entries` go; they are kept in `kept_manifest`.
        metadata: what is in it, if not what the source has.
    """
    _check_empty(copy)
    _begin(source, copy, [name for name in names if name.startswith("offsets/")])
    _copy(source, copy, [name for name in names if not name.startswith("offsets/")])
    if manifest is not None:
        _copy(manifest, kept_manifest, entries)
        _remove(manifest, entries)
    copy.delete("metadata")  # the checksum of one that a start wrote and took back, if Spark has refused it meanwhile
    copy.create_atomic("metadata", metadata or source.open("metadata" if source.exists("metadata") else SET_ASIDE))


def _begin(source: CheckpointFileManager, copy: CheckpointFileManager, offsets: Sequence[str]) -> None:
    """The first entries of the copy. Locally, they appear together: in an empty folder, a query would begin from nothing."""
    if not copy.location.startswith("file:") or copy.list("offsets"):
        _copy(source, copy, offsets)
        return
    partial = CheckpointFileManager(f"{copy.location}.partial")
    _copy(source, partial, offsets)
    os.rename(partial.location.removeprefix("file:"), copy.location.removeprefix("file:"))


def _copy(source: CheckpointFileManager, target: CheckpointFileManager, names: Sequence[str]) -> None:
    """Copy some files, each before its checksum. What a killed call has left of them is overwritten."""
    for name in sorted(names, key=lambda name: name.endswith(".crc")):
        try:
            target.create_atomic(name, source.open(name), overwrite=True)
        except FileNotFoundError as e:
            raise RollbackRefused(f"{source.root}/{name} has just been removed: a query runs on it. Stop it first") from e


def is_left_out(name: str) -> bool:
    """`metadata`, which is written last; temporary files and their checksums; what an earlier rollback kept of a manifest."""
    is_temporary = name.endswith((".tmp", ".tmp.crc")) and name.rpartition("/")[2].startswith(".")
    return is_temporary or name in ("metadata", SET_ASIDE) or name.startswith(f"{FOLDER}/")


def _in_place(source: CheckpointFileManager, manifest: CheckpointFileManager | None, planned: RollbackPlan) -> None:  # (2)
    if source.exists("metadata"):
        _rename(source, "metadata", SET_ASIDE)
    if manifest is not None:
        _remove(manifest, planned.remove["manifest"])
    for kind in ("state", "sources", "commits", "offsets"):
        _remove(source, planned.remove[kind])
    _rename(source, SET_ASIDE, "metadata")


def _remove(manager: CheckpointFileManager, names: Sequence[str]) -> None:
    for name in names:
        manager.delete(name)


def _rename(manager: CheckpointFileManager, name: str, new: str) -> None:
    """Give a small file another name: whoever is killed meanwhile leaves both."""
    manager.create_atomic(new, manager.open(name), overwrite=True)
    manager.delete(name)
