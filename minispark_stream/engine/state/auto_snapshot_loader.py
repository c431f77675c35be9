"""The snapshot that loading a version begins with, and what to do when it cannot be read.

Models: AutoSnapshotLoader (About state).

1. The newest snapshot at or before the version is the shortest way; version 0 is an empty state without a file.
2. It is tried `autoSnapshotRepair.numFailuresBeforeActivating` times.
3. Then older ones are, newest first, down to nothing, as long as no more than `autoSnapshotRepair.maxChangeFileReplay` deltas
   follow: an older snapshot and more deltas give the same state.

    version 23, snapshots 11 and 22     22.snapshot is broken: begin with 11.snapshot, apply 12.delta to 23.delta

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from minispark_stream.engine.state.replay import bases
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import StateStoreConf, state_error

logger = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """A snapshot as it was read. `identity`: of its file, from before that; `was_repaired`: it is not the newest one."""

    version: int
    changes: list[Change]
    identity: object
    was_repaired: bool = False


def load_snapshot(files: StateFiles, conf: StateStoreConf, version: int) -> Snapshot:
    """The snapshot to begin with to get to `version`.

    Raises SparkRuntimeException CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED when none can be read; the error of the
    newest when the repair is off.
    """
    newest, *older = bases(files.snapshots() if version else (), version)  # (1)
    if not conf.auto_snapshot_repair_enabled:
        return _read(files, newest)
    failures: list[Exception] = []
    for _ in range(max(1, conf.auto_snapshot_repair_num_failures)):  # (2)
        if snapshot := _try(files, newest, failures):
            return snapshot
    selected = [v for v in older if version - v <= conf.auto_snapshot_repair_max_replay]
    for v in selected:  # (3)
        if snapshot := _try(files, v, failures):
            return snapshot._replace(was_repaired=True)
    tried, eligible = (", ".join(map(str, versions)) for versions in (selected, older))
    raise state_error(
        "CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED",
        f"An error occurred during loading state. Failed to load snapshot version {newest} for state store {files}. An attempt "
        f"to auto repair using snapshot versions ({tried}) out of available snapshots ({eligible}) also failed.",
        "58030", latestSnapshot=newest, stateStoreId=files, selectedSnapshots=tried, eligibleSnapshots=eligible,
    ) from failures[-1]


def _try(files: StateFiles, version: int, failures: list[Exception]) -> Snapshot | None:
    """The snapshot of a version; None when it cannot be read, with the reason at the end of `failures`."""
    try:
        return _read(files, version)
    except Exception as e:  # whatever is wrong with it, an older snapshot may do
        logger.warning("Failed to load snapshot version %d of %s: %s", version, files, e)
        failures.append(e)
        return None


def _read(files: StateFiles, version: int) -> Snapshot:
    identity = files.identity(version)
    return Snapshot(version, files.read_snapshot(version) if version else [], identity)
