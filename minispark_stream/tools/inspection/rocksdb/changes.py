"""What a file of a RocksDB store changes, key by key.

Models: nothing of Spark; RocksDB does this when it reads, flushes and compacts.

1. A record puts a value, deletes a key, or merges, which is to append: Spark appends to lists only.
2. The records of a file, one after the other, come to one change for each key: a value, None (the key is gone), or
   something to append to the value that the key had before.
3. Between what is appended there is a delimiter: nothing, or a comma in checkpoints that were begun before Spark 4.1.

    merge a x, put b 1, delete b, merge a y, merge c z      a -> append xy     b -> None     c -> append z
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minispark_stream.tools.inspection.store_versions import Append, Changes

PUT, DELETE, MERGE = 0x01, 0x10, 0x11


class Record(NamedTuple):
    kind: int
    key: bytes
    value: bytes | None


def folded(records: Iterable[Record], delimiter: bytes) -> Changes:
    """The changes that some records come to."""
    changes: Changes = {}
    for kind, key, value in records:
        if kind != MERGE:
            changes[key] = value
        elif key not in changes:
            changes[key] = Append(value or b"", delimiter)
        else:
            before = changes[key]
            more = Append(value or b"", delimiter)
            changes[key] = Append(more.to(before.value), delimiter) if isinstance(before, Append) else more.to(before)
    return changes
