"""RocksDB checkpoints: what can be said without RocksDB about the files of RocksDBFileManager and StateStoreChangelogWriter.

    state/0/1/5.zip                 names of the SST files of version 5, its number of keys; the rows are in SSTs/*.sst
              6.changelog           what batch 5 changed, when changelog checkpointing is on
              6_<uuid>.changelog    the same in checkpoint format 2, where a version may have been written more than once
    state/0/_metadata/v2/0          operator metadata of operators with several column families (transformWithState)
    state/0/_stateSchema/<store>/…  and their schemas: "v3", then for each column family its name, ids, schemas, encoders

A zip holds `metadata`: "v1" and JSON with `numKeys` and `sstFiles`. Nothing else of it is opened. The rows are not decoded:
those of a zip are in RocksDB's own table format, and changelogs are changes since such a zip.

Sizes and counts are checked before they are used: a zip that somebody else made may unpack to anything.

Differs from Spark: it reads all of this by RocksDB itself.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from typing import Any

from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.metadata_log import json_object, number
from minispark_stream.engine.state.schema_files import parse_schema, read_utf
from minispark_stream.tools.inspection.contents import Schemas

NOT_DECODED = (
    "RocksDB's own files (.sst) hold the rows, and they are not decoded here; Spark reads them: "
    "spark.read.format('statestore').load(checkpoint)"
)
FILE = re.compile(r"([0-9]{1,18})(?:_([0-9a-f-]{36}))?\.(zip|changelog)")
_MAX_METADATA = 16 << 20


def read_zip_metadata(data: bytes) -> tuple[int | None, int]:
    """(number of keys, bytes of all SST files) of a version. Raises ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.getinfo("metadata").file_size > _MAX_METADATA:
                raise ValueError("its metadata is too large")
            text = archive.open("metadata").read(_MAX_METADATA).decode("utf-8")
        values = json_object(text.partition("\n")[2])
        sizes = [number(f, "sizeBytes") for f in values.get("sstFiles", [])]
        keys = number(values, "numKeys", -1)
        return (None if keys < 0 else keys), sum(sizes)
    except (zipfile.BadZipFile, zlib.error, KeyError, AttributeError, TypeError, NotImplementedError, RuntimeError,
            EOFError, OSError, struct.error) as e:
        raise ValueError(f"not a zip of a RocksDB version: {type(e).__name__}: {e}") from e


def decode_column_families(data: bytes) -> list[Schemas]:
    """A schema file of version 3. Raises ValueError with the byte at which it is broken."""
    version, at = read_utf(data, 0)
    if version != "v3":
        raise ValueError(f"byte 0: schema version {version[:20]!r}, 3 was expected")
    count, at = _int(data, at)
    families = []
    for _ in range(min(count, len(data))):
        name, at = read_utf(data, at)
        _, at = _int(data, at, size=2)  # each schema has an id before it
        key, at = _schema(data, at)
        _, at = _int(data, at, size=2)
        value, at = _schema(data, at)
        for _ in range(2):  # how keys are encoded, and the user's encoder
            _, at = _text(data, at)
        families.append(Schemas(name, key, value))
    return families


def _int(data: bytes, at: int, size: int = 4) -> tuple[int, int]:
    if at + size > len(data):
        raise ValueError(f"byte {at}: the file ends before a number")
    value = int.from_bytes(data[at : at + size], "big", signed=True)
    if value < 0:
        raise ValueError(f"byte {at}: a negative number, {value}")
    return value, at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    chunks, at = _int(data, at)
    text = []
    for _ in range(min(chunks, len(data))):
        chunk, at = read_utf(data, at)
        text.append(chunk)
    return "".join(text), at


def _schema(data: bytes, at: int) -> tuple[StructType, int]:
    text, end = _text(data, at)
    return parse_schema(text, at), end


def parse_operator_metadata_v2(text: str) -> tuple[str, int, list[str], dict[str, Any]]:
    """(operator name, partitions, store names, properties) of operator metadata of version 2. Raises ValueError."""
    version, _, body = text.partition("\n")
    if version.strip() != "v2":
        raise ValueError(f"version {version[:20]!r} of operator metadata, 2 was expected")
    try:
        value = json_object(body)
        stores = value["stateStoreInfo"]
        properties = json.loads(value.get("operatorPropertiesJson") or "{}")
        partitions = max((number(s, "numPartitions") for s in stores), default=0)
        name = str(value["operatorInfo"]["operatorName"])
        return name, partitions, [str(s["storeName"]) for s in stores], properties if isinstance(properties, dict) else {}
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not operator metadata ({type(e).__name__}: {e})") from e
