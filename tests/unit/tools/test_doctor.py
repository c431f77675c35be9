"""The doctor says what is there, what is missing and how to get it."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

from minispark_stream.tools import doctor, what_runs
from minispark_stream.tools.doctor import Diagnosis, parse_java_version


def test_a_missing_thing_says_how_to_get_it():
    assert str(doctor.check_dot("/usr/bin/dot")) == "ok       dot (/usr/bin/dot)"
    assert str(doctor.check_dot(None)).startswith("missing  dot: not on the PATH")
    assert "apt-get install graphviz" in str(doctor.check_dot(None))


def test_python_older_than_pyspark_allows_is_missing():
    assert doctor.check_python((3, 12, 1)).ok
    assert "needs 3.11 or newer" in str(doctor.check_python((3, 10, 14)))


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', (17, 0, 15)),
        ('openjdk version "21" 2023-09-19', (21,)),
        ('java version "1.8.0_292"', (8, 0, 292)),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_java_version_is_read_from_what_java_prints(printed, version):
    assert parse_java_version(printed) == version


def test_java_is_looked_for_where_spark_looks():
    asked = []

    def run(command):
        asked.append(command[0])
        return 'openjdk version "11.0.2"'

    found = doctor.check_java({"JAVA_HOME": "/opt/jdk"}, run)
    assert asked == ["/opt/jdk/bin/java"]
    assert not found.ok and "needs 17 or newer" in str(found) and "openjdk-17-jre-headless" in str(found)
    assert "does not run" in str(doctor.check_java({}, lambda command: None))


@pytest.mark.parametrize(
    ("version", "versions", "inside"),
    [
        ("4.3.0", ">=4.3,<4.4", True),
        ("4.3.1", "<4.4,>=4.3", True),
        ("4.4.0", ">=4.3,<4.4", False),
        ("4.2.9", ">=4.3,<4.4", False),
        ("26.0.1", ">=18", True),
        ("3.0.0rc1", ">=2.2,<3", False),
        ("1.0", "", True),
    ],
)
def test_version_ranges(version, versions, inside):
    (found,) = doctor.check_packages([f"x{versions}"], {"x": version}.get)
    assert found.ok is inside


def test_packages_needed_optional_out_of_range_and_absent():
    requirements = ["pyspark<4.4,>=4.3", "pandas<3,>=2.2", "tqdm<5,>=4.66", 'minispark_stream[demo]; extra == "course"', 'nbval>=0.11; extra == "test"']
    installed = {"pyspark": "4.3.0", "pandas": "3.0.1"}
    assert [str(f) for f in doctor.check_packages(requirements, installed.get)] == [
        "ok       pyspark 4.3.0",
        "missing  pandas 3.0.1: not in the range <3,>=2.2. Get it: make setup, or pip install 'pandas<3,>=2.2'",
        "missing  tqdm: not installed. Get it: make setup, or pip install 'tqdm<5,>=4.66'",
        "optional nbval: not installed, needed by `test`. Get it: make setup, or pip install 'nbval>=0.11'",
    ]
    older = doctor.check_packages(requirements[:1], {"pyspark": "4.1.4"}.get)
    assert [f.get for f in older] == ["make setup, or pip install 'pyspark<4.4,>=4.3', in an environment of its own"]
    (not_installed,) = doctor.check_packages([], installed.get)
    assert not not_installed.ok and "make setup" in not_installed.get


def answers_with(answer, command):
    return answer


def test_workers_must_run_the_drivers_python():
    here = f"{sys.version_info[0]} {sys.version_info[1]}"
    assert doctor.check_worker_python({"PYSPARK_PYTHON": "p"}, lambda command: here).ok
    unset = doctor.check_worker_python({}, lambda command: None)  # the model's sessions see to it (workers.py)
    assert unset.ok and sys.executable in unset.says
    answers = [(None, "does not run"), ("3 9", "3.9, but the driver is"), (f"{here} pyarrow", "has no pyarrow")]
    for answer, says in answers:
        found = doctor.check_worker_python({"PYSPARK_PYTHON": "p"}, partial(answers_with, answer))
        assert not found.ok and says in found.says and sys.executable in found.get


def test_the_exit_code_counts_only_what_is_needed(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(doctor, "check_packages", lambda *_: [Diagnosis("nbval", ok=False, get="x", needed=False)])
    monkeypatch.setattr(doctor, "check_java", lambda *_: Diagnosis("Java"))
    monkeypatch.setattr(doctor, "check_dot", lambda *_: Diagnosis("dot"))
    monkeypatch.setattr(doctor, "check_worker_python", lambda *_: Diagnosis("workers"))
    assert doctor.doctor(lines.append, start_spark=False) == 0
    assert lines[-1] == "everything that is needed is installed"
    monkeypatch.setattr(doctor, "check_dot", lambda *_: Diagnosis("dot", ok=False, get="y"))
    assert doctor.doctor(lines.append) == 1
    assert lines[-1] == "1 missing, see above"
    runs = "runs     inspect, why, rollback, repair, metrics, and reports that were saved"
    assert runs in lines and lines[-3].startswith("runs     the model,") and lines[-2] == "does not the diagrams of a flow and of a plan (need dot)"
    lines.clear()
    monkeypatch.setattr(what_runs, "OF_INSPECT", ("no such package",))
    doctor.doctor(lines.append)
    assert runs not in lines and lines[-1] == "1 missing, see above"


@pytest.mark.parametrize(("pyspark", "on_spark", "model"), [
    (None, False, False), ("3.4.4", False, False), ("3.5.9", True, False), ("4.1.4", True, False), ("4.3.0", True, True),
])
def test_which_tools_run_with_which_pyspark(monkeypatch, pyspark, on_spark, model):
    monkeypatch.setattr(what_runs.spark_versions, "pyspark_version", lambda: pyspark)
    files, queries, drawn, kit, connect, of_model, _ = (line.startswith("runs") for line in what_runs.what_runs(int(not model), lambda name: "1", True))
    assert files and (queries, drawn, kit, connect, of_model) == (on_spark, on_spark, on_spark, on_spark, model)


@pytest.mark.parametrize(("pyspark", "refused"), [("3.5.9", "the listeners, crash and advance"), ("4.0.1", "crash and advance")])
def test_what_spark_connect_refuses_and_needs(monkeypatch, pyspark, refused):
    monkeypatch.setattr(what_runs.spark_versions, "pyspark_version", lambda: pyspark)
    assert f"runs     these over Spark Connect, but for {refused}" in list(what_runs.what_runs(1, lambda name: "1", True))
    without = {"grpcio-status": None}
    (line,) = (one for one in what_runs.what_runs(1, lambda name: without.get(name, "1"), True) if "Connect" in one)
    assert line == f"does not these over Spark Connect, but for {refused} (needs grpcio-status)"


def test_a_spark_is_started_when_nothing_is_missing(monkeypatch):
    """`doctor` asks it in a process of its own; what it prints last is the answer."""
    lines: list[str] = []
    printed = ["WARN something\nok Spark 4.3.0 and the model counted the same words, 9 s with the start of Java\n", "Boom: no memory", None]
    for check in ("check_java", "check_dot", "check_worker_python"):
        monkeypatch.setattr(doctor, check, lambda *_: Diagnosis("there"))
    monkeypatch.setattr(doctor, "check_packages", lambda *_: [])
    monkeypatch.setattr(doctor, "run_quietly", lambda command: printed[0] if command[-1].endswith("preflight") else None)
    assert doctor.doctor(lines.append) == 0
    assert lines[-2].startswith("ok       Spark 4.3.0 and the model counted")
    for said in ("Boom: no memory", "it was killed"):
        del printed[0]
        assert doctor.doctor(lines.append) == 1
        assert lines[-2].startswith(f"missing  {said}")


def test_windows_is_told_to_use_wsl():
    assert [f.ok for f in doctor.check_system("win32")] == [False]
    assert not list(doctor.check_system("linux")) and not list(doctor.check_system("darwin"))


def test_the_command_needs_no_package():
    """Somebody without PySpark is who needs the doctor most."""
    program = (
        "import sys\n"
        "for name in ('pyspark', 'pandas', 'pyarrow', 'numpy', 'graphviz', 'ipywidgets', 'xxhash', 'packaging'):\n"
        "    sys.modules[name] = None\n"
        "from minispark_stream.tools.cli import main\n"
        "raise SystemExit(main(['doctor', '--no-spark']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert "Python" in done.stdout and "dot" in done.stdout
    assert "ok       pyspark 4.3" in done.stdout, "pip has a copy of packaging"
    alone = program.replace("'packaging')", "'packaging', 'pip')")
    done = subprocess.run([sys.executable, "-c", alone], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1 and "missing  packaging: not installed" in done.stdout
