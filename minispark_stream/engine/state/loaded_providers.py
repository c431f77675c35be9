"""The stores that this process keeps loaded.

Models: the `loadedProviders` of object StateStore (About state).

1. `get_store` finds the provider of a store in the process, or creates it, and has it load the version.
2. Before that, what is of no use any more is dropped: the stores of an earlier run of the query, and those which are so many
   versions behind that they could not catch up by reading deltas.
3. Then those that have gone unused for longest are dropped, until the others fit into this process's share of the memory: half
   of the machine's, divided by the number of its cores.

    worker 1     opens 0/3 at version 7, commits 8; opens 0/3 at version 8     nothing is read
    worker 2     opens 0/3 at version 8                                        reads the files of versions 1 to 8
    worker 1     opens 0/5 at version 30                                       0/3 at version 8 is dropped

Why a process needs it: a batch changes little of a large state, and the task of the next batch may run in the same Python
worker. Without it, each task would read the whole state again. The files remain the truth: a provider looks whether another
process has written them before it uses what it has (hdfs_backed_state_store_provider.py).

Differs from Spark: no coordinator knows which executor holds a store, because Spark gives a task to any of its Python workers.
So a partition wanders from one to another, and several of them hold it at the same time, until (2) or (3) drops it.
Shown by tests/unit/engine/state/test_state_store.py::test_a_process_catches_up_with_what_others_wrote.
"""

from __future__ import annotations

import os
import threading

from minispark_stream.engine.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.engine.state.state_store import StateStore, StateStoreConf, StateStoreId


class LoadedProviders:
    """Providers by store, the one that was used last at the end; `max_bytes` of them, and the one that is in use."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._providers: dict[StateStoreId, HDFSBackedStateStoreProvider] = {}
        self._lock = threading.Lock()

    def provider(self, store_id: StateStoreId, conf: StateStoreConf, version: int) -> HDFSBackedStateStoreProvider:
        """(1) The provider of a store that is to load `version`; a new one when there is none of any use."""
        with self._lock:
            self._drop_useless(store_id.checkpoint_root, conf, version)
            provider = self._providers.pop(store_id, None) or HDFSBackedStateStoreProvider(store_id, conf)
            self._drop_unused()
            self._providers[store_id] = provider
            return provider

    def is_near(self, store_id: StateStoreId, conf: StateStoreConf, version: int) -> bool:
        """Whether `version` of a store is in memory, or a few deltas away."""
        with self._lock:
            provider = self._providers.get(store_id)
            return provider is not None and provider.conf == conf and provider.is_near(version)

    def _drop_useless(self, checkpoint_root: str, conf: StateStoreConf, version: int) -> None:  # (2)
        for store_id, provider in list(self._providers.items()):
            is_of_query = store_id.checkpoint_root == checkpoint_root
            if is_of_query and (provider.conf != conf or provider.version + conf.min_deltas_for_snapshot < version):
                del self._providers[store_id]

    def _drop_unused(self) -> None:  # (3)
        total = sum(provider.map.memory_used_bytes for provider in self._providers.values())
        while total > self._max_bytes:
            total -= self._providers.pop(next(iter(self._providers))).map.memory_used_bytes

    def clear(self) -> None:
        with self._lock:
            self._providers.clear()


def share_of_memory() -> int:
    """(3) In bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 // (os.cpu_count() or 1)


LOADED_PROVIDERS = LoadedProviders(share_of_memory())


def get_store(store_id: StateStoreId, conf: StateStoreConf, version: int) -> StateStore:
    """Open `version` of a store for the changes that make `version + 1`.

    One store of an id is open at a time: opening it again aborts the one that was open before.
    Raises SparkRuntimeException (CANNOT_LOAD_STATE_STORE) when the files do not give this version.
    """
    return LOADED_PROVIDERS.provider(store_id, conf, version).get_store(version)


def unload_stores() -> None:
    """Forget every store that this process keeps; the files have them all."""
    LOADED_PROVIDERS.clear()
