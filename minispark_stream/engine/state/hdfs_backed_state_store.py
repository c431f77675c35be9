"""A version of a store that is open for the changes of a batch.

Models: HDFSBackedStateStore, the inner class of HDFSBackedStateStoreProvider (About state).

1. The store reads from the provider's map and changes it directly, so a batch costs what it changes.
2. It remembers the changes for the file that `commit` writes, and what undoes them for `abort`.
3. After `commit`, it accepts no more changes. After `abort`, when another store has been opened, or when a change has failed
   halfway, it cannot be read any more either.

    version 7: {a: 1, b: 2}     put a 5      {a: 5, b: 2}     changes: put a 5     undo: a was 1
                                abort        {a: 1, b: 2}

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_state_store.py::test_abort_forgets_the_changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from minispark_stream.engine.checkpointing.unsafe_row.rows import Table
from minispark_stream.engine.state.hdfs_backed_state_store_map import Entries, Undo
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf, StateStoreMetrics, state_error


class Provider(Protocol):
    """What a store needs of its provider (hdfs_backed_state_store_provider.py)."""

    files: StateFiles
    lock: AbstractContextManager[object]
    open_store: Any

    def entries(self, rows: int) -> Entries: ...
    def changing(self, rows: int) -> AbstractContextManager[Entries]: ...
    def roll_back(self, undo: Undo) -> None: ...
    def commit(self, undo: Undo, changes: Sequence[Change]) -> None: ...
    def done(self) -> None: ...
    def metrics(self) -> StateStoreMetrics: ...


class HDFSBackedStateStore:
    """An open version (a `StateStore`, see state_store.py)."""

    def __init__(self, provider: Provider, version: int):
        self.version = version
        self._provider = provider
        self._state = "UPDATING"
        self._undo: Undo = []
        self._changes: list[Change] = []  # what the delta file will hold, in order
        self._metrics: StateStoreMetrics | None = None

    def __str__(self) -> str:
        return f"HDFSStateStore[{self._provider.files}, version={self.version}]"

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        is_there, values = self._entries(len(keys)).get(keys)
        return is_there, self._provider.files.found(values)

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        keys, values = self._entries().rows()
        return keys, self._provider.files.found(values, keys)

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        return self._entries(len(prefixes)).prefix_scan(prefixes, prefixes_of)

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        return self._entries().index(name, make)

    @property
    def num_keys(self) -> int:
        return len(self._entries())

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        with self._provider.lock:
            self._verify_updating("put")
            if len(keys) != len(values):
                raise ValueError(f"Cannot put {len(keys)} keys with {len(values)} values")
            if not len(keys):
                return
            with self._provider.changing(len(keys)) as entries:
                self._undo += entries.put(keys, values)
            self._changes.append((keys, values))

    def remove(self, keys: Sequence[bytes]) -> int:
        with self._provider.lock:
            self._verify_updating("remove")
            if not len(keys):
                return 0
            with self._provider.changing(len(keys)) as entries:
                removed, before = entries.remove(keys)
            self._undo.append((removed, before))
            self._changes.append((removed, [None] * len(removed)))
            return len(removed)

    def commit(self) -> int:
        with self._provider.lock:
            try:
                self._verify_updating("commit")
                self._provider.commit(self._undo, self._changes)
            except Exception as e:
                text = f"Error writing state store files for provider {self}. "
                text += f"Cannot perform commit during state checkpoint. The reason: {e}."
                raise state_error("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", text, "58030", providerClass=self) from e
            self._state, self._undo, self._changes = "COMMITTED", [], []
            self._metrics = self._provider.metrics()
            return self.version + 1

    def abort(self) -> None:
        with self._provider.lock:
            if self._state == "UPDATING" and self._provider.open_store is self:
                self._provider.roll_back(self._undo)
                self._state, self._undo, self._changes = "ABORTED", [], []
            if self._provider.open_store is self:
                self._provider.done()

    def metrics(self) -> StateStoreMetrics:
        """The metrics as they were at the commit, or, before that, as they are now."""
        with self._provider.lock:
            return self._metrics or self._provider.metrics()

    def _entries(self, rows: int = 0) -> Entries:
        """The map, to look for this many rows, as long as it is at this store's version."""
        if self._provider.open_store is not self:
            raise ValueError(f"{self} is over: it was aborted, the store was opened again, or a change of it broke off")
        return self._provider.entries(rows)

    def _verify_updating(self, operation: str) -> None:
        if self._state != "UPDATING":
            raise ValueError(f"Cannot {operation} after already committed or aborted")
        self._entries()
