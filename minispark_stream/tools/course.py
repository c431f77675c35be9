"""The notebooks of the course, copied into a folder to work in.

1. They are beside the package: in `notebooks/` of the repository, or in `minispark_stream_notebooks/` if a wheel was installed;
   and so are the pages that they lead to, in `docs/`, or in `minispark_stream_docs/`.
2. What already has the name of a file in the folder is never overwritten, be it a link that leads nowhere: a notebook may have
   somebody's answers in it.
3. The pages come into `docs/` below the notebooks, so that the folder is whole wherever it is opened. Links follow them. A link
   to a module or a test, which stay behind, becomes its words.

    minispark_stream course lessons
    25 files written to lessons, 0 existed already. Open the first: jupyter lab lessons/00_start_here.ipynb
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
FIRST = "00_start_here.ipynb"
PAGES = ("*.md", "play.html", "images/*.svg", "images/*.png")
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
            text = file.read_text(encoding="utf-8")
            (folder / file.name).write_text(relinked(text) if file.suffix == ".ipynb" else text, encoding="utf-8")
        copy_pages(folder)
    except OSError as e:
        print(f"course: {e}", file=sys.stderr)
        return 1
    opened = f"jupyter lab {folder / FIRST}"
    if find_spec("jupyterlab") is None:
        opened = f"pip install jupyterlab && {opened}"
    print(f"{len(new)} files written to {folder}, {len(files) - len(new)} existed already. Open the first: {opened}")
    return 0


def copy_pages(folder: Path) -> None:
    """(3) Copy the pages that the notebooks lead to into `docs/` below the notebooks."""
    for name, page in _pages():
        copy = folder / "docs" / name
        if os.path.lexists(copy):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        given = page.read_bytes()
        copy.write_bytes(_page_below(given.decode()).encode() if page.suffix == ".md" else given)


def relinked(text: str) -> str:
    """A notebook, or a cell of it, that leads to `docs/` below it instead of beside it."""
    return _without(text.replace("](../docs/", "](docs/"), kept="")


def _page_below(text: str) -> str:
    """A page that has the notebooks above it, and nothing else."""
    return _without(text, kept=r"(?!notebooks/\d)").replace("](../notebooks/", "](../")


def _without(text: str, kept: str) -> str:
    """Links to what stays behind become their words."""
    return re.sub(rf"\[([^\]\[\n]*)\]\(\.\./{kept}[^)\n]*\)", r"\1", text)


def _pages() -> Iterator[tuple[str, Path]]:
    docs = next((PACKAGE.parent / name for name in ("docs", "minispark_stream_docs") if (PACKAGE.parent / name).is_dir()), None)
    if docs is None:
        return
    for pattern in PAGES:
        yield from ((page.relative_to(docs).as_posix(), page) for page in sorted(docs.glob(pattern)))


def notebooks_folder() -> Path | None:  # (1)
    """Where the notebooks of this version are; None if only the package was copied."""
    for name in ("notebooks", "minispark_stream_notebooks"):
        folder = PACKAGE.parent / name
        if (folder / FIRST).is_file():
            return folder
    return None
