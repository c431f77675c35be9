"""The keys and values of one store in memory: what changes them says how to undo it, and keys are found by their prefix.

Models: HDFSBackedStateStoreMap and its PrefixScannableHDFSBackedStateStoreMap (About state).

1. `change` puts and removes, and gives an *undo record*: the keys that it changed, with the values before.
2. `prefix_scan` finds the entries whose keys have the same prefix: all sessions of a user, say, however many users there are.
   The keys of each prefix are gathered when it is first asked for, and kept up to date from then on.

    {a1: x, a2: y, b1: z}     prefix_scan([a])         (a1, x), (a2, y)
    change(put a3, remove b1) -> {a3: none, b1: z}     prefix_scan([b])   nothing

Differs from Spark: nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from itertools import compress

Undo = dict[bytes, "bytes | None"]  # the value of each changed key before the change; None: there was none
BYTES_PER_ENTRY = 80  # what CPython needs for two bytes objects besides their contents


class HDFSBackedStateStoreMap(dict[bytes, bytes]):
    """Entries of a store; only `change` may change them."""

    def __init__(self, entries: dict[bytes, bytes]):
        super().__init__(entries)
        self._content_bytes = content_bytes(entries, entries.values())
        self._prefix_of: Callable[[bytes], bytes] | None = None
        self._keys_of: dict[bytes, dict[bytes, None]] = {}  # a dict as a set that keeps its order

    @property
    def num_bytes(self) -> int:
        return sys.getsizeof(self) + self._content_bytes

    def change(self, keys: Collection[bytes], values: Collection[bytes | None]) -> Undo:
        """(1) Put, or with None remove, each of `keys` in order; how to undo that."""
        undo: Undo = dict(zip(keys, map(self.get, keys)))
        if len(undo) < len(keys):  # the last change of a key counts
            last = dict(zip(keys, values))
            keys, values = last.keys(), last.values()
        self.update(zip(keys, values))  # type: ignore[arg-type]
        for key in [k for k, v in zip(keys, values) if v is None]:
            del self[key]
        self._content_bytes += content_bytes(keys, values) - content_bytes(undo.keys(), undo.values())
        if self._prefix_of is not None:
            self._gather(keys, values)
        return undo

    def prefix_scan(self, prefixes: Iterable[bytes], prefix_of: Callable[[bytes], bytes]) -> list[tuple[bytes, bytes]]:
        """(2) The entries with one of the prefixes; `prefix_of` gives the prefix of a key, always the same way."""
        if self._prefix_of is None:
            self._prefix_of = prefix_of
            self._gather(self.keys(), self.values())
        return [(key, self[key]) for prefix in prefixes for key in self._keys_of.get(prefix, ())]

    def _gather(self, keys: Iterable[bytes], values: Iterable[bytes | None]) -> None:
        assert self._prefix_of is not None
        for key, value in zip(keys, values):
            prefix = self._prefix_of(key)
            if value is not None:
                self._keys_of.setdefault(prefix, {})[key] = None
            elif (of_prefix := self._keys_of.get(prefix)) is not None:
                of_prefix.pop(key, None)
                if not of_prefix:
                    del self._keys_of[prefix]


def content_bytes(keys: Iterable[bytes], values: Collection[bytes | None]) -> int:
    """The memory of some keys and values, apart from the dict. No value is empty, and a key with None needs nothing."""
    there = list(filter(None, values))
    return sum(map(len, compress(keys, values))) + sum(map(len, there)) + BYTES_PER_ENTRY * len(there)
