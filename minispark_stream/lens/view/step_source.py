"""The code of each step: the function of the engine that is marked `@step("walCommit")`, or that opens this step itself.

    step_sources()["getBatch"].where    "engine/runtime/run_batch.py, line ...": where it begins
    step_sources()["getBatch"].code     @step("getBatch") / def get_batch(query, source, start, end): ...

1. The files of the package are read as text and parsed; nothing of the engine is imported.
2. Pygments colours the lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from minispark_stream.lens.steps import STEPS
from minispark_stream.lens.trace.written import first_line

PACKAGE = Path(__file__).parents[2]
FOLDERS = ("", "engine/runtime", "engine/state", "extras/continuous")  # where steps happen


@dataclass(frozen=True)
class FunctionSource:
    """A function of the engine: where it is, and its lines."""

    where: str
    code: str

    @property
    def html(self) -> str:
        """The lines, coloured."""
        return coloured(self.code)


def coloured(code: str) -> str:
    """Python as HTML, with the CSS classes of Pygments for colours; plain names and punctuation have none."""
    html = str(highlight(code, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)))
    return re.sub(r'<span class="(?!k|s|c|mi|n[bdf])\w+">([^<]*)</span>', r"\1", html)  # (2)


@lru_cache(maxsize=1)
def step_sources() -> Mapping[str, FunctionSource]:
    """Step -> its code, for every step that is a function of the engine."""
    found: dict[str, FunctionSource] = {}
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).glob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "step(" in text:
                found |= dict(_sources(path, text))
    return found


def _sources(path: Path, text: str) -> Iterator[tuple[str, FunctionSource]]:  # (1)
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        first = first_line(function)
        code = lines[first - 1 : function.end_lineno]
        indent = len(code[0]) - len(code[0].lstrip())
        for step in _steps(function):
            where = f"{path.relative_to(PACKAGE).as_posix()}, line {first}"
            yield step, FunctionSource(where, "\n".join(line[indent:] for line in code) + "\n")


def _steps(function: ast.FunctionDef) -> Iterator[str]:
    """The steps that a function is or opens."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "step" and node.args[0].value in STEPS:
                yield str(node.args[0].value)
