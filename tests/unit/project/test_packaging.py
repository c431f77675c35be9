"""pyproject.toml, environment.yml, the Makefile and CI say the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from minispark_stream.tools.cli import main
from minispark_stream.tools.course import LESSONS, PAGES, relinked
from minispark_stream.tools.doctor import JAVA_NEEDED, PYTHON_NEEDED, dotted

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What conda-forge calls a package that PyPI calls otherwise.
CONDA_NAME = {"graphviz": "python-graphviz", "xxhash": "python-xxhash"}
DATA = {".py", ".html", ".css", ".js", ".toml", ".yml", ".json", ".txt"}
NOT_PYTHON_PACKAGES = {"python", "openjdk", "graphviz", "pip"}


def pip_ranges() -> dict[str, str]:
    lines = PROJECT["dependencies"] + [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    return ranges(line for line in lines if not line.startswith("minispark_stream["))  # an extra made of extras


def ranges(lines: Iterable[str]) -> dict[str, str]:
    """Package -> its range, the bounds in the order of their texts."""
    narrow_last = sorted(map(Requirement, lines), key=lambda r: len(r.specifier))  # the model's PySpark, not the kit's
    return {r.name: str(r.specifier) for r in narrow_last if r.marker is None or r.marker.evaluate()}


def conda() -> tuple[dict[str, str], list[str]]:
    """(package -> range of every conda package, lines of its pip section)."""
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(d["pip"] for d in dependencies if isinstance(d, dict))
    split = [re.fullmatch(r"([A-Za-z0-9_-]+)(.*)", d) for d in dependencies if isinstance(d, str)]
    return {m.group(1): m.group(2) for m in split if m}, pip


def test_environment_yml_has_the_ranges_of_pyproject():
    packages, pip = conda()
    from_pip = ranges(line for line in pip if line != "-e .")
    from_conda = ranges(name + versions for name, versions in packages.items() if name not in NOT_PYTHON_PACKAGES)
    expected = {(name if name in from_pip else CONDA_NAME.get(name, name)): v for name, v in pip_ranges().items()}
    assert from_conda | from_pip == expected
    assert pip[-1] == "-e ."


def test_environment_yml_brings_java_and_dot():
    packages, _ = conda()
    assert packages["openjdk"] == f"={JAVA_NEEDED}"
    assert packages["python"] == f">={dotted(PYTHON_NEEDED)}"
    assert "graphviz" in packages


def test_only_the_model_asks_for_a_version_of_pyspark():
    """pip leaves a PySpark alone that is there, whatever else is installed; and what reads files needs none."""
    asks = {extra: [line for line in lines if line.startswith("pyspark")] for extra, lines in PROJECT["optional-dependencies"].items()}
    assert {extra: lines for extra, lines in asks.items() if lines} == {"kit": ["pyspark>=3.5"], "model": ["pyspark>=4.3,<4.4"]}
    assert not any(line.startswith(("pyspark", "minispark_stream")) for line in PROJECT["dependencies"])
    assert PROJECT["optional-dependencies"]["inspect"] == []


def test_pyspark_and_pandas_are_bounded():
    assert pip_ranges()["pyspark"] == "<4.4,>=4.3"
    assert pip_ranges()["pandas"].startswith("<3,")


def test_one_python_is_asked_for_everywhere():
    """By pip, by the linter, by doctor, by the set-up, and on the pages."""
    tools = PROJECT["requires-python"].removeprefix(">=")  # PySpark 3.5 to 4.2 run with an older one, and so do the tools
    assert tools == "3.10"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["target-version"] == f"py{tools.replace('.', '')}"
    assert f"sys.version_info < {PYTHON_NEEDED}" in (ROOT / "Makefile").read_text()
    older = re.compile(r"(?i)python[^.\n]{0,20}3\.[0-9]\b")
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "minispark_stream").rglob("*.py")]
    assert [page.name for page in pages if older.search(page.read_text())] == []


def test_nobody_is_told_to_install_what_is_not_on_pypi():
    """Anybody could put a package of this name there. A path, or an address after @, is meant when one is written."""
    by_name = re.compile(r"pip install (?:-\S+ )*['\"]?minispark_stream(?:\[[\w,]*\])?['\"]?(?![\[\w'\"]| @|-)")
    places = ["README.md", "CONTRIBUTING.md", "Makefile", "docs", "minispark_stream", "notebooks", ".devcontainer", ".binder", ".github", "tests"]
    files = [file for place in places for file in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))]
    read = [file for file in files if file.suffix in {".md", ".py", ".ipynb", ".toml", ".yml", ""} and file.is_file() and file != Path(__file__)]
    assert len(read) > 500
    assert [str(file) for file in read if by_name.search(file.read_text(encoding="utf-8"))] == []
    assert by_name.search("pip install -q 'minispark_stream[demo,delta]'") and by_name.search("pip install minispark_stream numpy")
    assert not by_name.search("pip install 'minispark_stream[demo] @ git+https://x'")


def test_ci_runs_what_the_readme_tells_a_developer_to_run():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert "CI=true exec make test" in run.read_text()
    assert "make test" in (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: check$", makefile, re.M)
    assert re.search(r"^check: lint types build/spark.jsa\n\t\$\(PYTEST\) tests \$\(NOTEBOOKS\)$", makefile, re.M)


def test_the_console_command_is_the_module():
    assert PROJECT["scripts"] == {"minispark_stream": "minispark_stream.tools.cli:main"}


def test_the_wheel_has_all_of_the_package_and_the_notebooks(tmp_path):
    """Built in a second, without a network; tests/spark/test_installed_package.py installs and uses it."""
    pytest.importorskip("hatchling")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "minispark_stream").rglob("*") if path.suffix in DATA}
    assert {Path(name).suffix for name in package} == DATA
    course = {f"minispark_stream_notebooks/{path.name}" for path in sorted([*(ROOT / "notebooks").glob(LESSONS), *(ROOT / "notebooks").glob("*.py")])}
    docs = {f"minispark_stream_docs/{page.relative_to(ROOT / 'docs').as_posix()}" for pages in PAGES for page in (ROOT / "docs").glob(pages)}
    assert inside == package | course | docs


def test_what_is_left_beside_the_course_belongs_to_nobody_else(tmp_path, capsys, monkeypatch):
    """JupyterLab's copies, notebooks of one's own, and what Spark and the exercises leave: neither copied nor built in."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("[!0]*.ipynb"))
    shutil.copytree(ROOT / "minispark_stream" / "tools", tmp_path / "minispark_stream" / "tools")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    left = [".ipynb_checkpoints/00_start_here-checkpoint.ipynb", "Untitled.ipynb", "answers.json", "spark-warehouse/t/a.parquet",
            "derby.log", "notes.txt", "Copy of 00_start_here.ipynb"]
    for name in left:
        (tmp_path / "notebooks" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notebooks" / name).write_text("{}")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "dist")], cwd=tmp_path, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    built = [*zipfile.ZipFile(wheel).namelist(), *tarfile.open(sdist).getnames()]
    assert [name for name in built if name.endswith("00_start_here.ipynb")] != []
    assert [name for name in built for one in left if name.endswith(one)] == []
    monkeypatch.setattr("minispark_stream.tools.course.PACKAGE", tmp_path / "minispark_stream")
    assert main(["course", str(tmp_path / "mine")]) == 0
    assert [name for name in left if (tmp_path / "mine" / name).exists()] == []


def test_course_copies_the_notebooks_once(tmp_path, capsys):
    assert main(["course", str(tmp_path / "a" / "b")]) == 0
    assert "0 existed already" in capsys.readouterr().out
    first = tmp_path / "a" / "b" / "00_start_here.ipynb"
    assert first.read_text(encoding="utf-8") == relinked((ROOT / "notebooks" / first.name).read_text(encoding="utf-8"))
    first.write_text("my answers")
    assert main(["course", str(first.parent)]) == 0
    assert first.read_text() == "my answers"
    assert "0 files written" in capsys.readouterr().out
    assert main(["course", str(first)]) == 1


def test_ci_installs_versions_that_the_ranges_allow():
    """.ci/constraints.txt: one set of versions that is known to work; users get the newest that the ranges allow."""
    locked = dict(line.split("==") for line in (ROOT / ".ci" / "constraints.txt").read_text().lower().split())
    for name, versions in pip_ranges().items():
        assert Requirement(f"{name}{versions}").specifier.contains(locked[name.lower()]), f"{name} {locked[name.lower()]}: not {versions}"
