"""Row checksums of column families: they show, key by key, whether a row has changed.

Models: KeyValueChecksumEncoder, KeyValueIntegrityVerifier (About state: RocksDB).

With `rowChecksum.enabled`,

1. the CRC32C of key and value, and the length of the value, come before the value; in a list, before each element.
2. In a changelog, the CRC32C of a key that is removed comes before the key.

    ann -> 00 row of 3             2c8aeec7 11000000 00 row of 3
    ann -> [7, 8]                  CRC 15000000 11000000 00 row of 7 | CRC 15000000 11000000 00 row of 8

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from minispark_stream.engine.state.state_records import Change, RowChecksumMismatch, crc32c
from minispark_stream.extras.rocksdb.changes import DELETE, Append, Record, elements
from minispark_stream.extras.rocksdb.family_numbers import SIZE

_header = struct.Struct("<Ii")


@dataclass(frozen=True)
class FamilyChecksums:
    """Adds and checks them. `lists`: what the keys of lists begin with. `delimiter`: what is between the elements of a list."""

    are_on: bool
    lists: frozenset[bytes]
    delimiter: bytes

    def of_change(self, change: Change) -> Change:
        """Rows as RocksDB has them."""
        keys, values = change
        return (keys, list(map(self._with_checksum, keys, values))) if self.are_on else change

    def of_records(self, records: Iterable[Record]) -> Iterator[Record]:
        """Records as a changelog has them."""
        for record in records:
            record = record._replace(value=self._with_checksum(record.key, record.value)) if self.are_on else record
            yield _with_key_checksum(record) if self.are_on else record  # (2)

    def checked(self, change: Change) -> Change:
        """The rows of a change without their checksums. Raises ValueError; RowChecksumMismatch."""
        keys, values = change
        return (keys, list(map(self._checked, keys, values))) if self.are_on else change

    def checked_records(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            if self.are_on and record.kind == DELETE:
                plain = record._replace(key=record.key[4:])
                if _with_key_checksum(plain) != record:
                    raise RowChecksumMismatch("Expected checksum of a removed key is not the computed checksum")
                record = plain
            yield record._replace(value=self._checked(record.key, record.value)) if self.are_on else record

    def _with_checksum(self, key: bytes, value: bytes | None) -> bytes | None:  # (1)
        if value is None:
            return None
        parts = list(elements(value, self.delimiter)) if key[:SIZE] in self.lists else [value]
        sums = crc32c([key + part for part in parts])
        joined = self.delimiter.join(_header.pack(c, len(part)) + part for part, c in zip(parts, sums))
        return Append(joined, self.delimiter) if isinstance(value, Append) else joined

    def _checked(self, key: bytes, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        found = list(elements(value, self.delimiter, checksum=True)) if key[:SIZE] in self.lists else [value]
        parts = [part[_header.size :] for part in found]
        for part, there, now in zip(parts, found, crc32c([key + part for part in parts])):
            if there[: _header.size] != _header.pack(now, len(part)):
                raise RowChecksumMismatch(f"Expected checksum: {int.from_bytes(there[:4], 'little')}, Computed checksum: {now}")
        return self.delimiter.join(parts)


def _with_key_checksum(record: Record) -> Record:
    if record.kind != DELETE:
        return record
    [c] = crc32c([record.key])
    return record._replace(key=c.to_bytes(4, "little") + record.key)
