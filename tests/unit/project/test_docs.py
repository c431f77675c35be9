"""README and docs/ are true: links lead somewhere, named files, classes and commands exist, collected parts are up to date.
The links, the spelling and the length of notebooks are looked at, too.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from PIL import Image

from docs import collect
from docs.tour import SCENES, TOUR
from minispark_stream.tools.cli import parser
from tests.unit.golden_trace import TRACE

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "minispark_stream"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *collect.pages()]
NOTEBOOKS = [ROOT / "notebooks" / name for name in collect.NOTEBOOKS.values()]
FOLDERS = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """The page without its blocks of code and without what was collected, which has tests of its own."""
    return without_code(collect.MARK.sub("", page.read_text(encoding="utf-8")))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def quoted(page: Path) -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^ {4}.*$", "", prose(page), flags=re.M))


def words(page: Path) -> str:
    """The text of a page; of a notebook, what stands between its cells of code."""
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in nbformat.read(page, as_version=4).cells if cell.cell_type == "markdown")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", words(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def names_in_code() -> frozenset[str]:
    """Every name that the package, the tests or PySpark's documented API uses."""
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").glob("*.py")]
    return frozenset(name for path in sources for name in re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "tests" / "golden" / "README.md", *NOTEBOOKS], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(words(page))):
        if target.startswith("http"):
            assert re.fullmatch(r"https://[\w.-]+\.\w+(/[\w./%#$-]*)?", target), target
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}: no such heading"


