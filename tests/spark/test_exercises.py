"""The exercises of the course: each solution is right, no answer yet is told as such, and a wrong one is refused.

A notebook's solutions stand in its last cell, as code. They use what the notebook defined before them: its cells with the tag
"given".
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from minispark_stream.tools.course import LESSONS

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob(LESSONS))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_solution_is_right(path: Path, course: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    cells = nbformat.read(path, as_version=4).cells
    names: dict[str, Any] = {name: getattr(course, name) for name in course.__all__}
    for cell in cells:
        if "given" in cell.metadata.get("tags", ()):
            exec(cell.source, names)
    number = path.stem[:2]
    numbered = sorted(name for name in course.exercises.EXERCISES if name.startswith(number))
    solutions = re.findall(r"^```python\n(.*?)^```", cells[-1].source, re.S | re.M)
    assert numbered == [f"{number}-{i}" for i in range(1, len(solutions) + 1)] and solutions
    for exercise, solution in zip(numbered, solutions):
        asked = [cell.source for cell in cells if f'check("{exercise}"' in cell.source and cell.cell_type == "code"]
        assert len(asked) == 1, f"{exercise} has no cell of its own, or several"
        capsys.readouterr()
        exec(asked[0], names)
        assert f"{exercise}: no answer yet" in capsys.readouterr().out
        exec(solution, names)
        assert f"{exercise}: right. " in capsys.readouterr().out, solution
        course.check(exercise, (lambda *_: object()) if callable(course.exercises.EXERCISES[exercise].answer) else object())
        assert f"{exercise}: no. " in capsys.readouterr().out
