"""Schema files and operator metadata: Spark's bytes, Spark's compatibility rule, nothing executed."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import SparkRuntimeException, UnsupportedOperationException
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    check_operators,
    newest_metadata,
    read_operator_metadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.schema_files import decode_schemas, encode_schemas, read_schemas, schema_json
from minispark_stream.engine.state.state_schema_compatibility_checker import compatible, scala_string, validate_or_write_schema

KEY = StructType().add("word", StringType())
VALUE = StructType().add("count", LongType())


def java_utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


# --- schema files ------------------------------------------------------------------------------------------------


def test_the_schema_file_is_that_of_spark(tmp_path: Path) -> None:
    validate_or_write_schema(str(tmp_path), 0, "default", KEY, VALUE)
    key_json = '{"type":"struct","fields":[{"name":"word","type":"string","nullable":true,"metadata":{}}]}'
    value_json = '{"type":"struct","fields":[{"name":"count","type":"long","nullable":true,"metadata":{}}]}'
    one = struct.pack(">i", 1)
    assert (tmp_path / "0/0/_metadata/schema").read_bytes() == (
        java_utf("v2") + one + java_utf(key_json) + one + java_utf(value_json)
    )
    assert read_schemas(str(tmp_path), 0, "default") == (KEY, VALUE)


def test_a_named_store_has_its_own_schema_file(tmp_path: Path) -> None:
    validate_or_write_schema(str(tmp_path), 1, "left-keyToNumValues", KEY, VALUE)
    assert (tmp_path / "1/0/left-keyToNumValues/_metadata/schema").exists()


def test_json_has_sparks_order_of_keys() -> None:
    delay = {"spark.watermarkDelayMs": 30000}
    nested = StructField("a", ArrayType(MapType(LongType(), KEY)))
    assert schema_json(StructType([StructField("t", TimestampType(), False, delay), nested])) == (
        '{"type":"struct","fields":['
        '{"name":"t","type":"timestamp","nullable":false,"metadata":{"spark.watermarkDelayMs":30000}},'
        '{"name":"a","type":{"type":"array","elementType":{"type":"map","keyType":"long","valueType":'
        '{"type":"struct","fields":[{"name":"word","type":"string","nullable":true,"metadata":{}}]},'
        '"valueContainsNull":true},"containsNull":true},"nullable":true,"metadata":{}}]}'
    )


def test_text_is_javas_modified_utf8() -> None:
    data = encode_schemas(StructType().add("é𝄞\0", LongType()), VALUE)
    assert b"\xc3\xa9" + b"\xed\xa0\xb4\xed\xb4\x9e" in data and b"\\u0000" in data
    assert decode_schemas(data)[0].names == ["é𝄞\0"]


def test_long_schemas_are_cut_into_chunks_of_65535() -> None:
    wide = StructType([StructField(f"column_{i}", LongType()) for i in range(2000)])
    data = encode_schemas(wide, VALUE)
    assert data[4:10] == struct.pack(">iH", len(schema_json(wide)) // 65535 + 1, 65535)
    assert decode_schemas(data) == (wide, VALUE)
    japanese = StructType([StructField(f"列{i}", LongType()) for i in range(3000)])
    assert decode_schemas(encode_schemas(japanese, VALUE)) == (japanese, VALUE)


def test_version_1_is_read() -> None:
    data = java_utf("v1") + java_utf(schema_json(KEY)) + java_utf(schema_json(VALUE))
    assert decode_schemas(data) == (KEY, VALUE)


def struct_of(data_type: DataType, nullable: bool = True) -> StructType:
    return StructType([StructField("x", data_type, nullable)])


@pytest.mark.parametrize(
    ("new", "stored", "fits"),
    [
        (KEY, KEY, True),
        (StructType().add("other", StringType()), KEY, True),  # names do not matter
        (struct_of(StringType(), False), KEY, True),
        (KEY, struct_of(StringType(), False), False),
        (struct_of(LongType()), KEY, False),
        (struct_of(LongType()), struct_of(IntegerType()), False),
        (struct_of(DecimalType(11, 2)), struct_of(DecimalType(10, 2)), False),
        (StructType().add("a", StringType()).add("b", StringType()), KEY, False),
        (struct_of(ArrayType(KEY, False)), struct_of(ArrayType(KEY, True)), True),
        (struct_of(ArrayType(KEY, True)), struct_of(ArrayType(KEY, False)), False),
        (struct_of(MapType(LongType(), KEY)), struct_of(MapType(LongType(), VALUE)), False),
    ],
)
def test_what_is_compatible(new: StructType, stored: StructType, fits: bool) -> None:
    assert compatible(new, stored) == fits


def test_a_changed_query_is_refused_in_sparks_words(tmp_path: Path) -> None:
    state = str(tmp_path)
    validate_or_write_schema(state, 0, "default", KEY, VALUE)
    validate_or_write_schema(state, 0, "default", StructType().add("w", StringType()), VALUE)
    with pytest.raises(UnsupportedOperationException) as e:
        validate_or_write_schema(state, 0, "default", struct_of(LongType()), VALUE)
    assert e.value.getCondition() == "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
    assert str(e.value) == (
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.\n"
        "Please check number and type of fields.\n"
        "Existing key_schema=StructType(StructField(word,StringType,true)) and new key_schema=StructType(StructField(x,LongType,true)).\nIf you want to force running the query without "
        "schema validation, please set spark.sql.streaming.stateStore.stateSchemaCheck to false.\nHowever, please note "
        "that running the query with incompatible schema could cause non-deterministic behavior. SQLSTATE: XXKST"
    )
    with pytest.raises(UnsupportedOperationException, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        validate_or_write_schema(state, 0, "default", KEY, StructType().add("s", LongType()).add("c", LongType()))
    validate_or_write_schema(state, 0, "default", struct_of(LongType()), VALUE, check=False)
    assert read_schemas(state, 0, "default") == (KEY, VALUE)


def test_types_are_printed_as_scala_does() -> None:
    schema = StructType([
        StructField("a", ArrayType(DecimalType(10, 2), False), False),
        StructField("m", MapType(StringType(), DayTimeIntervalType())),
    ])
    assert scala_string(schema) == (
        "StructType(StructField(a,ArrayType(DecimalType(10,2),false),false),"
        "StructField(m,MapType(StringType,DayTimeIntervalType(0,3),true),true))"
    )


def test_collated_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperationException, match="BINARY_INEQUALITY"):
        validate_or_write_schema(str(tmp_path), 0, "default", struct_of(ArrayType(StringType("UTF8_LCASE"))), VALUE)


def test_a_damaged_schema_file_names_itself(tmp_path: Path) -> None:
    validate_or_write_schema(str(tmp_path), 0, "default", KEY, VALUE)
    file = tmp_path / "0/0/_metadata/schema"
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(SparkRuntimeException, match="_metadata/schema: byte 8: a text of 90 bytes, but the file ends"):
        validate_or_write_schema(str(tmp_path), 0, "default", KEY, VALUE)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 260), st.integers(0, 4))
def test_garbage_is_one_kind_of_error(garbage: bytes, at: int, cut: int) -> None:
    data = encode_schemas(KEY, VALUE)
    try:
        decode_schemas(data[:at] + garbage + data[at + cut :])
    except ValueError as e:
        assert "byte " in str(e)


def test_the_code_of_a_user_defined_type_is_never_loaded(tmp_path: Path) -> None:
    """PySpark's own parser imports `pyClass`, or unpickles `serializedClass`."""
    udt = {"type": "udt", "pyClass": "os.path.Boom", "serializedClass": "Y29zCnN5c3RlbQo=", "sqlType": "long"}
    fields = [{"name": "u", "type": udt, "nullable": True, "metadata": {}}]
    text = json.dumps({"type": "struct", "fields": fields})
    one = struct.pack(">i", 1)
    stored, _ = decode_schemas(java_utf("v2") + one + java_utf(text) + one + java_utf(schema_json(VALUE)))
    assert stored == StructType().add("u", LongType())


