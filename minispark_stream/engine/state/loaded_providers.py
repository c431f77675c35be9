"""The stores that this process keeps loaded.

Models: the `loadedProviders` of object StateStore (About state).

1. `get_store` finds the provider of a store in the process, or creates it, and has it load the version.
2. Before that, what is of no use any more is dropped: the stores of an earlier run of the query, and those which are so many
   versions behind that they could not catch up by reading deltas.
3. Then those that have gone unused for longest are dropped, until the others fit into this process's share of the memory: half
   of the machine's, divided by the number of its cores.
4. In a task, a large table is in memory that the workers of the executor have in common, so that the next worker goes on with
   it (shared_provider.py). Dropping it here leaves it to the others.

    worker 1     opens 0/3 at version 7, commits 8; opens 0/3 at version 8     nothing is read
    worker 2     opens 0/3 at version 8               of a large table, nothing is read; else the files of versions 1 to 8
    worker 1     opens 0/5 at version 30              0/3 at version 8 is dropped

Why a process needs it: a batch changes little of a large state, and the task of the next batch may run in the same Python
worker. Without it, each task would read the whole state again. The files remain the truth: a provider looks whether another
process has written them before it uses what it has (hdfs_backed_state_store_provider.py).

Differs from Spark: no coordinator knows which executor has a store, because Spark gives a task to any of its Python workers.
So a partition moves from one worker to another, and several workers have a copy of a store that they do not share at the same
time, until (2) or (3) drops it.
Shown by tests/unit/engine/state/test_state_store.py::test_a_process_catches_up_with_what_others_wrote.
"""

from __future__ import annotations

import os
import socket
import threading

from minispark_stream.engine.state.fast.shared_memory import most_shared
from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.shared_provider import SharedProvider
from minispark_stream.engine.state.shared_tables import SharedTables
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId


class LoadedProviders:
    """Providers by store, the one that was used last at the end; `max_bytes` of them, and the one that is in use.

    `shared`: what the workers have in common, None in a process that is no worker.
    """

    def __init__(self, max_bytes: int, shared: SharedTables | None = None):
        self._max_bytes = max_bytes
        self._shared = shared
        self._providers: dict[StateStoreId, HDFSBackedStateStoreProvider] = {}
        self._lock = threading.Lock()

    def provider(self, store_id: StateStoreId, conf: StateStoreConf, version: int) -> HDFSBackedStateStoreProvider:
        """(1) The provider of a store that is to load `version`; a new one when there is none of any use."""
        with self._lock:
            self._drop_useless(store_id.checkpoint_root, conf, version)
            provider = self._providers.pop(store_id, None) or self._new(store_id, conf)
            self._drop_unused()
            if self._shared is not None and (most := conf.max_shared_memory_mb):
                oldest = version - conf.min_deltas_for_snapshot
                self._shared.tidy(_half_of_memory() if most < 0 else most << 20, store_id.checkpoint_root, oldest)
            self._providers[store_id] = provider
            return provider

    def is_near(self, store_id: StateStoreId, conf: StateStoreConf, version: int, unique_id: str | None = None) -> bool:
        """Whether `version` of a store is in memory, or a few deltas away."""
        with self._lock:
            provider = self._providers.get(store_id)
            if provider is None or provider.conf != conf:
                provider = self._new(store_id, conf)
            if is_near := provider.is_near(version, unique_id):
                self._providers[store_id] = provider
            return is_near

    def where(self, store_id: StateStoreId) -> tuple[str, bool] | None:
        """How this process came to the version of a store that it was asked for last; whether all workers have its memory.

        None: it has dropped the store since.
        """
        with self._lock:
            provider = self._providers.get(store_id)
            return None if provider is None else (provider.came, _is_shared(provider))

    def _new(self, store_id: StateStoreId, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:  # (4)
        if self._shared is None or conf.max_shared_memory_mb == 0:
            return HDFSBackedStateStoreProvider(store_id, conf)
        return SharedProvider(store_id, conf, self._shared.store(store_id))

    def _drop_useless(self, checkpoint_root: str, conf: StateStoreConf, version: int) -> None:  # (2)
        for store_id, provider in list(self._providers.items()):
            is_of_query = store_id.checkpoint_root == checkpoint_root
            is_behind = provider.version + conf.min_deltas_for_snapshot < version and not _is_shared(provider)
            if is_of_query and (provider.conf != conf or is_behind):
                del self._providers[store_id]

    def _drop_unused(self) -> None:  # (3)
        shared = [store_id for store_id, provider in self._providers.items() if _is_shared(provider)]
        for store_id in shared[: max(0, len(shared) - most_shared())]:
            del self._providers[store_id]
        own = {i: provider.map.memory_used_bytes for i, provider in self._providers.items() if not _is_shared(provider)}
        total = sum(own.values())
        for store_id, num_bytes in own.items():
            if total <= self._max_bytes:
                return
            total -= num_bytes
            del self._providers[store_id]

    def clear(self) -> None:
        with self._lock:
            self._providers.clear()


def _is_shared(provider: HDFSBackedStateStoreProvider) -> bool:
    return isinstance(provider, SharedProvider) and provider.table() is not None


def this_worker() -> str:
    """The host and the process id, by which a trace tells where a store is."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def share_of_memory() -> int:
    """(3) How many bytes the stores of this process may take."""
    return _half_of_memory() // (os.cpu_count() or 1)


def shared_by_workers() -> SharedTables | None:
    """(4) In a worker, which Spark tells where the executor keeps its blocks, if workers may look into each other here."""
    folder, _, _ = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")
    is_worker = any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)
    if not folder or not is_worker or not os.access(f"/proc/{os.getppid()}/fd", os.R_OK | os.X_OK):
        return None
    try:
        return SharedTables(f"{folder}/minispark_stream-state")
    except OSError:
        return None


LOADED_PROVIDERS = LoadedProviders(share_of_memory(), shared_by_workers())


def get_store(store_id: StateStoreId, conf: StateStoreConf, version: int, unique_id: str | None = None) -> StateStore:
    """Open `version` of a store for the changes that make `version + 1`. `unique_id`: of `version`, in checkpoint format 2.

    One store of an id is open at a time: opening it again aborts the one that was open before. `abort` it at the end.
    Raises SparkRuntimeException (CANNOT_LOAD_STATE_STORE) when the files do not give this version.
    """
    return LOADED_PROVIDERS.provider(store_id, conf, version).get_store(version, unique_id)


def unload_stores() -> None:
    """Forget every store that this process keeps; the files have them all."""
    LOADED_PROVIDERS.clear()
