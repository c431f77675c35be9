"""What the checkpoint says about the state variables of a StatefulProcessor: the schemas of their column families, and more.

Models: StateStoreColumnFamilySchemaUtils, TransformWithStateOperatorProperties (About state).

1. A variable has a family with its name. A list has another one for its length, and with a time to live, there are families in
   which what has expired is found (state_variables.py). Timers have two. A field that is declared not null stays so.
2. The properties in the operator's metadata are the time mode, the output mode, and the name and kind of each variable.
3. After a restart, the time mode and the output mode must be the same, and a variable must have the same kind, and a schema
   that its old schema may change to (schema_evolution.py). Variables may be added and removed.

    getMapState("pages", "page string", "count int")
    pages     ((user), (page)) -> (count)     PrefixKeyScan(1)         {"stateName":"pages","stateVariableType":"MapState",...}

Differs from Spark: nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, NullType, StructType

from minispark_stream.engine.jvm import expressions, sessions
from minispark_stream.engine.jvm.errors import spark_error
from minispark_stream.engine.state.operator_state_metadata import read_operator_metadata, variable_kinds
from minispark_stream.engine.state.state_schema_compatibility_checker import scala_string
from minispark_stream.engine.state.state_store import DEFAULT_STORE_NAME
from minispark_stream.extras.rocksdb.column_family_schemas import (
    NO_PREFIX,
    RANGE,
    Family,
    prefix,
    read_column_families,
    write_column_families,
)
from minispark_stream.extras.transform_with_state.schema_evolution import evolved, with_last_ids
from minispark_stream.extras.transform_with_state.stateful_processor_handle import NO_TIME, by_key, by_time

logger = logging.getLogger(__name__)

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"


def families_of(kind: str, name: str, keys: StructType, schemas: Sequence[StructType], has_ttl: bool) -> Iterator[Family]:
    """(1) The column families of a variable. `kind` is value, list or map; `schemas` are those that it was declared with."""
    key, value, user_key = keys, schemas[-1], None
    if kind == "map":
        user_key = schemas[0]
        key = StructType().add("key", keys).add("userKey", user_key)
    if has_ttl:
        value = StructType().add("value", value).add("ttlExpirationMs", LongType())
        index = StructType().add("expirationMs", LongType()).add("elementKey", key)
        yield Family(f"$ttl_{name}", index, StructType().add("__empty__", NullType()), RANGE)
    if kind == "list":
        count = StructType().add("count", LongType())
        yield Family(f"$rowCounter_{name}", keys, count, NO_PREFIX)  # Spark has it in the file in any case
        if has_ttl:
            yield Family(f"$count_{name}", keys, count, NO_PREFIX)
            yield Family(f"$min_{name}", keys, StructType().add("expirationMs", LongType()), NO_PREFIX)
    yield Family(name, key, value, prefix(1) if kind == "map" else NO_PREFIX, user_key)


def families_of_timers(time_mode: str, keys: StructType) -> Iterator[Family]:
    if time_mode != NO_TIME:
        key, time = StructType().add("key", keys), StructType().add("expiryTimestampMs", LongType(), False)
        nothing = StructType().add("__dummy__", NullType())
        yield Family(by_key(time_mode), StructType([*key.fields, *time.fields]), nothing, prefix(1))
        yield Family(by_time(time_mode), StructType([*time.fields, *key.fields]), nothing, RANGE)


def with_nulls(session: SparkSession, families: Sequence[Family]) -> list[Family]:
    """The families for rows in Avro, where every field may be null. The fields of a variable must be declared nullable."""
    for family in families:
        if not all(field.nullable for field in family.value):
            raise spark_error(
                session, UnsupportedOperationException, "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE",
                columnFamilyName=family.name, schema=scala_string(family.value),
            )
    return [replace(family, value=expressions.as_nullable(session, family.value)) for family in families]


def properties(time_mode: str, output_mode: str, variables: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:  # (2)
    """`variables`: kind, name, and whether there is a ttl."""
    named = [(name, f"{kind.capitalize()}State", has_ttl) for kind, name, has_ttl in variables]
    if time_mode != NO_TIME:
        named.append((by_key(time_mode), "TimerState", False))
    listed = [{"stateName": name, "stateVariableType": kind, "ttlEnabled": has_ttl} for name, kind, has_ttl in named]
    return {"timeMode": time_mode, "outputMode": output_mode, "stateVariables": listed}


def check_or_write(
    session: SparkSession, state_dir: str, operator_id: int, batch_id: int, found: Mapping[str, Any], families: Sequence[Family]
) -> tuple[tuple[str, ...], list[Sequence[Family]]]:
    """(3) The paths and the families of the schema files, with a new file if the families have changed. The current families
    come last."""
    stored = read_operator_metadata(state_dir, operator_id)
    paths = stored.stores[0].schema_paths if stored and stored.stores else ()
    files: list[Sequence[Family]] = []
    is_new = True
    if stored is not None and stored.properties is not None and paths:
        files = [read_column_families(state_dir, path) for path in paths]
        try:
            families, is_new = evolved(session, files, families, is_in_avro(session))
        except UnsupportedOperationException as e:
            if sessions.flag(session, "spark.sql.streaming.stateStore.stateSchemaCheck"):
                raise
            logger.warning("stateSchemaCheck is off: %s", e)
            families, is_new = with_last_ids(files, families), False
    if is_new:
        paths = (*paths, write_column_families(state_dir, operator_id, DEFAULT_STORE_NAME, batch_id, families))
    if stored is not None and stored.properties is not None and files:
        check_properties(session, stored.properties, found)  # as in Spark, after the schemas
    return paths, [*files, families]


def check_properties(session: SparkSession, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:  # (3)
    for name in ("timeMode", "outputMode"):
        if old.get(name) != new.get(name):
            raise spark_error(
                session, UnsupportedOperationException, "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
                configName=name, oldConfig=str(old.get(name)), newConfig=str(new.get(name)),
            )
    kinds = variable_kinds(old)
    for name, kind in variable_kinds(new).items():
        if (before := kinds.get(name, kind)) != kind:
            raise spark_error(
                session, UnsupportedOperationException, "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
                stateVarName=name, newType=kind, oldType=before,
            )


def is_in_avro(session: SparkSession) -> bool:
    """Whether rows are in Avro."""
    return sessions.conf(session, ENCODING) == "avro"
