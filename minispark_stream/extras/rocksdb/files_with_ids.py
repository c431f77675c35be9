"""The files of a RocksDB store in checkpoint format 2: each task writes its own, and the commit log says which of them count.

Models: RocksDBStateStoreProvider, RocksDBFileManager, RocksDBCheckpointMetadata, LineageItem (About state: RocksDB), with
`stateStore.checkpointFormatVersion` 2.

    commits/6                        v2   {...,"stateUniqueIds":{"0":[["A"],["K"]]}}     of operator 0: partition 0, partition 1
    state/0/0/7_A.changelog          its lineage: 4_X, 5_B, 6_C
              7_Z.changelog          left by a task that ran twice, or by a batch that was killed: nobody reads it
              4_X.zip

1. Each version that is written gets a new id. So two tasks of one partition never write the same file, no file replaces another
   one, and when a batch is run again, the files of its first run are never mistaken for those of the second.
2. The ids go to the driver with the task's metrics, then into the commit log with the batch, and from there to the tasks of the
   next batch, which open exactly these files.
3. Each changelog contains its *lineage*: the ids of the versions before it, back to the newest zip. All ids that are needed to
   load a version are found by going from a changelog to the oldest one that its lineage names, and so on. A zip needs none.
4. A worker can use what it has in memory only if it has the id of the file, which is a part of the file's name.
5. Maintenance deletes files that do not count together with the version that they belong to. If all files of a version are
   zips, any one of them is taken as the one that counts.

Differs from Spark: Spark's lineage begins with the newest zip that the executor knows; here it begins with the newest zip that
exists. Spark's driver also checks that each task began with the file that it was told to open
(STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH); here a task opens that file, or fails.
Shown by tests/unit/extras/rocksdb/test_files_with_ids.py::test_a_changelog_says_which_files_are_before_it,
tests/unit/extras/rocksdb/test_files_with_ids.py::test_what_is_missing_is_named.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.checkpointing.lz4_block import decompress
from minispark_stream.engine.state.state_files import StoreFile
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from minispark_stream.extras.rocksdb.changelog import FILE, read_header
from minispark_stream.extras.rocksdb.checksum_checkpoint_file_manager import ChecksumCheckpointFileManager
from minispark_stream.extras.rocksdb.rocksdb_state_files import RocksDBStateFiles


class RocksDBStateFilesWithIds(RocksDBStateFiles):
    """The files of one store (`StateFiles`)."""

    def __init__(
        self, store_id: StateStoreId, conf: StateStoreConf,
        manager: CheckpointFileManager | None = None, budget: Budget | None = None,
    ):
        if manager is None and conf.file_checksum_enabled:
            manager = ChecksumCheckpointFileManager(store_id.location)
        super().__init__(store_id, conf, manager, budget)
        self._opened = 0
        self._ids: dict[int, str] = {}  # of the versions up to the one that was opened or written, as far as they are known

    def opens(self, version: int, unique_id: str | None) -> None:  # (2)
        self._opened = version
        if unique_id is None or self._ids.get(version) != unique_id:
            self._ids = {} if unique_id is None else {version: unique_id}
        self._ids = {v: i for v, i in self._ids.items() if v <= version}

    def unique_id(self, version: int) -> str | None:
        return self._ids.get(version)

    def name(self, version: int, suffix: str) -> str:
        return f"{version}_{self._id(version)}.{suffix}"

    def identity(self, version: int) -> object:  # (4)
        try:
            return super().identity(version)
        except SparkRuntimeException:  # a version whose id is not known is in no file
            return None

    def write_version(self, version: int, changes: Sequence[Change], num_keys: int, overwrite: bool = True) -> object:
        self._ids[version] = str(uuid.uuid4())  # (1)
        return super().write_version(version, changes, num_keys, False)

    def snapshots(self) -> list[int]:
        names = {name for name, *_ in self.manager.list()}
        known = self._back(max(self._ids, default=0))
        return sorted(v for v, unique_id in known if f"{v}_{unique_id}.{self.snapshot}" in names)

    def store_files(self) -> list[StoreFile]:
        names = self._by_version()
        found, newest = list[StoreFile](), max(self._ids, default=0)
        known = dict(self._back(newest))
        for version in sorted((v for v in names if v <= newest), reverse=True):
            if version in known:
                name = self.name(version, self.snapshot)
                is_snapshot = name in names[version]
                found.append(StoreFile(version, name if is_snapshot else self.name(version, self.delta), is_snapshot))
            elif all(name.endswith(self.snapshot) for name in names[version]):  # (5)
                found.append(StoreFile(version, names[version][0], True))
            else:
                break
        return found[::-1]

    def unused(self, deleted: Sequence[str]) -> list[str]:
        newest = max(int(name.partition("_")[0]) for name in deleted)
        of_others = [name for v, names in self._by_version().items() if v <= newest for name in names if name not in deleted]
        return [*of_others, *super().unused([*deleted, *of_others])]

    # -- (3) ids ------------------------------------------------------------------------------------------------

    def _lineage(self, version: int) -> Mapping[int, str]:
        names = {name for name, *_ in self.manager.list()}
        lineage = {}
        for v in range(version - 1, 0, -1):
            lineage[v] = self._id(v)
            if self.name(v, self.snapshot) in names:
                break
        return lineage

    def _back(self, version: int) -> Iterator[tuple[int, str]]:
        """The versions from this one down, with their ids, as far as these are known."""
        try:
            for v in range(version, 0, -1):
                yield v, self._id(v)
        except SparkRuntimeException:
            return

    def _id(self, version: int) -> str:
        """Raises SparkRuntimeException if nothing says it, or if the changelog that would say it is gone or damaged."""
        while version not in self._ids:
            after = min((v for v in self._ids if v > version), default=None)
            if after is None:
                said = "nothing says which file counts: the commit log has no id of it (stateUniqueIds)"
                raise self._error("CANNOT_READ_STREAMING_STATE_FILE", "state", f"{self._opened}_*", said)
            before = self._lineage_in(self.name(after, self.delta))
            if after - 1 not in before:
                said = f"its lineage does not say in which file version {after - 1} is"
                raise self._error("INVALID_CHECKPOINT_LINEAGE", "state", self.name(after, self.delta), said)
            self._ids |= {v: unique_id for v, unique_id in before.items() if v < after}
        return self._ids[version]

    def _lineage_in(self, name: str) -> Mapping[int, str]:
        try:
            return read_header(decompress(self.manager.open(name), self.conf.compression_codec, self.budget)).lineage
        except FileNotFoundError as e:
            raise self._missing(name) from e
        except ValueError as e:
            raise self._damaged(name, "delta", e) from e

    def _by_version(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name, *_ in sorted(self.manager.list()):
            if of := FILE.fullmatch(name):
                found.setdefault(int(of[1]), []).append(name)
        return found
