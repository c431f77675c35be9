"""Everything that docs/symptoms.md tells happens, on both engines alike."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from minispark_stream import MiniSparkSession
from minispark_stream.tools.symptoms import Symptom, look_up, prelude, symptoms


@pytest.fixture(autouse=True)
def _as_a_user_runs_it(spark_files: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minispark_stream")  # the queries fail on purpose


def shown(session: Any, folder: Path, code: str) -> str | None:
    """The message with which the lines end, without what names this run; None where they end well."""
    folder.mkdir()
    try:
        exec(prelude() + code, {"spark": session, "folder": str(folder)})  # the lines of the page, as a reader would run them
    except Exception as e:
        return str(e)
    finally:
        for query in session.streams.active:
            query.stop()
    return None


@pytest.mark.parametrize("symptom", [one for one in symptoms() if one.code], ids=lambda one: one.title)
def test_both_engines_show_it(spark: Any, tmp_path: Path, symptom: Symptom) -> None:
    for session, name in ((spark, "spark"), (MiniSparkSession(spark), "model")):
        message = shown(session, tmp_path / name, symptom.code or "")
        if symptom.warns or not symptom.conditions and not symptom.says:
            assert message is None, (name, message)
            continue
        assert message is not None, name
        found = look_up(message)
        assert found.found and symptom in found.symptoms, (name, message, found)
        if symptom.conditions and not symptom.says:
            assert set(symptom.conditions) & set(re.findall(r"\[([A-Z0-9_.]+)\]", message)), (name, message)
