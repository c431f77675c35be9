"""What `make room` gives a teacher: nothing gives a solution away, and the answer key has all of them."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
import pytest

from docs import room
from minispark_stream.tools.course import LESSONS

NOTEBOOKS = sorted(room.NOTEBOOKS.glob(LESSONS))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_students_get_a_notebook_without_outputs_and_solutions(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    given = room.for_students(copy.deepcopy(notebook))
    assert len(given.cells) == len(notebook.cells)
    assert not any(cell.get("outputs") for cell in given.cells)
    assert any(cell.source.startswith(room.SOLUTIONS) for cell in notebook.cells)
    assert not any("Solutions" in cell.source for cell in given.cells)
    assert any("check(" in cell.source for cell in given.cells)


def test_the_answer_key_has_every_exercise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(room.NOTEBOOKS))
    from exercises import EXERCISES  # type: ignore[import-not-found]

    key = "\n".join(line for path in NOTEBOOKS for line in room.answer_key(path.stem[:2], nbformat.read(path, as_version=4)))
    for number, exercise in EXERCISES.items():
        question = key.partition(f"**{number}.** ")[2].partition("\n**")[0]
        assert "check(" in question and exercise.why in question


def test_slides_begin_at_headings_and_end_before_the_exercises() -> None:
    cells = room.as_slides(nbformat.read(NOTEBOOKS[6], as_version=4)).cells
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in cells]
    first = next(i for i, cell in enumerate(cells) if "## Exercises" in cell.source)
    assert kinds[0] == "slide" and "skip" not in kinds[:first] and set(kinds[first:]) == {"skip"}


def test_the_handout_has_its_pictures_and_the_table_of_what_goes_wrong() -> None:
    page = room.handout()
    assert page.count('src="data:image/svg+xml;base64,') == 3 and "make room" not in page
    assert page.count("<tr>") > 15 and "It does not start: batch N doesn" in page
