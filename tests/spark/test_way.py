"""How much of the package a first reader meets: the lines that run for four small queries, and in how many files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The most lines and files. These numbers may only fall: lower them when the way has become shorter. There is room for some 20 lines.
MOST = {
    "windowed count": (2455, 74),
    "deduplication": (2282, 71),
    "limit": (2147, 69),
    "filter": (1397, 45),
}


def test_the_way_does_not_become_longer() -> None:
    """In a process of its own: what other tests have left in this one may be met, too."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "-m", "tests.way"], cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    ways = {name: (int(lines), int(files)) for name, lines, files in re.findall(r"^(\w.*?) +(\d+) lines in (\d+) files$", told, re.M)}
    assert ways.keys() == MOST.keys()
    assert {name: way for name, way in ways.items() if way[0] > MOST[name][0] or way[1] > MOST[name][1]} == {}
