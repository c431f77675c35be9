"""Column families: many named maps in one state store, as RocksDB stores them.

Models: what RocksDBStateStoreProvider offers to transformWithState, and the range and prefix scans on it (About state;
SIGMOD'18 paper, 4.3.2: a state of the user's own).

1. A key of the store begins with the number of its family (extras/rocksdb/family_numbers.py). `create` gives a family a number
   if it has none; all families are created before the first key is put.
2. Most calls are about one key: `get`, `put`, `append`, `remove`.
3. `scan` (the keys that begin with the same row), `due` (those whose time has come) and the number of rows come from an index
   (family_indexes.py), which the store keeps from batch to batch: with 50,000 timers, a batch that changes ten of them only
   does the work for ten.

    total                          ann            -> 3
    pages                          ann | "/"      -> 2           scan("pages", ann): ann | "/"
    $eventTimers_timestampToKey    12:05 | ann    -> nothing     due(12:07): 12:05 | ann

Differs from Spark: nothing.
"""

from __future__ import annotations

from typing import cast

from minispark_stream.engine.state.state_store import StateStore, each
from minispark_stream.extras.rocksdb.avro_state_encoder import UnsafeRowDataEncoder
from minispark_stream.extras.rocksdb.changes import Grown
from minispark_stream.extras.rocksdb.family_numbers import ROW, SIZE, FamilyNumbers
from minispark_stream.extras.rocksdb.key_encoding import rows_of
from minispark_stream.extras.rocksdb.snapshot_zip import INTERNAL
from minispark_stream.extras.transform_with_state.family_indexes import PLAIN, FamilyIndex, IndexKind


class ColumnFamilies:
    """The families of one store. Keys and values are bytes as in RocksDB, of UnsafeRows; `encoder` turns them into what the
    store contains. `delimiter` is between the elements of a list."""

    def __init__(self, store: StateStore, delimiter: bytes = b"", encoder: UnsafeRowDataEncoder | None = None):
        self.delimiter = delimiter
        self._store, self._encoder = store, encoder or UnsafeRowDataEncoder()
        self._kinds: dict[bytes, IndexKind] = {}
        if (known := FamilyNumbers.of_store(store)) is None:
            self._become(FamilyNumbers())
        else:
            self._numbers = known

    def create(self, family: str, kind: IndexKind = PLAIN) -> None:  # (1)
        if family not in self._numbers.by_name:
            self._become(self._numbers.with_family(family, family.startswith(INTERNAL)))
        self._kinds[self._numbers.prefix(family)] = kind

    def drop(self, family: str) -> bool:
        """Remove a family and its keys; False if it did not exist."""
        if family not in self._numbers.by_name:
            return False
        prefix = self._numbers.prefix(family)
        self._store.remove([key for key in self._store.rows()[0] if key[:SIZE] == prefix])
        self._become(self._numbers.without(family))
        self._kinds.pop(prefix, None)
        return True

    def get(self, family: str, key: bytes) -> bytes | None:  # (2)
        return self.get_many(family, [key])[0]

    def get_many(self, family: str, keys: list[bytes]) -> list[bytes | None]:
        """The values of some keys; None for a key that has none."""
        found = each(self._store.get([self._stored(family, key) for key in keys]))
        return [None if value is None else self._encoder.of_value(family, value) for value in found]

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self._store.put([self._stored(family, key)], [self._encoder.value(family, value)])

    def append(self, family: str, key: bytes, added: bytes) -> None:
        """Make a list longer."""
        stored = self._stored(family, key)
        [before] = each(self._store.get([stored]))
        self._store.put([stored], [Grown(before, self._encoder.value(family, added), self.delimiter)])

    def remove(self, family: str, key: bytes) -> int:
        """Remove a key; returns how many keys were removed: one or none."""
        return self._store.remove([self._stored(family, key)])

    def scan(self, family: str, first: bytes) -> list[bytes]:  # (3)
        """The second rows of the keys that begin with the row `first`, in the order of their bytes."""
        begin = self._numbers.prefix(family) + self._encoder.first(family, first)
        return [self._second_row(family, key) for key in sorted(self._index().keys_of.get(begin, ()))]

    def due(self, family: str, at_ms: int) -> list[tuple[int, bytes]]:
        """The keys of a family whose time has come, in the order of their bytes: of each, the time and the other row."""
        found = self._index().due_rows[self._numbers.prefix(family)].due(at_ms)
        return [(time, self._second_row(family, key)) for time, key in sorted(found)]

    def num_rows(self, internal: bool = False) -> int:
        """How many rows there are in the families of variables, or in the engine's own; a list is one row."""
        numbers = self._index().num_rows
        names = (name for name in self._numbers.by_name if name.startswith(INTERNAL) == internal)
        return sum(numbers[self._numbers.prefix(name)] for name in names)

    def _stored(self, family: str, key: bytes) -> bytes:
        return self._numbers.prefix(family) + self._encoder.key(family, key)

    def _second_row(self, family: str, key: bytes) -> bytes:
        return rows_of(self._encoder.of_key(family, key[SIZE:]))[1]

    def _become(self, numbers: FamilyNumbers) -> None:
        self._numbers = numbers
        self._store.put([ROW], [numbers.to_row()])

    def _index(self) -> FamilyIndex:
        kinds = dict(self._kinds)
        return cast(FamilyIndex, self._store.index((FamilyIndex, *sorted(kinds.items())), lambda: FamilyIndex(kinds)))
