"""The docstring contract of CONTRIBUTING.md: what a module opens with, and numbers that are the same in docstring and code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.collect import ENGINE, PACKAGE, read_module

MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.read_text(encoding="utf-8").strip()]
OF_ENGINE = [path for path in MODULES if path.relative_to(PACKAGE).as_posix().startswith(ENGINE) and path.name != "__init__.py"]


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def numbers(text: str) -> set[int]:
    """The numbers of "(2)", "(5) to (8)", "(5) ... (8)"."""
    found = {int(n) for n in re.findall(r"\((\d+)\)", text)}
    for first, last in re.findall(r"\((\d+)\)\s*(?:to|-|–|\.\.\.|…)\s*\((\d+)\)", text):
        found.update(range(int(first), int(last) + 1))
    return found


def notes(source: str) -> list[str]:
    """The comments of a module, and the docstrings of its functions and classes."""
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return comments + [ast.get_docstring(n) or "" for n in functions]


def steps(doc: str) -> set[int]:
    """The numbered steps of a docstring: lines "2. ..." or lines that begin with "(2)"."""
    lines = re.findall(r"^ *((?:\d+\. |\(\d+\)).*)$", doc, re.M)
    return {int(n) for line in lines for n in re.findall(r"^(\d+)\. ", line)} | numbers(" ".join(
        m.group() for line in lines if (m := re.match(r"(\(\d+\)[\s.…to-]*)+", line))))


def complaints(path: Path) -> Iterator[str]:
    """What is wrong with the docstring of a module, and what to write."""
    module = read_module(path)
    first = module.doc.split("\n\n")[0]
    if not first:
        yield "open it with a docstring; its first paragraph says in a sentence what the module is"
    elif not first.endswith((".", "?", "!", ":")):
        yield f"the first paragraph of the docstring is to be a sentence: {first!r}"
    if path in OF_ENGINE and not module.models:
        yield 'after the first paragraph, add the line "Models: SparkClass (document and section)."'
    if path in OF_ENGINE and not module.differs and not (module.models or "").startswith("nothing of Spark"):
        yield 'end with "Differs from Spark: ...", or "Differs from Spark: nothing."'
    for file in re.findall(r"(?<![\w./<-])[\w/]+\.py\b", module.doc):
        if not any(folder.joinpath(file).exists() for folder in (path.parent, PACKAGE, PACKAGE.parent)):
            yield f"the docstring names {file}, which is not there"
    told = steps(module.doc)
    found = notes(path.read_text(encoding="utf-8"))
    marked = numbers(" ".join(m.group() for note in found if (m := re.match(r"(?:# *)?((?:\(\d+\)[\s,a-z.-]*)+)", note))))
    if unknown := sorted(marked - told):
        yield f"the code marks {unknown}, but the docstring numbers only {sorted(told)}"
    if marked and (missing := sorted(told - numbers(" ".join(found)))):
        yield f'the docstring numbers {missing}: mark the code that does it, "# ({missing[0]})", or do not number a mere fact'


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_keeps_the_contract(path):
    found = list(complaints(path))
    assert not found, "\n  ".join([f"{name(path)} (see CONTRIBUTING.md):", *found])
