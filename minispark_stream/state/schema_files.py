"""What the state was written for: schema files and operator metadata (About state; StateSchemaCompatibilityChecker).

State files hold bytes without a schema, so a query that was changed between two runs would misread them. Two small
files, written once per operator, let a restart notice:

    state/<op>/0[/<store>]/_metadata/schema    key and value schema of a store (written by partition 0 for all)
    state/<op>/_metadata/metadata              name of the operator, names and partitions of its stores

1. A schema is compatible when the stored one could hold it: the same types in the same places. Names do not matter, and
   what was nullable may become not nullable, but not the other way round.
2. The schema file is Java's DataOutput: writeUTF("v2"); then for the key and for the value schema, the number of chunks
   (i32, big-endian) and each chunk of the schema's JSON with writeUTF (at most 65535 bytes of modified UTF-8).
3. The metadata is `v1`, a newline and JSON. On restart, each operator id must have the operator name that it had.
   When any operator of the checkpoint has no metadata, nothing is checked. Missing files are written.

    0002 7632  00000001 0042 {"type":"struct","fields":[{"name":"k",...}]}  00000001 ...
    v1\\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":[{"storeName":"default",...}]}

The files are not trusted: lengths are checked, and the JSON of a user-defined type, which PySpark would load by
importing or unpickling what the file says, is read as the SQL type under it.

Differs from Spark: nothing in what is written and refused; schema version 3 and metadata version 2 (column families,
RocksDB only) are not read.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    UserDefinedType,
    VarcharType,
    YearMonthIntervalType,
)

from minispark_stream.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.state.state_store import StateStoreId, state_error

logger = logging.getLogger(__name__)

_MAX_CHUNK = 65535
_FORCE = (
    "If you want to force running the query without schema validation, please set "
    "spark.sql.streaming.stateStore.stateSchemaCheck to false.\n"
    "However, please note that running the query with incompatible schema could cause non-deterministic behavior."
)


# --- schemas ---------------------------------------------------------------------------------------------------


def validate_or_write_schema(
    state_dir: str,
    operator_id: int,
    store_name: str,
    key_schema: StructType,
    value_schema: StructType,
    check: bool = True,
) -> None:
    """Compare the schemas of a store with those it was first written with, or write them when there are none yet.

    When they do not fit, raises UnsupportedOperationException STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE or
    STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE, unless `check` (conf `stateStore.stateSchemaCheck`) is off.
    """
    _refuse_collated_keys(key_schema)
    manager = CheckpointFileManager(StateStoreId(state_dir, operator_id, 0, store_name).location)
    if not manager.exists("_metadata/schema"):
        manager.mkdirs("_metadata")
        manager.create_atomic("_metadata/schema", encode_schemas(key_schema, value_schema))
        return
    try:
        stored_key, stored_value = read_schemas(state_dir, operator_id, store_name)
        if not compatible(key_schema, stored_key):
            raise _not_compatible("key", stored_key, key_schema)
        if not compatible(value_schema, stored_value):
            raise _not_compatible("value", stored_value, value_schema)
    except PySparkException as e:
        if check:
            raise
        logger.warning("stateSchemaCheck is off: %s", e)


def read_schemas(state_dir: str, operator_id: int, store_name: str) -> tuple[StructType, StructType]:
    """The key and value schema of a store's schema file. Raises FileNotFoundError when there is none."""
    manager = CheckpointFileManager(StateStoreId(state_dir, operator_id, 0, store_name).location)
    try:
        return decode_schemas(manager.open("_metadata/schema"))
    except ValueError as e:
        text = (
            f"Fail to read schema file from {manager.root}/_metadata/schema: {e}. "
            "Delete the file to have it written again from the query's own schema."
        )
        raise state_error("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", text, "58030") from e


def compatible(schema: DataType, stored: DataType) -> bool:  # (1)
    """Whether `schema` may read and write what was written with `stored`."""
    match schema, stored:
        case ArrayType(), ArrayType():
            nullable = stored.containsNull or not schema.containsNull
            return nullable and compatible(schema.elementType, stored.elementType)
        case MapType(), MapType():
            nullable = stored.valueContainsNull or not schema.valueContainsNull
            same_key = compatible(schema.keyType, stored.keyType)
            return nullable and same_key and compatible(schema.valueType, stored.valueType)
        case StructType(), StructType():
            return len(schema) == len(stored) and all(
                (old.nullable or not new.nullable) and compatible(new.dataType, old.dataType)
                for new, old in zip(schema.fields, stored.fields)
            )
        case UserDefinedType(), _:
            return compatible(schema.sqlType(), stored)
        case _:
            return schema == stored


