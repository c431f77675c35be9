"""The lines in which a user has written a query: read from a file, from a cell of a notebook, or from a lambda.

Models: nothing of Spark, which keeps only the plan of a query.

1. A function that builds the query (`side_by_side`, `trace_of`) is looked up in the text from which it was compiled.
2. When `start()` is called, its caller is the first frame that belongs neither to this package nor to an installed one. From
   the statement that is running there, names are followed backwards: to the earlier statements of the same block that have made
   the DataFrames that it uses, and to the functions that it calls.
3. A statement counts if a method of the streaming API is called in it. Nothing is run, and nothing is looked up outside of the
   text and of the names that the caller sees.

    def word_count(session): ...                          counts = word_count(mini)
    counts = word_count(mini)                    ->       counts.writeStream.format("memory").start()
    print("hello")                                        and, before them, the text of word_count
    counts.writeStream.format("memory").start()

Where there is no text (a function that was typed into a plain Python shell), there are no lines.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from minispark_stream.lens.trace.query_lines import PIECES, calls_of_a_query

PACKAGE = str(Path(__file__).parents[2])
INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
MOST_LINES = 120  # of a query that is kept


def written(build: Callable[..., Any]) -> str | None:
    """(1) The lines of a function that builds a query, and of the functions that it calls; None if there is no text."""
    function = _function(build)
    return None if function is None else _joined(_with_called(function, []))


def written_by_caller() -> str | None:
    """(2) The lines of the query that is being started; None if they are not known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_installed(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _joined(_statements(frame))


def _is_installed(file: str) -> bool:
    return file.startswith((PACKAGE, *INSTALLED))


def _joined(pieces: Sequence[str]) -> str | None:
    kept, lines = list[str](), 0
    for piece in pieces:
        lines += (piece + PIECES).count("\n")
        if lines <= MOST_LINES and piece not in kept:
            kept.append(piece)
    return PIECES.join(kept) or None


def _function(build: Any) -> FunctionType | None:
    """The Python function behind whatever can be called."""
    while isinstance(build, functools.partial):
        build = build.func
    build = inspect.unwrap(build)
    if isinstance(build, MethodType):
        build = build.__func__
    elif not isinstance(build, FunctionType):
        build = getattr(type(build).__call__, "__func__", type(build).__call__)
    return build if isinstance(build, FunctionType) else None


def _tree(code: CodeType, names: Mapping[str, Any]) -> tuple[str, ast.Module] | None:
    """The text from which some code was compiled, and its tree."""
    text = "".join(linecache.getlines(code.co_filename, dict(names)))
    tree = _parsed(text) if text else None
    return None if tree is None else (text, tree)


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _node_of(code: CodeType, tree: ast.Module) -> ast.FunctionDef | ast.Lambda | None:
    """The function or lambda that this code is: of several lambdas in a line, the one with the same names of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name, first_line(node)) == (code.co_name, code.co_firstlineno):
            return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            if tuple(one.arg for one in node.args.args) == code.co_varnames[: code.co_argcount]:
                return node
    return None


def _with_called(function: FunctionType, seen: list[CodeType]) -> list[str]:
    """The text of a function, after that of the functions that it calls and that are part of the query."""
    seen.append(function.__code__)
    known = _tree(function.__code__, function.__globals__)
    node = known and _node_of(function.__code__, known[1])
    if known is None or node is None:
        return []
    return [*_called(node, _names_of(function), seen), _text(known[0], node)]


def _names_of(function: FunctionType) -> Mapping[str, Any]:
    """The names that a function sees; one of an outer function may have no value yet."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with suppress(ValueError):
            names[name] = cell.cell_contents
    return names


def _called(node: ast.AST, names: Mapping[str, Any], seen: list[CodeType]) -> Iterator[str]:
    for name in _loaded(node):
        value = names.get(name)
        function = _function(value) if isinstance(value, (FunctionType, MethodType, functools.partial)) else None
        if function is None or function.__code__ in seen or _is_installed(function.__code__.co_filename):
            continue
        yield from _with_streaming(_with_called(function, seen))


def _with_streaming(pieces: Sequence[str]) -> list[str]:  # (3)
    return [piece for piece in pieces if any(calls_of_a_query(piece))]


def _loaded(node: ast.AST) -> list[str]:
    """The names that are read in a statement, in their order."""
    found = (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return list(dict.fromkeys(found))


def _statements(frame: FrameType) -> list[str]:  # (2)
    known = _tree(frame.f_code, frame.f_globals)
    if known is None:
        return []
    text, tree = known
    names = {**frame.f_globals, **frame.f_locals}
    block = _block(tree, frame.f_lineno)
    wanted, found, seen = set[str](), list[ast.stmt](), list[CodeType]()
    for statement in reversed(block):
        made = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        if not found or (wanted & made and not isinstance(statement, (ast.Import, ast.ImportFrom))):
            found.insert(0, statement)
            wanted |= set(_loaded(statement))
    functions = [piece for statement in found for piece in _called(statement, names, seen)]
    own = [_text(text, statement) for statement in found]
    return [*functions, *(piece for piece in own if piece is own[-1] or _with_streaming([piece]) or _makes(piece, names))]


def _makes(piece: str, names: Mapping[str, Any]) -> bool:
    """Whether a statement calls a function of the user's that is part of a query."""
    tree = _parsed(piece)  # a line such as "else: query = start()" is none by itself
    return tree is not None and any(_called(tree, names, []))


def _block(tree: ast.Module, line: int) -> Sequence[ast.stmt]:
    """The statements up to the one that is running at a line: those of the innermost block, and of the blocks around it."""
    found: list[ast.stmt] = []
    body: Sequence[ast.stmt] = tree.body
    while True:
        running = next((n for n, one in enumerate(body) if one.lineno <= line <= (one.end_lineno or one.lineno)), None)
        if running is None:
            return found
        one = body[running]
        inner = [getattr(one, name) for name in ("body", "orelse", "finalbody") if isinstance(getattr(one, name, None), list)]
        inner += [handler.body for handler in getattr(one, "handlers", ())]
        deeper = next((b for b in inner if any(s.lineno <= line <= (s.end_lineno or s.lineno) for s in b)), None)
        if isinstance(one, ast.FunctionDef):
            found = []  # its names are its own
        else:
            found += body[:running]
        if deeper is None:
            return [*found, one]
        body = deeper


def _text(text: str, node: ast.stmt | ast.Lambda) -> str:
    """The lines of a statement or a function, without the indentation that they share; of a lambda, nothing else of its line.
    There is at most one empty line in a row, as two stand between the pieces of a query."""
    if isinstance(node, ast.Lambda):
        first, *rest = (ast.get_source_segment(text, node) or "").split("\n")
        return "\n".join([first, *textwrap.indent(textwrap.dedent("\n".join(rest)), "    ").split("\n")] if rest else [first])
    lines = "\n".join(text.split("\n")[first_line(node) - 1 : node.end_lineno])
    return re.sub(r"\n{3,}", "\n\n", textwrap.dedent(lines)).rstrip()


def first_line(node: Any) -> int:
    """The number of the first line of a statement; a function begins with its decorators."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
