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
from collections.abc import Callable, Iterable, Mapping
from itertools import compress

from minispark_stream.state.state_records import Pair

Undo = dict[bytes, "bytes | None"]  # the value of each changed key before the change; None: there was none
BYTES_PER_ENTRY = 80  # what CPython needs for two bytes objects besides their contents


class HDFSBackedStateStoreMap(dict[bytes, bytes]):
    """Entries of a store; only `change` may change them."""

    def __init__(self, entries: dict[bytes, bytes]):
        super().__init__(entries)
        self._content_bytes = content_bytes(entries)
        self._prefix_of: Callable[[bytes], bytes] | None = None
        self._keys_of: dict[bytes, dict[bytes, None]] = {}  # a dict as a set that keeps its order

    @property
    def num_bytes(self) -> int:
        return sys.getsizeof(self) + self._content_bytes

    def change(self, pairs: Iterable[Pair]) -> Undo:
        """(1) Put, or with None remove, each key of `pairs` in order; how to undo that."""
        changes: Undo = dict(pairs)
        undo: Undo = dict(zip(changes, map(self.get, changes)))
        self.update(changes)  # type: ignore[arg-type]
        for key in [k for k, v in changes.items() if v is None]:
            del self[key]
        self._content_bytes += content_bytes(changes) - content_bytes(undo)
        if self._prefix_of is not None:
            self._gather(changes)
        return undo

    def prefix_scan(self, prefixes: Iterable[bytes], prefix_of: Callable[[bytes], bytes]) -> list[tuple[bytes, bytes]]:
        """(2) The entries with one of the prefixes; `prefix_of` gives the prefix of a key, always the same way."""
        if self._prefix_of is None:
            self._prefix_of = prefix_of
            self._gather(self)
        return [(key, self[key]) for prefix in prefixes for key in self._keys_of.get(prefix, ())]

    def _gather(self, changes: Undo | HDFSBackedStateStoreMap) -> None:
        assert self._prefix_of is not None
        for key, value in changes.items():
            prefix = self._prefix_of(key)
            if value is not None:
                self._keys_of.setdefault(prefix, {})[key] = None
            elif (keys := self._keys_of.get(prefix)) is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys_of[prefix]


def content_bytes(entries: Mapping[bytes, bytes | None]) -> int:
    """The memory of the keys and values in `entries`, apart from the dict. A value is never empty, and None counts nothing."""
    values = list(filter(None, entries.values()))
    return sum(map(len, compress(entries, entries.values()))) + sum(map(len, values)) + BYTES_PER_ENTRY * len(values)
