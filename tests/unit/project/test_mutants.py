"""The table of planted bugs does not rot: each can still be planted, and the page says who finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutants import PAGE, ROOT, mutants
from tests.result_tables import lines


def test_what_a_bug_replaces_is_there_once_and_is_replaced_by_something_else() -> None:
    for mutant in mutants():
        source = (ROOT / mutant.source).read_text(encoding="utf-8")
        assert source.count(mutant.text) == 1, f"{mutant.bug}: {mutant.file}"
        compile(source.replace(mutant.text, mutant.becomes), mutant.file, "exec")
        assert mutant.becomes != mutant.text


def test_a_bug_has_no_name_that_python_does_not_know(tmp_path: Path) -> None:
    """It would be found because of the NameError."""
    for number, mutant in enumerate(mutants()):
        source = (ROOT / mutant.source).read_text(encoding="utf-8")
        (tmp_path / f"{number}.py").write_text(source.replace(mutant.text, mutant.becomes), encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_that_are_to_find_a_bug_are_there() -> None:
    for mutant in mutants():
        for test in mutant.tests:
            path, *names = test.partition("[")[0].split("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert all(f"def {name}(" in text or f"class {name}" in text for name in names), test


def test_the_page_has_every_bug() -> None:
    assert list(lines(PAGE)) == [mutant.bug for mutant in mutants()]
