"""The names in PySpark's modules, as their source says: nothing is imported.

    python = Sources(folder)                  the folder of an installed PySpark: site-packages/pyspark
    python.names("pyspark.util")              {"PythonEvalType": None, "fail_on_stopiteration": "f", ...}

A name is one that a module defines or imports at its top, also within `if` and `try`; or `Class.name`, for what a class of the
module defines, or sets on `self`. With a function comes the list of its parameters, because they may change, too.

Models: nothing of Spark.
Differs from Spark: nothing.
Shown by tests/unit/tools/contract/test_python_files.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

Named = tuple[str, str | None]


class PythonSources:
    """The modules of a PySpark, by the folder in which it is installed."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._read: dict[str, dict[str, str | None] | None] = {}

    def names(self, module: str) -> dict[str, str | None] | None:
        """Each name with its parameters, if it is a function; None if there is no such module."""
        if module not in self._read:
            path = self._folder.joinpath(*module.split(".")[1:])
            found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
            self._read[module] = dict(_named(ast.parse(found[0].read_bytes()).body)) if found else None
        return self._read[module]


def _named(body: Iterable[ast.stmt]) -> Iterator[Named]:
    for node in body:
        match node:
            case ast.FunctionDef():
                yield node.name, _parameters(node)
            case ast.ClassDef():
                yield node.name, None
                for name, parameters in _of_class(node):
                    yield f"{node.name}.{name}", parameters
            case ast.Import() | ast.ImportFrom():
                yield from ((name.asname or name.name, None) for name in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from ((target.id, None) for target in targets if isinstance(target, ast.Name))
            case ast.If() | ast.Try():
                inner = [*node.body, *node.orelse]
                if isinstance(node, ast.Try):
                    inner += [one for handler in node.handlers for one in handler.body]
                yield from _named(inner)


def _of_class(node: ast.ClassDef) -> Iterator[Named]:
    yield from _named(node.body)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            if isinstance(inner.value, ast.Name) and inner.value.id == "self":
                yield inner.attr, None


def _parameters(node: ast.FunctionDef) -> str:
    """`x, y=, *rest, z=`: a parameter with a default ends in `=`."""
    given = node.args
    own = [one.arg for one in (*given.posonlyargs, *given.args)]
    needed = len(own) - len(given.defaults)
    names = [name if i < needed else f"{name}=" for i, name in enumerate(own)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [one.arg if default is None else f"{one.arg}=" for one, default in zip(given.kwonlyargs, given.kw_defaults)]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(name for name in names if name not in ("self", "cls"))
