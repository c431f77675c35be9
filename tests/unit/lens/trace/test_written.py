"""The lines of a query are read from where the user has written them: a file, a cell, a lambda; never run, never guessed."""

from __future__ import annotations

import functools
import linecache
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.lens.trace.written import MOST_LINES, written, written_by_caller


def source(session: Any, folder: str) -> Any:
    """Where the rows come from."""
    return session.readStream.text(folder)


def helper(text: str) -> str:
    return text.upper()


def counts(session: Any, folder: str) -> Any:
    return source(session, helper(folder)).groupBy("value").count()


COUNTS = '''\
def source(session: Any, folder: str) -> Any:
    """Where the rows come from."""
    return session.readStream.text(folder)


def counts(session: Any, folder: str) -> Any:
    return source(session, helper(folder)).groupBy("value").count()'''


class Builder:
    def __call__(self, session: Any) -> Any:
        return session.readStream.format("rate").load()

    def build(self, session: Any) -> Any:
        return session.readStream.format("rate").load()


def test_a_function_with_the_functions_that_it_calls() -> None:
    """But without those that have nothing to do with a stream."""
    assert written(counts) == COUNTS == written(functools.partial(counts, folder="in"))


def test_a_method_and_an_object_that_can_be_called() -> None:
    assert (written(Builder().build) or "").startswith("def build(self")
    assert (written(Builder()) or "").startswith("def __call__(self")


def test_a_lambda_alone_and_not_the_rest_of_its_line() -> None:
    first, second = lambda s: s.readStream.text("a"), lambda s, folder: (
        s.readStream.text(folder)
        .distinct()
    )
    assert written(first) == 'lambda s: s.readStream.text("a")'
    assert written(second) == "lambda s, folder: (\n        s.readStream.text(folder)\n        .distinct()\n    )"


def test_what_has_no_text_has_no_lines() -> None:
    typed: dict[str, Any] = {}
    exec("def query(session): return session.readStream.text('a')", typed)
    assert written(typed["query"]) is None and written(len) is None and written(str) is None


def test_a_query_that_is_too_long_is_kept_in_part(tmp_path: Path) -> None:
    lines = "\n".join(f"    x{n} = session.readStream.text('a')" for n in range(MOST_LINES))
    code = compile(f"def long(session):\n{lines}\n", str(tmp_path / "long.py"), "exec")
    (tmp_path / "long.py").write_text(f"def long(session):\n{lines}\n")
    names: dict[str, Any] = {}
    exec(code, names)
    assert written(names["long"]) is None


CELL = """\
folder = "in"
unrelated = session.readStream.text("other")
rows = session.readStream.text(folder)
for mode in ["update"]:
    words = rows.distinct()
    found = (words, written_by_caller())[1]
"""


class Anything:
    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any) -> Any:
        return self


def test_the_statements_that_have_made_what_a_cell_starts() -> None:
    """As a notebook runs a cell: its text is known under the name of a file that does not exist."""
    name = "/tmp/ipykernel_1/cell.py"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    names: dict[str, Any] = {"session": Anything(), "written_by_caller": written_by_caller}
    try:
        exec(compile(CELL, name, "exec"), names)
    finally:
        del linecache.cache[name]
    assert names["found"].split("\n\n\n") == [
        "rows = session.readStream.text(folder)", "words = rows.distinct()", "found = (words, written_by_caller())[1]",
    ]


def test_in_a_function_its_own_names_are_followed_and_its_callers_are_not() -> None:
    def run() -> str | None:
        query = counts  # the function is named, and so its text is part of the query
        return (query, written_by_caller())[1]

    assert run() == f"{COUNTS}\n\n\nquery = counts  # the function is named, and so its text is part of the query\n\n\nreturn (query, written_by_caller())[1]"


@pytest.mark.parametrize("text", ["if True: (", ""])
def test_a_caller_without_a_readable_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linecache, "getlines", lambda *_: [text])
    assert written_by_caller() is None


def test_a_name_without_a_value_and_a_line_that_is_no_statement_do_no_harm() -> None:
    def query(session: Any) -> Any:
        return session.readStream.text(later)

    assert (written(query) or "").startswith("def query(session")
    if not later_is_known(): found = "no"  # noqa: E701
    else: found = written_by_caller() or ""  # noqa: E701
    later = "in"
    assert later and "written_by_caller" in found


def later_is_known() -> bool:
    return True
