"""Makes what a teacher takes into the room: `make room` writes build/room/.

    student/      the notebooks without outputs and without solutions, with what they import; no answer in it can be read
    answers.md    the answer key: each exercise, its answer, its solution, and why it is right
    slides/       the notebooks as slides, which need no network; slides.js moves them
    handout.html  two pages to print: handout.md, and the table of what goes wrong from teaching.md
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path

import nbformat
from nbconvert import SlidesExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode

from minispark_stream.tools.course import LESSONS, copy_pages, relinked

DOCS = Path(__file__).parent
NOTEBOOKS = DOCS.parent / "notebooks"
WRONG = "What goes wrong, and what to say"
PAPER = """
@page { size: A4; margin: 11mm }
body { font: 9.5pt/1.35 sans-serif; max-width: 188mm; margin: auto } h1 { font-size: 15pt; margin: 0 } p { margin: 1.5mm 0 }
h2 { font-size: 12pt; margin: 0 0 1mm; break-before: page } table { border-collapse: collapse }
th, td { border-bottom: .2mm solid #999; padding: .8mm 1.5mm; text-align: left; vertical-align: top }
img { max-width: 100%; max-height: 58mm } a { color: inherit; text-decoration: none } .anchor-link { display: none }
"""
SLIDES = """
body { margin: 0; background: #fff } .slides > section > section { display: none; padding: 3vh 5vw 8vh; font-size: 1.35em }
.slides > section > section.now { display: block } #place { position: fixed; right: 1em; bottom: .6em; color: #53606d }
.jp-InputPrompt, .jp-OutputPrompt { display: none } iframe { min-height: 80vh }
"""
SOLUTIONS = "<details><summary>Solutions</summary>"


def make_room(folder: Path) -> None:
    """Writes all four; what stood in the folder before is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "student").mkdir(parents=True)
    for module in NOTEBOOKS.glob("*.py"):
        (folder / "student" / module.name).write_text(without_answers(module.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "slides").mkdir()
    (folder / "docs" / "images").mkdir(parents=True)
    shutil.copy(DOCS / "images" / "two_clocks.svg", folder / "docs" / "images")  # notebook 06 shows it
    answers = ["# The answer key", ""]
    for path in sorted(NOTEBOOKS.glob(LESSONS)):
        notebook = nbformat.read(path, as_version=4)
        answers += answer_key(path.stem[:2], notebook)
        html, _ = SlidesExporter().from_notebook_node(as_slides(deepcopy(notebook)))
        (folder / "slides" / f"{path.stem}.html").write_text(without_network(html), encoding="utf-8")
        nbformat.write(for_students(notebook), folder / "student" / path.name)
    copy_pages(folder / "student")
    (folder / "handout.html").write_text(handout(), encoding="utf-8")
    (folder / "answers.md").write_text("\n".join(answers), encoding="utf-8")


def for_students(notebook: NotebookNode) -> NotebookNode:
    """The notebook as it is before anybody has run it, and without its solutions."""
    for cell in notebook.cells:
        cell.source = relinked(cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        elif cell.source.startswith(SOLUTIONS):
            cell.source = cell.source.rpartition("</details>")[2].strip()
    return notebook


def without_answers(module: str) -> str:
    """A module of the exercises in which each answer that is a value is sealed; cases on which a function is tried stay."""
    from exercises import sealed  # type: ignore[import-not-found]

    def seal(line: re.Match[str]) -> str:
        try:
            value = ast.literal_eval(line[1])
        except (ValueError, SyntaxError):  # a function, or the name of one
            return line[0]
        one = sealed(value)
        return f"        answer=Sealed({one.kind!r}, {one.digest!r}),"

    return re.sub(r"^        answer=(.*),$", seal, module, flags=re.M)


def without_network(slides: str) -> str:
    """Slides with their own styles and script in the place of those that nbconvert would load. In frames, they are escaped."""
    slides = re.sub(r'<script\b.*?</script>|<link[^>]* href="http[^>]*>', "", slides, flags=re.DOTALL)
    own = f"<style>{SLIDES}</style><script>{(DOCS / 'slides.js').read_text(encoding='utf-8')}</script>"
    return slides.replace("</body>", f"{own}</body>")


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
        one = exercises[f"{number}-{n}"]
        answer = "" if callable(one.answer) else f"**The answer: `{one.answer!r}`**\n\n"
        yield f"**{number}-{n}.** {question}\n\n{answer}{solution}\n\n{one.why}\n"


def handout() -> str:
    """The pages as one file, with their pictures in it."""
    begin, *parts = (DOCS / "handout.md").read_text(encoding="utf-8").split("\n\n")
    page = "\n\n".join([begin, *parts[1:]])  # what is on paper does not say how it was made
    table = (DOCS / "teaching.md").read_text(encoding="utf-8").partition(f"## {WRONG}\n")[2].partition("\n## ")[0]
    html = markdown2html(f"{page}\n\n## {WRONG}\n{table}")

    def with_data(picture: re.Match[str]) -> str:
        return f'src="data:image/svg+xml;base64,{b64encode((DOCS / picture[1]).read_bytes()).decode()}"'

    html = re.sub(r'src="(images/[^"]+)"', with_data, html)
    head = f"<meta charset='utf-8'><title>Structured Streaming</title><style>{PAPER}</style>"
    return f"<!doctype html><html lang='en'>{head}{html}</html>"


def _numbered(text: str) -> list[str]:
    """The parts of a text that begin with **1.**, **2.** and so on, without these numbers."""
    return [part.partition("</details>")[0].strip() for part in re.split(r"^\*\*\d\.\*\*", text, flags=re.M)[1:]]


if __name__ == "__main__":
    sys.path.insert(0, str(NOTEBOOKS))
    make_room(Path(sys.argv[1]))
