"""What `make room` gives a teacher: nothing gives a solution away, and the answer key has all of them."""

from __future__ import annotations

import copy
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbconvert import SlidesExporter
from playwright.sync_api import Browser, expect

from docs import room
from minispark_stream.tools.course import LESSONS
from tests.unit.browser import browser, opened  # noqa: F401

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
        question = key.partition(f"**{number}.** ")[2].partition("\n**0")[0]
        assert "check(" in question and exercise.why in question
        assert callable(exercise.answer) or f"**The answer: `{exercise.answer!r}`**" in question


def test_students_cannot_read_an_answer_and_it_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(room.NOTEBOOKS))
    from exercises import EXERCISES

    text = room.without_answers((room.NOTEBOOKS / "exercises.py").read_text(encoding="utf-8"))
    (tmp_path / "exercises_of_students.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    of_students = import_module("exercises_of_students")
    values = {number: one.answer for number, one in EXERCISES.items() if not callable(one.answer)}
    assert len(values) > 40
    for number, right in values.items():
        assert isinstance(of_students.EXERCISES[number].answer, of_students.Sealed)
        assert of_students.judged(number, right).startswith(f"{number}: right. ")
        for wrong in ("nonsense", 12345, {"nonsense"}, (7, 7)):
            assert of_students.judged(number, wrong).startswith(f"{number}: no. "), (number, wrong)


def test_slides_begin_at_headings_and_end_before_the_exercises() -> None:
    cells = room.as_slides(nbformat.read(NOTEBOOKS[6], as_version=4)).cells
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in cells]
    first = next(i for i, cell in enumerate(cells) if "## Exercises" in cell.source)
    assert kinds[0] == "slide" and "skip" not in kinds[:first] and set(kinds[first:]) == {"skip"}


def test_slides_need_no_network_and_arrows_go_from_one_to_the_next(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    html, _ = SlidesExporter().from_notebook_node(room.as_slides(nbformat.read(NOTEBOOKS[3], as_version=4)))
    tab = opened(browser, room.without_network(html), tmp_path)  # which fails if anything is asked of the network
    slides = tab.locator(".slides > section > section")
    expect(slides.first).to_be_visible()
    expect(slides.nth(1)).to_be_hidden()
    tab.keyboard.press("ArrowRight")
    expect(slides.nth(1)).to_be_visible()
    expect(slides.first).to_be_hidden()
    tab.keyboard.press("End")
    assert tab.locator("#place").inner_text() == f"{slides.count()} / {slides.count()}" and slides.count() > 5
    expect(slides.last).to_be_visible()


def test_the_handout_has_its_pictures_and_the_table_of_what_goes_wrong() -> None:
    page = room.handout()
    assert page.count('src="data:image/svg+xml;base64,') == 3 and "make room" not in page
    assert page.count("<tr>") > 15 and "It does not start: batch N doesn" in page
