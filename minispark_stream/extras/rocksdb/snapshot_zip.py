"""The zip of a version: which SST files it consists of, how many keys it has, and the names of its column families.

Models: RocksDBCheckpointMetadata (About state: RocksDB).

    5.zip      CURRENT, MANIFEST-..., OPTIONS-..., 000004.log     RocksDB's own
               metadata        v1
                               {"sstFiles":[{"dfsSstFileName":"000008-cff0....sst","sizeBytes":1235,...}],"numKeys":7,...}

The name of an SST file must be one that Spark could have written, and the file is in `SSTs/` beside the zip. Sizes are checked
before they are used: a zip that somebody else made may unpack to anything. To look into a checkpoint, only `metadata` is read
(tools/inspection). To open the version, CURRENT and the manifest are read, too (`read_database`). They are found by their
names, so that no name in a zip leads to another place. The OPTIONS are never read (rocksdb.py says why).

Differs from Spark: nothing.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from minispark_stream.engine.checkpointing.budget import Budget
from minispark_stream.engine.checkpointing.metadata_log import json_object, number, to_json

INTERNAL = "$"  # transformWithState's own families begin with it
_MAX_METADATA = _MAX_MANIFEST = 16 << 20
_MEMBER, _BYTES_PER_MEMBER = b"PK\1\2", 1000  # of the list of a zip's members, which zipfile reads as a whole
_SST = re.compile(r"[0-9]{1,20}-[0-9a-f-]{36}\.sst")
_LOCAL = re.compile(r"[0-9]{1,20}\.sst")
_DATABASE = re.compile(r"CURRENT|MANIFEST-[0-9]{1,20}")


@dataclass(frozen=True)
class SnapshotMetadata:
    """What a zip says about its version.

    `num_keys`: without `num_internal_keys`, those of the engine's own families; None if they were not counted. `ssts`: name ->
    bytes. `families`: number -> name. `max_family`: the greatest number that a family has ever had, including those that are
    gone. `local_names`: what RocksDB calls each of `ssts`. `internal`: which of the families are the engine's own.
    """

    num_keys: int | None
    ssts: Mapping[str, int]
    families: Mapping[int, str] = field(default_factory=dict)
    local_names: Mapping[str, str] = field(default_factory=dict)
    num_internal_keys: int = 0
    max_family: int = 0
    internal: Sequence[str] = ()

    def to_text(self) -> str:
        tables = [
            {"localFileName": self.local_names[name], "dfsSstFileName": name, "sizeBytes": size}
            for name, size in self.ssts.items()
        ]
        families = {
            "columnFamilyMapping": {name: number for number, name in self.families.items()},
            "columnFamilyTypeMap": {name: name in self.internal for name in self.families.values()},
            "maxColumnFamilyId": self.max_family,
        }
        keys = {"numKeys": self.num_keys, "numInternalKeys": self.num_internal_keys}
        return "v1\n" + to_json({"sstFiles": tables, **keys, **families})


def read_zip_metadata(data: bytes, budget: Budget | None = None) -> SnapshotMetadata:
    """Raises ValueError; LimitExceeded if it needs more memory than the budget has."""
    if budget is not None:
        budget.take(_BYTES_PER_MEMBER * data.count(_MEMBER))
    with _readable(data) as archive:
        metadata = _member(archive, "metadata", _MAX_METADATA, budget)
        if budget is not None:
            budget.take_text(metadata)
        version, _, body = metadata.decode("utf-8").partition("\n")
        if version.strip() != "v1":
            raise ValueError(f"its metadata has version {version[:20]!r}, 1 was expected")
        values = json_object(body)
        files = values.get("sstFiles", [])
        ssts = {str(f.get("dfsSstFileName")): number(f, "sizeBytes") for f in files}
        local_names = {str(f.get("dfsSstFileName")): str(f.get("localFileName")) for f in files}
        families = values.get("columnFamilyMapping", {})
        by_number = {number(families, name): str(name) for name in families}
        types = values.get("columnFamilyTypeMap", {})
        own = [name for name in by_number.values() if types.get(name) is True]
        keys, internal = number(values, "numKeys", -1), number(values, "numInternalKeys", 0)
        most = number(values, "maxColumnFamilyId", 0)
    for name in ssts:
        if not _SST.fullmatch(name):
            raise ValueError(f"its metadata names the table {name[:80]!r}, which is not the name of an SST file")
    for i in (*by_number, most):
        if not 0 <= i < 1 << 15:
            raise ValueError(f"its metadata has a column family with the number {i}")
    most = max([most, *by_number])
    return SnapshotMetadata(None if keys < 0 else keys, ssts, by_number, local_names, internal, most, own)


def read_database(data: bytes, metadata: SnapshotMetadata) -> dict[str, bytes]:
    """The files of RocksDB in a zip, without its tables, by name. Raises ValueError, also if a table has no local name."""
    for name in metadata.local_names.values():
        if not _LOCAL.fullmatch(name):
            raise ValueError(f"its metadata calls a table {name[:80]!r}, which is not a name that RocksDB gives to tables")
    with _readable(data) as archive:
        names = [name for name in archive.namelist() if _DATABASE.fullmatch(name)]
        return {name: _member(archive, name, _MAX_MANIFEST) for name in names}


def zip_of(files: Mapping[str, bytes], metadata: SnapshotMetadata) -> bytes:
    """A zip of some files and the metadata. Equal files make equal zips."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, "metadata": metadata.to_text().encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _member(archive: zipfile.ZipFile, name: str, most: int, budget: Budget | None = None) -> bytes:
    size = archive.getinfo(name).file_size
    if size > most:
        raise ValueError(f"its {name} is too large")
    if budget is not None:
        budget.take(4 * size)  # a member is put together from pieces
        most = size
    return archive.open(name).read(most)


@contextmanager
def _readable(data: bytes) -> Iterator[zipfile.ZipFile]:
    """A zip. Whatever is wrong with it or its content is a ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, KeyError, AttributeError, TypeError, NotImplementedError, RuntimeError, EOFError,
            OSError, struct.error) as e:  # RecursionError is a RuntimeError
        raise ValueError(f"not a zip of a RocksDB version: {type(e).__name__}: {e}") from e
