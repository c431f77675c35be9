"""The stores that this process keeps loaded.

Models: the `loadedProviders` of object StateStore (About state).

A batch changes little of a large state, and the task of the next batch may run in the same Python worker. If the worker did not
keep the state, each task would read all of it again. What counts are still the files: before a provider uses what it has in
memory, it checks whether another process has written the file (hdfs_backed_state_store_provider.py).

1. `get_store` finds the provider of a store in the process, or creates it, and lets it load the version.
2. When a query asks for a version for the first time, its stores that are of no use any more are dropped: those of an earlier
   run, and those that are too many versions behind to catch up by reading deltas.
3. Then stores that have not been used for the longest time are dropped, until the others fit into this process's share of the
   memory: half of the machine's memory, divided by the number of its cores. What a store takes is asked only after it was used,
   so a task does not take longer because many other stores are loaded.
4. In a task, a large table is in memory that the workers of an executor share, so another worker can continue with it
   (large/sharing.py). If one worker drops it, the others still have it. As long as all stores of an executor are small, nothing
   is shared: the first large store makes the folder of tickets, in which the workers look from then on. Only then is `large/`
   imported.

    worker 1     opens 0/3 at version 7, commits 8; opens 0/3 at version 8     nothing is read
    worker 2     opens 0/3 at version 8               a large table is shared, so nothing is read; else the files of 1 to 8 are
    worker 1     opens 0/5 at version 30              0/3 at version 8 is dropped

Differs from Spark: no coordinator knows which executor has a store, because Spark may give a task to any of its Python workers.
So a partition moves from one worker to another, and several workers may each have a copy of a store that they do not share,
until (2) or (3) drops it.
Shown by
tests/unit/engine/state/test_state_store.py::test_a_process_catches_up_with_what_others_wrote.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import cached_property, partial
from typing import TYPE_CHECKING

from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.row_format import RowFormat
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId

if TYPE_CHECKING:
    from minispark_stream.engine.state.large.shared_tables import SharedTables
    from minispark_stream.engine.state.large.sharing import SharingByTicket


class LoadedProviders:
    """The providers by store, in the order in which they were used last.

    Args:
        max_bytes: how much memory their stores may take, without the one that is in use.
        tickets: the folder of the tables that the workers of an executor share; None in a process that is not a worker.
    """

    def __init__(self, max_bytes: int, tickets: str | None = None):
        self._max_bytes = max_bytes
        self._tickets = tickets
        self._providers: dict[StateStoreId, HDFSBackedStateStoreProvider] = {}
        self._used: list[StateStoreId] = []  # the last one; what it takes is not known yet
        self._own: dict[StateStoreId, int] = {}  # what the others take in this process alone, in bytes
        self._common: dict[StateStoreId, None] = {}  # those in memory that workers share
        self._swept: dict[str, tuple[StateStoreConf, int]] = {}  # by query: the version for which (2) was done last
        self._lock = threading.Lock()

    def provider(self, store_id: StateStoreId, conf: StateStoreConf, version: int) -> HDFSBackedStateStoreProvider:
        """(1) The provider of a store that shall load `version`: the one that is here, if it is still of use, or a new one."""
        with self._lock:
            self._drop_useless(store_id.checkpoint_root, conf, version)
            provider = self._take_out(store_id) or self._new(store_id, conf)
            self._drop_unused()
            if self._share(conf):
                provider.begin_to_share()
                most, oldest = conf.max_shared_memory_mb, version - conf.min_deltas_for_snapshot
                self._tables.tidy(_half_of_memory() if most < 0 else most << 20, store_id.checkpoint_root, oldest)
            self._keep(store_id, provider)
            return provider

    def is_near(self, store_id: StateStoreId, conf: StateStoreConf, version: int, unique_id: str | None = None) -> bool:
        """Whether `version` of a store is in memory, or can be reached by a few deltas."""
        with self._lock:
            provider = self._providers.get(store_id)
            if provider is None or provider.conf != conf:
                provider = self._new(store_id, conf)
            if self._share(conf):
                provider.begin_to_share()
            if is_near := provider.is_near(version, unique_id):
                self._keep(store_id, provider)
            return is_near

    def where(self, store_id: StateStoreId) -> tuple[str, bool] | None:
        """How this process obtained the version of a store that it was last asked for (`LoadedFrom`), and if workers share it.

        None if the process has dropped the store since.
        """
        with self._lock:
            provider = self._providers.get(store_id)
            return None if provider is None else (provider.loaded_from, provider.is_shared)

    def _new(self, store_id: StateStoreId, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:  # (4)
        may_share = self._tickets is not None and conf.max_shared_memory_mb != 0
        return HDFSBackedStateStoreProvider(store_id, conf, partial(self._by_ticket, store_id) if may_share else None)

    def _share(self, conf: StateStoreConf) -> bool:  # (4)
        """Whether workers share tables by now."""
        return self._tickets is not None and conf.max_shared_memory_mb != 0 and os.path.isdir(self._tickets)

    @cached_property
    def _tables(self) -> SharedTables:  # (4)
        from minispark_stream.engine.state.large.shared_tables import SharedTables

        return SharedTables(str(self._tickets))

    def _by_ticket(self, store_id: StateStoreId) -> SharingByTicket:
        from minispark_stream.engine.state.large.sharing import SharingByTicket

        return SharingByTicket(self._tables.store(store_id))

    def _keep(self, store_id: StateStoreId, provider: HDFSBackedStateStoreProvider) -> None:
        self._providers[store_id] = provider
        self._used.append(store_id)

    def _take_out(self, store_id: StateStoreId) -> HDFSBackedStateStoreProvider | None:
        self._own.pop(store_id, None)
        self._common.pop(store_id, None)
        return self._providers.pop(store_id, None)

    def _drop_useless(self, checkpoint_root: str, conf: StateStoreConf, version: int) -> None:  # (2)
        if self._swept.get(checkpoint_root) == (conf, version):
            return
        for store_id, provider in list(self._providers.items()):
            is_of_query = store_id.checkpoint_root == checkpoint_root
            is_behind = provider.version + conf.min_deltas_for_snapshot < version and not provider.is_shared
            if is_of_query and (provider.conf != conf or is_behind):
                self._take_out(store_id)
        loaded = {store_id.checkpoint_root for store_id in self._providers}
        self._swept = {root: last for root, last in self._swept.items() if root in loaded} | {checkpoint_root: (conf, version)}

    def _drop_unused(self) -> None:  # (3)
        used, self._used = self._used, []
        for store_id in used:
            if (provider := self._take_out(store_id)) is not None:
                self._providers[store_id] = provider
                if provider.is_shared:
                    self._common[store_id] = None
                else:
                    self._own[store_id] = provider.map.memory_used_bytes
        if self._common:
            from minispark_stream.engine.state.large.shared_memory import most_shared

            while len(self._common) > most_shared():
                self._take_out(next(iter(self._common)))
        while sum(self._own.values()) > self._max_bytes:
            self._take_out(next(iter(self._own)))

    def clear(self) -> None:
        with self._lock:
            for store_id in list(self._providers):
                self._take_out(store_id)


def this_worker() -> str:
    """The host and the process id; a trace shows where a store is."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def share_of_memory() -> int:
    """(3) How many bytes the stores of this process may take."""
    return _half_of_memory() // (os.cpu_count() or 1)


