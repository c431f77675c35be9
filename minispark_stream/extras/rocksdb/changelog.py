"""A changelog: what a batch changed in a RocksDB store.

Models: StateStoreChangelogReader, StateStoreChangelogWriterV2 (About state: RocksDB).

    6.changelog, compressed:   "v2" | put k 1 | merge l 2 | delete m | end

1. The first bytes say the version: "v2" to "v4", with its length before it. Otherwise it is version 1, which begins with a
   record.
2. In versions 3 and 4, which belong to checkpoint format 2, the *lineage* comes next: the ids of the files of the versions
   before. A version may have been written more than once, and only a unique id says which of its files counts.
3. Records of versions 1 and 3 are those of a delta file. Those of versions 2 and 4, for stores with column families, begin with
   a byte that says whether they put, delete or merge; in a delete, the length of the value is -1.
4. With `rowChecksum.enabled`, the key of a delete comes after its own CRC32C.

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from minispark_stream.engine.checkpointing.budget import BYTES_PER_RECORD, Budget
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.state.schema_files import read_utf, write_utf
from minispark_stream.engine.state.state_records import decode_changes, records
from minispark_stream.extras.rocksdb.changes import DELETE, MERGE, PUT, Record

FILE = re.compile(r"(0|[1-9][0-9]{0,17})(?:_([0-9a-f-]{36}))?\.(zip|changelog)")  # of a version: its number, its id, what it is
_length = struct.Struct(">i")
_END = 0


class Header(NamedTuple):
    """`lineage`: version -> unique id of its file. `end`: the byte at which the records begin."""

    has_families: bool
    lineage: dict[int, str]
    end: int


class Changelog(NamedTuple):
    """`lineage`: version -> unique id of its file."""

    lineage: dict[int, str]
    records: list[Record]


def encode_header(has_families: bool, lineage: Mapping[int, str] | None) -> bytes:
    """The beginning of a changelog. `lineage` is None in checkpoint format 1."""
    if lineage is None:
        return write_utf("v2") if has_families else b""
    ids = [{"version": version, "checkpointUniqueId": unique_id} for version, unique_id in sorted(lineage.items())]
    return write_utf("v4" if has_families else "v3") + write_utf(to_json(ids))


def encode_typed_records(records: Iterable[Record]) -> bytes:
    """The records of a changelog of version 2 or 4, before they are compressed."""
    out: list[bytes] = []
    for kind, key, value in records:
        out += [bytes([kind]), _length.pack(len(key)), key, _length.pack(-1 if value is None else len(value)), value or b""]
    return b"".join([*out, bytes([_END])])


def read_header(data: bytes) -> Header:
    """The beginning of a changelog, from its decompressed bytes. Raises ValueError with the byte at which it is broken."""
    version, at = (int(data[3:4]), 4) if data[:3] == b"\0\2v" and data[3:4].isdigit() else (1, 0)  # (1)
    if not 1 <= version <= 4:
        raise ValueError(f"byte 0: a changelog of version {version}; versions 1 to 4 can be read")
    lineage = {}
    if version >= 3:  # (2)
        text, at = read_utf(data, at)
        lineage = _lineage(text)
    return Header(version in (2, 4), lineage, at)


def read_changelog(data: bytes, checksum: bool, budget: Budget | None = None) -> Changelog:
    """A changelog from its decompressed bytes.

    Raises ValueError with the byte at which it is broken; LimitExceeded when its records need more memory than the budget has.
    """
    has_families, lineage, at = read_header(data)
    if not has_families:  # (3)
        found = records(decode_changes(data[at:], budget=budget))
        result = [Record(DELETE if value is None else PUT, key, value) for key, value in found]
    else:
        result = list(_typed(data, at, budget))
    if checksum:  # (4)
        result = [r._replace(key=r.key[4:]) if r.kind == DELETE else r for r in result]
    return Changelog(lineage, result)


def _lineage(text: str) -> dict[int, str]:
    try:
        return {int(item["version"]): str(item["checkpointUniqueId"]) for item in json.loads(text)}
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise ValueError(f"not a lineage ({type(e).__name__}: {e})") from e


def _typed(data: bytes, at: int, budget: Budget | None) -> Iterator[Record]:
    while True:
        kind = data[at] if at < len(data) else None
        if kind == _END:
            return
        if kind not in (PUT, DELETE, MERGE):
            raise ValueError(f"byte {at} of the records: " + ("the file ends without its end mark" if kind is None
                                                              else f"a record of type {kind}, which does not exist"))
        key, at = _bytes(data, at + 1)
        value, at = _bytes(data, at)
        if key is None or (value is None) != (kind == DELETE):
            raise ValueError(f"byte {at} of the records: a record of type {kind} with a length that it cannot have")
        if budget is not None:
            budget.take(len(key) + len(value or b"") + BYTES_PER_RECORD)
        yield Record(kind, key, value)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them; None for the length -1."""
    if at + 4 > len(data):
        raise ValueError(f"byte {at} of the records: the file ends before a length")
    (size,) = _length.unpack_from(data, at)
    at += 4
    if size == -1:
        return None, at
    if size < 0 or at + size > len(data):
        raise ValueError(f"byte {at} of the records: {size} bytes are announced, but the file ends before")
    return data[at : at + size], at + size
