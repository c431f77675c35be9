"""Values that a reader of real Spark turns into null are counted, and an example and the name that is meant are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from minispark_stream.tools.cli import main
from minispark_stream.tools.operations.became_null import NullReport, became_null

RECORDS = [
    {"id": 1, "at": "2026-03-01 12:00:00", "userName": "a", "place": {"x": 1, "y": "north"}},
    {"id": 2, "at": "noon", "userName": "b", "place": {"x": "one", "y": None}},
    {"id": 12345678901234567890, "at": None, "userName": "c", "tags": ["t"]},
]
TEXTS = [*map(json.dumps, RECORDS), '{"id": 4, "at']
SCHEMA = "id long, at timestamp, username string, place struct<x int, y string>, tags array<string>"


def lines(report: NullReport) -> dict[str, tuple[Any, ...]]:
    return {one.name: (one.present, one.became_null, one.example, one.called) for one in report.columns}


def of_json(report: NullReport) -> None:
    assert lines(report) == {
        "id": (3, 1, "12345678901234567890", None), "at": (2, 1, "noon", None), "username": (0, 0, None, "userName"),
        "place.x": (2, 1, "one", None), "place.y": (1, 0, None, None), "tags": (1, 0, None, None),
    }
    assert (report.records, report.corrupt, report.corrupt_example, report.exit_code) == (4, 1, '{"id": 4, "at', 2)


def test_files_of_json(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.json").write_text("\n".join(TEXTS))
    of_json(became_null(spark, str(tmp_path), SCHEMA))
    assert main(["nulls", str(tmp_path), "--schema", SCHEMA]) == 2
    printed = capsys.readouterr().out
    assert "username           0            0  no record has it; the records have `userName`" in printed
    assert "1 record cannot be taken apart, such as {\"id\": 4, \"at" in printed


def test_values_of_kafka(spark: SparkSession) -> None:
    of_json(became_null(spark, spark.createDataFrame([(bytearray(text.encode()),) for text in TEXTS], "value binary"), SCHEMA))


def test_files_of_csv(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names of the header have no effect: a column that is called otherwise gets the values of its place."""
    (tmp_path / "0.csv").write_text("id,at,user\n1,2026-03-01,a\n2,01.03.2026,b\nx,,\n")
    schema = "id int, user string, at date"
    report = became_null(spark, str(tmp_path), schema, "csv", header=True)
    assert lines(report) == {"id": (3, 1, "x", None), "user": (2, 0, None, "at"), "at": (2, 2, "a", "user")}
    asked = ["nulls", str(tmp_path), "--format", "csv", "--option", "header=true", "--schema"]
    assert main([*asked, "id string, at string, user string"]) == 0
    capsys.readouterr()
    assert main([*asked, "id int, at string, user string", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["columns"][0] == {"name": "id", "present": 3, "became_null": 1, "example": "x", "called": None}


def test_files_of_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """They have names and types of their own: a column is missing, or Spark refuses the type itself."""
    spark.createDataFrame([(1, "a"), (2, None)], "id long, user_name string").coalesce(1).write.parquet(str(tmp_path / "in"))
    report = became_null(spark, str(tmp_path / "in"), "ID long, username string", "parquet")
    assert lines(report) == {"ID": (2, 0, None, None), "username": (0, 0, None, "user_name")}


def test_what_cannot_be_compared_is_refused(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="nothing becomes null in the mode FAILFAST"):
        became_null(spark, str(tmp_path), "id long", mode="failfast")
    with pytest.raises(ValueError, match="a DataFrame with one column that is no stream"):
        became_null(spark, spark.readStream.format("rate").load(), "id long")
    assert main(["nulls", str(tmp_path / "nowhere"), "--schema", "id long"]) == 3
    assert capsys.readouterr().err.startswith("nulls: [PATH_NOT_FOUND]")