def _not_compatible(what: str, stored: StructType, new: StructType) -> UnsupportedOperationException:
    condition = f"STATE_STORE_{what.upper()}_SCHEMA_NOT_COMPATIBLE"
    old_text, new_text = scala_string(stored), scala_string(new)
    text = (
        f"Provided {what} schema does not match existing state {what} schema.\n"
        "Please check number and type of fields.\n"
        f"Existing {what}_schema={old_text} and new {what}_schema={new_text}.\n{_FORCE} SQLSTATE: XXKST"
    )
    name = what.capitalize()
    parameters = {f"stored{name}Schema": old_text, f"new{name}Schema": new_text}
    return UnsupportedOperationException(message=text, errorClass=condition, messageParameters=parameters)


def _refuse_collated_keys(key_schema: StructType) -> None:
    """Keys are compared as bytes, so two strings that a collation calls equal would be two keys."""
    if any(isinstance(t, StringType) and t.collation != "UTF8_BINARY" for t in _types_in(key_schema)):
        condition = "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY"
        schema = schema_json(key_schema)
        text = f"Binary inequality column is not supported with state store. Provided schema: {schema}."
        raise UnsupportedOperationException(
            message=f"{text} SQLSTATE: XXKST", errorClass=condition, messageParameters={"schema": schema}
        )


def _types_in(dt: DataType) -> Iterator[DataType]:
    yield dt
    match dt:
        case ArrayType():
            yield from _types_in(dt.elementType)
        case MapType():
            yield from _types_in(dt.keyType)
            yield from _types_in(dt.valueType)
        case StructType():
            for f in dt.fields:
                yield from _types_in(f.dataType)


def scala_string(dt: DataType) -> str:
    """A type as Scala's `toString` prints it, as error messages show it: `StructType(StructField(k,LongType,true))`."""
    match dt:
        case StructType():
            fields = (f"StructField({f.name},{scala_string(f.dataType)},{_scala(f.nullable)})" for f in dt.fields)
            return f"StructType({','.join(fields)})"
        case ArrayType():
            return f"ArrayType({scala_string(dt.elementType)},{_scala(dt.containsNull)})"
        case MapType():
            return f"MapType({scala_string(dt.keyType)},{scala_string(dt.valueType)},{_scala(dt.valueContainsNull)})"
        case DecimalType():
            return f"DecimalType({dt.precision},{dt.scale})"
        case CharType() | VarcharType():
            return f"{type(dt).__name__}({dt.length})"
        case DayTimeIntervalType() | YearMonthIntervalType():
            return f"{type(dt).__name__}({dt.startField},{dt.endField})"
        case _:
            return type(dt).__name__


def _scala(flag: bool) -> str:
    return "true" if flag else "false"


# --- (2) the schema file ---------------------------------------------------------------------------------------


def schema_json(schema: StructType) -> str:
    """The schema's JSON with keys in Spark's order (PySpark's own `json()` sorts them)."""
    return json.dumps(schema.jsonValue(), separators=(",", ":"), ensure_ascii=False)


def encode_schemas(key_schema: StructType, value_schema: StructType) -> bytes:
    out = [_write_utf("v2")]
    for schema in (key_schema, value_schema):
        chunks = _chunks(schema_json(schema))
        out += [struct.pack(">i", len(chunks)), *map(_write_utf, chunks)]
    return b"".join(out)


def decode_schemas(data: bytes) -> tuple[StructType, StructType]:
    """The two schemas of a schema file (v1 or v2). Raises ValueError with the byte at which it is broken."""
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
        return StructType.fromJson(_without_user_code(json.loads(text)))
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
    """`text` in pieces that writeUTF can write: of 65535 characters as Spark's, fewer where those need more bytes."""
    if len(_modified_utf8(text)) <= _MAX_CHUNK:
        return [text]
    size = _MAX_CHUNK if text.isascii() else _MAX_CHUNK // 6
    return [text[i : i + size] for i in range(0, len(text), size)]


