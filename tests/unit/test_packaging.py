"""pyproject.toml, environment.yml, the Makefile and CI say the same."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import tomllib
import yaml
from packaging.requirements import Requirement

from minispark_stream.tools.doctor import JAVA_NEEDED, PYTHON_NEEDED, dotted

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What conda-forge calls a package that PyPI calls otherwise.
CONDA_NAME = {"graphviz": "python-graphviz", "xxhash": "python-xxhash"}
NOT_PYTHON_PACKAGES = {"python", "openjdk", "graphviz", "pip"}


def pip_ranges() -> dict[str, str]:
    lines = PROJECT["dependencies"] + [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    return ranges(lines)


def ranges(lines: Iterable[str]) -> dict[str, str]:
    """Package -> its range, the bounds in the order of their texts."""
    return {r.name: str(r.specifier) for r in map(Requirement, lines)}


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


def test_pyspark_and_pandas_are_bounded():
    assert pip_ranges()["pyspark"] == "<4.4,>=4.3"
    assert pip_ranges()["pandas"].startswith("<3,")
    assert PROJECT["requires-python"] == ">=3.10"


def test_ci_runs_what_the_readme_tells_a_developer_to_run():
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    assert "CI=true exec make test" in run.read_text()
    assert "make test" in (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: check$", makefile, re.M)
    assert re.search(r"^check: lint types\n\t\$\(PYTEST\) tests \$\(NOTEBOOKS\)$", makefile, re.M)


def test_the_console_command_is_the_module():
    assert PROJECT["scripts"] == {"minispark_stream": "minispark_stream.tools.cli:main"}
