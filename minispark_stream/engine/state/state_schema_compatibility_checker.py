"""Whether a query can read the state in its checkpoint.

Models: StateSchemaCompatibilityChecker (About state).

State files contain bytes without a schema, so a query that was changed between two runs could misread them. Therefore the
schemas of each store are written once (schema_files.py), and compared when the query starts again:

1. If the file is missing, write the query's schemas.
2. A schema is compatible if it has the same types in the same places as the stored one. Names do not matter. A field that was
   nullable may become not nullable, but not the other way round.
3. An incompatible schema is refused with both schemas in the message, unless `stateStore.stateSchemaCheck` is off.

    stored (word string, count long)      new (w string, n long not null)      compatible
                                          new (word string, count int)         refused: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

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

from minispark_stream.engine.checkpointing.checkpoint_file_manager import CheckpointFileManager
from minispark_stream.engine.state.schema_files import SCHEMA_FILE, encode_schemas, read_schemas, schema_json
from minispark_stream.engine.state.state_store import StateStoreId

logger = logging.getLogger(__name__)

_FORCE = (
    "If you want to force running the query without schema validation, please set "
    "spark.sql.streaming.stateStore.stateSchemaCheck to false.\n"
    "However, please note that running the query with incompatible schema could cause non-deterministic behavior."
)


def validate_or_write_schema(
    state_dir: str,
    operator_id: int,
    store_name: str,
    key_schema: StructType,
    value_schema: StructType,
    check: bool = True,
    check_values: bool = True,
) -> None:
    """Compare the schemas of a store with those that it was first written with, or write them if there are none yet.

    Args:
        check: the conf `stateStore.stateSchemaCheck`.
        check_values: whether the schemas of the values are compared, too.

    Raises:
        UnsupportedOperationException: the schemas do not fit.
        SparkRuntimeException: the schema file is damaged.
    """
    _refuse_collated_keys(key_schema)
    manager = CheckpointFileManager(StateStoreId(state_dir, operator_id, 0, store_name).location)
    if not manager.exists(SCHEMA_FILE):  # (1)
        manager.create_atomic(SCHEMA_FILE, encode_schemas(key_schema, value_schema))
        return
    try:
        check_schemas(read_schemas(state_dir, operator_id, store_name), (key_schema, value_schema), check_values)
    except PySparkException as e:  # (3)
        if check:
            raise
        logger.warning("stateSchemaCheck is off: %s", e)


def check_schemas(stored: tuple[StructType, StructType], new: tuple[StructType, StructType], check_values: bool) -> None:
    """Compare the schemas of keys and values with those of the checkpoint.

    Raises:
        UnsupportedOperationException: they do not fit (STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE or
            STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE).
    """
    (stored_key, stored_value), (key_schema, value_schema) = stored, new
    if not compatible(key_schema, stored_key):
        raise _not_compatible("key", stored_key, key_schema)
    if check_values and not compatible(value_schema, stored_value):
        raise _not_compatible("value", stored_value, value_schema)


def compatible(schema: DataType, stored: DataType) -> bool:  # (2)
    """Whether rows of the schema `stored` may be read and written as rows of `schema`."""
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
    """Keys are compared as bytes, so two strings that are equal under a collation would be two keys."""
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
    """A type as Scala prints it, which is how error messages show it: `StructType(StructField(k,LongType,true))`."""
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


