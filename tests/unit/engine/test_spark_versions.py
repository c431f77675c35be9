"""The one place that knows what differs between versions of Spark."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minispark_stream.engine import spark_versions
from minispark_stream.engine.spark_versions import MODEL, OLDEST, condition_of, is_of_connect, parsed, spark_of

PACKAGE = Path(spark_versions.__file__).parents[1]


def test_a_version_is_like_the_newest_that_is_not_newer() -> None:
    assert parsed("4.3.0.dev1") == (4, 3) == MODEL and parsed("3.5.9") == OLDEST
    assert spark_of("4.1.4").managers.endswith(".checkpointing") and not spark_of("4.0.5").managers.endswith(".checkpointing")
    assert not spark_of("4.1.4").names_sources and spark_of("4.2.1").names_sources
    assert spark_of("5.0.0") == spark_of("4.3.0") and spark_of("3.4.1") == spark_of("3.5.0")


def test_the_condition_of_an_error_is_found_under_both_names() -> None:
    new: Any = SimpleNamespace(getCondition=lambda: "STREAM_FAILED", getErrorClass=lambda: "old")
    old: Any = SimpleNamespace(getErrorClass=lambda: "STREAM_FAILED")
    assert condition_of(new) == condition_of(old) == "STREAM_FAILED"
    assert condition_of(ValueError()) is None


def test_a_pyspark_is_found_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip installs it, or a folder of a Spark that was unpacked, on PYTHONPATH; and none."""
    asked = spark_versions.pyspark_version.__wrapped__
    (tmp_path / "version.py").write_text('__version__: str = "3.5.1"\n')
    for spec, version in ((SimpleNamespace(origin=str(tmp_path / "__init__.py")), "3.5.1"), (None, None)):
        monkeypatch.setattr(spark_versions, "find_spec", lambda name, spec=spec: spec)
        assert asked() == version


def test_an_object_of_connect_is_known_without_an_import() -> None:
    assert is_of_connect(type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})())
    assert not is_of_connect(type("SparkSession", (), {"__module__": "pyspark.sql.session"})())


def test_nothing_else_in_the_package_asks_for_a_version() -> None:
    asks = re.compile(r"__version__|(?:spark|[Ss]ession)\.version *[<>=]")
    others = [path for path in PACKAGE.rglob("*.py") if path.name not in ("spark_versions.py",)]
    found = [f"{path.name}: {line.strip()}" for path in others for line in path.read_text().splitlines() if asks.search(line)]
    assert found == []
