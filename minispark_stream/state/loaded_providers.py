"""The stores that this process keeps loaded.

Models: the `loadedProviders` of object StateStore (About state).

1. `get_store` finds the provider of a store in the process, or creates it, and has it load the version.
2. On each opening, the provider that has gone unused for longest is dropped if `unused_after` stores were opened since.

    worker 1     opens 0/3 at version 7, commits 8; opens 0/3 at version 8     nothing is read
    worker 2     opens 0/3 at version 8                                        reads the files of versions 1 to 8

Why a process needs it: a batch changes little of a large state, and the task of the next batch runs in the same Python worker
more often than not. Without it, each task would read the whole state again. The files remain the truth: a provider looks
whether another process has written them before it uses what it has (hdfs_backed_state_store_provider.py).

Differs from Spark: no coordinator knows which executor holds a store, so a process may keep a store that another one has moved
on with, until (2) drops it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from minispark_stream.state.hdfs_backed_state_store_provider import HDFSBackedStateStoreProvider
from minispark_stream.state.state_store import StateStore, StateStoreConf, StateStoreId


class LoadedProviders:
    """Providers by store, the one that was used last at the end. There are never more than `unused_after` of them."""

    def __init__(self, unused_after: int):
        self._unused_after = unused_after
        self._providers: OrderedDict[StateStoreId, tuple[HDFSBackedStateStoreProvider, int]] = OrderedDict()
        self._opened = 0
        self._lock = threading.Lock()

    def provider(self, store_id: StateStoreId, conf: StateStoreConf) -> HDFSBackedStateStoreProvider:
        """(1) The provider of a store; a new one when there is none, or its confs were others."""
        with self._lock:
            self._opened += 1
            known, _ = self._providers.pop(store_id, (None, 0))
            provider = known if known is not None and known.conf == conf else HDFSBackedStateStoreProvider(store_id, conf)
            self._providers[store_id] = provider, self._opened
            oldest, (_, used) = next(iter(self._providers.items()))  # (2)
            if used <= self._opened - self._unused_after:
                del self._providers[oldest]
            return provider

    def clear(self) -> None:
        with self._lock:
            self._providers.clear()


LOADED_PROVIDERS = LoadedProviders(unused_after=10_000)


def get_store(store_id: StateStoreId, conf: StateStoreConf, version: int) -> StateStore:
    """Open `version` of a store for the changes that make `version + 1`.

    One store of an id is open at a time: opening it again aborts the one that was open before.
    Raises SparkRuntimeException (CANNOT_LOAD_STATE_STORE) when the files do not give this version.
    """
    return LOADED_PROVIDERS.provider(store_id, conf).get_store(version)


def unload_stores() -> None:
    """Forget every store that this process keeps; the files have them all."""
    LOADED_PROVIDERS.clear()
