"""One column family of a state store, as a store of its own; and the rows of a join in four of them.

Models: SymmetricHashJoinStateManagerV2, state format 3, and what a StateStore does with the name of a column family (About
state: RocksDB).

1. A key of the store begins with the number of its family (extras/rocksdb/family_numbers.py); then come a zero, which says that
   it is an UnsafeRow, and the row. A value has the zero, too.
2. An index, which the store keeps from batch to batch, has the keys of each family.
3. The families get their numbers with the first commit, in Spark's order: 1 is "default", which is empty.

    family left-keyToNumValues, number 2     a -> 1       store     0200 00 row of a -> 00 row of 1

So a join in state format 3 does with four families what it does with four stores in format 2
(engine/operators/join/symmetric_hash_join_state_manager.py).

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from minispark_stream.engine.checkpointing.join_stores import COUNTS, LEFT, RIGHT, VALUES, store_name
from minispark_stream.engine.checkpointing.unsafe_row.rows import Table
from minispark_stream.engine.operators.join.symmetric_hash_join_buffers import FourStores
from minispark_stream.engine.operators.join.symmetric_hash_join_rows import Join
from minispark_stream.engine.operators.join.symmetric_hash_join_state_manager import Sides
from minispark_stream.engine.state.state_store import (
    DEFAULT_STORE_NAME,
    Found,
    Index,
    PrefixesOf,
    StateStore,
    StateStoreMetrics,
    each,
)
from minispark_stream.extras.rocksdb.family_numbers import ROW, SIZE, FamilyNumbers
from minispark_stream.extras.rocksdb.key_encoding import UNSAFE_ROW


class KeysOfFamilies:
    """(2) The keys of each family, by its number."""

    def __init__(self) -> None:
        self.of: defaultdict[bytes, dict[bytes, None]] = defaultdict(dict)  # a dict as a set that keeps its order

    def change(self, keys: Sequence[bytes], before: Sequence[bytes | None], after: Sequence[bytes | None]) -> None:
        for key, now in zip(keys, after):
            if now is None:
                self.of[key[:SIZE]].pop(key, None)
            else:
                self.of[key[:SIZE]][key] = None


def keys_of(store: StateStore, family: bytes) -> dict[bytes, None]:
    return cast(KeysOfFamilies, store.index(KeysOfFamilies, KeysOfFamilies)).of[family]


class ColumnFamily:
    """The family with this number as a `StateStore`. The owner of the store commits it."""

    def __init__(self, store: StateStore, number: bytes):
        self.version = store.version
        self._store, self._number, self._prefix = store, number, number + UNSAFE_ROW

    def get(self, keys: Sequence[bytes]) -> tuple[Table, Sequence[bytes]]:
        is_there, values = self._store.get(self._stored(keys))
        return is_there, _rows(values)

    def put(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self._store.put(self._stored(keys), [None if value is None else UNSAFE_ROW + value for value in values])

    def remove(self, keys: Sequence[bytes]) -> int:
        return self._store.remove(self._stored(keys))

    def rows(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        keys = list(keys_of(self._store, self._number))
        return [key[len(self._prefix) :] for key in keys], _rows(self._store.get(keys)[1])

    @property
    def num_keys(self) -> int:
        return len(keys_of(self._store, self._number))

    def prefix_scan(self, prefixes: Sequence[bytes], prefixes_of: PrefixesOf) -> Found:
        raise NotImplementedError("nobody searches for a part of a key here")

    def index(self, name: Hashable, make: Callable[[], Index]) -> Index:
        raise NotImplementedError("an index belongs to the whole store")

    def commit(self) -> int:
        return self._store.commit()

    def abort(self) -> None:
        self._store.abort()

    def metrics(self) -> StateStoreMetrics:
        return self._store.metrics()

    def _stored(self, keys: Iterable[bytes]) -> list[bytes]:  # (1)
        return [self._prefix + key for key in keys]


def _rows(values: Iterable[bytes]) -> list[bytes]:
    return [value[len(UNSAFE_ROW) :] for value in values]


@dataclass(frozen=True)
class OneStore:
    """What the buffers of formats 3 and 4 have in common: one store. `families`: names in the order of their numbers, each with
    a flag that says whether the family is one of the engine's own."""

    families: Sequence[tuple[str, bool]]

    @property
    def store_names(self) -> Sequence[str]:
        return (DEFAULT_STORE_NAME,)

    def numbers(self, store: StateStore | None = None) -> FamilyNumbers:
        """The numbers that the families have in the store, or will get (3)."""
        if store is not None and (there := FamilyNumbers.of_store(store)) is not None:
            return there
        numbers = FamilyNumbers()
        for name, is_internal in self.families:
            numbers = numbers.with_family(name, is_internal)
        return numbers

    def commit(self, stores: Sequence[StateStore]) -> Sequence[StateStoreMetrics]:
        [store] = stores
        [row] = each(store.get([ROW]))
        numbers = self.numbers() if row is None else FamilyNumbers.of_row(row)
        if row is None:  # (3)
            store.put([ROW], [numbers.to_row()])
        internal = sum(len(keys_of(store, numbers.prefix(name))) for name in numbers.internal)
        store.commit()
        metrics = store.metrics()
        return [replace(metrics, custom={**metrics.custom, "rocksdbNumInternalColFamiliesKeys": internal})]


@dataclass(frozen=True)
class FourFamilies(OneStore):
    """State format 3: each side has two families of its own."""

    families: Sequence[tuple[str, bool]] = tuple(
        (store_name(side, kind), kind == COUNTS) for side in (LEFT, RIGHT) for kind in (COUNTS, VALUES)
    )

    def sides(self, join: Join, stores: Sequence[StateStore], skips_nulls: bool = False) -> Sides:
        [store] = stores
        numbers = self.numbers(store)
        families = [ColumnFamily(store, numbers.prefix(name)) for name, _ in self.families]
        return FourStores().sides(join, families, skips_nulls)
