"""Random typed rows survive: encoded into a state checkpoint by the model, read by Spark's own statestore reader, encoded again.

A reader that misread one field would give other bytes. The key has an id, so that rows can be told apart.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from minispark_stream import inspect
from minispark_stream.engine.checkpointing.stream_metadata import read_or_create
from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.loaded_providers import get_store
from minispark_stream.engine.state.operator_state_metadata import (
    OperatorStateMetadata,
    StateStoreMetadata,
    write_operator_metadata,
)
from minispark_stream.engine.state.state_schema_compatibility_checker import validate_or_write_schema
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from tests.unit.engine.checkpointing.test_unsafe_row import types_and_values
from tests.unit.hand_made import log_batch

PARTITIONS = 2


def write_checkpoint(path: Path, keys: UnsafeRowCodec, values: UnsafeRowCodec, columns: list[pa.Array]) -> list[bytes]:
    """A checkpoint whose state has these rows, spread over the partitions; Spark's reader reads them all. Returns the values."""
    read_or_create(str(path), lambda key: None)
    log_batch(path, 0, '{"logOffset":0}')
    log_batch(path, 1, '{"logOffset":0}')
    state = str(path / "state")
    write_operator_metadata(state, OperatorStateMetadata(0, "stateStoreSave", (StateStoreMetadata("default", 0, PARTITIONS),)))
    validate_or_write_schema(state, 0, "default", keys.schema, values.schema)
    n = len(keys.schema.fields)
    key_rows, value_rows = keys.encode(columns[:n]), values.encode(columns[n:])
    for version in (0, 1):  # a row in each of two batches
        for partition in range(PARTITIONS):
            store = get_store(StateStoreId(state, 0, partition), StateStoreConf(), version)
            mine = [i for i in range(len(key_rows)) if i // 2 % PARTITIONS == partition and i % 2 == version]
            store.put([key_rows[i] for i in mine], [value_rows[i] for i in mine])
            store.commit()
    return value_rows


def read_by_spark(spark: SparkSession, path: Path, codec: UnsafeRowCodec, part: str) -> list[pa.Array]:
    """The columns of the keys or values, in the order of the ids."""
    names = [f"{part}.{name}" for name in codec.schema.names]
    table = spark.read.format("statestore").load(str(path)).orderBy("key.id").select(*names).toArrow()
    return [table.column(i).combine_chunks().cast(kind) for i, kind in enumerate(codec.arrow_types)]


@st.composite
def states(draw: st.DrawFn) -> tuple[UnsafeRowCodec, UnsafeRowCodec, list[pa.Array]]:
    """Codecs of key and value, and their columns."""
    n = draw(st.integers(1, 12))
    key_kinds = draw(st.lists(types_and_values(1).filter(lambda kind: not has_map(kind[0])), max_size=3))
    value_kinds = draw(st.lists(types_and_values(2), min_size=1, max_size=5))
    key_schema, value_schema = StructType().add("id", LongType()), StructType()
    for i, (data_type, _) in enumerate(key_kinds):
        key_schema = key_schema.add(f"k{i}", data_type)
    for i, (data_type, _) in enumerate(value_kinds):
        value_schema = value_schema.add(f"v{i}", data_type)
    keys, values = UnsafeRowCodec(key_schema), UnsafeRowCodec(value_schema)
    drawn: list[list[Any]] = [draw(st.lists(of, min_size=n, max_size=n)) for _, of in (*key_kinds, *value_kinds)]
    columns = [pa.array(c, kind) for c, kind in zip([list(range(n)), *drawn], [*keys.arrow_types, *values.arrow_types])]
    return keys, values, columns


def has_map(data_type: DataType) -> bool:
    return "map<" in data_type.simpleString()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(states())
def test_random_rows_are_read_by_spark_as_they_were_written(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, state: tuple[UnsafeRowCodec, UnsafeRowCodec, list[pa.Array]]
) -> None:
    keys, values, columns = state
    path = tmp_path_factory.mktemp("cp")
    value_rows = write_checkpoint(path, keys, values, columns)
    assert values.encode(read_by_spark(spark, path, values, "value")) == value_rows
    assert keys.encode(read_by_spark(spark, path, keys, "key")) == keys.encode(columns[: len(keys.schema.fields)])
    assert values.decode(value_rows) == columns[len(keys.schema.fields) :]


# One row of everything at its limits, so that no type depends on what was drawn.
EVERYTHING: list[tuple[DataType, list[Any]]] = [
    (BooleanType(), [True, False, None]),
    (ByteType(), [-128, 127, None]),
    (ShortType(), [-(2**15), 2**15 - 1, None]),
    (IntegerType(), [-(2**31), 2**31 - 1, None]),
    (LongType(), [-(2**63), 2**63 - 1, None]),
    (FloatType(), [float("-inf"), 1.5e-45, None]),
    (DoubleType(), [-0.0, float("inf"), None]),
    (DecimalType(18, 2), [Decimal("-9999999999999999.99"), Decimal("0.01"), None]),
    (DecimalType(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0128"), None]),
    (DateType(), [date(1, 1, 1), date(9999, 12, 31), None]),
    (TimestampType(), [datetime(1582, 10, 4, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), None]),
    (StringType(), ["", "abcdé\U0001f600", None]),
    (BinaryType(), [b"", b"\xff\x00", None]),
    (NullType(), [None, None, None]),
    (StructType().add("a", StringType()).add("b", DecimalType(30, 1)), [{"a": "x", "b": Decimal("1.5")}, {"a": None, "b": None}, None]),
    (ArrayType(StringType()), [["a", None], [], None]),
    (ArrayType(StructType().add("n", LongType())), [[{"n": 1}, None], [], None]),
    (MapType(StringType(), ArrayType(DoubleType())), [[("a", [1.0, None])], [], None]),
]


def test_every_type_at_its_limits(spark: SparkSession, tmp_path: Path) -> None:
    keys = UnsafeRowCodec(StructType().add("id", LongType()))
    schema = StructType()
    for i, (data_type, _) in enumerate(EVERYTHING):
        schema = schema.add(f"v{i}", data_type)
    values = UnsafeRowCodec(schema)
    columns = [pa.array(c, kind) for c, kind in zip([[0, 1, 2], *(c for _, c in EVERYTHING)], [pa.int64(), *values.arrow_types])]
    value_rows = write_checkpoint(tmp_path, keys, values, columns)
    assert values.encode(read_by_spark(spark, tmp_path, values, "value")) == value_rows
    assert values.decode(value_rows) == columns[1:]


def test_the_reader_of_state_metadata_agrees(spark: SparkSession, tmp_path: Path) -> None:
    keys, values = UnsafeRowCodec(StructType().add("id", LongType())), UnsafeRowCodec(StructType().add("n", LongType()))
    write_checkpoint(tmp_path, keys, values, [pa.array([1, 2]), pa.array([3, 4])])
    (row,) = spark.read.format("state-metadata").load(str(tmp_path)).collect()
    (operator,) = inspect(str(tmp_path)).operators
    assert (row.operatorId, row.operatorName, row.stateStoreName, row.numPartitions) == (
        operator.operator_id, operator.name, operator.stores[0].name, operator.num_partitions,
    )
    assert (row.minBatchId, row.maxBatchId) == (0, 1)
