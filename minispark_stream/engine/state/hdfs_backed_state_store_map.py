"""The keys and values of one store in memory; what changes them says how to undo it.

Models: HDFSBackedStateStoreMap (About state).

1. Rows that are all of one size, put and looked up as whole columns, are a table (row_table.py): they take half of the memory
   and a tenth of the time.
2. As soon as a row of another size comes, or somebody asks for single rows, it is a dict (row_dict.py), and stays one.
3. `put` and `remove` change many keys, and give the changes that undo it.
4. `apply` plays the records of a file, or what undoes a change. Nobody will undo that, because it can be read again.

    put(1 -> x, 2 -> y)    a table       undone by: remove 1, 2
    get(1)                 a dict        x

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Table
from minispark_stream.engine.state.prefix_index import PrefixIndex
from minispark_stream.engine.state.row_dict import RowDict
from minispark_stream.engine.state.row_table import RowTable
from minispark_stream.engine.state.state_records import Change
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf

LARGEST_ROW = 1000  # bytes; a table keeps room for more rows, which is too much for larger ones


class HDFSBackedStateStoreMap:
    """Entries of a store. None are there at first."""

    def __init__(self) -> None:
        self._entries: RowTable | RowDict | None = None
        self._prefixes: PrefixIndex | None = None

    def __len__(self) -> int:
        return len(self._entries or ())

    @property
    def memory_used_bytes(self) -> int:
        return self._entries.num_bytes if self._entries is not None else 0

    def num_bytes(self, entries: int) -> int:
        """The memory of so many entries."""
        return entries * self._entries.bytes_per_entry if self._entries is not None else 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._dict().get, keys)) if keys else []

    def values_of(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        """Which of some keys are there, and the values of those."""
        if not keys or self._entries is None:
            return np.zeros(len(keys), np.bool_), []
        if isinstance(self._entries, RowTable) and isinstance(keys, Rows):
            return self._entries.values_of(keys)
        found = self.get_many(keys)
        return np.array([value is not None for value in found], np.bool_), [value for value in found if value is not None]

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All keys, and their values."""
        if isinstance(self._entries, RowTable):
            return self._entries.rows()
        return list(self._entries or ()), list((self._entries or {}).values())

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        """The entries with one of the prefixes; `prefixes_of` gives the prefixes of keys, always the same way."""
        if isinstance(self._entries, RowTable) and isinstance(prefixes, Rows):
            self._prefixes = self._prefixes or PrefixIndex(self._entries, prefixes_of)
            return self._prefixes.scan(prefixes)
        if not prefixes or self._entries is None:
            return Found([], [], np.empty(0, np.int64))
        return self._dict().prefix_scan(prefixes, prefixes_of)

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        return self._dict().index(name, make)

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[Change]:  # (3)
        if not keys:
            return []
        if isinstance(keys, Rows) and isinstance(values, Rows) and (table := self._table(keys, values)) is not None:
            return table.put(keys, values)
        return self._dict().put(keys, values)

    def remove(self, keys: Sequence[bytes]) -> Change:  # (3)
        if not keys or self._entries is None:
            return [], []
        if isinstance(self._entries, RowTable) and isinstance(keys, Rows):
            return self._entries.remove(keys)
        return self._dict().remove(keys)

    def change(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> list[Change]:  # (3)
        """Put each key, or with None remove it, in order."""
        if isinstance(self._entries, RowDict):
            before = self.get_many(keys)
            self._entries.apply(list(zip(keys, values)))
            return [(keys, before)]
        return self._change_to_last(keys, values)

    def apply(self, changes: Iterable[Change]) -> None:  # (4)
        for keys, values in changes:
            if isinstance(self._entries, RowDict):
                self._entries.apply(list(zip(keys, values)))
            elif isinstance(keys, Rows) and isinstance(values, Rows) and (table := self._table(keys, values)) is not None:
                table.put_for_good(keys, values)
            elif isinstance(keys, Rows) and not any(value is not None for value in values):
                self.remove(keys)
            else:
                self._change_to_last(keys, values)

    def _change_to_last(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> list[Change]:
        """Of each key, the last value."""
        last = dict(zip(keys, values))
        puts = {key: value for key, value in last.items() if value is not None}
        removed = [key for key, value in last.items() if value is None]
        return [*self.put(Rows.of(list(puts)), Rows.of(list(puts.values()))), self.remove(Rows.of(removed))]

    def _table(self, keys: Rows, values: Rows) -> RowTable | None:
        """(1) The table, if the entries are one and such rows fit in."""
        if self._entries is None and keys.size % 8 == 0 and keys.size + values.size <= LARGEST_ROW:
            self._entries = RowTable(keys.size, values.size)
        if isinstance(self._entries, RowTable) and self._entries.sizes == (keys.size, values.size):
            return self._entries
        return None

    def _dict(self) -> RowDict:
        """(2) The dict, which the entries are from now on."""
        if not isinstance(self._entries, RowDict):
            self._entries, self._prefixes = RowDict(dict(zip(*self.rows()))), None
        return self._entries
