"""The files of one state store: the changes of each batch, and from time to time all rows of a version.

Models: the part of HDFSBackedStateStoreProvider that reads and writes files (About state: delta and snapshot files).

    state/<operator>/<partition>[/<store>]/7.delta       what batch 6 changed: version 6 -> version 7
                                           11.snapshot   all rows of version 11

1. Both are a compressed stream (engine/checkpointing/lz4_block.py) of records (state_records.py). A snapshot has no removes.
2. A file appears as a whole or not at all (it is written under another name, then renamed). A batch that runs again may replace
   it, so whoever keeps what was read also keeps the `identity` of the file.
3. If a version has both files, the snapshot is used.

    1.delta 2.delta 3.delta 3.snapshot     store_files(): 1.delta, 2.delta, 3.snapshot

Files are not trusted: every error names the file and the byte.

Differs from Spark: the error for a damaged file, CANNOT_LOAD_STATE_STORE.UNCATEGORIZED, has the reason in its message,
because an error of a Python worker reaches the driver as text; Spark's error has the reason in its cause.
Shown by tests/unit/engine/state/test_state_store.py::test_a_damaged_delta_is_one_clear_error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minispark_stream.engine.checkpointing.budget import Budget, LimitExceeded
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager, canonical_number
from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.checkpointing.lz4_block import compress, decompress
from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows
from minispark_stream.engine.state.hdfs_backed_state_store_map import Entries
from minispark_stream.engine.state.row_format import RowFormat
from minispark_stream.engine.state.state_records import (
    Change,
    NegativeKeySize,
    RowChecksumMismatch,
    decode_changes,
    encode_records,
    records,
)
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId, state_error

LAST_UPLOADED = "SnapshotLastUploaded"  # how the names of `last_uploaded` begin
LAST_UPLOADED_OF = re.compile(rf"{LAST_UPLOADED}\.partition_\d+_(?P<store>.+)")


class StoreFile(NamedTuple):
    version: int
    name: str
    is_snapshot: bool


class Loaded(NamedTuple):
    """What a provider reports of loading: how often a version was in memory and how often it was not, whether the newest
    snapshot of the last version could not be read, and the memory of the map."""

    hits: int
    misses: int
    was_repaired: bool
    num_bytes: int


class StateFiles:
    """Reads, writes, lists and deletes the delta and snapshot files of one store.

    Args:
        manager: the files of the store's directory, if not the usual ones.
        budget: the memory that a file may take.

    Attributes:
        delta, snapshot: the suffixes of the names of files.
        provider: Spark's class, as error messages name it.
        checks_what_it_loads: whether the first row is checked (row_format.py) that is loaded, or the first that a batch finds.
    """

    delta, snapshot, provider = "delta", "snapshot", "HDFSStateStoreProvider"
    checks_what_it_loads = True

    def __init__(
        self, store_id: StateStoreId, conf: StateStoreConf,
        manager: CheckpointFileManager | None = None, budget: Budget | None = None,
    ):
        self.store_id, self.conf, self.budget = store_id, conf, budget
        self.manager = manager or CheckpointFileManager(store_id.location)
        self.root = self.manager.root
        self.row_format: RowFormat | None = None  # that of the next row to be checked

    def __str__(self) -> str:
        provider = f"StateStoreProviderId[ storeId={self.store_id}, queryRunId={self.conf.query_run_id} ]"
        return f"{self.provider}[stateStoreProviderId={provider}]"

    @property
    def most_deltas(self) -> int:
        """How many deltas may follow a snapshot before the next one is due."""
        return self.conf.min_deltas_for_snapshot

    @property
    def repairs(self) -> bool:
        """Whether an older snapshot may be read if the newest one cannot: older ones and all deltas make the same state."""
        return self.conf.auto_snapshot_repair_enabled

    def opens(self, version: int, unique_id: str | None) -> None:
        """A batch begins with `version`. In checkpoint format 2, `unique_id` says which of its files counts."""

    def unique_id(self, version: int) -> str | None:
        """The id of the file of a version that was opened or written here; None in checkpoint format 1."""
        return None

    def name(self, version: int, suffix: str) -> str:
        """The name of a version's file."""
        return f"{version}.{suffix}"

    def write_version(self, version: int, changes: Sequence[Change], num_keys: int, overwrite: bool = True) -> object:
        """Write `version`, which differs from the version before by `changes` and has `num_keys` keys.

        With `overwrite`, it replaces the files that an earlier run wrote. Returns the identity of the new file.

        Raises:
            FileExistsError: there is a file and `overwrite` is false.
        """
        if overwrite:
            self.delete(self.name(version, self.snapshot))
        return self.write_delta(version, changes, overwrite)

    def write_delta(self, version: int, changes: Sequence[Change], overwrite: bool = True) -> object:
        """Write a delta; returns the identity of the file. Raises FileExistsError if there is one and `overwrite` is false."""
        name = self.name(version, self.delta)
        return name, self._write(name, self._encoded(changes, version), overwrite)

    def write_snapshot(self, version: int, keys: Sequence[bytes], values: Sequence[bytes]) -> int:
        """Write a snapshot; returns its size in bytes. Raises FileNotFoundError if the folder has been deleted meanwhile."""
        records = self._encoded([(keys, values)], version)
        data = compress(records, self.conf.compression_codec)
        self.manager.create_atomic(f"{version}.snapshot", data, overwrite=True, new_folder=False)
        return len(data)

    def read_delta(self, version: int) -> list[Change]:
        """The records of a delta, in order. Raises SparkRuntimeException if the file is missing or damaged."""
        try:
            return self._read(f"{version}.delta", "delta")
        except FileNotFoundError as e:
            file = f"{version}.delta"
            raise self._error("CANNOT_READ_DELTA_FILE_NOT_EXISTS", "delta", file, "{f} does not exist") from e

    def has_delta(self, version: int) -> bool:
        return self.manager.exists(self.name(version, self.delta))

    def read_snapshot(self, version: int) -> list[Change]:
        try:
            changes = self._read(f"{version}.snapshot", "snapshot")
        except FileNotFoundError as e:
            file = f"{version}.snapshot"
            raise self._error("CANNOT_READ_MISSING_SNAPSHOT_FILE", "snapshot", file, "{f} does not exist") from e
        if any(not isinstance(values, Rows) and None in values for _, values in changes):
            reason = "value size cannot be -1"
            raise self._error("CANNOT_READ_SNAPSHOT_FILE_VALUE_SIZE", "snapshot", f"{version}.snapshot", reason)
        return changes

    def delete(self, name: str) -> None:
        self.manager.delete(name)

    def store_files(self) -> list[StoreFile]:
        """The delta and snapshot files by version; if a version has both, the snapshot (Spark's fetchFiles)."""  # (3)
        found: dict[int, StoreFile] = {}
        for name, *_ in self.manager.list():
            stem, _, suffix = name.partition(".")
            version, is_snapshot = canonical_number(stem), suffix == self.snapshot
            if version is not None and suffix in (self.delta, self.snapshot):
                if is_snapshot or version not in found:
                    found[version] = StoreFile(version, name, is_snapshot)
        return [found[version] for version in sorted(found)]

    def snapshots(self) -> list[int]:
        return [f.version for f in self.store_files() if f.is_snapshot]

    def identity(self, version: int) -> object:
        """A value that distinguishes the file of `version` from one that replaces it; None if there is no file."""  # (2)
        for name in (self.name(version, self.delta), self.name(version, self.snapshot)):
            if (found := self.manager.identity(name)) is not None:
                return name, found
        return None

    def tables(self, version: int) -> Mapping[str, int]:
        """The files that the snapshot of a version may share with other snapshots, and their sizes; here, there are none."""
        return {}

    def unused(self, deleted: Sequence[str]) -> list[str]:
        """Other files that are no longer needed when the files `deleted` are gone."""
        return []

    def onto(self, entries: Entries, changes: Iterable[Change]) -> Iterable[Change]:
        """The records of a delta as keys that are put or removed, given the entries that they are applied to."""
        return changes

    def says_the_same(self, version: int, changes: Sequence[Change], rows: Change) -> bool:
        """Whether the file of `version` contains these `changes`, or, if it contains the whole version, these `rows`."""
        if self.has_delta(version):
            return dict(records(self.read_delta(version))) == dict(records(changes))
        return dict(records(self.read_snapshot(version))) == dict(records([rows]))

    def custom_metrics(self, loaded: Loaded) -> dict[str, int]:
        """What Spark counts of a store besides its keys, under Spark's names."""
        return {
            "loadedMapCacheHitCount": loaded.hits,
            "loadedMapCacheMissCount": loaded.misses,
            "numSnapshotsAutoRepaired": int(loaded.was_repaired),
            "stateOnCurrentVersionSizeBytes": loaded.num_bytes,
            "forceSnapshotCount": 0,
            self.last_uploaded: -1,
        }

    @property
    def last_uploaded(self) -> str:
        return last_uploaded(self.store_id.partition_id, self.store_id.store_name)

    def _encoded(self, changes: Sequence[Change], version: int) -> bytes:
        return encode_records(changes, self.conf.row_checksum_enabled)

    def _decoded(self, records: bytes) -> list[Change]:
        return decode_changes(records, self.conf.row_checksum_enabled, self.budget)

    def found(self, values: Sequence[bytes], keys: Sequence[bytes] | None = None) -> Sequence[bytes]:
        """The values that a batch has found in the store, the first of them checked; no `keys`: it has asked for these keys."""
        if self.row_format is not None and not self.checks_what_it_loads and len(values):
            self.row_format.check(self.store_id, None if keys is None else keys[0], values[0])
            self.row_format = None
        return values

    def _checked(self, changes: list[Change]) -> list[Change]:
        """Changes that were loaded, the first row that is put checked."""
        if self.row_format is None or not self.checks_what_it_loads:
            return changes
        key, value = next((pair for pair in records(changes) if pair[1] is not None), (None, None))
        if value is None:
            return changes
        try:
            self.row_format.check(self.store_id, key, value)
        except SparkRuntimeException as e:
            condition = str(e.getCondition()).removeprefix("STATE_STORE_")
            text = f"An error occurred during loading state. {e}"
            raise state_error(f"CANNOT_LOAD_STATE_STORE.{condition}", text, "58030", msg=e) from None
        self.row_format = None
        return changes

    def _write(self, name: str, records: bytes, overwrite: bool = True) -> object:
        return self.manager.create_atomic(name, compress(records, self.conf.compression_codec), overwrite)  # (1)

    def _read(self, name: str, kind: str) -> list[Change]:
        try:
            data = self.manager.open(name)
            records = decompress(data, self.conf.compression_codec, self.budget)
            return self._checked(self._decoded(records))
        except LimitExceeded as e:
            raise LimitExceeded(f"{self.root}/{name}: {e}") from e
        except ValueError as e:
            raise self._damaged(name, kind, e) from e

    def _damaged(self, name: str, kind: str, error: Exception) -> SparkRuntimeException:
        """The exception to raise if a file cannot be read because of `error`."""
        if isinstance(error, NegativeKeySize):
            return self._error(f"CANNOT_READ_{kind.upper()}_FILE_KEY_SIZE", kind, name, str(error))
        if isinstance(error, RowChecksumMismatch):
            text = f"Row checksum verification failed for stateStore={self}. The row may be corrupted.\n{error}, in {name}."
            return state_error("STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED", text, "XXKST", stateStoreId=self)
        reason = f"{error}. Restore the file from a copy, or start the query with a new checkpoint"
        return self._error("UNCATEGORIZED", kind, name, reason)

    def _error(self, sub_condition: str, kind: str, name: str, reason: str) -> SparkRuntimeException:
        file = f"{self.root}/{name}"
        text = f"Error reading {kind} file {file} of {self}: {reason.replace('{f}', file)}."
        condition = f"CANNOT_LOAD_STATE_STORE.{sub_condition}"
        text = f"An error occurred during loading state. {text}"
        return state_error(condition, text, "58030", fileToRead=file, clazz=self)


def last_uploaded(partition: int, store: str) -> str:
    """The name of the metric that says of which version of a store a snapshot was uploaded last."""
    return f"{LAST_UPLOADED}.partition_{partition}_{store}"


def files_of(store_id: StateStoreId, conf: StateStoreConf) -> StateFiles:
    """The files of a store, as the provider that the confs name writes them."""
    if conf.new_files is None:
        return StateFiles(store_id, conf)
    files: StateFiles = conf.new_files(store_id, conf)
    return files
