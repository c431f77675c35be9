"""The golden scripts: one behaviour each, played by the model, and in a long run by real Structured Streaming too.

    pytest tests/golden/test_scripts.py                            the model
    MINISPARK_GOLDEN=spark pytest tests/golden/test_scripts.py     both engines (so does CI=true)
    make rewrite-golden                                            write the scripts anew, as the model plays them now
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.golden.runner import Commands, is_model_only, play

SCRIPTS = Path(__file__).with_name("scripts")
NAMES = sorted(str(path.relative_to(SCRIPTS).with_suffix("")) for path in SCRIPTS.rglob("*.txt"))
REWRITE = os.environ.get("MINISPARK_GOLDEN") == "rewrite"
LONG_RUN = os.environ.get("MINISPARK_GOLDEN") == "spark" or os.environ.get("CI") == "true"


def played(spark: SparkSession, engine: str, folder: Path, script: str) -> str:
    commands = Commands(spark, engine, folder)
    try:
        return play(script, commands)
    finally:
        commands.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ["model", "spark"])
def test_script(spark: SparkSession, tmp_path: Path, engine: str, name: str) -> None:
    path = SCRIPTS / f"{name}.txt"
    script = path.read_text(encoding="utf-8")
    if engine == "spark" and not (LONG_RUN and not is_model_only(script)):
        pytest.skip("only the model can play it" if LONG_RUN else "only in the long run")
    now = played(spark, engine, tmp_path / engine, script)
    if REWRITE:
        path.write_text(now, encoding="utf-8")
    assert now == script or REWRITE


@pytest.mark.parametrize("engine", ["model", "spark"])
def test_a_wrong_expectation_is_found(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    """What is written comes from the engine, whatever the script expects."""
    script = (SCRIPTS / "output_modes/update_mode_shows_only_what_changed.txt").read_text(encoding="utf-8")
    wrong = script.replace("count=2", "count=3")
    assert wrong != played(spark, engine, tmp_path, wrong) == script


def test_real_spark_can_play_most_scripts() -> None:
    texts = [(SCRIPTS / f"{name}.txt").read_text(encoding="utf-8") for name in NAMES]
    assert len([text for text in texts if not is_model_only(text)]) >= len(texts) * 2 / 3
