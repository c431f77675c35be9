"""Plants bugs, one at a time, and says which tests find them: `make mutants`. A bug that no test finds is a missing test.

1. The bugs are data (tests/mutants.toml): what is replaced in which file, and which tests are to find it.
2. Each is planted in a copy of the project, where its tests run; then the copy is made whole again.
3. A bug is found when a test fails. An error before that, such as a file that Python cannot read, is none that a person would make.
4. What was found goes into the table of docs/mutants.md, and what was not found is printed.

    python -m tests.mutants              all bugs
    python -m tests.mutants 2/4          the second quarter of them: a long run may be cut into parts
    python -m tests.mutants epoch        those whose line or file has this word
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.result_tables import fill_in

ROOT = Path(__file__).parents[1]
PAGE = "mutants.md"
SOME_FAILED, NO_TESTS = 1, 5  # exit codes of pytest


@dataclass(frozen=True)
class Mutant:
    """A line of the table; mutants.toml says what each field is."""

    bug: str
    file: str
    text: str
    becomes: str
    tests: tuple[str, ...]

    @property
    def source(self) -> Path:
        return Path("minispark_stream") / self.file


def mutants() -> list[Mutant]:  # (1)
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Mutant(**{**one, "tests": tuple(one["tests"])}) for one in data["mutant"]]


def chosen(words: list[str]) -> list[Mutant]:
    """The mutants that the command line asks for."""
    every = mutants()
    if len(words) == 1 and (part := re.fullmatch(r"(\d+)/(\d+)", words[0])):
        number, of = map(int, part.groups())
        return every[len(every) * (number - 1) // of : len(every) * number // of]
    return [one for one in every if not words or any(word in f"{one.bug} {one.file}" for word in words)]


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:  # (2)
    path = copy / mutant.source
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace(mutant.text, mutant.becomes), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(whole, encoding="utf-8")


def finders(mutant: Mutant, copy: Path) -> list[str]:  # (3)
    """The tests that fail with the bug, without their parameters.

    Raises:
        RuntimeError: pytest could not run them.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", *mutant.tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    failed = re.findall(r"^FAILED (\S+?)(?:\[.*)?(?: - .*)?$", done.stdout, re.M)
    if done.returncode not in (0, SOME_FAILED) or done.returncode == SOME_FAILED and not failed:
        raise RuntimeError(f"{mutant.bug}: {done.stdout[-3000:]}{done.stderr[-1000:]}")
    return list(dict.fromkeys(failed))


def cells(mutant: Mutant, found_by: list[str]) -> list[str]:  # (4)
    """What the table says of a bug that was found."""
    tests = [f"`{name.removeprefix('tests/')}`" for name in found_by[:2]]
    more = [f"and {len(found_by) - 2} more"] if len(found_by) > 2 else []
    return [f"`{mutant.file}`", "<br>".join(tests + more)]


def main(words: list[str]) -> int:
    began, alive = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        for part in ("minispark_stream", "tests", "docs", "notebooks"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mutant in (some := chosen(words)):
            with planted(mutant, copy):
                found_by = finders(mutant, copy)
            print(f"{'found' if found_by else 'ALIVE'}  {mutant.bug}", flush=True)
            if found_by:
                fill_in(PAGE, {mutant.bug: cells(mutant, found_by)}, [one.bug for one in mutants()])
            else:
                alive.append(mutant)
    print(f"{len(some) - len(alive)} of {len(some)} bugs were found, in {time.monotonic() - began:.0f} seconds")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
