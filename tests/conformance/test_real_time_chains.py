"""Queries in real-time mode with two stateful operators: rows, state and reports, also on the other engine's checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.real_time_chains import GOES_ON, QUERIES


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("chains")
    program = [sys.executable, "-m", "tests.conformance.real_time_chains", str(folder)]
    ran = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr[-5000:]
    return dict(json.loads((folder / "found.json").read_text()))


@pytest.mark.parametrize("name", QUERIES)
def test_rows_state_and_reports_are_equal(found: dict[str, Any], name: str) -> None:
    theirs, ours = found[name]["spark"], found[name]["model"]
    assert ours == theirs
    assert all(one["rows"] and len(one["operators"][0]) == 2 for one in ours)


def test_the_second_operator_drops_what_it_has_seen_in_earlier_batches(found: dict[str, Any]) -> None:
    """Both keys have had the average 2, and it is written once, whichever engine goes on."""
    before, after = (one["rows"] for one in found[GOES_ON]["model"])
    assert len(after) > len(before) and len({row["x"] for row in after}) == len(after)
