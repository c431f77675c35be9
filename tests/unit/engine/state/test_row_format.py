"""The check of the first row of a state."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql.types import StructType

from minispark_stream.engine.checkpointing.unsafe_row import UnsafeRowCodec
from minispark_stream.engine.state.row_format import RowFormat, fault
from minispark_stream.engine.state.state_store import StateStoreId


def schema(fields: str) -> StructType:
    found = StructType()
    for field in fields.split("; "):
        name, of_type = field.split()
        found.add(name, of_type)
    return found


def row(fields: str, *values: object) -> bytes:
    codec = UnsafeRowCodec(schema(fields))
    return bytes(codec.encode([pa.array([value], t) for value, t in zip(values, codec.arrow_types)])[0])


STRING, LONG, NULL, TWO = row("a string", "xy"), row("a long", 7), row("a string", None), row("a long; b string", -1, "z")


@pytest.mark.parametrize(("found", "fields", "word"), [
    (STRING, "a string", None), (LONG, "a long", None), (LONG, "a integer", None), (NULL, "a integer", None), (TWO, "a long; b string", None),
    (LONG, "a date", None), (row("a decimal(30,2)", None), "a decimal(30,2)", None), (row("a integer", -1), "a integer", None),
    (STRING, "a integer", "Fixed-length"), (LONG, "a string", "Variable-length field"), (row("a long", 2), "a boolean", "Fixed-length"),
    (LONG, "a long; b long", "Row total"), (b"\0" * 8, "a long", "rowSizeInBytes"), (b"\1" + LONG[1:], "a long", "Variable-length offset"),
    (b"\1" + STRING[1:], "a decimal(30,2)", "Variable-length decimal"), (TWO, "a string; b string", "Variable-length field"),
])
def test_which_rows_fit_a_schema(found: bytes, fields: str, word: str | None) -> None:
    reason = fault(found, schema(fields))
    assert reason is None if word is None else str(reason).startswith(word)


def test_the_message() -> None:
    of = RowFormat(schema("a integer"), schema("a string"))
    of.check(StateStoreId("", 0, 1), None, STRING + b"junk")
    with pytest.raises(SparkRuntimeException, match=r"(?s)for key row for stateStore=StateStoreId\[ operatorId=0, partitionId=1, storeName=default \].*"
                       r"error_message=Error message is: Fixed-length field validation error: field: a int, index: 0 SQLSTATE: XX000"):
        of.check(StateStoreId("", 0, 1), STRING, STRING)
