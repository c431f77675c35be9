"""What of the tests' own sources a test runs, as a text that changes whenever one of them does.

    def test_it(compare, k): compare(count, rows(k))      the test
    def count(spark, folder): ...                         named in it
    def rows(k): ...                                      named in it, though it may be imported from another module of the tests
    def compare(spark, tmp_path): ...                     a fixture that it asks for, in a conftest.py, and those that this one asks for

A change elsewhere, be it in the same file, changes nothing, nor does one of a comment or a docstring, nor another version of Python. A statement
at the top of a module that gives no name a value may do anything, so it counts whenever anything of its module does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN = "tests.conformance.recordings"  # decides whether Spark plays, but not what it does
Definition = tuple[Path, str]


def what_runs(path: Path, *names: str) -> str:
    """The definitions of a module that these names lead to."""
    found: dict[Definition, str] = {}
    waiting = [(path, name) for name in names]
    while waiting:
        if (definition := waiting.pop()) not in found:
            found[definition], leads_to = _definition(*definition)
            waiting += leads_to
    return "\n".join(found[definition] for definition in sorted(found))


@cache
def _definition(file: Path, name: str) -> tuple[str, Sequence[Definition]]:
    """What a module says of a name, and what that leads to."""
    nodes = _module(file).get(name, [])
    always = [(file, "")] if nodes and name else []
    return "\n".join(map(_written, nodes)), [*always, *(lead for node in nodes for lead in _leads_to(file, node, name))]


@cache
def module_text(path: Path) -> str:
    """A module without comments and docstrings."""
    return _written(_parsed(path))


def _written(value: object) -> str:
    """A syntax tree as `ast.dump` of Python 3.11 writes it. Newer ones add a field or leave empty ones out."""
    match value:
        case ast.AST():
            fields = [(name, getattr(value, name)) for name in value._fields if name != "type_params"]
            said = (f"{name}={_written(of)}" for name, of in fields if of is not None or getattr(type(value), name, ...) is not None)
            return f"{type(value).__name__}({', '.join(said)})"
        case list():
            return f"[{', '.join(map(_written, value))}]"
    return repr(value)


def _parsed(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
    return tree


@cache
def _module(path: Path) -> dict[str, list[ast.stmt]]:
    """The statements at the top of a module by the names that they define; those that count in any case have the name ""."""
    found: dict[str, list[ast.stmt]] = {}
    for node in _parsed(path).body if path.is_file() else ():
        for name in _defines(node):
            found.setdefault(name, []).append(node)
    return found


def _defines(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            always = any("autouse" in ast.unparse(decorator) for decorator in node.decorator_list)
            return (node.name, "") if always else (node.name,)
        case ast.Import() | ast.ImportFrom():
            return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            every = [n for target in targets for n in ast.walk(target)]
            names = [n.id for n in every if isinstance(n, ast.Name)]
            plain = all(isinstance(n, ast.Name | ast.Tuple | ast.List | ast.Starred | ast.expr_context) for n in every)
            return [*names, ""] if not plain or "pytestmark" in names else names
    return ("",)


def _leads_to(file: Path, node: ast.stmt, name: str) -> Iterator[Definition]:
    """What a definition needs: what it names, the fixtures that it asks for, and, if it is an import, what that brings."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imported(node, name)
        return
    asks = {found.arg for found in ast.walk(node) if isinstance(found, ast.arg)}
    texts = {found.value for found in ast.walk(node) if isinstance(found, ast.Constant) and isinstance(found.value, str)}  # usefixtures("it")
    names = {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
    for needed in sorted(names | asks | texts):
        if needed in _module(file) and needed != name:
            yield file, needed
        elif needed in asks | texts:  # of a fixture that asks for its own name, the one that it overrides
            yield from ((conftest, needed) for conftest in _conftests(file) if needed in _module(conftest))


def _imported(node: ast.Import | ast.ImportFrom, name: str) -> Iterator[Definition]:
    """An imported name of the tests in the module that defines it; all of a module that is imported itself."""
    for alias in node.names:
        if (alias.asname or alias.name).partition(".")[0] != name:
            continue
        module = _file(node.module) if isinstance(node, ast.ImportFrom) and node.module else None
        whole = _file(f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name)
        if module is not None and alias.name in _module(module):
            yield module, alias.name
        elif whole is not None:
            yield from ((whole, every) for every in _module(whole))


def _file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found and module.startswith("tests.") and module != NOT_RUN else None


@cache
def _conftests(path: Path) -> list[Path]:
    return [folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").is_file()]
