"""State maintenance: snapshots and clean-up in the background.

Models: StateStore.doMaintenance, and doMaintenance of HDFSBackedStateStoreProvider (About state).

Every batch writes a delta file in every partition of every store. A restart should not have to read all of them, and the
directory must not grow for ever. So every `stateStore.maintenanceInterval` (60 s), a Python worker does two things for each
store:

1. Snapshot: if more than `stateStore.minDeltasForSnapshot` (10) deltas follow the newest snapshot (or the
   beginning), write all rows of the newest version.
2. Clean-up, even if the snapshot failed: the oldest version to keep is newest - `minBatchesToRetain` (100). If it is > 0,
   delete all files that are older than the first file that is read to load this version (its newest snapshot, or 1.delta).

    minDeltasForSnapshot 10, minBatchesToRetain 3
    1.delta .. 11.delta             11 deltas > 10: write 11.snapshot; 11 - 3 = 8 begins at 1.delta, nothing to delete
    .. 14.delta                     14 - 3 = 11 begins at 11.snapshot: delete 1.delta .. 10.delta
    .. 22.delta                     22 - 11 = 11 deltas: write 22.snapshot
    .. 25.delta                     25 - 3 = 22 begins at 22.snapshot: delete 11.snapshot, 12.delta .. 21.delta
    next time                       delete 11.delta, which was hidden behind 11.snapshot

"Newest" means the newest *committed* version, which is the one that the running batch begins with: later versions may be
written again, and a snapshot of what they were before would hide the new delta.

3. The driver asks for a *round* over some partitions (engine/runtime/maintenance_task.py), which is a task in some worker. If
   this worker has a store in memory, or lacks only a few deltas, it writes the snapshot from memory. A partition that it would
   have to read from the beginning is left for another worker, unless the driver says that no worker has taken it.
4. After `seconds` of work, the remaining partitions are left for another round, so that no batch waits long for the worker.

An error in one store becomes part of its result. It stops neither the query nor the maintenance of other stores, and the next
round tries again.

Differs from Spark: Spark writes the map that it has in memory, whether it is committed or not. Here the map may be in any
process, so a snapshot is always of the newest committed version; a worker that does not have this version loads it as a task
would.
Shown by tests/unit/engine/state/test_state_store.py::test_there_is_no_snapshot_of_a_version_that_a_batch_may_write_again,
tests/unit/engine/state/test_state_store.py::test_a_snapshot_is_written_from_what_is_in_memory.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.commit_log import ids_by_store
from minispark_stream.engine.observer import error_words
from minispark_stream.engine.state.loaded_providers import LOADED_PROVIDERS, get_store, this_worker
from minispark_stream.engine.state.replay import bases
from minispark_stream.engine.state.state_files import StateFiles, StoreFile, files_of
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME, StateStoreConf, StateStoreId

Partition = tuple[int, int]  # the id of an operator, and the number of the partition


@dataclass(frozen=True)
class MaintenanceResult:
    """What maintenance did for one store, or tried to.

    Attributes:
        snapshot: the version of which a snapshot was written; None if none was due or it failed.
        num_bytes: the size of the snapshot's file.
        tables: the files that the snapshot may share with others, and their sizes.
        from_memory: whether the worker had the version in memory, or lacked only a few deltas.
        worker: its host and process id.
        error: what went wrong, as text; None if nothing did.
    """

    store_id: StateStoreId
    snapshot: int | None
    deleted: tuple[str, ...]
    num_bytes: int
    from_memory: bool
    worker: str
    milliseconds: int
    error: str | None
    tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MaintenanceRound:
    """(3) What a worker is asked to do; `run` does it, in the process that calls it.

    Args:
        committed: the newest version that no batch writes again.
        may_read: whether stores that this worker does not have in memory may be read from the checkpoint.
        seconds: (4) after this time, no other partition is begun.
        unique_ids: for each operator, the ids of that version's files, in checkpoint format 2.
    """

    state_dir: str
    conf: StateStoreConf
    committed: int
    partitions: tuple[Partition, ...]
    may_read: bool = True
    seconds: float = math.inf
    unique_ids: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> tuple[list[MaintenanceResult], list[Partition]]:
        """The results of all stores for which something was due, and the partitions that are left."""
        results, left = list[MaintenanceResult](), list[Partition]()
        began, looked_at = time.monotonic(), 0
        for partition in self.partitions:
            if looked_at and time.monotonic() - began > self.seconds:  # (4)
                left.append(partition)
                continue
            looked_at += 1
            due = self._due(partition)
            if self.may_read or all(one.is_near() for one in due):  # (3)
                results += [one.do_maintenance() for one in due if one.is_something()]
            else:
                left.append(partition)
        return results, left

    def _due(self, partition: Partition) -> list[Due]:
        ids = ids_by_store(self.unique_ids.get(str(partition[0])), partition[1])
        try:
            stores = find_stores(self.state_dir, *partition)
        except Exception as e:
            return [Due(files_of(StateStoreId(self.state_dir, *partition), self.conf), error=e)]
        return [what_is_due(store_id, self.conf, self.committed, ids.get(store_id.store_name)) for store_id in stores]


@dataclass(frozen=True)
class Due:
    """What is to be done for a store; or the `error` because of which this is not known."""

    files: StateFiles
    snapshot: int | None = None
    deletable: tuple[str, ...] = ()
    error: Exception | None = None

    def is_something(self) -> bool:
        return self.snapshot is not None or bool(self.deletable) or self.error is not None

    def is_near(self) -> bool:
        """Whether it can be done without reading the state from the beginning; if this cannot be found out, it cannot."""
        if self.snapshot is None:
            return True
        try:
            unique_id = self.files.unique_id(self.snapshot)
            return LOADED_PROVIDERS.is_near(self.files.store_id, self.files.conf, self.snapshot, unique_id)
        except OSError:
            return False

    def do_maintenance(self) -> MaintenanceResult:
        """Snapshot and clean-up."""
        began, near, num_bytes, error = time.monotonic(), self.is_near(), 0, self.error
        tables: Mapping[str, int] = {}
        deleted: list[str] = []
        if self.snapshot is not None:  # (1)
            try:
                num_bytes = write_snapshot(self.files, self.snapshot)
                tables = self.files.tables(self.snapshot)
            except Exception as e:  # the query does not depend on it
                error = e
        try:
            for name in self.deletable:  # (2)
                self.files.delete(name)
                deleted.append(name)
        except Exception as e:
            error = error or e
        return MaintenanceResult(
            store_id=self.files.store_id,
            snapshot=self.snapshot if num_bytes else None,
            deleted=tuple(deleted),
            num_bytes=num_bytes,
            from_memory=near and num_bytes > 0,
            worker=this_worker(),
            milliseconds=round((time.monotonic() - began) * 1000),
            error=None if error is None else error_words(error),
            tables=tables,
        )


def what_is_due(store_id: StateStoreId, conf: StateStoreConf, committed: int, unique_id: str | None) -> Due:
    """What is to be done for a store, according to the names of its files."""
    files = files_of(store_id, conf)
    try:
        files.opens(committed, unique_id)
        present = [f for f in files.store_files() if f.version <= committed]
        snapshot = snapshot_due(present, files.most_deltas)
        deletable = files_to_delete(present, conf.min_versions_to_retain)
        return Due(files, snapshot, (*deletable, *(files.unused(deletable) if deletable else ())))
    except Exception as e:
        return Due(files, error=e)


def snapshot_due(files: list[StoreFile], most_deltas: int) -> int | None:
    """The version of which a snapshot is due, if any. `files` has one file per version, in order."""
    if not files or files[-1].is_snapshot:
        return None
    deltas = [f for f in files_for_version(files, files[-1].version) if not f.is_snapshot]
    return files[-1].version if len(deltas) > most_deltas else None


def files_to_delete(files: list[StoreFile], versions_to_retain: int) -> list[str]:
    """The names of the files that no retained version needs."""
    earliest = files[-1].version - versions_to_retain if files else 0
    if earliest <= 0 or not any(f.version == earliest for f in files):
        return []
    first_needed = files_for_version(files, earliest)[0].version
    return [f.name for f in files if f.version < first_needed]


def files_for_version(files: list[StoreFile], version: int) -> list[StoreFile]:
    """The files that loading `version` reads: its newest snapshot, and the deltas after it without a gap."""
    base = bases((f.version for f in files if f.is_snapshot), version)[0]
    needed = [f for f in files if base <= f.version <= version]
    if [f.version for f in needed] != list(range(max(base, 1), version + 1)):
        raise ValueError(f"unexpected list of delta files for version {version}: {', '.join(f.name for f in needed)}")
    return needed


def write_snapshot(files: StateFiles, version: int) -> int:
    """Open `version` as a task of a batch would, and write a snapshot of it; returns the size of the file."""
    before = files.identity(version)
    store = get_store(files.store_id, files.conf, version, files.unique_id(version))
    try:
        rows = store.rows()
    finally:
        store.abort()
    if files.identity(version) != before:
        raise ValueError(f"version {version} was written again meanwhile; its snapshot waits for the next round")
    return files.write_snapshot(version, *rows)


def find_stores(state_dir: str, operator: int, partition: int) -> list[StateStoreId]:
    """The stores of a partition that have files, ordered by name."""
    names = [name for name, *_ in CheckpointFileManager(f"{state_dir}/{operator}/{partition}").list()]
    has_default = any(canonical_number(re.split("[._]", name)[0]) is not None for name in names)
    # directories: those of stores with names, and some that RocksDB needs
    named = [name for name in sorted(names) if "." not in name and name not in ("_metadata", "SSTs")]
    return [StateStoreId(state_dir, operator, partition, name) for name in [DEFAULT_STORE_NAME] * has_default + named]
