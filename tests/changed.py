"""Prints the tests that a change touches, for `make test-changed`, one a line.

1. What has changed is what `git diff` names against `main` (or another commit that is given), and the files that are new.
2. A test that has changed is touched, and so is each test without Spark (tests/unit) that imports a changed module, directly or by way of
   others.
3. A test with Spark reaches every module through the session, so imports say nothing about it. Touched are those that the
   docstring of a changed module names ("Shown by tests/...").

    python -m tests.changed          what has changed since main
    python -m tests.changed HEAD~1   since the commit before
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.import_graph import PACKAGE, ROOT, file_of, imported_modules, modules

SHOWN_BY = re.compile(r"tests/[\w/]+\.py(?:::\w+)?")


def changed_files(since: str) -> list[str]:  # (1)
    """The paths, from the root, of what has changed or is new."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()

    return [*git("diff", "--name-only", "--diff-filter=d", since), *git("ls-files", "--others", "--exclude-standard")]


def touched_tests(changed: Iterable[str]) -> list[str]:
    """The tests, as pytest takes them, that a change of these files touches."""
    files = set(changed)
    found = {path for path in files if re.fullmatch(r"tests/.*/test_\w+\.py", path)}
    at_hand = {name for name in modules() if file_of(name) in files}
    for name in at_hand:  # (3)
        found |= set(SHOWN_BY.findall(ast.get_docstring(modules()[name]) or ""))
    imports = {name: imported_modules(tree) for name, tree in modules().items()}
    for path in sorted((ROOT / "tests/unit").rglob("test_*.py")):  # (2)
        if at_hand & _reached(imported_modules(ast.parse(path.read_text(encoding="utf-8"))), imports):
            found.add(path.relative_to(ROOT).as_posix())
    return sorted(test for test in found if "::" not in test or test.partition("::")[0] not in found)


def _reached(start: set[str], imports: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    todo = set(start)
    while todo:
        reached |= todo
        todo = {far for near in todo for far in imports.get(near, ())} - reached
    return reached


if __name__ == "__main__":
    tests = touched_tests(changed_files(sys.argv[1] if len(sys.argv) > 1 else "main"))
    print("\n".join(tests))
    if not tests:
        print(f"no test of {Path(PACKAGE)} is touched", file=sys.stderr)