def test_json_nested_too_deep_is_an_error() -> None:
    deep = '{"type":"struct","fields":' + "[" * 60_000
    with pytest.raises(ValueError, match="byte 8: not the JSON of a schema"):
        decode_schemas(java_utf("v2") + struct.pack(">i", 1) + java_utf(deep))


# --- operator metadata -------------------------------------------------------------------------------------------

COUNT = OperatorStateMetadata(0, "stateStoreSave", (StateStoreMetadata("default", 0, 2),))
DEDUPE = OperatorStateMetadata(0, "dedupe", (StateStoreMetadata("default", 0, 2),))


def test_metadata_is_that_of_spark(tmp_path: Path) -> None:
    write_operator_metadata(str(tmp_path), COUNT)
    assert (tmp_path / "0/_metadata/metadata").read_text() == (
        'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},'
        '"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
    )
    assert read_operator_metadata(str(tmp_path), 0) == COUNT
    assert read_operator_metadata(str(tmp_path), 1) is None
    write_operator_metadata(str(tmp_path), DEDUPE)  # it is there: left as it is
    assert read_operator_metadata(str(tmp_path), 0) == COUNT


def test_the_newest_metadata_is_in_a_file_that_spark_may_have_written() -> None:
    assert newest_metadata(["v2/9", "v2/10", "v2/011", "v2/12_x", "v2/.13.crc"]) == "v2/10"
    assert newest_metadata(["v2/9", "metadata"]) == "metadata"
    assert newest_metadata(["v2/011", "9"]) is None


