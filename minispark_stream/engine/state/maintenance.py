"""State maintenance: snapshots and clean-up in the background.

Models: StateStore.doMaintenance, and doMaintenance of HDFSBackedStateStoreProvider (About state).

Every batch leaves a delta file in every partition of every store. So that a restart need not replay them all, and the
directory does not grow for ever, the driver does this for each store, every `stateStore.maintenanceInterval` (60 s):

1. Snapshot: when more than `stateStore.minDeltasForSnapshot` (10) deltas follow the newest snapshot (or the
   beginning), write the newest version whole.
2. Clean-up, even if the snapshot failed: the oldest version to keep is newest - `minBatchesToRetain` (100). If it is > 0,
   delete all files older than the file that loading it begins with: its newest snapshot <= it.

    minDeltasForSnapshot 10, minBatchesToRetain 3
    1.delta .. 11.delta             11 deltas > 10: write 11.snapshot; 11 - 3 = 8 begins at 1.delta, nothing to delete
    .. 14.delta                     14 - 3 = 11 begins at 11.snapshot: delete 1.delta .. 10.delta
    .. 22.delta                     22 - 11 = 11 deltas: write 22.snapshot
    .. 25.delta                     25 - 3 = 22 begins at 22.snapshot: delete 11.snapshot, 12.delta .. 21.delta
    next time                       delete 11.delta, which was hidden behind 11.snapshot

"Newest" is the newest *committed* version, which is the one that the running batch begins with: what is above it may be
written once more, and a snapshot of what was there before would hide the new delta.

It works from the files alone, so a driver can do it for stores that live in other processes. What goes wrong with one
store is logged and does not stop the query nor the other stores; the next round tries again.

Differs from Spark: Spark writes the map it has in memory, be it committed or not; here, where the map may be in any process,
the newest committed version is loaded as a task would: from its last snapshot that can be read, and the deltas after it.
Shown by tests/unit/test_state_store.py::test_there_is_no_snapshot_of_a_version_that_a_batch_may_write_again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number, redacted
from minispark_stream.engine.observer import Ended
from minispark_stream.engine.state.auto_snapshot_loader import load_snapshot
from minispark_stream.engine.state.hdfs_backed_state_store_map import HDFSBackedStateStoreMap
from minispark_stream.engine.state.replay import bases, deltas, file_names
from minispark_stream.engine.state.state_files import StateFiles, StoreFile
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId

logger = logging.getLogger(__name__)

# Tells whoever observes the query: `with step("maintenance", store_id=...) as ended: ...; ended(result)`.
Step = Callable[..., AbstractContextManager[Ended]]


@dataclass(frozen=True)
class MaintenanceResult:
    """What maintenance did for one store."""

    store_id: StateStoreId
    snapshot: int | None
    deleted: tuple[str, ...]


def run_maintenance(
    state_dir: str, conf: StateStoreConf, committed: int, step: Step, stopped: Callable[[], bool] = lambda: False
) -> list[MaintenanceResult]:
    """One round over every store under `state_dir`, or until `stopped` says that it is to end.

    `committed`: the newest version that no batch writes again.

    Returns:
        what was done, stores with nothing to do left out.
    """
    results = []
    for store_id in find_stores(state_dir):
        if stopped():
            break
        try:
            result = do_maintenance(store_id, conf, committed, step)
        except Exception as e:  # the query can go on without
            logger.warning("Error performing snapshot and cleaning up of %s: %s", redacted(store_id.location), e)
            continue
        if result is not None:
            results.append(result)
    return results


def do_maintenance(store_id: StateStoreId, conf: StateStoreConf, committed: int, step: Step) -> MaintenanceResult | None:
    """Snapshot and clean-up of one store; None when there was nothing to do."""
    files = StateFiles(store_id, conf)
    present = [f for f in files.store_files() if f.version <= committed]
    snapshot = snapshot_due(present, conf.min_deltas_for_snapshot)
    deletable = files_to_delete(present, conf.min_versions_to_retain)
    if snapshot is None and not deletable:
        return None
    with step("maintenance", store_id=store_id) as ended:
        try:
            if snapshot is not None:  # (1)
                write_snapshot(files, conf, snapshot)
        finally:  # (2)
            for name in deletable:
                files.delete(name)
        result = MaintenanceResult(store_id, snapshot, tuple(deletable))
        ended(result)
    return result


def snapshot_due(files: list[StoreFile], min_deltas: int) -> int | None:
    """The version to write as a snapshot, if one is due. `files` by version, one per version."""
    if not files or files[-1].is_snapshot:
        return None
    deltas = [f for f in files_for_version(files, files[-1].version) if not f.is_snapshot]
    return files[-1].version if len(deltas) > min_deltas else None


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
    if [f.name for f in needed] != file_names(base, version):
        raise ValueError(f"unexpected list of delta files for version {version}: {', '.join(f.name for f in needed)}")
    return needed


def write_snapshot(files: StateFiles, conf: StateStoreConf, version: int) -> None:
    """Load `version` from the snapshot and deltas before it, and write it whole."""
    before = files.identity(version)
    state = HDFSBackedStateStoreMap()
    base = load_snapshot(files, conf, version)
    state.apply(base.changes)
    for _, _, changes in deltas(files, base.version, version):
        state.apply(changes)
    if files.identity(version) != before:
        raise ValueError(f"version {version} was written again meanwhile; its snapshot waits for the next round")
    files.write_snapshot(version, *state.rows())


def find_stores(state_dir: str) -> Iterator[StateStoreId]:
    """Every store that has a directory under `state_dir`, by operator, partition and name."""
    manager = CheckpointFileManager(state_dir)
    for operator in _numbered(manager, ""):
        for partition in _numbered(manager, str(operator)):
            names = [name for name, *_ in manager.list(f"{operator}/{partition}")]
            if any(name.endswith((".delta", ".snapshot")) for name in names):
                yield StateStoreId(state_dir, operator, partition)
            for name in sorted(names):
                if "." not in name and name != "_metadata":  # a directory: a store with a name
                    yield StateStoreId(state_dir, operator, partition, name)


def _numbered(manager: CheckpointFileManager, directory: str) -> list[int]:
    try:
        return sorted(n for name, *_ in manager.list(directory) if (n := canonical_number(name)) is not None)
    except FileNotFoundError:
        return []


class MaintenanceTask:
    """Runs maintenance on a thread of its own, every `interval_ms` milliseconds, until it is stopped.

    `committed` is asked for the newest committed version before each round.
    """

    def __init__(self, state_dir: str, conf: StateStoreConf, interval_ms: int, committed: Callable[[], int], step: Step):
        self._state_dir, self._conf, self._interval_s = state_dir, conf, interval_ms / 1000
        self._committed, self._step = committed, step
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state-store-maintenance-task", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the store that is under way, and wait for it."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                run_maintenance(self._state_dir, self._conf, self._committed(), self._step, self._stopped.is_set)
            except Exception as e:  # the stores could not be listed; the next round tries again
                logger.warning("Error running maintenance of %s: %s", redacted(self._state_dir), e)
