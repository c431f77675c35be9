"""`make new`: the files of each kind under another name; and a step, which is played in a copy of the package."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import new

ROOT = Path(__file__).parents[3]

@pytest.mark.parametrize("kind", ["operator", "source", "sink", "picture"])
def test_the_files_of_a_kind_have_the_new_name(tmp_path: Path, kind: str) -> None:
    module, test = new.new(kind, "loudThing", tmp_path)
    assert (module.name, test.name) == ("loud_thing.py", "test_loud_thing.py")
    for path in (module, test):
        text = path.read_text()
        ast.parse(text)
        assert "loud_thing" in text and not any(name in text for name in new.spellings(new.EXAMPLES[kind])[:2])
    with pytest.raises(FileExistsError, match=r"loud_thing\.py is there already"):
        new.new(kind, "loudThing", tmp_path)


def test_a_step_in_a_copy_of_the_package(tmp_path: Path) -> None:
    package = "minispark_stream"
    shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    written = new.new("step", "askTheDisk", tmp_path)
    code = "import sys, pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code, str(written[-1])], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "    ├─ askTheDisk\n" in (tmp_path / new.STEPS).read_text()
    with pytest.raises(FileExistsError):
        new.new("step", "askTheDisk", tmp_path)


@pytest.mark.parametrize(("kind", "name"), [("window", "x"), ("sink", "two words")])
def test_what_it_does_not_know(tmp_path: Path, kind: str, name: str) -> None:
    with pytest.raises(ValueError, match="KIND is one of|NAME is a name"):
        new.new(kind, name, tmp_path)