def test_the_first_batch_writes_what_is_missing_and_a_restart_checks_it(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    check_operators(state, [COUNT], batch_id=0)
    check_operators(state, [COUNT], batch_id=5)
    added = OperatorStateMetadata(1, "dedupe", DEDUPE.stores)
    for now, text in (
        ([DEDUPE], "[(OperatorId: 0 -> OperatorName: dedupe)]"),
        ([COUNT, added], "[(OperatorId: 0 -> OperatorName: stateStoreSave), (OperatorId: 1 -> OperatorName: dedupe)]"),
        ([], "[]"),
    ):
        with pytest.raises(SparkRuntimeException) as e:
            check_operators(state, now, batch_id=5)
        assert e.value.getCondition() == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
        assert "in the metadata: [(OperatorId: 0 -> OperatorName: stateStoreSave)]; " in str(e.value)
        assert f"in current batch: {text}. SQLSTATE: 42K03" in str(e.value)
    assert os.listdir(state) == ["0"]  # nothing was written for a query that was refused


def test_the_operator_that_real_time_mode_has_for_an_aggregation_is_one(tmp_path: Path) -> None:
    check_operators(str(tmp_path), [replace(COUNT, operator_name="StatefulStreamlineAggregate")], batch_id=0)
    written = (tmp_path / "0/_metadata/metadata").read_bytes()
    check_operators(str(tmp_path), [COUNT], batch_id=5)
    assert (tmp_path / "0/_metadata/metadata").read_bytes() == written
    (tmp_path / "begun").mkdir()
    check_operators(str(tmp_path / "begun"), [COUNT], batch_id=0)
    check_operators(str(tmp_path / "begun"), [replace(COUNT, operator_name="StatefulStreamlineAggregate")], batch_id=5)
    with pytest.raises(SparkRuntimeException, match="in the metadata: .*OperatorName: StatefulStreamlineAggregate"):
        check_operators(str(tmp_path), [DEDUPE], batch_id=5)


@pytest.mark.parametrize("text", ["", "v2\n{}", "v1\n", "v1\n[]", 'v1\n{"operatorInfo":{}}', "v1\n" + "[" * 100_000])
def test_broken_metadata_names_itself_and_switches_the_check_off(tmp_path: Path, text: str) -> None:
    check_operators(str(tmp_path), [COUNT], batch_id=0)
    (tmp_path / "0/_metadata/metadata").write_text(text)
    with pytest.raises(ValueError, match="0/_metadata/metadata: "):
        read_operator_metadata(str(tmp_path), 0)
    check_operators(str(tmp_path), [DEDUPE], batch_id=5)


def test_missing_metadata_is_written_again(tmp_path: Path) -> None:
    check_operators(str(tmp_path), [COUNT], batch_id=0)
    (tmp_path / "0/_metadata/metadata").unlink()
    check_operators(str(tmp_path), [COUNT], batch_id=5)
    assert read_operator_metadata(str(tmp_path), 0) == COUNT


def test_a_restart_without_any_state_is_refused(tmp_path: Path) -> None:
    check_operators(str(tmp_path / "none"), [], batch_id=5)
    with pytest.raises(SparkRuntimeException, match="the state directory is empty or missing") as e:
        check_operators(str(tmp_path / "none"), [COUNT], batch_id=5)
    assert e.value.getCondition() == "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"


def test_values_that_an_operator_does_not_read_may_have_had_another_schema(tmp_path: Path) -> None:
    validate_or_write_schema(str(tmp_path), 0, "default", KEY, VALUE)
    validate_or_write_schema(str(tmp_path), 0, "default", KEY, KEY, check_values=False)
    with pytest.raises(UnsupportedOperationException, match="value"):
        validate_or_write_schema(str(tmp_path), 0, "default", KEY, KEY)
