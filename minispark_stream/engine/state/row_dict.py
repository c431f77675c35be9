"""Keys and values of any size in a dict, with indexes that change as it does.

Models: HDFSBackedStateStoreMap, and the `prefixKeyToKeysMap` of PrefixScannableHDFSBackedStateStoreMap (About state).

1. `put` and `remove` change many keys, and give what undoes it. `apply` plays changes that can be read again.
2. An index sees all entries when it is first asked for, and each change from then on.
3. `Prefixes` is the index of `prefix_scan`, which finds the entries whose keys have the same prefix: all sessions of a user,
   say, however many users there are.

    {a1: x, a2: y, b1: z}     prefix_scan([a])         (a1, x), (a2, y)
    put(a3), remove(b1)    -> none, z                  prefix_scan([b])   nothing

Differs from Spark: nothing.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, islice, repeat
from typing import cast

import numpy as np

from minispark_stream.engine.state.state_records import Change, Pair
from minispark_stream.engine.state.state_store import Found, Index, PrefixesOf

BYTES_PER_ENTRY = 80  # what CPython needs for two bytes objects besides their contents
SAMPLE = 1000  # of so many rows of a change the size is known


class RowDict(dict[bytes, bytes]):
    """Entries of a store; only `put`, `remove` and `apply` may change them. Each row costs as few look-ups as possible."""

    def __init__(self, entries: dict[bytes, bytes]):
        super().__init__(entries)
        self._num_put = self._bytes_put = 0
        self._weigh(entries.items())
        self._indexes: dict[Hashable, Index] = {}

    @property
    def bytes_per_entry(self) -> int:
        """If all are as large as those that have been put."""
        return BYTES_PER_ENTRY + self._bytes_put // max(1, self._num_put)

    @property
    def num_bytes(self) -> int:
        return sys.getsizeof(self) + len(self) * self.bytes_per_entry

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[Change]:  # (1)
        """What undoes it."""
        before = list(map(self.get, keys))
        self.update(zip(keys, values))
        self._weigh(zip(keys, values))
        self._tell(keys, before, values)
        return [(keys, before)]

    def remove(self, keys: Sequence[bytes]) -> Change:  # (1)
        """The keys that were there, with their values."""
        before: list[bytes | None] = list(map(self.pop, keys, repeat(None)))
        if None in before:
            keys = [key for key, value in zip(keys, before) if value is not None]
            before = [value for value in before if value is not None]
        self._tell(keys, before, [None] * len(keys))
        return keys, before

    def apply(self, pairs: Sequence[Pair]) -> None:  # (1)
        """Put, or with None remove, in order: the last record of a key counts."""
        last = dict(pairs) if self._indexes else {}
        before = list(map(self.get, last))
        self.update(pairs)  # type: ignore[arg-type]
        removed = [key for key, value in pairs if value is None and self.get(key, b"") is None]
        for key in dict.fromkeys(removed):
            del self[key]
        self._weigh(pairs)
        self._tell([*last], before, [*last.values()])

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:  # (2)
        if name not in self._indexes:
            index = make()
            index.change(list(self), [None] * len(self), list(self.values()))
            self._indexes[name] = index
        return self._indexes[name]

    def _tell(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        for index in self._indexes.values():
            index.change(keys, before, after)

    def prefix_scan(self, prefixes: Iterable[bytes], prefixes_of: PrefixesOf) -> Found:  # (3)
        """The entries with one of the prefixes; `prefixes_of` gives the prefixes of keys, always the same way."""
        index = cast(Prefixes, self.index(Prefixes, lambda: Prefixes(prefixes_of)))
        by_prefix = [index.keys_of.get(prefix, ()) for prefix in prefixes]
        keys = list(chain.from_iterable(by_prefix))
        positions = np.repeat(np.arange(len(by_prefix)), list(map(len, by_prefix)))
        return Found(keys, list(map(self.__getitem__, keys)), positions)

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """How large the rows are, by the first of each change."""
        sizes = [len(key) + len(value) for key, value in islice(pairs, SAMPLE) if value is not None]
        self._num_put += len(sizes)
        self._bytes_put += sum(sizes)


class Prefixes:
    """(3) The keys of each prefix."""

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
