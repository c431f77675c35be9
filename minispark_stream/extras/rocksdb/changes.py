"""What a file of a RocksDB store changes, key by key.

Models: nothing of Spark; RocksDB does this when it reads, flushes and compacts.

A record puts a value, deletes a key, or merges, which means that it appends; Spark only appends to lists. Taken one after the
other, the records of a file make one change for each key: a value, None (the key is gone), or something to append to the value
that the key had before. Between two values that are appended there is a delimiter: nothing, or a comma in checkpoints that
were begun before Spark 4.1. When the whole value is known, a change that appends is written as a value that has `Grown`: in
memory, and in a snapshot, it is the whole value, but in a changelog only what is new.

    merge a x, put b 1, delete b, merge a y, merge c z      a -> append xy     b -> None     c -> append z
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minispark_stream.engine.state.state_records import Change, records

PUT, DELETE, MERGE = 0x01, 0x10, 0x11
_size = struct.Struct("<i")


class Record(NamedTuple):
    kind: int
    key: bytes
    value: bytes | None


class Append(bytes):
    """A change that appends to the value that a key has; `delimiter` comes between the two."""

    delimiter: bytes

    def __new__(cls, value: bytes, delimiter: bytes) -> Append:
        made = super().__new__(cls, value)
        made.delimiter = delimiter
        return made

    def to(self, before: bytes | None) -> bytes:
        return bytes(self) if before is None else b"".join([before, self.delimiter, self])


class Grown(bytes):
    """A whole value, at whose end `added` is new."""

    added: bytes

    def __new__(cls, before: bytes | None, added: bytes, delimiter: bytes) -> Grown:
        made = super().__new__(cls, Append(added, delimiter).to(before))
        made.added = added
        return made


Changes = dict[bytes, "bytes | None"]  # key -> its value, None if it is removed, or what to Append


def folded(records: Iterable[Record], delimiter: bytes) -> Changes:
    """The changes that some records make, one for each key."""
    changes: Changes = {}
    for kind, key, value in records:
        if kind != MERGE:
            changes[key] = value
        elif key not in changes:
            changes[key] = Append(value or b"", delimiter)
        else:
            before = changes[key]
            more = Append(value or b"", delimiter)
            changes[key] = Append(more.to(before), delimiter) if isinstance(before, Append) else more.to(before)
    return changes


def num_bytes(changes: Iterable[Change]) -> int:
    """How many bytes the keys and values of some changes have."""
    return sum(len(key) + len(value or b"") for key, value in records(changes))


def elements(value: bytes, delimiter: bytes, checksum: bool = False) -> Iterator[bytes]:
    """The elements of a list, each with its length before it, and before that its checksum, if any. Raises ValueError."""
    at, before = 0, 4 if checksum else 0
    while at < len(value):
        size = _size.unpack_from(value, at + before)[0] if at + before + 4 <= len(value) else -1
        end = at + before + 4 + size
        if size < 0 or end > len(value):
            raise ValueError(f"a list of {len(value)} bytes with an element that does not fit into it")
        yield value[at:end]
        at = end + len(delimiter)


def list_of(values: Iterable[bytes], delimiter: bytes) -> bytes:
    """The list with these elements, without checksums."""
    return delimiter.join(_size.pack(len(value)) + value for value in values)
