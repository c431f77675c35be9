"""How a version of a store is read: a base, and the deltas after it.

Models: the choice that HDFSBackedStateStoreProvider.loadMap and AutoSnapshotLoader make (About state).

1. A version is its newest snapshot, and the deltas after that one up to the version.
2. Each older snapshot and more deltas, down to nothing and all deltas, give the same state.

    version 5, snapshots 2 and 4     bases 4, 2, 0     from 2: 2.snapshot, 3.delta, 4.delta, 5.delta

Who loads a state (the provider), makes or repairs a snapshot, deletes files, looks into a checkpoint or draws one asks here.

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_state_store.py::test_from_where_a_version_can_be_read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change


def bases(snapshots: Iterable[int], version: int) -> list[int]:
    """The versions that reading `version` can begin with, the shortest way first; 0 is the empty state."""
    return [*sorted((v for v in snapshots if 0 < v <= version), reverse=True), 0]


def file_names(base: int, version: int, delta: str = "delta", snapshot: str = "snapshot") -> list[str]:
    """What is read to get from `base` to `version`, in this order. `delta`, `snapshot`: the suffixes of the names."""
    return [*([f"{base}.{snapshot}"] if base else []), *(f"{v}.{delta}" for v in range(base + 1, version + 1))]


def deltas(files: StateFiles, base: int, version: int) -> Iterator[tuple[int, object, list[Change]]]:
    """What changes from `base` to `version`, version by version, and the identity of each file.

    Raises what reading a file raises that is missing or damaged.
    """
    for v in range(base + 1, version + 1):
        identity = files.identity(v)  # before the file is read: if it changes meanwhile, it will not match
        yield v, identity, files.read_delta(v)
