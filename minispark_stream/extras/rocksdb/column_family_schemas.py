"""The schema file of a store with column families: the schemas of each family, and how its keys are encoded.

Models: SchemaHelper, for version 3 of a schema file (About state).

    state/0/_stateSchema/<store>/0_<uuid>     "v3", then for each column family its name, ids, schemas, encoder, and, of a
                                              map, the schema of its own keys

1. Texts are written as in version 2 (engine/state/schema_files.py). The families are sorted by their names.
2. A query that restarts with other families writes a new file. The operator's metadata lists all of these files, the newest
   last, with their whole paths. If the checkpoint has been moved, only the part after `state/` is right, and only it is used.

    v      NoPrefix               (user)                     -> (count)
    m      PrefixKeyScan(1)       ((user), (page))           -> (count)
    $ttl_m RangeKeyScan([0])      (time, ((user), (page)))   -> nothing

Differs from Spark: nothing.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.metadata_log import json_object, to_json
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.schema_files import parse_schema, read_utf, schema_json, write_text, write_utf
from minispark_stream.engine.state.state_store import state_error

NO_PREFIX: Mapping[str, Any] = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}
RANGE: Mapping[str, Any] = {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]}
POSTFIX_TIME: Mapping[str, Any] = {"keyStateEncoderType": "TimestampAsPostfixKeyStateEncoderSpec"}
PREFIX_TIME: Mapping[str, Any] = {"keyStateEncoderType": "TimestampAsPrefixKeyStateEncoderSpec"}
_NO_USER_KEY = "{    }"  # Spark's words for none
_id = struct.Struct(">h")  # of a schema


def prefix(columns: int) -> Mapping[str, Any]:
    """The encoder of keys that are searched by their first columns."""
    return {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": columns} if columns else NO_PREFIX


@dataclass(frozen=True)
class Family:
    """The schemas of a column family, and how its keys are encoded. Rows in Avro name their schema by its id."""

    name: str
    key: StructType
    value: StructType
    encoder: Mapping[str, Any]
    user_key: StructType | None = None
    key_id: int = 0
    value_id: int = 0


def encode_column_families(families: Sequence[Family]) -> bytes:  # (1)
    out = [write_utf("v3"), struct.pack(">i", len(families))]
    for family in sorted(families, key=lambda family: family.name):
        user_key = schema_json(family.user_key) if family.user_key else _NO_USER_KEY
        out += [write_utf(family.name), _id.pack(family.key_id), write_text(schema_json(family.key))]
        out += [_id.pack(family.value_id), write_text(schema_json(family.value))]
        out += [write_text(to_json(dict(family.encoder))), write_text(user_key)]
    return b"".join(out)


def decode_column_families(data: bytes) -> list[Family]:
    """The families in a schema file of version 3. Raises ValueError with the byte at which it is broken."""
    version, at = read_utf(data, 0)
    if version != "v3":
        raise ValueError(f"byte 0: schema version {version[:20]!r}, 3 was expected")
    count, at = _int(data, at)
    families = []
    for _ in range(min(count, len(data))):
        name, at = read_utf(data, at)
        key_id, at = _int(data, at, size=2)  # each schema has an id before it
        key, at = _schema(data, at)
        value_id, at = _int(data, at, size=2)
        value, at = _schema(data, at)
        encoder, at = _text(data, at)
        begin = at
        text, at = _text(data, at)
        user_key = None if text == _NO_USER_KEY else parse_schema(text, begin)
        families.append(Family(name, key, value, _json(encoder, at), user_key, key_id, value_id))
    return families


def write_column_families(state_dir: str, operator_id: int, store: str, batch_id: int, families: Sequence[Family]) -> str:
    """(2) Write a new schema file; returns its path, as the metadata names it."""
    folder = f"{operator_id}/_stateSchema/{store}"
    name = f"{folder}/{batch_id}_{uuid.uuid4()}"
    manager = CheckpointFileManager(state_dir)
    manager.mkdirs(folder)
    manager.create_atomic(name, encode_column_families(families))
    return f"{manager.root}/{name}"


def read_column_families(state_dir: str, path: str) -> list[Family]:
    """The families of a schema file that the metadata names. Raises FileNotFoundError if it is gone."""
    _, below, name = path.rpartition("/state/")
    if not below or ".." in name.split("/"):
        raise _unreadable(path, "it is not below state/")
    manager = CheckpointFileManager(state_dir)
    try:
        return decode_column_families(manager.open(name))
    except ValueError as e:
        raise _unreadable(f"{manager.root}/{name}", str(e)) from e


def _unreadable(path: str, why: str) -> Exception:
    text = f"An error occurred during loading state. Fail to read schema file from {path}: {why}."
    return state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030")


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
