"""The docstring contract of CONTRIBUTING.md: what a module opens with, and numbers that are the same in docstring and code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from docs.collect import ENGINE, PACKAGE, read_module

MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.read_text(encoding="utf-8").strip()]
OF_ENGINE = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in ENGINE and path.name != "__init__.py"]


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


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_opens_with_what_it_is(path):
    doc = read_module(path).doc
    first = doc.split("\n\n")[0]
    assert first, f"{name(path)}: open it with a docstring; its first paragraph says in a sentence what the module is"
    assert first.rstrip().endswith((".", "?", "!", ":")), f"{name(path)}: the first paragraph of the docstring is to be a sentence: {first!r}"


@pytest.mark.parametrize("path", OF_ENGINE, ids=name)
def test_a_module_of_the_engine_says_what_it_models(path):
    assert read_module(path).models, (
        f"{name(path)}: add a line to the docstring, after its first paragraph: \"Models: SparkClass (document and section).\""
    )


@pytest.mark.parametrize("path", OF_ENGINE, ids=name)
def test_a_module_of_the_engine_says_what_differs(path):
    assert read_module(path).differs, (
        f"{name(path)}: end the docstring with \"Differs from Spark: ...\", or \"Differs from Spark: nothing.\""
    )


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_numbers_in_the_code_are_those_of_the_docstring(path):
    told = steps(read_module(path).doc)
    found = notes(path.read_text(encoding="utf-8"))
    marked = numbers(" ".join(m.group() for note in found if (m := re.match(r"(?:# *)?((?:\(\d+\)[\s,a-z.-]*)+)", note))))
    unknown = sorted(marked - told)
    assert not unknown, f"{name(path)}: the code marks {unknown}, but the docstring numbers only {sorted(told)}"
    missing = sorted(told - numbers(" ".join(found))) if marked else []
    assert not missing, f"{name(path)}: the docstring numbers {missing}; mark the code that does it: \"# ({(missing or [0])[0]})\""
