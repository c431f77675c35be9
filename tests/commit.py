"""What a commit chooses: tests that are too many for each run are taken in turns."""

from __future__ import annotations

import subprocess
import zlib
from functools import cache
from pathlib import Path


def chosen_by_commit(name: str, one_in: int) -> bool:
    """Whether what has this name is among the one in so many that this commit chooses."""
    return zlib.crc32(f"{_commit()} {name}".encode()) % one_in == 0


@cache
def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return told.stdout.strip()  # nothing outside of a repository
