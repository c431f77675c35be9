"""May a state variable change its schema? The families as the next schema file describes them.

Models: StateSchemaCompatibilityChecker, for schema files of version 3 (About state).

Each family is compared with the newest schema file that contains it:

1. Equal schemas stay as they are, with their numbers.
2. The fields of a key may get other names, but no other types.
3. With rows in Avro, the schema of values may change if Avro can read with it what was written with each of the schemas before:
   fields may be added, removed and reordered, and numbers may become wider. The schema gets the next number, which its rows
   contain.
4. With UnsafeRows, the fields of values may get other names, but no other types; the file keeps the old schema.
5. A new file is written if a family is new, gone or changed. There is a limit to how often a family may change, and to how many
   files there may be.

    (count int)    number 0          (count long, last string)    number 1          (count string)    refused

Differs from Spark: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minispark_stream.engine.jvm import expressions, scala, sessions
from minispark_stream.engine.jvm.errors import JavaError, spark_error
from minispark_stream.engine.jvm.scala import JavaObject
from minispark_stream.engine.state.schema_files import schema_json
from minispark_stream.engine.state.state_schema_compatibility_checker import check_schemas, scala_string
from minispark_stream.extras.jvm.contract import EXTRAS
from minispark_stream.extras.rocksdb.column_family_schemas import Family

CONF = "spark.sql.streaming.stateStore."
MOST_EVOLUTIONS = f"{CONF}valueStateSchemaEvolutionThreshold"
MOST_FILES = f"{CONF}maxNumStateSchemaFiles"


def evolved(
    session: SparkSession, files: Sequence[Sequence[Family]], new: Sequence[Family], in_avro: bool
) -> tuple[list[Family], bool]:
    """The families with their numbers, and whether they need a new schema file. `files`: the existing ones, the newest last.

    Raises UnsupportedOperationException: the new schemas do not fit the existing ones.
    """
    found: list[Family] = []
    has_changed = False
    for family in new:
        before = [old for file in files for old in file if old.name == family.name]
        if not before:
            found.append(family)
        elif _same(before[-1].key, family.key) and _same(before[-1].value, family.value):  # (1)
            found.append(before[-1])
        else:
            has_changed = True
            found.append(_changed(session, before, family, in_avro))
    names, old_names = {family.name for family in new}, {family.name for family in files[-1]}
    most = int(sessions.conf(session, MOST_FILES) or 0)
    if names != old_names and len(files) == most:  # (5)
        raise spark_error(
            session, UnsupportedOperationException, "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
            numStateSchemaFiles=str(len(files) + 1), maxStateSchemaFiles=str(most),
            addedColumnFamilies=_listed(names - old_names), removedColumnFamilies=_listed(old_names - names),
        )
    return found, has_changed or names != old_names


def with_last_ids(files: Sequence[Sequence[Family]], new: Sequence[Family]) -> list[Family]:
    """The families as they are declared, with the numbers that they have in the files, whether they fit or not."""
    last = {family.name: family for file in files for family in file}
    ids = ((family, last.get(family.name, family)) for family in new)
    return [replace(family, key_id=old.key_id, value_id=old.value_id) for family, old in ids]


def _changed(session: SparkSession, before: Sequence[Family], family: Family, in_avro: bool) -> Family:
    last = before[-1]
    check_schemas((last.key, last.value), (family.key, family.value), check_values=not in_avro)  # (2) (4)
    if not in_avro:
        return last
    reader = avro_schema(session, family.value)  # (3)
    for old in sorted(before, key=lambda old: old.value_id, reverse=True):
        if not can_read(session, reader, avro_schema(session, old.value)):
            raise spark_error(
                session, UnsupportedOperationException, "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
                oldValueSchema=scala_string(old.value), newValueSchema=scala_string(family.value),
            )
    most, number = int(sessions.conf(session, MOST_EVOLUTIONS) or 0), last.value_id + 1
    if number >= most:
        raise spark_error(
            session, UnsupportedOperationException, "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            numSchemaEvolutions=str(number), maxSchemaEvolutions=str(most), colFamilyName=family.name,
        )
    return replace(family, key_id=last.key_id, value_id=number)


def avro_schema(session: SparkSession, schema: StructType) -> JavaObject:
    """A schema in Avro, translated by Spark. Raises Spark's error for a type that Avro does not have."""
    converters = scala.companion(session, EXTRAS["SchemaConverters"])
    return converters.toAvroTypeWithDefaults(expressions.java_schema(session, schema))


def can_read(session: SparkSession, reader: JavaObject, writer: JavaObject) -> bool:
    """Whether one schema can read what was written with another; Avro itself decides this."""
    validator = scala.java_class(session, EXTRAS["SchemaValidatorBuilder"])().canReadStrategy().validateAll()
    try:
        validator.validate(reader, scala.java_class(session, "java.util.List").of(writer))
    except JavaError:
        return False
    return True


def _same(old: StructType, new: StructType) -> bool:
    return schema_json(old) == schema_json(new)


def _listed(names: set[str]) -> str:
    return f"({','.join(sorted(names))})"
