"""The versions of one store, in memory and in delta and snapshot files. One version may be open for changes.

Models: HDFSBackedStateStoreProvider (About state).

The provider keeps one map, which is at one version, and an *undo record* for each of the last versions that this process made:
the keys that this version changed, with their values before. So the cost of a batch depends on what it changes, and not on the
size of the state.

1. To load version v: undo newer versions, if their records are still there; or apply the deltas after the version in
   memory; or else begin at the newest snapshot <= v (with an empty map if there is none) and apply the deltas after it.
2. A version in memory may be used only if its file is still the same: if its batch has run again, in this process or another,
   the file has been replaced. So the provider remembers the identity of the file of every version that it keeps, and compares
   it before it uses the version. (Files of older versions need no comparison: if one of them is replaced, all versions after it
   are written again before one of these is asked for.)
3. `get_store` opens a version as a store, which changes the map directly (hdfs_backed_state_store.py).
4. `commit` writes the delta of the new version. If this version has no file yet, the file is created; of two tasks that try it,
   only one can. If it has the file that it had when the store was opened, that file is from an earlier run of the batch: the
   delta replaces it, and a snapshot of the version is deleted, because it would hide the delta. If it has another file, a
   second task is writing the same version, and nobody can tell which of the two belongs to the batch: a task may outlive a
   query that was stopped, and have other code than the query that runs now. If that file contains the same changes, it stays;
   otherwise `commit` fails. (Only if two tasks replace the file of an earlier run at the very same moment do both succeed; then
   the later file stays.)
5. The `StateFiles` decide what the file of a version is. Those of RocksDB may write a whole version instead of a delta
   (extras/rocksdb). Then no version can be reached by deltas, and "the same" in (4) means that the file has the same rows.
6. A snapshot that cannot be read is skipped: an older one and more deltas give the same state (auto_snapshot_loader.py).
7. The map of a small store is a dict. When it has, is given or is asked for more than `stateStore.maxRowsInDict` rows, it moves
   into arrays, which the workers of an executor may share (large/).

    version 7: {a: 1, b: 2}    put a 5, remove b, put c 1, commit
    version 8: {a: 5, c: 1}    undo record of 8: a was 1, b was 2, c was none; 8.delta: put a 5, remove b, put c 1

Differs from Spark: Spark trusts the versions in memory, always replaces an existing delta by its own, and leaves snapshots
alone. Here a partition moves from process to process, so each version is checked (2), and not every file may be replaced (4).
Shown by tests/unit/engine/state/test_state_store.py::test_a_version_that_another_process_wrote_again_is_not_trusted,
tests/unit/engine/state/test_state_store.py::test_a_snapshot_of_an_earlier_run_does_not_hide_the_new_delta,
tests/unit/engine/state/test_state_store.py::test_a_task_that_outlived_its_query_cannot_replace_what_the_next_run_wrote,
tests/unit/engine/state/test_attempts.py::test_of_two_attempts_the_first_to_commit_wins.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from minispark_stream.engine.checkpointing.errors import SparkRuntimeException
from minispark_stream.engine.state.auto_snapshot_loader import load_snapshot
from minispark_stream.engine.state.hdfs_backed_state_store import HDFSBackedStateStore
from minispark_stream.engine.state.hdfs_backed_state_store_map import Entries, HDFSBackedStateStoreMap, Undo
from minispark_stream.engine.state.replay import deltas
from minispark_stream.engine.state.state_files import Loaded, files_of
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import (
    LoadedFrom,
    StateStoreConf,
    StateStoreId,
    StateStoreMetrics,
    state_error,
)

logger = logging.getLogger(__name__)


class Sharing(ABC):
    """(7) How a provider shares a large map with other processes (large/sharing.py)."""

    is_taken_over = False  # whether another process has left the map

    @abstractmethod
    def take(self, provider: HDFSBackedStateStoreProvider) -> None:
        """The store is needed: take over the map as the last process has left it."""

    @abstractmethod
    def lay_down(self, provider: HDFSBackedStateStoreProvider) -> None:
        """The store is no longer needed: leave the map to whoever needs it next."""

    @abstractmethod
    def let_go(self) -> None:
        """What was taken may no longer be true of the map."""

    @abstractmethod
    def is_shared(self, provider: HDFSBackedStateStoreProvider) -> bool: ...


class HDFSBackedStateStoreProvider:
    """Loads and commits the versions of one store. (7) `share` is how it is shared when it is large; None: it is not."""

    def __init__(self, store_id: StateStoreId, conf: StateStoreConf, share: Callable[[], Sharing] | None = None):
        self.store_id, self.conf, self._share = store_id, conf, share
        self.sharing: Sharing | None = None
        self.files = files_of(store_id, conf)
        self.lock: AbstractContextManager[object] = threading.RLock()
        self.loaded_map_cache_hit_count = 0
        self.loaded_map_cache_miss_count = 0
        self.snapshot_was_repaired = False
        self.open_store: HDFSBackedStateStore | None = None
        self.loaded_from = LoadedFrom.NEW  # how the version that was loaded last was obtained
        self.forget()

    def forget(self) -> None:
        if self.sharing is not None:
            self.sharing.let_go()
        self.map: Entries = HDFSBackedStateStoreMap()
        self.version = 0
        self.undo_records: dict[int, Undo] = {}  # of version n: back to n - 1
        self.identities: dict[int, object] = {}
        self._found_at_opening: object = None  # (4)

    def get_store(self, version: int, unique_id: str | None = None) -> HDFSBackedStateStore:
        with self.lock:
            self._begin()
            try:
                self.files.opens(version, unique_id)
                self.load(version)
                self.open_store = HDFSBackedStateStore(self, version)
                self._found_at_opening = self.files.identity(version + 1)
                return self.open_store
            except BaseException:
                self.done()
                raise

    def is_near(self, version: int, unique_id: str | None = None) -> bool:
        """Whether `version` is in memory, or can be reached by a few deltas."""
        with self.lock:
            if self.sharing is not None:
                self._begin()
            try:
                self.files.opens(version, unique_id)
                return self.version > 0 and (self._is_in_memory(version) or self._can_catch_up(version))
            finally:
                if self.sharing is not None:
                    self.done()

    def _begin(self) -> None:
        if self.open_store is not None:
            self.open_store.abort()
        if self.sharing is not None:
            self.sharing.take(self)

    def done(self) -> None:
        self.open_store = None  # which also ends the circle of the two, so that no collector is needed to free them
        if self.sharing is not None:
            self.sharing.lay_down(self)

    def begin_to_share(self) -> None:
        if self.sharing is None and self._share is not None:
            self.sharing = self._share()

    @property
    def is_shared(self) -> bool:
        return self.sharing is not None and self.sharing.is_shared(self)

    def entries(self, rows: int) -> Entries:
        """(7) The map, which is to look for this many rows, or to take them."""
        few = len(self.map) + rows <= self.conf.max_rows_in_dict
        if not few and isinstance(self.map, HDFSBackedStateStoreMap) and not self.map.has_indexes:
            from minispark_stream.engine.state.large.columnar_map import ColumnarMap

            self.begin_to_share()
            self.map = ColumnarMap.of(self.map, shared=self.sharing is not None)
        return self.map

    # -- (1) loading --------------------------------------------------------------------------------------------

    def load(self, version: int) -> None:
        """Bring the map to `version`."""
        if version < 0:
            text = f"An error occurred during loading state. Version cannot be {version} because it is less than 0."
            raise state_error("CANNOT_LOAD_STATE_STORE.UNEXPECTED_VERSION", text, "58030", version=version)
        self.snapshot_was_repaired = False
        if self._is_in_memory(version):
            taken_over = self.sharing is not None and self.sharing.is_taken_over
            self.loaded_from = LoadedFrom.NEW if version == 0 else LoadedFrom.TAKEN_OVER if taken_over else LoadedFrom.MEMORY
            self.loaded_map_cache_hit_count += version > 0
            while self.version > version:
                self.roll_back(self.undo_records.pop(self.version))
                self.version -= 1
            return
        self.loaded_map_cache_miss_count += version > 0
        if self._can_catch_up(version):
            self.loaded_from = LoadedFrom.DELTAS if self.version else LoadedFrom.FILES
            try:
                self._apply_deltas_up_to(version)
                return
            except SparkRuntimeException as e:  # a delta may have been deleted because a newer snapshot contains it
                logger.info("Loading %s from its snapshot: %s", self.files, e)
        self.loaded_from = LoadedFrom.FILES
        try:
            self._load_base(version)
            self._apply_deltas_up_to(version)
        except BaseException:
            self.forget()
            raise

    def _is_in_memory(self, version: int) -> bool:
        steps_back = range(version + 1, self.version + 1)
        return version <= self.version and all(v in self.undo_records for v in steps_back) and self._is_current(version)

    def _can_catch_up(self, version: int) -> bool:
        return 0 < version - self.version <= self.conf.min_deltas_for_snapshot and self._is_current(self.version)

    def _is_current(self, version: int) -> bool:  # (2)
        known = self.identities.get(version)
        return version == 0 or known is not None and known == self.files.identity(version)

    def _load_base(self, version: int) -> None:
        """Begin with the newest snapshot that can be read, or with an empty map."""
        self.forget()
        base = load_snapshot(self.files, self.conf, version)  # (6)
        self._apply(base.changes)
        self.snapshot_was_repaired = base.was_repaired
        self.version, self.identities[base.version] = base.version, base.identity

    def _apply_deltas_up_to(self, version: int) -> None:
        for v, identity, changes in deltas(self.files, self.version, version):
            self._apply(changes)
            self._becomes(v, None, identity)

    def _apply(self, changes: Sequence[Change]) -> None:
        with self.changing(sum(len(keys) for keys, _ in changes)) as entries:
            entries.apply(self.files.onto(entries, changes))

    # -- (3), (4) changing --------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, rows: int) -> Iterator[Entries]:
        """The map, to change this many rows. If it fails halfway, nobody can say what it contains: it is never used again."""
        try:
            yield self.entries(rows)
        except BaseException:
            self.open_store = None
            self.forget()
            raise

    def roll_back(self, undo: Undo) -> None:
        with self.changing(0) as entries:
            entries.apply(reversed(undo))

    def commit(self, undo: Undo, changes: Sequence[Change]) -> None:
        version = self.version + 1
        self._becomes(version, undo, self._write(version, changes))

    def _write(self, version: int, changes: Sequence[Change]) -> object:
        """Write the file of `version`, unless another task has written the same changes; returns the identity of the file."""
        if self.files.identity(version) == self._found_at_opening:
            with suppress(FileExistsError):  # another task has written it in this moment
                return self.files.write_version(version, changes, len(self.map), self._found_at_opening is not None)
        identity = self.files.identity(version)  # before the file is read, as when it is loaded
        if not self.files.says_the_same(version, changes, self.map.rows()):  # (5)
            name = self.files.name(version, self.files.delta if self.files.has_delta(version) else self.files.snapshot)
            raise ValueError(f"another task has written other changes to {self.files.root}/{name} meanwhile")
        return identity

    def _becomes(self, version: int, undo: Undo | None, identity: object) -> None:
        """The map is now at `version`; versions that are too old to be kept in memory are dropped."""
        self.version, self.identities[version] = version, identity
        if undo is not None:
            self.undo_records[version] = undo
        oldest = version - max(1, self.conf.max_versions_to_retain_in_memory) + 1
        self.undo_records = {v: undo for v, undo in self.undo_records.items() if v > oldest}
        self.identities = {v: identity for v, identity in self.identities.items() if v >= oldest}
        if self.conf.max_versions_to_retain_in_memory <= 0:
            self.identities.clear()  # nothing in memory is used again

    def metrics(self) -> StateStoreMetrics:
        undo = self.map.num_bytes(sum(len(keys) for undo in self.undo_records.values() for keys, _ in undo))
        size = self.map.memory_used_bytes
        loaded = Loaded(self.loaded_map_cache_hit_count, self.loaded_map_cache_miss_count, self.snapshot_was_repaired, size)
        custom = self.files.custom_metrics(loaded)
        return StateStoreMetrics(len(self.map), size + undo, custom, self.files.unique_id(self.version))
