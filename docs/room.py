"""Makes what a teacher takes into the room: `make room` writes build/room/.

    student/      the notebooks without outputs and without solutions, with what they import
    answers.md    the answer key: each exercise, its solution, and why it is right
    slides/       the notebooks as slides, by nbconvert; reveal.js, which moves them, comes from the network
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOLUTIONS = "<details><summary>Solutions</summary>"


def make_room(folder: Path) -> None:
    """Writes all three; what stood in the folder before is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(NOTEBOOKS, folder / "student", ignore=shutil.ignore_patterns("*.ipynb", "__pycache__", ".*"))
    (folder / "slides").mkdir()
    answers = ["# The answer key", ""]
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        answers += answer_key(path.stem[:2], notebook)
        html, _ = SlidesExporter(reveal_scroll=True).from_notebook_node(as_slides(deepcopy(notebook)))
        (folder / "slides" / f"{path.stem}.html").write_text(html, encoding="utf-8")
        nbformat.write(for_students(notebook), folder / "student" / path.name)
    (folder / "answers.md").write_text("\n".join(answers), encoding="utf-8")


def for_students(notebook: NotebookNode) -> NotebookNode:
    """The notebook as it is before anybody has run it, and without its solutions."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        elif cell.source.startswith(SOLUTIONS):
            cell.source = cell.source.rpartition("</details>")[2].strip()
    return notebook


def as_slides(notebook: NotebookNode) -> NotebookNode:
    """A slide for each heading, and below it one for each of its cells; exercises and solutions are left out."""
    skipped = False
    for cell in notebook.cells:
        heading = cell.cell_type == "markdown" and cell.source.startswith("#")
        skipped = skipped or "## Exercises" in cell.source
        cell.metadata["slideshow"] = {"slide_type": "skip" if skipped else "slide" if heading else "subslide"}
    return notebook


def answer_key(number: str, notebook: NotebookNode) -> Iterator[str]:
    """What the exercises of a notebook ask, and what is right."""
    exercises = import_module("exercises").EXERCISES
    title = notebook.cells[0].source.partition("\n")[0]
    asked = next(cell.source for cell in notebook.cells if "## Exercises" in cell.source).partition("## Exercises")[2]
    solved = next(cell.source for cell in notebook.cells if cell.source.startswith(SOLUTIONS))
    yield f"#{title}\n"
    for n, (question, solution) in enumerate(zip(_numbered(asked), _numbered(solved)), start=1):
        why = exercises[f"{number}-{n}"].why
        yield f"**{number}-{n}.** {question}\n\n{solution}\n\n{why}\n"


def _numbered(text: str) -> list[str]:
    """The parts of a text that begin with **1.**, **2.** and so on, without these numbers."""
    return [part.partition("</details>")[0].strip() for part in re.split(r"^\*\*\d\.\*\*", text, flags=re.M)[1:]]


if __name__ == "__main__":
    sys.path.insert(0, str(NOTEBOOKS))
    make_room(Path(sys.argv[1]))
