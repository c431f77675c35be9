"""The recorded cases of the page to play with are what both engines do: one of each operator is run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import MiniSparkSession
from tests.golden.play_cases import OPERATORS, parsed, play, recorded


@pytest.mark.parametrize("operator", OPERATORS)
def test_both_engines_do_what_was_recorded(spark: Any, spark_files: None, tmp_path: Path, operator: str) -> None:
    text, right = next((text, right) for text, right in recorded().items() if text.startswith(operator) and "crash=1" in text)
    for name, session in (("spark", spark.newSession()), ("model", MiniSparkSession(spark.newSession()))):
        assert json.loads(json.dumps(play(session, parsed(text), tmp_path / name))) == right, name
