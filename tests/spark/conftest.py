"""The course's own modules, for the tests of its exercises and of its claims."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture
def course(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """notebooks/course.py, on the Spark of the tests."""
    logger = logging.getLogger("minispark_stream")
    level = logger.level
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    monkeypatch.setattr("score.ANSWERS", tmp_path / "answers.json")
    yield import_module("course")
    logger.setLevel(level)  # it silences both engines, because some exercises fail on purpose
    spark.sparkContext.setLogLevel("ERROR")