def _write_utf(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Java's modified UTF-8: NUL as two bytes, and each half of a surrogate pair as three."""
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = (chr(unit) for (unit,) in struct.iter_unpack(">H", utf16))
    return "".join(units).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def read_utf(data: bytes, at: int) -> tuple[str, int]:
    """What Java's writeUTF wrote at byte `at`, and where it ends. Raises ValueError."""
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


# --- (3) operator metadata -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateStoreMetadata:
    store_name: str
    num_cols_prefix_key: int
    num_partitions: int


@dataclass(frozen=True)
class OperatorStateMetadata:
    """Which operator a directory of the state belongs to, and its stores."""

    operator_id: int
    operator_name: str
    stores: tuple[StateStoreMetadata, ...]

    def to_text(self) -> str:
        stores = [
            {"storeName": s.store_name, "numColsPrefixKey": s.num_cols_prefix_key, "numPartitions": s.num_partitions}
            for s in self.stores
        ]
        operator = {"operatorId": self.operator_id, "operatorName": self.operator_name}
        return "v1\n" + json.dumps(
            {"operatorInfo": operator, "stateStoreInfo": stores}, separators=(",", ":"), ensure_ascii=False
        )

    @staticmethod
    def from_text(text: str) -> OperatorStateMetadata:
        """Raises ValueError when `text` is not metadata of version 1."""
        version, _, body = text.partition("\n")
        if version.strip() != "v1":
            raise ValueError(f"unsupported version {version[:20]!r} of operator metadata; version 1 is supported")
        try:
            value = json.loads(body)
            operator = value["operatorInfo"]
            stores = tuple(
                StateStoreMetadata(str(s["storeName"]), int(s["numColsPrefixKey"]), int(s["numPartitions"]))
                for s in value["stateStoreInfo"]
            )
            return OperatorStateMetadata(int(operator["operatorId"]), str(operator["operatorName"]), stores)
        except (KeyError, TypeError, AttributeError, RecursionError) as e:
            raise ValueError(f"not operator metadata ({type(e).__name__}: {e})") from e


def read_operator_metadata(state_dir: str, operator_id: int) -> OperatorStateMetadata | None:
    """The metadata of an operator, None when there is none. Raises ValueError, naming the file, when it is broken."""
    manager = CheckpointFileManager(state_dir)
    file = f"{operator_id}/_metadata/metadata"
    if not manager.exists(file):
        return None
    try:
        return OperatorStateMetadata.from_text(manager.open(file).decode("utf-8"))
    except ValueError as e:
        raise ValueError(f"{manager.root}/{file}: {e}. Delete the file to have it written again.") from e


def write_operator_metadata(state_dir: str, metadata: OperatorStateMetadata) -> None:
    """Write the metadata of an operator unless it is there."""
    manager = CheckpointFileManager(state_dir)
    file = f"{metadata.operator_id}/_metadata/metadata"
    if not manager.exists(file):
        manager.mkdirs(f"{metadata.operator_id}/_metadata")
        manager.create_atomic(file, metadata.to_text().encode("utf-8"))


def check_operators(state_dir: str, current: Sequence[OperatorStateMetadata], batch_id: int) -> None:
    """On restart (`batch_id` > 0) compare the query's operators with the checkpoint's; then write missing metadata.

    Raises SparkRuntimeException STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA when an operator was added,
    removed or replaced, and STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY when there is no state at all.
    """
    now = {m.operator_id: m.operator_name for m in current}
    after = _pairs(now)
    if batch_id > 0 and now and _is_empty(state_dir):
        condition = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        text = (
            "Cannot restart streaming query with stateful operators because the state directory is empty or missing.\n"
            f"Stateful operators in current batch: [{after}].\nThis typically occurs when state files have been "
            "deleted or the streaming query was previously run without stateful operators but restarted with stateful "
            "operators.\nPlease remove the stateful operators, use a new checkpoint location, or restore the missing "
            "state files."
        )
        raise state_error(condition, text, "42K03", OpsInCurBatchSeq=after)
    stored = _stored_operators(state_dir) if batch_id > 0 else {}
    if stored and stored != now:
        condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
        before = _pairs(stored)
        text = (
            "Streaming stateful operator name does not match with the operator in state metadata. This likely to "
            "happen when user adds/removes/changes stateful operator of existing streaming query.\n"
            f"Stateful operators in the metadata: [{before}]; Stateful operators in current batch: [{after}]."
        )
        raise state_error(condition, text, "42K03", OpsInMetadataSeq=before, OpsInCurBatchSeq=after)
    for metadata in current:
        write_operator_metadata(state_dir, metadata)


def _is_empty(state_dir: str) -> bool:
    try:
        return not CheckpointFileManager(state_dir).list("")
    except FileNotFoundError:
        return True


def _stored_operators(state_dir: str) -> dict[int, str]:
    """Operator names by id; nothing when an operator's directory is there without readable metadata."""
    manager = CheckpointFileManager(state_dir)
    names: dict[int, str] = {}
    while manager.exists(str(len(names))):  # ids are counted from 0
        try:
            metadata = read_operator_metadata(state_dir, len(names))
        except ValueError as e:
            logger.warning("Error reading metadata of a stateful operator: %s", e)
            return {}
        if metadata is None:
            return {}
        names[len(names)] = metadata.operator_name
    return names


def _pairs(operators: dict[int, str]) -> str:
    return ", ".join(f"(OperatorId: {i} -> OperatorName: {name})" for i, name in sorted(operators.items()))
