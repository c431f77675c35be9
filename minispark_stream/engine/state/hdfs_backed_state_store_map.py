"""The keys and values of one store in memory. Every change also returns what would undo it.

Models: HDFSBackedStateStoreMap, and the `prefixKeyToKeysMap` of PrefixScannableHDFSBackedStateStoreMap (About state).

1. `Entries` has seven methods, each for many keys at a time: `get`, `put`, `remove`, `apply`, `rows`, `prefix_scan`, `index`.
2. `put` and `remove` return the changes that undo them. `apply` makes changes that never have to be undone: the records of a
   file, which can be read again, or an undo record.
3. An index is given all entries when it is first asked for, and each change from then on.
4. `Prefixes` is the index for `prefix_scan`, which finds the entries whose keys have the same prefix: for example, all sessions
   of one user, without a look at other users.

    {a1: x, a2: y, b1: z}     prefix_scan([a])         (a1, x), (a2, y)
    put(a3 -> w)              undone by: remove a3
    remove(b1)                undone by: put b1 -> z

`HDFSBackedStateStoreMap` does this with a dict. A store with many rows moves to another class with the same methods, which is
faster if rows come as whole columns (large/columnar_map.py).

Differs from Spark: nothing.
Shown by tests/unit/engine/state/test_row_table.py::test_plain_and_fast_entries_are_the_same.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, islice, repeat
from typing import Protocol, cast

import numpy as np

from minispark_stream.engine.checkpointing.unsafe_row.rows import Rows, Table
from minispark_stream.engine.state.state_records import Change, Pair
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf

BYTES_PER_ENTRY = 80  # what CPython needs for two bytes objects besides their contents
SAMPLE = 1000  # the size of rows is estimated from this many rows of each change

Undo = list[Change]  # changed keys with their values before each change, in order; None: the key had no value


class Entries(Protocol):
    """(1) The entries of a store."""

    def __len__(self) -> int: ...

    @property
    def memory_used_bytes(self) -> int: ...

    def num_bytes(self, entries: int) -> int:
        """The memory that this many entries take."""

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        """Which of the keys have a value, and the values of those."""

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> Undo:
        """Set the value of each key, in order; None removes the key."""

    def remove(self, keys: Sequence[bytes]) -> Change:
        """Remove the keys; returns those that had a value, with that value."""

    def apply(self, changes: Iterable[Change]) -> None:
        """As `put`, for many changes, and without a way to undo them: the last record of a key counts."""

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All keys, and their values."""

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        """The entries with one of the prefixes; `prefixes_of` computes the prefixes of keys, in every call in the same way."""

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        """The index with this name, which `make` makes at the first call."""


class HDFSBackedStateStoreMap:
    """Entries in a dict. Its methods do as few look-ups per row as possible."""

    def __init__(self, entries: Iterable[tuple[bytes, bytes]] = ()):
        self._values = dict(entries)
        self._indexes: dict[Hashable, Index] = {}
        self._num_put = self._bytes_put = 0
        self._weigh(self._values.items())

    def __len__(self) -> int:
        return len(self._values)

    @property
    def has_indexes(self) -> bool:
        """Whether somebody has asked for an index, other than that of `prefix_scan`."""
        return any(name is not Prefixes for name in self._indexes)

    @property
    def memory_used_bytes(self) -> int:
        return sys.getsizeof(self._values) + self.num_bytes(len(self))

    def num_bytes(self, entries: int) -> int:
        """An estimate: as large, on average, as the entries that have been put."""
        return entries * (BYTES_PER_ENTRY + self._bytes_put // max(1, self._num_put))

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        found = list(map(self._values.get, keys))
        return np.array([value is not None for value in found], np.bool_), [value for value in found if value is not None]

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> Undo:  # (2)
        before = list(map(self._values.get, keys))
        self._write(keys, values)
        self._tell(keys, before, values)
        return [(keys, before)]

    def remove(self, keys: Sequence[bytes]) -> Change:  # (2)
        before: list[bytes | None] = list(map(self._values.pop, keys, repeat(None)))
        if None in before:
            keys = [key for key, value in zip(keys, before) if value is not None]
            before = [value for value in before if value is not None]
        self._tell(keys, before, [None] * len(keys))
        return keys, before

    def apply(self, changes: Iterable[Change]) -> None:  # (2)
        for keys, values in changes:
            before = list(map(self._values.get, keys)) if self._indexes else []
            self._write(keys, values)
            self._tell(keys, before, values)

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        return list(self._values), list(self._values.values())

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:  # (4)
        index = cast(Prefixes, self.index(Prefixes, lambda: Prefixes(prefixes_of)))
        by_prefix = [index.keys_of.get(prefix, ()) for prefix in prefixes]
        keys = list(chain.from_iterable(by_prefix))
        positions = np.repeat(np.arange(len(by_prefix)), list(map(len, by_prefix)))
        return Found(keys, list(map(self._values.__getitem__, keys)), positions)

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:  # (3)
        if name not in self._indexes:
            index = make()
            index.change(list(self._values), [None] * len(self), list(self._values.values()))
            self._indexes[name] = index
        return self._indexes[name]

    def _write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._values.update(zip(keys, values))  # type: ignore[arg-type]
        if not isinstance(values, Rows) and None in values:
            for key in dict.fromkeys(keys):
                if self._values[key] is None:
                    del self._values[key]
        self._weigh(zip(keys, values))

    def _tell(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        if self._indexes:
            old, new = dict(zip(keys, before)), dict(zip(keys, after))
            for index in self._indexes.values():
                index.change(list(new), list(old.values()), list(new.values()))

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """Add the first rows of a change to the estimate of how large rows are."""
        sizes = [len(key) + len(value) for key, value in islice(pairs, SAMPLE) if value is not None]
        self._num_put += len(sizes)
        self._bytes_put += sum(sizes)


class Prefixes:
    """(4) The keys of each prefix."""

    def __init__(self, prefixes_of: PrefixesOf):
        self.keys_of: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)  # a dict as a set that keeps its order
        self._prefixes_of = prefixes_of

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        changed = [(key, now) for key, was, now in zip(keys, before, after) if (was is None) != (now is None)]
        for (key, now), prefix in zip(changed, self._prefixes_of([key for key, _ in changed]) if changed else ()):
            if now is not None:
                self.keys_of[prefix][key] = None
                continue
            self.keys_of[prefix].pop(key, None)
            if not self.keys_of[prefix]:
                del self.keys_of[prefix]
