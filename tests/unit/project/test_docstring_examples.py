"""The examples of docstrings that can be run are true: a call of a function of the module, two spaces or an arrow, and a literal.

    iso_time(1704110820500)     ->  "2024-01-01T12:07:00.500Z"
    named("X.y")                    "org.apache.X.y", and what else is to be said
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[3] / "minispark_stream"
EXAMPLE = re.compile(r" +(\w+\(.*?\))(?: *-> +| {2,})(\S.*)")


def examples() -> Iterator[Any]:
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        described = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)]
        for line in "\n".join(ast.get_docstring(node, clean=False) or "" for node in described).splitlines():
            found = EXAMPLE.fullmatch(line)
            if found is not None and found[1].partition("(")[0] in functions and _is_plain(found[1]):
                for text in _literal(found[2]):
                    name = ".".join(["minispark_stream", *file.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
                    yield pytest.param(name, found[1], text, id=f"{name}: {found[1]}")


def _is_plain(text: str) -> bool:
    """Whether the arguments of a call are literals."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        return bool(arguments) and all(ast.literal_eval(argument) is not ... for argument in arguments)
    except (SyntaxError, ValueError, AssertionError):
        return False


def _literal(text: str) -> Iterator[str]:
    """The literal with which a text begins, if there is one; a comma or two spaces end it."""
    for end in [match.start() for match in re.finditer(r",|  |$", text)]:
        try:
            ast.literal_eval(text[:end])
        except (SyntaxError, ValueError):
            continue
        yield text[:end]
        return


EXAMPLES = list(examples())


@pytest.mark.parametrize(("module", "call", "gives"), EXAMPLES)
def test_an_example_is_true(module, call, gives):
    names = vars(importlib.import_module(module))
    given = eval(call, dict(names))
    assert given == ast.literal_eval(gives)


def test_there_are_examples():
    assert len(EXAMPLES) >= 15
