"""The notebooks of the course, copied into a folder to work in.

1. They are beside the package: in `notebooks/` of the repository, or in `minispark_stream_notebooks/` if a wheel was installed.
2. What already has the name of a file in the folder is never overwritten, be it a link that leads nowhere: a notebook may have
   somebody's answers in it.

    minispark_stream course lessons
    25 files written to lessons, 0 existed already. Open the first: jupyter lab lessons/00_start_here.ipynb
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FIRST = "00_start_here.ipynb"
LESSONS = "[0-9][0-9]_*.ipynb"  # whoever has worked with the course has other notebooks beside it, too


def course(folder: Path) -> int:
    """Copy the course into `folder`, which is made if it does not exist. Returns the exit code."""
    notebooks = notebooks_folder()
    if notebooks is None:
        print("course: this copy of minispark_stream has no notebooks; a wheel and the repository have them", file=sys.stderr)
        return 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted([*notebooks.glob(LESSONS), *notebooks.glob("*.py")])
        new = [file for file in files if not os.path.lexists(folder / file.name)]  # (2)
        for file in new:
            shutil.copyfile(file, folder / file.name)
    except OSError as e:
        print(f"course: {e}", file=sys.stderr)
        return 1
    opened = f"jupyter lab {folder / FIRST}"
    if find_spec("jupyterlab") is None:
        opened = f"pip install jupyterlab && {opened}"
    print(f"{len(new)} files written to {folder}, {len(files) - len(new)} existed already. Open the first: {opened}")
    return 0


def notebooks_folder() -> Path | None:  # (1)
    """Where the notebooks of this version are; None if only the package was copied."""
    for name in ("notebooks", "minispark_stream_notebooks"):
        folder = PACKAGE.parent / name
        if (folder / FIRST).is_file():
            return folder
    return None
