"""The score of the course: `check` writes each answer down, and this prints who has solved what.

    python score.py                                       your own score
    python score.py ann/answers.json bob/answers.json     a table of a group, for a teacher

`answers.json` lies beside the notebooks. Of each exercise it says how often it was tried and whether an answer was right:

    {"06-1": {"tries": 2, "right": true}}     right at the second try

To begin again, delete the file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.json"


def record(exercise: str, verdict: str, answers: Path) -> None:
    """Write down an answer; what is tried again after it was right does not count.

    Args:
        verdict: what `exercises.judged` said of it.
        answers: the file, which need not be there yet.
    """
    right, wrong = (verdict.startswith(f"{exercise}: {word}. ") for word in ("right", "no"))
    so_far = read(answers)
    known = so_far.get(exercise, {"tries": 0, "right": False})
    if not (right or wrong) or known["right"]:
        return
    so_far[exercise] = {"tries": known["tries"] + 1, "right": right}
    answers.write_text(json.dumps(dict(sorted(so_far.items())), indent=1), encoding="utf-8")


def read(answers: Path) -> dict[str, dict[str, int]]:
    return json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}


def table(answers: Sequence[Path], numbers: Sequence[str]) -> str:
    """A line for each file: how many exercises of each notebook are right, and of all, and how many at the first try.

    Args:
        answers: the files; their folders are the names.
        numbers: of all exercises of the course.
    """
    notebooks = sorted({number[:2] for number in numbers})
    head = ["", *notebooks, "right", "at once"]
    lines = [["of", *(str(sum(n[:2] == book for n in numbers)) for book in notebooks), str(len(numbers)), ""]]
    for file in answers:
        solved = {number: one for number, one in read(file).items() if one["right"] and number in numbers}
        books = (sum(number[:2] == book for number in solved) for book in notebooks)
        at_once = sum(one["tries"] == 1 for one in solved.values())
        lines.append([file.resolve().parent.name, *(str(n) if n else "." for n in books), str(len(solved)), str(at_once)])
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    return "\n".join(" ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in (head, *lines))


if __name__ == "__main__":
    # Read as text: to import the exercises needs PySpark, which a teacher's machine may not have.
    found = re.findall(r'^    "(\d\d-\d+)": Exercise\(', (HERE / "exercises.py").read_text(encoding="utf-8"), re.M)
    print(table([Path(name) for name in sys.argv[1:]] or [ANSWERS], found))
