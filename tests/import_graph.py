"""Which module of the package imports which. The modules are only parsed, so no JVM starts.

An import under TYPE_CHECKING or inside of a function is an arrow like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import minispark_stream

ROOT = Path(__file__).parents[1]
PACKAGE = "minispark_stream"


class Arrow(NamedTuple):
    """`importer` imports `imported`; both are module names without the package's, for example "engine.runtime.run_batch"."""

    importer: str
    imported: str
    line: int


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of the package by name, parsed."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return found


def file_of(module: str) -> str:
    path = Path(PACKAGE, *module.split("."))
    return str(path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py"))


@cache
def arrows() -> list[Arrow]:
    """All imports of one module of the package by another one."""
    found = [
        Arrow(importer, imported, line)
        for importer, tree in modules().items()
        for imported, line in _imports(tree)
        if imported != importer
    ]
    return list(dict.fromkeys(found))


@cache
def imported_by() -> dict[str, set[str]]:
    """The modules that each module imports itself."""
    found: dict[str, set[str]] = {name: set() for name in modules()}
    for arrow in arrows():
        found[arrow.importer].add(arrow.imported)
    return found


def imported_modules(tree: ast.Module) -> set[str]:
    """The modules of the package that a module, of the package or of the tests, imports."""
    return {imported for imported, _ in _imports(tree)}


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the import of {node.module} with the package's name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if (imported := _module_of(name)) is not None:
                yield imported, node.lineno


def _module_of(name: str) -> str | None:
    """The module that `name`, a module or something in one, leads to; None outside of the package."""
    package, _, inside = name.partition(".")
    if package != PACKAGE:
        return None
    inside = minispark_stream._HOME.get(inside, inside)
    while inside and inside not in modules():
        inside = inside.rpartition(".")[0]
    return inside or "__init__"
