"""What the package requires, by its installed metadata or, if a clone is only on the path, by its pyproject.toml.

    own_requirements()      ["pyspark<4.4,>=4.3", "nbval>=0.11 ; extra == \"test\"", ...]
    own_version()           "0.1.0"

It needs no package: `packaging`, or the copy of it in pip, is imported only if there are version ranges to check.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PROJECT_FILE = Path(__file__).parents[2] / "pyproject.toml"


def own_requirements() -> list[str]:
    """The requirements of minispark_stream; empty if it is neither installed nor beside its pyproject.toml."""
    try:
        return metadata.requires("minispark_stream") or []
    except metadata.PackageNotFoundError:
        return requirements_of(PROJECT_FILE.read_text(encoding="utf-8")) if PROJECT_FILE.is_file() else []


def own_version() -> str:
    """The version of minispark_stream; of a clone that is only on the path, that of its pyproject.toml."""
    version = installed_version("minispark_stream")
    if version is None and PROJECT_FILE.is_file():
        version = str(_project(PROJECT_FILE.read_text(encoding="utf-8"))["version"])
    return version or "of unknown version"


def requirements_of(text: str) -> list[str]:
    """The requirements in the text of a pyproject.toml, as the metadata of an installed package have them."""
    project = _project(text)
    extras = [f'{line} ; extra == "{extra}"' for extra, lines in project["optional-dependencies"].items() for line in lines]
    return [*project["dependencies"], *extras]


def _project(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def requirement_class() -> Any:
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]
    return Requirement


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
