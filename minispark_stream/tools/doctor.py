"""What is there, and what is missing, to run minispark_stream on this machine.

Models nothing of Spark. It looks at five things and prints one line for each finding:

1. Python itself: PySpark 4.3 needs 3.11.
2. Java, found as Spark's launcher finds it: $JAVA_HOME/bin/java, else `java` on the PATH; 17 or newer.
3. `dot`, the program of graphviz that lays out the pictures.
4. Every package, against the ranges of pyproject.toml (read back from the installed metadata, so there is one list).
5. The Python of Spark's workers: $PYSPARK_PYTHON, else `python3` on the PATH, which need not be this one.

Example:

    ok       Java 17.0.15 (/usr/bin/java)
    missing  dot: not on the PATH. Get it: apt-get install graphviz, ...
    optional nbval: not installed, needed by `test`. Get it: pip install 'minispark_stream[test]'

Runs without any package installed: the only one that it imports, `packaging`, is asked when there are ranges to read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

PYTHON_NEEDED = (3, 11)
JAVA_NEEDED = 17
GET_JAVA = "apt-get install openjdk-17-jre-headless, brew install openjdk@17, or conda install -c conda-forge openjdk"
GET_DOT = "apt-get install graphviz, brew install graphviz, or conda install -c conda-forge graphviz"

Run = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `get` says how to get what is missing; `needed` is False for the extras."""

    says: str
    ok: bool = True
    get: str = ""
    needed: bool = True

    def __str__(self) -> str:
        if self.ok:
            return f"ok       {self.says}"
        return f"{'missing' if self.needed else 'optional':8} {self.says}. Get it: {self.get}"


def doctor(out: Callable[[str], None] = print) -> int:
    """Look at everything, print a line for each.

    Returns 0, or 1 when something that is needed is missing.
    """
    findings = [
        check_python(sys.version_info[:3]),
        check_java(os.environ, run_quietly),
        check_dot(shutil.which("dot")),
        *check_packages(own_requirements(), installed_version),
        check_worker_python(os.environ, run_quietly),
    ]
    for finding in findings:
        out(str(finding))
    missing = [f for f in findings if f.needed and not f.ok]
    out(f"{len(missing)} missing" if missing else "everything that is needed is there")
    return 1 if missing else 0


# (1)
def check_python(version: tuple[int, ...]) -> Finding:
    says = f"Python {dotted(version)} ({sys.executable})"
    if version >= PYTHON_NEEDED:
        return Finding(says)
    return Finding(f"{says}: PySpark 4.3 needs {dotted(PYTHON_NEEDED)} or newer", ok=False,
                   get=f"python.org, pyenv install {dotted(PYTHON_NEEDED)}, or conda (environment.yml)")


# (2)
def check_java(env: Mapping[str, str], run: Run) -> Finding:
    home = env.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java") or "java"
    version = parse_java_version(run([java, "-version"]) or "")
    where = f"{java}, from JAVA_HOME" if home else java
    if version is None:
        return Finding(f"Java: {where} does not run", ok=False,
                       get=GET_JAVA + (", and unset JAVA_HOME or point it there" if home else ""))
    if version[0] < JAVA_NEEDED:
        return Finding(f"Java {dotted(version)} ({where}): Spark 4 needs {JAVA_NEEDED} or newer", ok=False,
                       get=GET_JAVA + ", and point JAVA_HOME there")
    return Finding(f"Java {dotted(version)} ({where})")


def parse_java_version(text: str) -> tuple[int, ...] | None:
    """`openjdk version "17.0.15"` -> (17, 0, 15); Java 8 calls itself "1.8.0_292" -> (8, 0, 292)."""
    found = re.search(r'version "([0-9._]+)', text)
    if not found:
        return None
    version = tuple(int(n) for n in re.findall(r"\d+", found.group(1)))
    return version[1:] if version[:1] == (1,) else version


# (3)
def check_dot(path: str | None) -> Finding:
    if path:
        return Finding(f"dot ({path})")
    return Finding("dot: not on the PATH, no pictures can be drawn", ok=False, get=GET_DOT)


# (4)
def check_packages(requirements: Sequence[str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    if not requirements:
        yield Finding(f"minispark_stream: not installed in {sys.executable}", ok=False,
                      get="make setup, then .venv/bin/python -m minispark_stream doctor; or pip install -e .")
        return
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        yield Finding("packaging: not installed, so no other package was looked for", ok=False,
                      get="make setup, or pip install packaging")
        return
    for requirement in map(Requirement, requirements):
        name, versions = requirement.name, requirement.specifier
        version = installed(name)
        if version is not None and versions.contains(version, prereleases=True):
            yield Finding(f"{name} {version}")
            continue
        what = f"{name}: not installed" if version is None else f"{name} {version}: not in the range {versions}"
        extra = re.search(r'extra == "(\w+)"', str(requirement.marker))
        yield Finding(f"{what}, needed by `{extra[1]}`" if extra else what, ok=False, needed=not extra,
                      get=f"make setup, or pip install '{name}{versions}'")


def own_requirements() -> list[str]:
    """The requirements of the installed minispark_stream; empty when it is not installed."""
    try:
        return metadata.requires("minispark_stream") or []
    except metadata.PackageNotFoundError:
        return []


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# (5)
def check_worker_python(env: Mapping[str, str], run: Run) -> Finding:
    """A worker must be the same minor version as the driver and find the same packages."""
    chosen = env.get("PYSPARK_PYTHON")
    worker = chosen or "python3"
    where = f"PYSPARK_PYTHON={chosen}" if chosen else "PYSPARK_PYTHON is not set: python3 on the PATH"
    get = f"export PYSPARK_PYTHON={sys.executable}"
    probe = ("import sys; from importlib.util import find_spec as f; "
             "print(*sys.version_info[:2], *[m for m in ('pyspark', 'pyarrow') if not f(m)])")
    answer = run([worker, "-c", probe])
    if answer is None:
        return Finding(f"Python of the workers ({where}): does not run", ok=False, get=get)
    major, minor, *lacks = answer.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        return Finding(f"Python of the workers ({where}): {major}.{minor}, but the driver is "
                       f"{dotted(sys.version_info[:2])}", ok=False, get=get)
    if lacks:
        return Finding(f"Python of the workers ({where}): has no {' and no '.join(lacks)}", ok=False, get=get)
    return Finding(f"Python of the workers ({where})")


def run_quietly(command: Sequence[str]) -> str | None:
    """What a program prints (stdout and stderr); None when it is not there or fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def dotted(version: Iterable[int]) -> str:
    return ".".join(str(n) for n in version)
