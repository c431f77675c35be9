"""The code of docs/extending.md, played as it is: each example and its test in a package of their own."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from docs import new
from minispark_stream import registry
from minispark_stream.lens.view import pictures
from minispark_stream.testing import stream_test


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Writes the files of a kind into a folder, as `make new` does, and imports the test."""
    monkeypatch.setattr(registry, "_registered", {"sources": {}, "sinks": {}, "operators": {}})
    monkeypatch.setattr(pictures, "KINDS", {**pictures.KINDS})
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    names: list[str] = []

    def make(kind: str) -> Any:
        names.extend(path.stem for path in new.new(kind, new.EXAMPLES[kind], tmp_path / "own"))
        for name in names:
            cloudpickle.register_pickle_by_value(importlib.import_module(name))  # the workers of the tests have another path
        return sys.modules[names[-1]]

    yield make
    for name in names:
        cloudpickle.unregister_pickle_by_value(sys.modules.pop(name))


@pytest.mark.parametrize("kind", ["operator", "source", "sink", "picture"])
def test_the_example_and_its_test(spark: SparkSession, tmp_path: Path, made: Callable[[str], Any], kind: str) -> None:
    module = made(kind)
    fixtures: dict[str, Any] = {"spark": spark, "tmp_path": tmp_path, "stream_test": partial(stream_test, spark)}
    for test in [test for name, test in vars(module).items() if name.startswith("test_") and inspect.isfunction(test)]:
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
