"""What an operator with column families writes about itself: schemas, how keys are encoded, state variables.

Models: SchemaHelper, for version 3 of a schema file, and OperatorStateMetadataV2 (About state).

    state/0/_metadata/v2/0              operator metadata: name, stores, and as properties the state variables
    state/0/_stateSchema/<store>/0_...  "v3", then for each column family its name, ids, schemas, encoders

Differs from Spark: nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.checkpointing.metadata_log import json_object, number
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.schema_files import parse_schema, read_utf
from minispark_stream.tools.inspection.contents import Schemas


@dataclass(frozen=True)
class Family:
    """The schemas of a column family, and how its keys are encoded (row_encoding.py)."""

    schemas: Schemas
    encoder: Mapping[str, Any]


def decode_column_families(data: bytes) -> list[Family]:
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
        encoder, at = _text(data, at)
        _, at = _text(data, at)  # the schema of a map's keys, which the key's schema has already
        families.append(Family(Schemas(name, key, value), _json(encoder, at)))
    return families


def _json(text: str, at: int) -> dict[str, Any]:
    try:
        return json_object(text)
    except RecursionError as e:
        raise ValueError(f"byte {at}: nested too deeply") from e


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