def tickets_of_workers() -> str | None:
    """(4) The folder of the tables that workers share, inside that where the executor keeps its blocks.

    None if this process is not a worker of Spark, or if processes may not open each other's files on this machine.
    """
    folder = folder_of_executor()
    if folder is None or not os.access(f"/proc/{os.getppid()}/fd", os.R_OK | os.X_OK):
        return None
    return f"{folder}/minispark_stream-state"


def folder_of_executor() -> str | None:
    """The folder in which the executor of this worker keeps its blocks; None if this process is not a worker of Spark."""
    folder, _, _ = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")
    is_worker = any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)
    return folder if folder and is_worker else None


LOADED_PROVIDERS = LoadedProviders(share_of_memory(), tickets_of_workers())


def get_store(
    store_id: StateStoreId, conf: StateStoreConf, version: int,
    unique_id: str | None = None, row_format: RowFormat | None = None,
) -> StateStore:
    """Open `version` of a store for the changes that make `version + 1`.

    In a process, a store is open only once: if it is opened again, the one that was open before is aborted. Whoever opens it
    calls `abort` at the end, also after a commit.

    Args:
        unique_id: the id of `version` in checkpoint format 2.
        row_format: what is expected of the first row that is read, if it is to be checked.

    Raises:
        SparkRuntimeException: the version cannot be read from the files (CANNOT_LOAD_STATE_STORE).
    """
    provider = LOADED_PROVIDERS.provider(store_id, conf, version)
    provider.files.row_format = row_format
    return provider.get_store(version, unique_id)


def unload_stores() -> None:
    """Forget all stores that this process has in memory; their files stay."""
    LOADED_PROVIDERS.clear()
