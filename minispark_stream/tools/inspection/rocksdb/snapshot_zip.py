"""The zip of a version: which SST files it consists of, how many keys it has, and how its column families are called.

Models: RocksDBCheckpointMetadata (About state: RocksDB).

    5.zip      CURRENT, MANIFEST-..., OPTIONS-..., 000004.log     RocksDB's own, not opened here
               metadata        v1
                               {"sstFiles":[{"dfsSstFileName":"000008-cff0....sst","sizeBytes":1235,...}],"numKeys":7,...}

Only `metadata` is read, and nothing is unpacked into a folder, so no name in a zip leads anywhere. The name of an SST file must
be one that Spark writes, and the file lies in `SSTs/` beside the zip. Sizes are checked before they are used: a zip that
somebody else made may unpack to anything.

Differs from Spark: nothing.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from minispark_stream.engine.checkpointing.metadata_log import json_object, number

_MAX_METADATA = 16 << 20
_SST = re.compile(r"[0-9]{1,20}-[0-9a-f-]{36}\.sst")


@dataclass(frozen=True)
class SnapshotMetadata:
    """`num_keys`: without those of the engine's own families, None where nobody counted. `ssts`: name -> bytes. `families`:
    number -> name."""

    num_keys: int | None
    ssts: Mapping[str, int]
    families: Mapping[int, str]


def read_zip_metadata(data: bytes) -> SnapshotMetadata:
    """Raises ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.getinfo("metadata").file_size > _MAX_METADATA:
                raise ValueError("its metadata is too large")
            text = archive.open("metadata").read(_MAX_METADATA).decode("utf-8")
        version, _, body = text.partition("\n")
        if version.strip() != "v1":
            raise ValueError(f"its metadata has version {version[:20]!r}, 1 was expected")
        values = json_object(body)
        ssts = {str(f.get("dfsSstFileName")): number(f, "sizeBytes") for f in values.get("sstFiles", [])}
        families = values.get("columnFamilyMapping", {})
        by_number = {number(families, name): str(name) for name in families}
        keys = number(values, "numKeys", -1)
    except (zipfile.BadZipFile, zlib.error, KeyError, AttributeError, TypeError, NotImplementedError, RuntimeError, EOFError,
            OSError, struct.error) as e:  # RecursionError is a RuntimeError
        raise ValueError(f"not a zip of a RocksDB version: {type(e).__name__}: {e}") from e
    for name in ssts:
        if not _SST.fullmatch(name):
            raise ValueError(f"its metadata names the table {name[:80]!r}, which is no name of an SST file")
    for i in by_number:
        if not 0 <= i < 1 << 15:
            raise ValueError(f"its metadata has a column family of the number {i}")
    return SnapshotMetadata(None if keys < 0 else keys, ssts, by_number)
