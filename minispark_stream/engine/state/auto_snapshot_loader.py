"""The snapshot that loading a version begins with, and what to do if it cannot be read.

Models: AutoSnapshotLoader (About state).

1. Loading begins with the newest snapshot at or before the version, because then the fewest deltas follow. Version 0 is an
   empty state, which has no file.
2. This snapshot is tried `autoSnapshotRepair.numFailuresBeforeActivating` times.
3. Then older ones are tried, the newest first and version 0 last, as long as at most `autoSnapshotRepair.maxChangeFileReplay`
   deltas follow: an older snapshot and more deltas give the same state. A store that writes no deltas is not repaired.

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
    """A snapshot. `identity` is that of its file, taken before the file was read; `was_repaired`: it is not the newest one."""

    version: int
    changes: list[Change]
    identity: object
    was_repaired: bool = False


def load_snapshot(files: StateFiles, conf: StateStoreConf, version: int) -> Snapshot:
    """The snapshot to begin with if `version` is to be loaded.

    Raises:
        SparkRuntimeException: no snapshot can be read (CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED); or, if repair is
            off, the newest one cannot.
    """
    newest, *older = bases(files.snapshots() if version else (), version)  # (1)
    if not files.repairs:
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
    """The snapshot of a version; None if it cannot be read, and then the reason is appended to `failures`."""
    try:
        return _read(files, version)
    except Exception as e:  # whatever is wrong with it, an older snapshot may be all right
        logger.warning("Failed to load snapshot version %d of %s: %s", version, files, e)
        failures.append(e)
        return None


def _read(files: StateFiles, version: int) -> Snapshot:
    identity = files.identity(version)
    return Snapshot(version, files.read_snapshot(version) if version else [], identity)
