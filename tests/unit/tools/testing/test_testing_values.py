"""What a person writes in a test, and what it is compared with."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from minispark_stream.tools.testing.crashes import Crash
from minispark_stream.tools.testing.expectations import difference_in_rows, error_names
from minispark_stream.tools.testing.inputs import Inputs, listed
from minispark_stream.tools.testing.step_clock import StepClock
from minispark_stream.tools.testing.values import comparable, each, fitted_row, text_table


def typed(**types) -> StructType:
    """A schema without a JVM, which is what reads DDL."""
    return StructType([StructField(name, kind) for name, kind in types.items()])


SCHEMA = typed(
    t=TimestampType(), k=StringType(), m=DecimalType(9, 2), d=DoubleType(), day=DateType(), xs=ArrayType(IntegerType()),
    s=typed(a=IntegerType(), b=StringType()),
)
NO_FRAME: Any = None
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_text_stands_for_any_type():
    row = ("2026-03-01 13:00", "null", "1.5", "2", "2026-03-01", "[1, 2]", '{"a": 1, "b": "x"}')
    t, *rest = fitted_row(row, SCHEMA, "Europe/Paris")
    assert t == NOON and rest == ["null", Decimal("1.5"), 2.0, date(2026, 3, 1), [1, 2], (1, "x")]


@pytest.mark.parametrize("row", [
    {"t": None, "k": "a", "m": 1, "d": 1, "day": None, "xs": None, "s": {"a": 1}},
    Row(t=None, k="a", m=Decimal(1), d=1.0, day=None, xs=None, s=Row(a=1, b=None)),
    (None, "a", "1", "1.0", None, None, (1, None)),
])  # fmt: skip
def test_a_row_may_be_a_dict_a_row_or_a_tuple(row):
    assert fitted_row(row, SCHEMA, "UTC") == (None, "a", Decimal(1), 1.0, None, None, (1, None))


@pytest.mark.parametrize(("row", "said"), [
    ({"word": "a"}, "there is no column word"),
    (("a",), "a row has 7 columns"),
    (("yesterday", *[None] * 6), "'yesterday' is not a timestamp"),
])  # fmt: skip
def test_what_does_not_fit_is_said(row, said):
    with pytest.raises(ValueError, match=said):
        fitted_row(row, SCHEMA, "UTC")


def test_values_are_compared_and_not_texts():
    schema = typed(t=TimestampType(), d=DoubleType(), n=DoubleType(), m=MapType(StringType(), IntegerType()))
    one = fitted_row(("2026-03-01 12:00", 0.1 + 0.2, float("nan"), {"a": 1, "b": 2}), schema, "UTC")
    other = fitted_row(("2026-03-01T13:00+01:00", 0.3, float("nan"), {"b": 2, "a": 1}), schema, "America/New_York")
    assert comparable(one, schema) == comparable(other, schema)


def test_a_difference_names_what_is_missing_and_what_came_how_often_it_did():
    schema = typed(k=StringType(), count=LongType())
    assert difference_in_rows([("b", 1), {"k": "a", "count": 2}], [("a", 2), ("b", 1)], schema, "UTC") is None
    found = difference_in_rows([("a", 3), ("b", 1), ("b", 1)], [("a", 2), ("b", 1)], schema, "UTC")
    assert found is not None
    assert [line.split() for line in found.splitlines()[1:]] == [
        ["missing", "k=a", "count=3"], ["k=b", "count=1"], ["came", "k=a", "count=2"], ["1", "row", "as", "expected"]
    ]  # fmt: skip
    assert "does not say what count is" in str(difference_in_rows([{"k": "a"}], [("a", 2)], schema, "UTC"))


def test_a_table_of_text_is_rows():
    assert text_table("""
        time  | k
        ------|---
        12:04 | a b
        12:05 | null
    """) == [{"time": "12:04", "k": "a b"}, {"time": "12:05", "k": None}]
    with pytest.raises(ValueError, match="2 columns"):
        text_table("a | b\n1 | 2 | 3")


def test_inputs_are_the_parameters_of_the_query_function():
    assert Inputs(lambda session, left, right, delay="1 minute": NO_FRAME, {}).names == ["left", "right"]
    assert Inputs(lambda session, **inputs: NO_FRAME, {"a": typed(k=StringType())}).names == ["a"]
    assert Inputs(lambda session, folder: NO_FRAME, {}).takes_folder
    with pytest.raises(ValueError, match="no input lefft, but left"):
        Inputs(lambda session, left: NO_FRAME, {"lefft": typed(k=StringType())})
    with pytest.raises(TypeError, match="the inputs are left, right"):
        Inputs(lambda session, left, right: NO_FRAME, {}).named([[1]], {})


def test_a_folder_gets_lines(tmp_path: Path):
    Inputs(lambda session, folder: NO_FRAME, {}).put(tmp_path, 3, {"": ["a b", {"k": "é", "n": None}, (1, "x,y")]}, "UTC")
    assert (tmp_path / "0003.txt").read_text(encoding="utf-8") == 'a b\n{"k": "é"}\n1,"x,y"\n'


def test_an_input_gets_its_types(tmp_path: Path):
    inputs = Inputs(lambda session, left, right: NO_FRAME, {"left": typed(t=TimestampType(), n=ShortType()), "right": typed(k=StringType())})
    inputs.put(tmp_path, 0, {"left": [("2026-03-01 12:00", 7)], "right": []}, "UTC")
    assert pq.read_table(tmp_path / "left/0000.parquet").to_pylist() == [{"t": NOON, "n": 7}]
    assert pq.read_table(tmp_path / "right/0000.parquet").schema.names == ["k"]


def test_a_clock_that_nobody_waits_for_says_that_the_query_has_ended():
    assert not StepClock().until_it_waits(lambda: False)


@pytest.mark.parametrize(("step", "engine", "said"), [
    ("coffee", "model", "there is no step 'coffee'"),
    ("stateOperator", "spark", "cannot be killed at stateOperator"),
    ("maintenance", "model", "cannot be killed at maintenance"),
])  # fmt: skip
def test_a_crash_needs_a_step_that_can_be_seen(step, engine, said):
    with pytest.raises(ValueError, match=said):
        Crash(step, engine)


INTS = typed(k=StringType(), n=IntegerType())


@pytest.mark.parametrize(("rows", "said"), [
    ([("a", 1), ("b", "x")], "row 2: column n: 'x' is not an int"),
    ([("a", "x")], "column n: 'x' is not an int"),
    ([("a", 1.5)], "column n: 1.5 is not an int"),
    ([{"k": "a", "m": 1}], "there is no column m, but k, n"),
    ([{"k": "a", "N": 1}], "there is no column N, but k, n: is it n?"),
])
def test_what_does_not_fit_is_said_with_its_row_and_column(rows: list[Any], said: str):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        each(rows, lambda row: fitted_row(row, INTS, "UTC"))


@pytest.mark.parametrize(("value", "kind", "said"), [
    ([1], DecimalType(5, 2), "column v: [1] is not a decimal(5,2)"), ({}, DoubleType(), "column v: {} is not a double"),
    (3, TimestampType(), "column v: 3 is not a timestamp"), (5, ArrayType(LongType()), "column v: 5 is not an array<bigint>"),
])
def test_a_value_of_another_type_is_refused_by_its_column(value: Any, kind: DataType, said: str):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        fitted_row([value], StructType().add("v", kind), "UTC")


def test_a_misspelt_expected_column_is_named_before_a_missing_one():
    found = difference_in_rows([{"k": "a", "nn": 1}], [], INTS, "UTC")
    assert found is not None and "there is no column nn, but k, n" in found


def test_one_row_by_itself_is_a_list_of_one():
    assert listed({"k": "a"}) == [{"k": "a"}] and listed(Row(k="a")) == [Row(k="a")]


def test_an_error_has_each_of_its_names_once():
    assert error_names(AnalysisException(message="[DIVIDE_BY_ZERO] Division by zero.", errorClass="DIVIDE_BY_ZERO", messageParameters={})) == ["DIVIDE_BY_ZERO", "AnalysisException"]


def test_a_step_that_is_nearly_right_is_guessed():
    with pytest.raises(ValueError, match="there is no step 'walcommit': is it walCommit?"):
        Crash("walcommit", "model")
