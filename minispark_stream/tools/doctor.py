"""What minispark_stream needs on this machine: what is installed, and what is missing.

Models nothing of Spark. It looks at eight things and prints one line for each finding:

1. Python itself: PySpark 4.3 needs 3.11. And the system: on Windows, Spark's checkpoints need programs of Hadoop.
2. Java, found as Spark's launcher finds it: $JAVA_HOME/bin/java, else `java` on the PATH; 17 or newer.
3. `dot`, the program of graphviz that draws the flow diagrams.
4. Every package, against the ranges of pyproject.toml: those in the installed metadata or, if a clone is only on the path, in
   the file itself.
5. The Python of Spark's workers: $PYSPARK_PYTHON, else this one, which the model's sessions set for a local Spark.
6. $SPARK_HOME, if it is set: PySpark runs the Spark that is there, whatever pip has installed.
7. What the package uses of Spark's internals, compared with the jars and the PySpark that are here (contract/check.py).
8. If nothing is missing, Spark itself: words are counted on both engines (preflight.py).

Then it says which tools run with what is there, because only the model and its pictures need all of it (what_runs.py).

Example:

    ok       Java 17.0.15 (/usr/bin/java)
    missing  dot: not on the PATH. Get it: apt-get install graphviz, ...
    optional nbval: not installed, needed by `test`. Get it: pip install 'nbval>=0.11'
    missing  Spark's internals: 1 of 984 classes, members and names is missing or different. Get it: pip install ...
             org.apache.spark.sql.execution.LogicalRDD.new: not new(Seq, RDD) any more, but new(Seq, RDD, boolean); used for ...

It needs no package: `packaging`, or the copy of it in pip, is imported only if there are version ranges to check.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minispark_stream.engine import spark_versions
from minispark_stream.tools.requirements import PROJECT_FILE, installed_version, own_requirements, requirement_class
from minispark_stream.tools.what_runs import what_runs

PYTHON_NEEDED = (3, 11)
SPARK_NEEDED = spark_versions.MODEL
JAVA_NEEDED = 17
GET_JAVA = (
    "apt-get install openjdk-17-jre-headless; or brew install openjdk@17, and "
    "export JAVA_HOME=$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home; or conda install -c conda-forge openjdk"
)
GET_DOT = "apt-get install graphviz, brew install graphviz, or conda install -c conda-forge graphviz"

OF_THE_MODEL = ("model", "pictures")  # the extras that it needs
# A clone of the repository has a Makefile, which installs everything. The extras for developers are only useful there.
IN_REPOSITORY = PROJECT_FILE.with_name("Makefile").is_file()
SETUP = "make setup, or " if IN_REPOSITORY else ""
OF_DEVELOPERS = ("site", "test")

RunCommand = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True)
class Diagnosis:
    """What was found about one thing.

    `get` says how to get it if it is missing; `needed` is False for the extras; `details` are lines below it.
    """

    says: str
    ok: bool = True
    get: str = ""
    needed: bool = True
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.ok:
            return f"ok       {self.says}"
        first = f"{'missing' if self.needed else 'optional':8} {self.says}. Get it: {self.get}"
        return "\n         ".join((first, *self.details))


def doctor(out: Callable[[str], None] = print, start_spark: bool = True) -> int:
    """Look at everything, and print a line for each finding.

    Args:
        start_spark: whether to start Spark if nothing is missing, and count words on both engines, which takes up to a minute.

    Returns 0, or 1 if something that is needed is missing.
    """
    dot = check_dot(shutil.which("dot"))
    findings = [
        check_python(sys.version_info[:3]),
        *check_system(sys.platform),
        check_java(os.environ, run_quietly),
        dot,
        *installed_packages(),
        check_worker_python(os.environ, run_quietly),
        *check_spark_home(os.environ),
        *check_contract(os.environ),
    ]
    for finding in findings:
        out(str(finding))
    missing = sum(f.needed and not f.ok for f in findings)
    for line in what_runs(missing - (not dot.ok), installed_version, dot.ok):
        out(line)
    if start_spark and not missing:
        out("counting words on both engines, in a separate Spark (up to a minute)")
        finding = check_spark(run_quietly)
        out(str(finding))
        missing += not finding.ok
    out(f"{missing} missing, see above" if missing else "everything that is needed is installed")
    return 1 if missing else 0


# (1)
def check_python(version: tuple[int, ...]) -> Diagnosis:
    says = f"Python {dotted(version)} ({sys.executable})"
    if version >= PYTHON_NEEDED:
        return Diagnosis(says)
    return Diagnosis(f"{says}: PySpark 4.3 needs {dotted(PYTHON_NEEDED)} or newer", ok=False,
                   get=f"python.org, pyenv install {dotted(PYTHON_NEEDED)}, or conda (environment.yml)")


def check_system(platform: str) -> Iterator[Diagnosis]:
    if platform == "win32":
        yield Diagnosis("Windows: Spark writes no checkpoint here without winutils.exe and hadoop.dll", ok=False,
                      get="wsl --install, and everything as on Ubuntu from there")


# (2)
def check_java(env: Mapping[str, str], run: RunCommand) -> Diagnosis:
    home = env.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java") or "java"
    version = parse_java_version(run([java, "-version"]) or "")
    where = f"{java}, from JAVA_HOME" if home else java
    if version is None:
        return Diagnosis(f"Java: {where} does not run", ok=False,
                       get=GET_JAVA + (", and unset JAVA_HOME or point it there" if home else ""))
    if version[0] < JAVA_NEEDED:
        return Diagnosis(f"Java {dotted(version)} ({where}): Spark 4 needs {JAVA_NEEDED} or newer", ok=False,
                       get=GET_JAVA + ", and point JAVA_HOME there")
    return Diagnosis(f"Java {dotted(version)} ({where})")


def parse_java_version(text: str) -> tuple[int, ...] | None:
    """`openjdk version "17.0.15"` -> (17, 0, 15); Java 8 calls itself "1.8.0_292" -> (8, 0, 292)."""
    found = re.search(r'version "([0-9._]+)', text)
    if not found:
        return None
    version = tuple(int(n) for n in re.findall(r"\d+", found.group(1)))
    return version[1:] if version[:1] == (1,) else version


# (3)
def check_dot(path: str | None) -> Diagnosis:
    if path:
        return Diagnosis(f"dot ({path})")
    return Diagnosis("dot: not on the PATH, so no flow diagrams can be drawn", ok=False, get=GET_DOT)


# (4)
def installed_packages() -> Iterator[Diagnosis]:
    yield from check_packages(own_requirements(), installed_version)


def check_packages(requirements: Sequence[str], installed: Callable[[str], str | None]) -> Iterator[Diagnosis]:
    if not requirements:
        yield Diagnosis(f"minispark_stream: not installed in {sys.executable}", ok=False,
                      get="make setup, then .venv/bin/python -m minispark_stream doctor; or pip install -e .")
        return
    try:
        parsed = requirement_class()
    except ModuleNotFoundError:
        yield Diagnosis("packaging: not installed, so no other package was looked for", ok=False,
                      get=f"{SETUP}pip install packaging")
        return
    once: dict[str, Any] = {}
    for requirement in sorted((parsed(line) for line in requirements), key=_comes_late):
        once.setdefault(requirement.name, requirement)
    for requirement in once.values():
        name, versions = requirement.name, requirement.specifier
        marker, extra = requirement.marker, _extra(requirement)
        if marker is not None and not marker.evaluate({"extra": extra[0] if extra else ""}):
            continue  # needed by another version of Python
        if extra and extra[0] in OF_DEVELOPERS and not IN_REPOSITORY:
            continue
        if name == "minispark_stream":  # an extra that is made of extras
            continue
        version = installed(name)
        if version is not None and versions.contains(version, prereleases=True):
            yield Diagnosis(f"{name} {version}")
            continue
        what = f"{name}: not installed" if version is None else f"{name} {version}: not in the range {versions}"
        needed = not extra or extra[0] in OF_THE_MODEL
        yield Diagnosis(what if needed else f"{what}, needed by `{extra[0]}`", ok=False, needed=needed,
                      get=get_package(name, str(versions), version))


def get_package(name: str, versions: str, found: str | None) -> str:
    """How to get a package; the PySpark that is there stays, and another one gets an environment of its own."""
    where = ", in an environment of its own" if name == "pyspark" and found is not None else ""
    return f"{SETUP}pip install '{name}{versions}'{where}"


def _extra(requirement: Any) -> list[str]:
    return re.findall(r'extra == "(\w+)"', str(requirement.marker))


def _comes_late(requirement: Any) -> int:
    """Of several ranges of a package, that of the model counts, because it is the narrowest."""
    extra = _extra(requirement)
    return 0 if not extra or extra[0] in OF_THE_MODEL else 1


# (5)
def check_worker_python(env: Mapping[str, str], run: RunCommand) -> Diagnosis:
    """The Python of a worker must have the same minor version as the driver's, and find the same packages."""
    worker = env.get("PYSPARK_PYTHON")
    if not worker:
        return Diagnosis(f"Python of the workers (PYSPARK_PYTHON is not set: on this machine, {sys.executable})")
    where, get = f"PYSPARK_PYTHON={worker}", f"unset PYSPARK_PYTHON, or export PYSPARK_PYTHON={sys.executable}"
    probe = ("import sys; from importlib.util import find_spec as f; "
             "print(*sys.version_info[:2], *[m for m in 'pyspark numpy pandas pyarrow xxhash'.split() if not f(m)])")
    answer = run([worker, "-c", probe])
    if answer is None:
        return Diagnosis(f"Python of the workers ({where}): does not run", ok=False, get=get)
    major, minor, *lacks = answer.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        return Diagnosis(f"Python of the workers ({where}): {major}.{minor}, but the driver is "
                       f"{dotted(sys.version_info[:2])}", ok=False, get=get)
    if lacks:
        return Diagnosis(f"Python of the workers ({where}): has no {' and no '.join(lacks)}", ok=False, get=get)
    return Diagnosis(f"Python of the workers ({where})")


