"""The schema file of a store: the schemas of its keys and values, written once.

Models: SchemaHelper (About state).

    state/<operator>/0[/<store>]/_metadata/schema      written by partition 0 for all partitions

1. The file is Java's DataOutput: writeUTF("v2"); then for the key and for the value schema, the number of chunks (i32,
   big-endian) and each chunk of the schema's JSON with writeUTF (at most 65535 bytes of modified UTF-8).
2. Modified UTF-8 is Java's: NUL is two bytes, and each half of a surrogate pair is three.

    0002 7632  00000001 0042 {"type":"struct","fields":[{"name":"k",...}]}  00000001 ...

The file is not trusted: lengths are checked. For a user-defined type, PySpark would import or unpickle what the file names, so
such a type is read as the SQL type that it is stored as.

Version 3 of the format is for column families in RocksDB (extras/rocksdb/column_family_schemas.py).

Differs from Spark: of a text with an explicit `COLLATE UTF8_BINARY`, Spark writes the type `string collate UTF8_BINARY` here,
and the model `string`, because PySpark's StringType does not keep the difference. It is the same type to both: each reads the
other's file, and the state is the same.
Shown by
tests/conformance/test_cross_resume.py::test_only_the_file_of_the_schema_tells_an_explicit_usual_collation.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.checkpointing.errors import PySparkException
from minispark_stream.engine.checkpointing.metadata_log import to_json
from minispark_stream.engine.checkpointing.spark_types import StructType
from minispark_stream.engine.state.state_store import StateStoreId, state_error

SCHEMA_FILE = "_metadata/schema"
_MAX_CHUNK = 65535


def read_schemas(state_dir: str, operator_id: int, store_name: str) -> tuple[StructType, StructType]:
    """The key and value schema in a store's schema file. Raises FileNotFoundError if there is none."""
    manager = CheckpointFileManager(StateStoreId(state_dir, operator_id, 0, store_name).location)
    try:
        return decode_schemas(manager.open(SCHEMA_FILE))
    except ValueError as e:
        text = (
            f"Fail to read schema file from {manager.root}/{SCHEMA_FILE}: {e}. "
            "Delete the file to have it written again from the query's own schema."
        )
        raise state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030") from e


def schema_json(schema: StructType) -> str:
    """The schema's JSON with its keys in Spark's order (PySpark's own `json()` sorts them)."""
    return to_json(schema.jsonValue())


def encode_schemas(key_schema: StructType, value_schema: StructType) -> bytes:
    return b"".join([write_utf("v2"), *(write_text(schema_json(schema)) for schema in (key_schema, value_schema))])


def write_text(text: str) -> bytes:  # (1)
    """A text as the number of its chunks and the chunks."""
    chunks = _chunks(text)
    return b"".join([struct.pack(">i", len(chunks)), *map(write_utf, chunks)])


def decode_schemas(data: bytes) -> tuple[StructType, StructType]:
    """The two schemas in a schema file (v1 or v2). Raises ValueError with the byte at which it is damaged."""
    version, at = read_utf(data, 0)
    if version not in ("v1", "v2"):
        raise ValueError(f"byte 0: unsupported schema version {version[:20]!r}; versions 1 and 2 are supported")
    schemas = []
    for _ in range(2):
        chunks = 1
        if version == "v2":
            if at + 4 > len(data):
                raise ValueError(f"byte {at}: the file ends before the number of chunks")
            (chunks,) = struct.unpack_from(">i", data, at)
            at += 4
        if not 0 < chunks <= len(data):
            raise ValueError(f"byte {at - 4}: {chunks} chunks")
        begin, text = at, ""
        for _ in range(chunks):
            chunk, at = read_utf(data, at)
            text += chunk
        schemas.append(parse_schema(text, begin))
    return schemas[0], schemas[1]


def parse_schema(text: str, at: int) -> StructType:
    """The schema that begins at byte `at`. Raises ValueError."""
    try:
        value = _without_user_code(json.loads(text))
        if value["type"] != "struct":
            raise ValueError(f"its type is {str(value['type'])[:80]!r}")
        return StructType.fromJson(value)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, AssertionError, PySparkException) as e:
        raise ValueError(f"byte {at}: not the JSON of a schema ({type(e).__name__}: {e})") from e


def _without_user_code(value: Any) -> Any:
    """The JSON with each user-defined type replaced by its SQL type, so that parsing it runs nothing."""
    if isinstance(value, list):
        return [_without_user_code(v) for v in value]
    if isinstance(value, dict):
        if value.get("type") == "udt":
            return _without_user_code(value["sqlType"])
        return {k: v if k == "metadata" else _without_user_code(v) for k, v in value.items()}
    return value


def _chunks(text: str) -> list[str]:
    """`text` in pieces that writeUTF can write: of 65535 characters, as in Spark, or fewer if these need more bytes."""
    if len(_modified_utf8(text)) <= _MAX_CHUNK:
        return [text]
    size = _MAX_CHUNK if text.isascii() else _MAX_CHUNK // 6
    return [text[i : i + size] for i in range(0, len(text), size)]


def write_utf(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _modified_utf8(text: str) -> bytes:  # (2)
    """Java's modified UTF-8: NUL as two bytes, and each half of a surrogate pair as three."""
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = (chr(unit) for (unit,) in struct.iter_unpack(">H", utf16))
    return "".join(units).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def read_utf(data: bytes, at: int) -> tuple[str, int]:
    """The text that Java's writeUTF wrote at byte `at`, and the byte after it. Raises ValueError."""
    if at + 2 > len(data):
        raise ValueError(f"byte {at}: the file ends before the length of a text")
    (size,) = struct.unpack_from(">H", data, at)
    if at + 2 + size > len(data):
        raise ValueError(f"byte {at}: a text of {size} bytes, but the file ends before")
    try:
        units = data[at + 2 : at + 2 + size].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be"), at + 2 + size
    except UnicodeError as e:
        raise ValueError(f"byte {at}: a text that is not modified UTF-8") from e
