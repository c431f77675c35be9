"""The entries of a store as a table, if possible, and otherwise as a dict.

Models: HDFSBackedStateStoreMap (About state).

It does the same as engine/state/hdfs_backed_state_store_map.py, with the same seven methods:

1. Entries that are put and looked up as whole columns (`Rows`) are kept in a table (row_table.py), which takes half of the
   memory and a tenth of the time.
2. When a row is too large for a table of rows that differ in size, or when somebody asks for single rows or an index, the
   entries are moved to a dict, and stay there.
3. A table may be `shared`: then another process can continue with it where this one has stopped, and the other way round
   (`in_memory`, `attach`). The processes agree elsewhere on who may use it (engine/state/large/shared_tables.py).

    put(1 -> x, 2 -> y)    a table       undone by: remove 1, 2
    get([1])               a dict        x

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_row_table.py::test_plain_and_fast_entries_are_the_same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Table
from minispark_stream.engine.state.hdfs_backed_state_store_map import HDFSBackedStateStoreMap, Undo
from minispark_stream.engine.state.large.prefix_index import PrefixIndex
from minispark_stream.engine.state.large.row_table import RowTable, TableInMemory
from minispark_stream.engine.state.large.shared_memory import SharedMemory
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf

LARGEST_ROW = 1000  # bytes; a table reserves room for more rows, which would be too much memory for larger ones


class ColumnarMap:
    """The entries of a store (`Entries`), empty at first. `shared`: other processes may share the table (3)."""

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared
        self._entries: RowTable | HDFSBackedStateStoreMap | None = None
        self._prefixes: PrefixIndex | None = None

    @staticmethod
    def of(small: HDFSBackedStateStoreMap, shared: bool) -> ColumnarMap:
        """The entries of a dict that has become large."""
        large, (keys, values) = ColumnarMap(shared), small.rows()
        large.apply([(Rows.of(keys), Rows.of(values))] if keys else [])
        return large

    def __len__(self) -> int:
        return len(self._entries or ())

    @property
    def memory_used_bytes(self) -> int:
        return self._entries.memory_used_bytes if self._entries is not None else 0

    def num_bytes(self, entries: int) -> int:
        return self._entries.num_bytes(entries) if self._entries is not None else 0

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        if not keys or self._entries is None:
            return np.zeros(len(keys), np.bool_), []
        if isinstance(self._entries, RowTable) and isinstance(keys, Rows):
            return self._entries.get(keys)
        return self._dict().get(keys)

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> Undo:
        if not keys:
            return []
        if isinstance(self._entries, HDFSBackedStateStoreMap):
            return self._entries.put(keys, values)
        if isinstance(keys, Rows) and isinstance(values, Rows):
            return self._put_new(keys, values)
        return self._put_last(keys, values)

    def remove(self, keys: Sequence[bytes]) -> Change:
        if not keys or self._entries is None:
            return [], []
        if isinstance(self._entries, RowTable) and isinstance(keys, Rows):
            return self._entries.remove(keys)
        return self._dict().remove(keys)

    def apply(self, changes: Iterable[Change]) -> None:
        for keys, values in changes:
            if isinstance(self._entries, HDFSBackedStateStoreMap):
                self._entries.apply([(keys, values)])
            elif isinstance(keys, Rows) and isinstance(values, Rows) and (table := self._table(keys, values)) is not None:
                table.put_for_good(keys, values)
            elif isinstance(keys, Rows) and not any(value is not None for value in values):
                self.remove(keys)
            else:
                self._put_last(keys, values)

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        return self._entries.rows() if self._entries is not None else ([], [])

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        if isinstance(self._entries, RowTable) and isinstance(prefixes, Rows):
            self._prefixes = self._prefixes or PrefixIndex(self._entries, prefixes_of)
            return self._prefixes.scan(prefixes)
        if not prefixes or self._entries is None:
            return Found([], [], np.empty(0, np.int64))
        return self._dict().prefix_scan(prefixes, prefixes_of)

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        return self._dict().index(name, make)

    def in_memory(self) -> TableInMemory | None:
        """(3) The table, if another process can continue with it."""
        return self._entries.in_memory() if isinstance(self._entries, RowTable) else None

    def attach(self, table: TableInMemory) -> bool:
        """(3) Continue with `table`, as another process has left it; returns False if its memory is gone."""
        if isinstance(self._entries, RowTable) and self._entries.catch_up(table):
            return True
        memory = SharedMemory.at(table.address)
        if memory is not None:
            self._entries, self._prefixes = RowTable.of(table, memory), None
        return memory is not None

    def _put_new(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Undo:
        if isinstance(keys, Rows) and isinstance(values, Rows) and (table := self._table(keys, values)) is not None:
            return table.put(keys, values)
        return self._dict().put(keys, values) if keys else []

    def _put_last(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> Undo:
        """Put the last value of each key, as columns if possible."""
        last = dict(zip(keys, values))
        puts = {key: value for key, value in last.items() if value is not None}
        removed = [key for key, value in last.items() if value is None]
        return [*self._put_new(Rows.of(list(puts)), Rows.of(list(puts.values()))), self.remove(Rows.of(removed))]

    def _table(self, keys: Rows, values: Rows) -> RowTable | None:
        """(1) The table, if the entries are in one (or there are none yet) and such rows fit into it."""
        if self._entries is None and keys.shape.width % 8 == 0 and keys.shape.width + values.shape.width <= LARGEST_ROW:
            self._entries = RowTable(keys.shape, values.shape, shared=self._shared)
        return self._entries if isinstance(self._entries, RowTable) and self._entries.takes(keys, values) else None

    def _dict(self) -> HDFSBackedStateStoreMap:
        """(2) The dict; entries that are in a table are moved to it."""
        if not isinstance(self._entries, HDFSBackedStateStoreMap):
            table, self._prefixes = self._entries, None
            self._entries = HDFSBackedStateStoreMap(zip(*self.rows()))
            if table is not None:
                table.free()
        return self._entries
