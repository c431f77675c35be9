"""Which column families a store has. In memory, a row of the store says it; on disk, each zip does.

Models: the column family mapping of RocksDB, and its metadata in a snapshot (About state: RocksDB).

1. RocksDB itself has one family here. The families of an operator are *virtual*: the first two bytes of each key are the number
   of its family.
2. Families get their numbers in the order in which they are created, from 1 on. A number is never used again. Family 1 is
   "default", which is empty.
3. In memory, names and numbers are a row of the store under number 0, which no family has. So each version has its own
   families, a batch that fails undoes what it has created, and a change of the families is one of the changes of the batch.
4. On disk, this row is in no changelog and no table, but in the metadata of each zip. So a batch that changes it writes a zip.

    {"default": 1, "total": 2}     create("pages")     {"default": 1, "total": 2, "pages": 3}
    pages of ann                   0300 | key

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from minispark_stream.engine.checkpointing import join_stores
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.state.state_records import Change, records
from minispark_stream.engine.state.state_store import StateStore, each, state_error
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT, Grown, Record
from minispark_stream.extras.rocksdb.snapshot_zip import SnapshotMetadata

ROW = b"\0\0"  # (3) the key
SIZE = 2  # (1) bytes of a number


@dataclass(frozen=True)
class FamilyNumbers:
    """`last`: the greatest number that a family has had. `internal`: the engine's own families."""

    by_name: Mapping[str, int] = field(default_factory=lambda: {"default": 1})
    last: int = 1
    internal: Sequence[str] = ()

    def with_family(self, name: str, is_internal: bool) -> FamilyNumbers:  # (2)
        internal = [*self.internal, name] if is_internal else self.internal
        return FamilyNumbers({**self.by_name, name: self.last + 1}, self.last + 1, internal)

    def without(self, name: str) -> FamilyNumbers:
        by_name = {n: number for n, number in self.by_name.items() if n != name}
        return FamilyNumbers(by_name, self.last, [n for n in self.internal if n != name])

    def prefix(self, name: str) -> bytes:
        """What the keys of a family begin with."""
        return self.by_name[name].to_bytes(SIZE, "little")

    def internal_keys(self, keys: Iterable[bytes]) -> int:
        """How many of the keys belong to the engine's own families."""
        numbers = {self.prefix(name) for name in self.internal}
        return sum(key[:SIZE] in numbers for key in keys)

    def of_lists(self, kinds: Mapping[str, str]) -> frozenset[bytes]:
        """What the keys of lists begin with."""
        return frozenset(self.prefix(name) for name in self.by_name if is_list(name, kinds))

    def to_row(self) -> bytes:
        return to_json([dict(self.by_name), self.last, list(self.internal)]).encode()

    @staticmethod
    def of_row(row: bytes) -> FamilyNumbers:
        return FamilyNumbers(*json.loads(row))

    @staticmethod
    def of_zip(metadata: SnapshotMetadata) -> FamilyNumbers:
        by_name = {name: number for number, name in metadata.families.items()}
        return FamilyNumbers(by_name, metadata.max_family, metadata.internal)

    @staticmethod
    def of_store(store: StateStore) -> FamilyNumbers | None:
        """Those of an open store; None if it has none yet."""
        [row] = each(store.get([ROW]))
        if row is None and store.num_keys:
            text = "An error occurred during loading state. No zip that can be read names the column families of this state."
            raise state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030")
        return None if row is None else FamilyNumbers.of_row(row)


def is_list(family: str, kinds: Mapping[str, str]) -> bool:
    """Whether the values of a family are lists. `kinds`: the kinds of the state variables, by their names."""
    return family in join_stores.LISTS or kinds.get(family) == "ListState"


def numbers_in(changes: Iterable[Change]) -> FamilyNumbers | None:
    """The families after some changes; None if the changes leave them as they are."""
    found = [value for key, value in records(changes) if key == ROW]
    return FamilyNumbers.of_row(found[-1] or b"") if found else None


def without_numbers(changes: Iterable[Change]) -> Iterator[Change]:  # (4)
    """The changes that are written into a file."""
    for keys, values in changes:
        if ROW in keys:
            others = [(key, value) for key, value in zip(keys, values) if key != ROW]
            keys, values = [key for key, _ in others], [value for _, value in others]
        yield keys, values


def records_of(changes: Iterable[Change]) -> Iterator[Record]:
    """The changes as a changelog of column families has them."""
    for keys, values in without_numbers(changes):
        for key, value in zip(keys, values):
            if isinstance(value, Grown):
                yield Record(MERGE, key, value.added)
            else:
                yield Record(DELETE if value is None else PUT, key, value)
