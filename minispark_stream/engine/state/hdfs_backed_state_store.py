"""A version of a store that is open for changes.

Models: HDFSBackedStateStore (About state).

1. What is asked is answered from the provider's map, which is at this version while the store is open.
2. A change goes into the map at once. The store remembers it for the file that `commit` writes, and what was there before, so
   that `abort` can put it back.
3. After `commit` or `abort` the store takes no change; once the provider has opened another store, or a change broke off
   halfway, it answers no question either.

    put a 5      the map has a 5; changes: put a 5; undo: a was 1
    remove b     the map has no b; changes: put a 5, remove b; undo: a was 1, b was 2
    commit       -> version 8; the provider keeps the undo as the record of version 8

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Table
from minispark_stream.engine.state.hdfs_backed_state_store_map import HDFSBackedStateStoreMap
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf, StateStoreMetrics, state_error

Undo = list[Change]  # changed keys with the values before each change, in order; None: there was none


class Provider(Protocol):
    """What a store needs of the provider that opened it."""

    files: StateFiles
    lock: AbstractContextManager[object]
    map: HDFSBackedStateStoreMap
    open_store: HDFSBackedStateStore | None

    def changing(self) -> AbstractContextManager[HDFSBackedStateStoreMap]: ...
    def roll_back(self, undo: Undo) -> None: ...
    def commit(self, undo: Undo, changes: Sequence[Change]) -> None: ...
    def metrics(self) -> StateStoreMetrics: ...


class HDFSBackedStateStore:
    """A version that is open for changes (state_store.StateStore)."""

    def __init__(self, provider: Provider, version: int):
        self.version = version
        self._provider = provider
        self._state = "UPDATING"
        self._undo: Undo = []
        self._changes: list[Change] = []  # what the delta file will hold, in order
        self._metrics: StateStoreMetrics | None = None

    def __str__(self) -> str:
        return f"HDFSStateStore[{self._provider.files}, version={self.version}]"

    def get(self, key: bytes) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._map().get_many(keys)

    def values_of(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        return self._map().values_of(keys)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(*self.rows())

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        return self._map().rows()

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        return self._map().prefix_scan(prefixes, prefixes_of)

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        return self._map().index(name, make)

    @property
    def num_keys(self) -> int:
        return len(self._map())

    def put(self, key: bytes, value: bytes) -> None:
        self.put_many([key], [value])

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        if not isinstance(values, Rows) and None in values:
            raise ValueError("Cannot put a null value: every key needs a value")
        with self._provider.lock:
            self._verify_change("put", keys, values)
            with self._provider.changing() as entries:
                self._undo += entries.put(keys, values)
            self._changes.append((keys, values))

    def remove(self, key: bytes) -> bytes | None:
        with self._provider.lock:
            old = self.get(key)
            self.remove_many([key])
            return old

    def remove_many(self, keys: Sequence[bytes]) -> int:
        with self._provider.lock:
            self._verify_updating("remove")
            with self._provider.changing() as entries:
                removed, before = entries.remove(keys)
            self._undo.append((removed, before))
            self._changes.append((removed, [None] * len(removed)))
            return len(removed)

    def change_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        with self._provider.lock:
            self._verify_change("change", keys, values)
            with self._provider.changing() as entries:
                self._undo += entries.change(keys, values)
            self._changes.append((keys, values))

    def commit(self) -> int:
        with self._provider.lock:
            try:
                self._verify_updating("commit")
                self._provider.commit(self._undo, self._changes)
            except Exception as e:
                text = (
                    f"Error writing state store files for provider {self}. "
                    f"Cannot perform commit during state checkpoint. The reason: {e}."
                )
                raise state_error("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", text, "58030", providerClass=self) from e
            self._state, self._undo, self._changes = "COMMITTED", [], []
            self._metrics = self._provider.metrics()
            return self.version + 1

    def abort(self) -> None:
        with self._provider.lock:
            if self._state == "UPDATING" and self._provider.open_store is self:
                self._provider.roll_back(self._undo)
                self._state, self._undo, self._changes = "ABORTED", [], []

    def metrics(self) -> StateStoreMetrics:
        """As of now, or as of the commit."""
        with self._provider.lock:
            return self._metrics or self._provider.metrics()

    def _map(self) -> HDFSBackedStateStoreMap:
        """The map, as long as it is at this store's version."""
        if self._provider.open_store is not self:
            raise ValueError(f"{self} is over: the store was opened again, or a change of it broke off")
        return self._provider.map

    def _verify_change(self, operation: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._verify_updating(operation)
        if len(keys) != len(values):
            raise ValueError(f"Cannot {operation} {len(keys)} keys with {len(values)} values")

    def _verify_updating(self, operation: str) -> None:
        if self._state != "UPDATING":
            raise ValueError(f"Cannot {operation} after already committed or aborted")
        self._map()
