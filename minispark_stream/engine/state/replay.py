"""How a version of a store is read: a base, and the deltas after it.

Models: the choice that HDFSBackedStateStoreProvider.loadMap and AutoSnapshotLoader make (About state).

1. A version is read from the newest snapshot at or before it, and the deltas after that snapshot.
2. Every older snapshot and more deltas give the same state; so do no snapshot and all deltas.

    version 5, snapshots 2 and 4     bases 4, 2, 0     from 2: 2.snapshot, 3.delta, 4.delta, 5.delta

This rule is needed to load a state, to make or repair a snapshot, to delete files, and to look into a checkpoint or draw it.

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_state_store.py::test_from_where_a_version_can_be_read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change


def bases(snapshots: Iterable[int], version: int) -> list[int]:
    """The versions that reading `version` can begin with, the one that the fewest deltas follow first; 0 is the empty state."""
    return [*sorted((v for v in snapshots if 0 < v <= version), reverse=True), 0]


def file_names(base: int, version: int, delta: str = "delta", snapshot: str = "snapshot") -> list[str]:
    """The files that are read to load `version` from `base`, in order; `delta` and `snapshot` are the suffixes of names."""
    return [*([f"{base}.{snapshot}"] if base else []), *(f"{v}.{delta}" for v in range(base + 1, version + 1))]


def deltas(files: StateFiles, base: int, version: int) -> Iterator[tuple[int, object, list[Change]]]:
    """For each version after `base` up to `version`: its number, the identity of its file, and the changes in it.

    Raises:
        SparkRuntimeException: a file is missing or damaged.
    """
    for v in range(base + 1, version + 1):
        identity = files.identity(v)  # before the file is read: if it changes meanwhile, it will not match
        yield v, identity, files.read_delta(v)