# (6)
def check_spark_home(env: Mapping[str, str]) -> Iterator[Diagnosis]:
    home = env.get("SPARK_HOME")
    if not home:
        return
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    version = jars[0].stem.rpartition("-")[2] if jars else None
    says = f"SPARK_HOME={home}: {f'Spark {version}' if version else 'no Spark there'}"
    ok = version is not None and version.startswith(f"{dotted(SPARK_NEEDED)}.")
    yield Diagnosis(says if ok or not version else f"{says}, but {dotted(SPARK_NEEDED)} is needed", ok=ok,
                  get="unset SPARK_HOME, and PySpark runs the Spark that pip has installed with it")


# (7)
def check_contract(env: Mapping[str, str]) -> Iterator[Diagnosis]:
    """All that the Spark which a session would run, and PySpark, do not have as the package uses it."""
    from minispark_stream.tools.contract import check  # the other findings are there before these modules are read

    spark = check.installed(env.get("SPARK_HOME"))
    if spark is None:
        return
    found, number = list(check.differences(spark, check.entries())), check.count(check.entries())
    what = f"Spark's internals: {{}} of {number} classes, members and names"
    if not found:
        yield Diagnosis(what.format("all"))
        return
    yield Diagnosis(f"{what.format(len(found))} {'is' if len(found) == 1 else 'are'} missing or different", ok=False,
                  get=get_package("pyspark", f"=={dotted(SPARK_NEEDED)}.*", spark_versions.pyspark_version()),
                  details=tuple(map(str, found)))


# (8)
def check_spark(run: RunCommand) -> Diagnosis:
    said = run([sys.executable, "-m", "minispark_stream.tools.preflight"])
    last = said.strip().splitlines()[-1] if said and said.strip() else "it was killed, or took too long"
    return Diagnosis(last.removeprefix("ok "), ok=last.startswith("ok "),
                   get=f"see what {sys.executable} -m minispark_stream.tools.preflight prints")


def run_quietly(command: Sequence[str]) -> str | None:
    """What a program prints (stdout and stderr); None if it does not exist or fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=180, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def dotted(version: Iterable[int]) -> str:
    return ".".join(str(n) for n in version)
