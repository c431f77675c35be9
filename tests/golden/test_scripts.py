"""Golden scripts: texts that tell one behaviour of the engine each, and are tests at the same time. README.md beside this file
says how to read and write them.

    query append                                      the body is PySpark; `session`, `input` and `F` are there
      return session.readStream.schema("time timestamp").csv(input)

    # The file has two rows.                          a line with # is prose
    feed 12:02 12:07
    run
    ---
    batch 0   2 rows in                               what the commands above the line are expected to show
      time=12:02
      time=12:07

1. A script is cut into paragraphs at its empty lines; a paragraph is commands, and perhaps `---` and what they show.
2. The commands are run (commands.py), and the paragraph is written again with what they show now.
3. The test passes when the script is what it was. To rewrite a script is to keep the new text instead.

    pytest tests/golden/test_scripts.py                            the model plays the scripts
    MINISPARK_GOLDEN=spark pytest tests/golden/test_scripts.py     and so does real Structured Streaming (also with CI=true)
    make rewrite-golden                                            the scripts are written anew, as the model plays them
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.golden.commands import Commands

pytestmark = pytest.mark.usefixtures("spark_files")

SCRIPTS = Path(__file__).with_name("scripts")
NAMES = sorted(str(path.relative_to(SCRIPTS).with_suffix("")) for path in SCRIPTS.rglob("*.txt"))
REWRITE = os.environ.get("MINISPARK_GOLDEN") == "rewrite"
LONG_RUN = os.environ.get("MINISPARK_GOLDEN") == "spark" or os.environ.get("CI") == "true"
# Spark leaves alone a paragraph that begins with this line; the whole script, where the line is a paragraph of its own.
MODEL_ONLY = "[model only]"


def play(spark: SparkSession, engine: str, folder: Path, script: str) -> str:
    """The script, with what its commands show now.

    Args:
        engine: "model" or "spark".
        folder: where input, checkpoint and output go.
    """
    commands = Commands(spark, engine, folder)
    try:
        paragraphs = script.rstrip("\n").split("\n\n")  # (1)
        return "\n\n".join(_play(paragraph, commands) for paragraph in paragraphs) + "\n"
    finally:
        commands.close()


def _play(paragraph: str, commands: Commands) -> str:
    written, _, _ = paragraph.partition("\n---")
    lines = _without_prose(written)
    if lines[:1] == [MODEL_ONLY] and commands.engine == "spark":
        return paragraph
    shown = [line for command in _commands(lines) for line in commands.do(command)]  # (2)
    return "\n".join([written, "---", *shown] if shown else [written])


def _commands(lines: list[str]) -> Iterator[list[str]]:
    """Each command as its words; the indented lines under it are its last word."""
    for command in re.split(r"\n(?! )", "\n".join(lines)):
        head, _, body = command.partition("\n")
        if head and head != MODEL_ONLY:
            yield [*head.split(), body] if body else head.split()


def _without_prose(paragraph: str) -> list[str]:
    return [line for line in paragraph.splitlines() if not line.startswith("#")]


def is_model_only(script: str) -> bool:
    return any(_without_prose(paragraph) == [MODEL_ONLY] for paragraph in script.split("\n\n"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ["model", "spark"])
def test_script(spark: SparkSession, tmp_path: Path, engine: str, name: str) -> None:
    path = SCRIPTS / f"{name}.txt"
    script = path.read_text(encoding="utf-8")
    if engine == "spark" and not (LONG_RUN and not is_model_only(script)):
        pytest.skip("only the model can play it" if LONG_RUN else "only in the long run")
    now = play(spark, engine, tmp_path / engine, script)
    if REWRITE:
        path.write_text(now, encoding="utf-8")
    assert now == script or REWRITE  # (3)


@pytest.mark.parametrize("engine", ["model", "spark"])
def test_a_wrong_expectation_is_found(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    """What is written comes from the engine, whatever the script expects."""
    script = (SCRIPTS / "output_modes/update_mode_shows_the_groups_of_the_batch.txt").read_text(encoding="utf-8")
    wrong = script.replace("greatest=8", "greatest=9")
    assert wrong != play(spark, engine, tmp_path / engine, wrong) == script


def test_real_spark_can_play_most_scripts() -> None:
    texts = [(SCRIPTS / f"{name}.txt").read_text(encoding="utf-8") for name in NAMES]
    assert len([text for text in texts if not is_model_only(text)]) >= len(texts) * 2 / 3