def test_the_words_of_notebooks_are_spelt_as_codespell_knows_them():
    """`make lint` looks at all other files; in a notebook there are saved pages and pictures, whose text is no prose."""
    pytest.importorskip("codespell_lib")
    text = "\n".join(map(words, NOTEBOOKS))
    found = subprocess.run([sys.executable, "-m", "codespell_lib", "-"], input=text, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pages
def test_named_files_exist(page):
    for name in quoted(page):
        if re.fullmatch(r"[\w./-]+(\.(py|md|ya?ml|toml|ipynb)|/)", name) and (name.split("/")[0] in FOLDERS | {"tests", "docs"} or
                                                                             name.endswith(".py")):
            assert (PACKAGE / name).exists() or (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


@pages
def test_named_classes_and_functions_exist(page):
    for name in quoted(page):
        if re.fullmatch(r"[\w.]+(\(.*\))?", name) and not name.endswith(".py"):
            for word in re.findall(r"[A-Za-z]\w+", name.partition("(")[0]):
                if "_" in word or collect.CAMEL_CASE.fullmatch(word):
                    assert word in names_in_code(), f"{page.name} names {word}, which is nowhere in the code"


@pages
def test_named_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for line in re.findall(r"(?:^ {4}|`)make ([a-z -]+)", text, re.M):
        for target in line.split("  ")[0].split():
            assert target in targets, f"{page.name} says make {target}"
    (commands,) = [action.choices for action in parser()._actions if action.choices and action.dest == "command"]
    for command in re.findall(r"python -m minispark_stream (\w+)", text):
        assert command in commands, f"{page.name} says minispark_stream {command}"


@pytest.mark.parametrize("page", collect.pages(), ids=lambda page: page.name)
def test_what_repeats_the_code_is_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert text == collect.collected(text), f"{page.name} is not what the code says now: run `make docs` and commit it"


def test_the_page_to_play_with_is_up_to_date():
    assert collect.PLAY.read_text(encoding="utf-8") == collect.page_to_play_with().page(), "run `make docs` and commit docs/play.html"


@pytest.mark.parametrize("name", ["differences.md", "explanations.md"])
def test_every_row_of_a_table_of_what_is_shown_names_tests_that_show_it(name):
    shown = shown_by((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert shown
    for row, cell in shown:
        tests = re.findall(r"\[(test_\w+)\]\(\.\./(tests/[\w/]+\.py)\)", cell)
        assert tests, f"{name}: no test shows this; of a difference, end the docstring with 'Shown by tests/...::test_...': {row}"
        for test, file in tests:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{name}: {file} has no {test}"


def shown_by(text: str) -> list[tuple[str, str]]:
    """The rows of the tables whose last column is "shown by", each with that cell."""
    tables = re.findall(r"^\|.*\| shown by \|\n\| --- .*\n((?:\| .*\n)+)", text, re.M)
    return [(row, row.split(" | ")[-1]) for table in tables for row in table.splitlines()]


def test_every_behaviour_names_what_is_there():
    behaviours = collect.read_behaviours()
    assert [behaviour["number"] for behaviour in behaviours] == list(range(1, 48))
    for behaviour in behaviours:
        assert set(behaviour) - {"today"} == {"number", "about", "phrase", "notebooks", "modules", "tests"}, behaviour
        assert set(behaviour["notebooks"]) <= set(collect.NOTEBOOKS), behaviour
        for module in behaviour["modules"]:
            assert (PACKAGE / module).is_file(), f"behaviour {behaviour['number']} names {module}, which is not there"
        assert behaviour["tests"], behaviour
        for test in behaviour["tests"]:
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), f"behaviour {behaviour['number']} names {file}, which is not there"
            assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {name}"


def test_a_workshop_names_sections_and_exercises_that_are_there():
    text = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    exercises = (ROOT / "notebooks" / "exercises.py").read_text(encoding="utf-8")
    for exercise in re.findall(r"\b\d\d-\d\b", text):
        assert f'"{exercise}": Exercise(' in exercises, f"there is no exercise {exercise}"
    named = re.findall(r"(?:\| |; )(\d\d), ([^|;]*)", text)
    assert len(named) > 20
    for number, sections in named:
        headings = re.findall(r"^#+ (.*)$", words(ROOT / "notebooks" / collect.NOTEBOOKS[number]), re.M)
        for section in re.findall(r"\*([^*]+)\*", sections):
            assert any(heading.startswith(section) for heading in headings), f"notebook {number} has no section {section}"


def test_make_help_says_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M).group(1).split())  # type: ignore[union-attr]
    told = {word for line in re.findall(r"^# make ([a-z -]+?)  ", makefile, re.M) for word in line.split()}
    assert told <= phony
    assert phony - told <= {"help", "system", "check", "unit", "notebooks"}


def test_every_cited_document_is_in_the_table():
    table = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| ([^|]+?) \|", table, re.M))
    for module in collect.modules():
        for document in module.documents:
            assert document in known, f"{module.path} cites {document!r}: add it to the table of docs/sources.md, or cite one of {known}"


def test_a_misspelt_class_is_found():
    with pytest.raises(collect.NotCollected, match="ELSEWHERE"):
        collect.url("MicrobatchExecution")
    assert collect.url("UnsafeRow").endswith("/src/main/java/org/apache/spark/sql/catalyst/expressions/UnsafeRow.java")
    assert collect.url("SeenFilesMap").endswith("/execution/streaming/runtime/FileStreamSource.scala")


def test_the_readme_is_short_and_has_a_moving_picture_of_90_seconds_and_at_most_3_mb():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 120
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert ROOT / picture == TOUR
    assert TOUR.stat().st_size <= 3 * 1024**2
    assert sum(seconds for _, seconds, _ in SCENES) == 90
    assert Image.open(TOUR).n_frames == len(SCENES)  # type: ignore[attr-defined]


def test_the_front_page_tells_the_run_that_it_shows():
    """Of each batch the messages of its last attempt."""
    run = (ROOT / "tests" / "golden" / "trace_windows.txt").read_text(encoding="utf-8")
    _, *batches = re.split(r"^batch (\d+).*$", run, flags=re.M)
    recorded = {int(n): re.findall(r" time=\S+ (\d\d:\d\d):00", text) for n, text in zip(batches[::2], batches[1::2])}
    table = re.findall(r"^\| (\d) \| (.*?) ?\| ", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.M)
    assert {int(n): re.findall(r"\d\d:\d\d", messages) for n, messages in table} == recorded


def test_the_run_of_the_front_page_was_recorded_while_the_machine_had_nothing_else_to_do():
    """A reader takes the times that it shows for those of the engine. With everything recorded, a small batch takes about a second."""
    assert max(batch.progress["batchDuration"] for batch in TRACE.batches if batch.progress) < 1500  # milliseconds


def test_the_readme_lists_every_notebook():
    listed = re.findall(r"^\| (\d\d) ", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert listed == [path.name[:2] for path in NOTEBOOKS]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_fits_one_sitting(notebook):
    assert len(nbformat.read(notebook, as_version=4).cells) <= 25


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_drawing_fits_a_notebook_on_a_small_screen(notebook):
    for drawing in re.findall(r"^```\n(.*?)^```", re.sub(r"^```\w+\n.*?^```", "", words(notebook), flags=re.S | re.M), re.S | re.M):
        assert max(map(len, drawing.splitlines())) <= 88, drawing


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_was_saved_by_make_rewrite_notebooks(notebook):
    """Another way saves what the JVM says on stderr, which nbval then misses, and when each cell ran."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        assert "execution" not in cell.metadata
        assert "stderr" not in [output.get("name") for output in cell.get("outputs", ())], cell.source


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_the_code_of_the_package_as_it_is(notebook):
    """`print(inspect.getsource(...))` and `print(....__doc__)` print today what the notebook was saved with."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    nodes = [(cell, node) for cell in cells for node in ast.walk(ast.parse(cell.source))]
    of_package: dict[str, Any] = {}
    for _, node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minispark_stream"):
            exec(ast.unparse(node), of_package)
    for cell, node in nodes:
        match node:
            case ast.Attribute(shown, "__doc__") | ast.Call(ast.Name("getsource") | ast.Attribute(attr="getsource"), [shown]):
                if ast.unparse(shown).partition(".")[0] in of_package:
                    what = eval(ast.unparse(shown), of_package)
                    text = inspect.getsource(what) if isinstance(node, ast.Call) else what.__doc__
                    saved = [output.get("text", "") for output in cell.outputs]
                    assert any(text in one for one in saved), f"{ast.unparse(node)} gives another text today: run the notebook"


@pages
def test_python_on_a_page_parses(page):
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
        ast.parse(block)


def test_ci_and_hooks_run_the_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    used = [target for run in [*runs, *(hook["entry"] for hook in hooks)] for target in re.findall(r"make (\w+)", run)]
    assert {"test", "lint", "types"} <= set(used) <= targets
    assert any("CI=true make test" in run for run in runs)


READING_ORDERS = {"as they are numbered": NOTEBOOKS, "with streams still new": [
    *(first := [ROOT / "notebooks" / name for name in ("00_start_here.ipynb", *re.findall(
        r"\]\((\w+\.ipynb)\)", words(NOTEBOOKS[0]).rpartition("in this order first")[2]))]),
    *(path for path in NOTEBOOKS if path not in first),
]}


@pytest.mark.parametrize("order", READING_ORDERS.values(), ids=READING_ORDERS)
def test_a_word_of_the_glossary_is_told_where_it_is_used_first(order):
    """There it is set apart: in italics, bold, as code, or in a heading; also in the order for those who know batch only."""
    assert len(order) == len(set(order)) == len(NOTEBOOKS)
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Modules")[0]
    entries = re.findall(r"^\| ([a-z][\w ,-]+) \| ", glossary, re.M)[1:]
    terms = [term for entry in entries for term in entry.split(", ") if term != "batch"]  # a batch query is no micro-batch
    assert len(terms) > 30
    texts = [without_code(words(notebook)) for notebook in order]
    for term in terms:
        plain, told = (rf"(?<![\w`/.]){term}s?(?![\w`/(])", rf"(\*|`)(?:the )?{term}s?(?: \w+)?\1|^#.*\b{term}")
        for notebook, text in zip(order, texts):
            use, told_at = re.search(plain, text), re.search(told, text, re.I | re.M)
            if use or told_at:
                assert told_at and (not use or told_at.start() <= use.start()), f"{notebook.name} uses {term!r} before it is told"
                break
