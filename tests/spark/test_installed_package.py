"""The package as others get it: built, installed into clean environments, and used there without the repository.

Costs minutes and a gigabyte, so it is left out unless MINISPARK_PACKAGE is set; `make package-test` sets it. What is cheap to check
about the wheel is in tests/unit/project/test_packaging.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from minispark_stream.tools.course import LESSONS
from tests.unit.hand_made import windowed_count

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not os.environ.get("MINISPARK_PACKAGE"), reason="make package-test"),
    pytest.mark.timeout(1800),
]
# Nothing of this environment is to help.
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
MOST_MB = {"light": 300, "full": 1100}


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def environment(folder: Path, *install: str | Path) -> Path:
    """A new virtual environment with `install`; returns the folder of its programs."""
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *install, cwd=folder)
    return folder / "bin"


@pytest.fixture(scope="module")
def full(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("full"), f"minispark_stream[demo] @ {wheel.as_uri()}")


@pytest.fixture(scope="module")
def light(wheel, tmp_path_factory):
    """Without an extra, there is no PySpark."""
    return environment(tmp_path_factory.mktemp("light"), f"minispark_stream[inspect] @ {wheel.as_uri()}")


def megabytes(bin_folder: Path) -> float:
    """What pip installed, without pip itself."""
    files = [path for path in (bin_folder.parent / "lib").rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files if not {"pip", "setuptools", "pkg_resources"} & set(path.parts)) / 1e6


def test_readmes_query_runs(full, tmp_path):
    query, *_ = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    (tmp_path / "query.py").write_text(query + "\nprint('differences:', comparison.differences)\n")
    assert "differences: ()" in run(full / "python", "query.py", cwd=tmp_path)
    assert (tmp_path / "word_count.html").is_file()


def test_the_commands_run(full, tmp_path):
    assert "ok       Spark 4.3" in run(full / "minispark_stream", "doctor", cwd=tmp_path)
    assert run(full / "minispark_stream", "demo", "--days", "1", cwd=tmp_path).count("Both engines agree.") == 2
    written = run(full / "minispark_stream", "course", "lessons", cwd=tmp_path)
    course = {path.name for path in sorted([*(ROOT / "notebooks").glob(LESSONS), *(ROOT / "notebooks").glob("*.py")])}
    assert f"{len(course)} files written to lessons" in written and {path.name for path in (tmp_path / "lessons").iterdir()} == {*course, "docs"}
    assert (tmp_path / "lessons" / "docs" / "play.html").is_file()
    assert megabytes(full) <= MOST_MB["full"]


def test_the_light_install_gives_the_same_report(light, full, tmp_path):
    checkpoint = windowed_count(tmp_path / "cp")
    report = run(light / "minispark_stream", "inspect", checkpoint, "--json", cwd=tmp_path)
    assert report == run(full / "minispark_stream", "inspect", checkpoint, "--json", cwd=tmp_path)
    assert json.loads(report)["findings"] == []
    assert megabytes(light) <= MOST_MB["light"]
    assert "PySpark is not installed" in run(light / "minispark_stream", "--version", cwd=tmp_path)
    told = subprocess.run([light / "python", "-c", "from minispark_stream import MiniSparkSession"], capture_output=True, text=True, env=ENV).stderr
    assert "MiniSparkSession needs PySpark 4.3, and there is no PySpark here" in told


def test_a_pyspark_that_is_there_stays(wheel, tmp_path):
    """pip and uv say what they would do beside PySpark 3.5."""
    old = environment(tmp_path / "old", "--no-deps", "pyspark==3.5.*") / "python"
    uv = environment(tmp_path / "uv", "uv") / "uv"
    for extra in ("", "[inspect]", "[kit]", "[pictures,kit]"):
        package = f"minispark_stream{extra} @ {wheel.as_uri()}"
        by_pip = run(old, "-m", "pip", "install", "--dry-run", package, cwd=tmp_path).partition("Would install")[2]
        by_uv = run("sh", "-c", f'"{uv}" pip install --dry-run --python "{old}" "{package}" 2>&1', cwd=tmp_path).partition("Would install")[2]
        for would in (by_pip, by_uv.replace("-", "_")):
            assert "minispark_stream" in would and "pyspark" not in would
