"""Keys and values of any size in a dict; keys are found by their prefix, too.

Models: PrefixScannableHDFSBackedStateStoreMap (About state).

`prefix_scan` finds the entries whose keys have the same prefix: all sessions of a user, say, however many users there are.
The keys of each prefix are gathered when it is first asked for, and kept up to date from then on.

    {a1: x, a2: y, b1: z}     prefix_scan([a])         (a1, x), (a2, y)
    put(a3), remove(b1)    -> none, z                  prefix_scan([b])   nothing

Differs from Spark: nothing.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, islice, repeat

import numpy as np

from minispark_stream.engine.state.state_records import Change, Pair
from minispark_stream.engine.state.state_store import Found, PrefixesOf

BYTES_PER_ENTRY = 80  # what CPython needs for two bytes objects besides their contents
SAMPLE = 1000  # of so many rows of a change the size is known


class RowDict(dict[bytes, bytes]):
    """Entries of a store; only `put`, `remove` and `apply` may change them. Each row costs as few look-ups as possible."""

    def __init__(self, entries: dict[bytes, bytes]):
        super().__init__(entries)
        self._num_put = self._bytes_put = 0
        self._weigh(entries.items())
        self._prefixes_of: PrefixesOf | None = None
        self._keys_of: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)  # a dict as a set that keeps its order

    @property
    def bytes_per_entry(self) -> int:
        """If all are as large as those that have been put."""
        return BYTES_PER_ENTRY + self._bytes_put // max(1, self._num_put)

    @property
    def num_bytes(self) -> int:
        return sys.getsizeof(self) + len(self) * self.bytes_per_entry

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> list[Change]:
        """What undoes it."""
        before = list(map(self.get, keys))
        self.update(zip(keys, values))
        self._weigh(zip(keys, values))
        if self._prefixes_of is not None:
            self._gather([key for key, value in zip(keys, before) if value is None])
        return [(keys, before)]

    def remove(self, keys: Sequence[bytes]) -> Change:
        """The keys that were there, with their values."""
        before: list[bytes | None] = list(map(self.pop, keys, repeat(None)))
        self._forget(keys)
        if None in before:
            keys = [key for key, value in zip(keys, before) if value is not None]
            before = [value for value in before if value is not None]
        return keys, before

    def apply(self, pairs: Sequence[Pair]) -> None:
        """Put, or with None remove, in order: the last record of a key counts."""
        self.update(pairs)  # type: ignore[arg-type]
        removed = [key for key, value in pairs if value is None and self.get(key, b"") is None]
        for key in dict.fromkeys(removed):
            del self[key]
        self._weigh(pairs)
        self._gather([key for key, _ in pairs] if self._prefixes_of else [])
        self._forget(removed)

    def prefix_scan(self, prefixes: Iterable[bytes], prefixes_of: PrefixesOf) -> Found:
        """The entries with one of the prefixes; `prefixes_of` gives the prefixes of keys, always the same way."""
        if self._prefixes_of is None:
            self._prefixes_of = prefixes_of
            self._gather(list(self))
        by_prefix = [self._keys_of.get(prefix, ()) for prefix in prefixes]
        keys = list(chain.from_iterable(by_prefix))
        positions = np.repeat(np.arange(len(by_prefix)), list(map(len, by_prefix)))
        return Found(keys, list(map(self.__getitem__, keys)), positions)

    def _gather(self, keys: Sequence[bytes]) -> None:
        if self._prefixes_of is not None:
            for key, prefix in zip(keys, self._prefixes_of(keys)):
                self._keys_of[prefix][key] = None

    def _forget(self, keys: Sequence[bytes]) -> None:
        if self._prefixes_of is not None:
            for key, prefix in zip(keys, self._prefixes_of(keys)):
                if (of_prefix := self._keys_of.get(prefix)) is not None:
                    of_prefix.pop(key, None)
                    if not of_prefix:
                        del self._keys_of[prefix]

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """How large the rows are, by the first of each change."""
        sizes = [len(key) + len(value) for key, value in islice(pairs, SAMPLE) if value is not None]
        self._num_put += len(sizes)
        self._bytes_put += sum(sizes)
