"""A wrong installation ends in one line that names the cause, how to mend it, and `doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from minispark_stream.tools import cause, doctor, requirements

ROOT = Path(__file__).parents[3]
OTHER_PYTHON = "import sys; print('3 9')"  # what the probe of doctor gets from a Python of another version


def run(*command: str, env: Mapping[str, str] = {}, cwd: Path | None = None, unset: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:  # noqa: B006
    kept = {key: value for key, value in os.environ.items() if key not in (*unset, "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    return subprocess.run([sys.executable, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd,
                          env=kept | {"PYTHONPATH": str(ROOT)} | dict(env))


def the_line(done: subprocess.CompletedProcess[str], alone: bool = True) -> str:
    """The line that tells: the only one of a command, the last one of a program."""
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 or not alone, done.stderr
    assert "`python -m minispark_stream doctor`" in lines[-1]
    return lines[-1]


def program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def other_pyspark(tmp_path: Path) -> dict[str, str]:
    """An environment with a PySpark of another version, as pip installs it: the package and its metadata."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    (tmp_path / "pyspark-4.1.4.dist-info").mkdir()
    (tmp_path / "pyspark-4.1.4.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 4.1.4\n")
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize("imported", ["MiniSparkSession", "side_by_side", "what_if"])
def test_another_pyspark_is_named(other_pyspark: dict[str, str], imported: str) -> None:
    told = the_line(run("-c", f"from minispark_stream import {imported}", env=other_pyspark), alone=False)
    assert told.startswith(f"ImportError: {imported} needs PySpark 4.3, and this is PySpark 4.1.4. Get it: pip install ")
    assert "during handling" not in told


def test_tools_are_imported_with_an_old_pyspark_and_without_one() -> None:
    tools = "import minispark_stream as ms; ms.inspect, ms.explain_output, ms.trace_of, ms.live, ms.rollback"
    old = "import minispark_stream.engine.spark_versions as versions; versions.pyspark_version = lambda: '3.5.9'\n"
    none = "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None\n"
    assert run("-c", f"{old}{tools}, ms.TraceListener; import minispark_stream.testing").stderr == ""
    assert run("-c", none + tools).stderr == ""
    without = "from minispark_stream import MiniSparkSession"
    told = the_line(run("-c", none + without), alone=False)
    assert told.startswith("ImportError: MiniSparkSession needs PySpark 4.3, and there is no PySpark here. Get it: ")


def test_the_demo_with_another_pyspark(other_pyspark: dict[str, str]) -> None:
    assert the_line(run("-m", "minispark_stream", "demo", env=other_pyspark)).startswith("demo: pyspark 4.1.4: not in the range")


def test_the_package_that_a_command_misses_is_named_first() -> None:
    """`inspect` needs no PySpark, so it does not speak of it."""
    without = "import sys; sys.modules['pyarrow'] = None; from minispark_stream.tools.cli import main; sys.exit(main(['inspect', 'x']))"
    error = ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    assert run("-c", without).stderr != ""
    missing = [doctor.Diagnosis("pyspark: not installed", ok=False, get="a"), doctor.Diagnosis("pyarrow: not installed", ok=False, get="b")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "installed_packages", lambda: missing)
        assert str(cause.of_import(error)).startswith("pyarrow: not installed. Get it: b. (")
        patch.setattr(doctor, "installed_packages", lambda: [])
        assert cause.of_import(error) is error, "nothing is missing: the error speaks for itself"


def test_no_java(tmp_path: Path) -> None:
    told = the_line(run("-m", "minispark_stream", "demo", env={"PATH": str(tmp_path)}, unset=("JAVA_HOME",)))
    assert told.startswith("demo: Java: java does not run. Get it: apt-get install openjdk-17")


def test_an_old_java(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "import sys; print('openjdk version \"11.0.2\"', file=sys.stderr)")
    told = the_line(run("-m", "minispark_stream", "demo", env={"JAVA_HOME": str(tmp_path)}))
    assert told.startswith("demo: Java 11.0.2 (") and "Spark 4 needs 17 or newer" in told


def test_another_spark_in_spark_home(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    told = the_line(run("-m", "minispark_stream", "demo", env={"SPARK_HOME": str(tmp_path)}))
    assert told.startswith(f"demo: SPARK_HOME={tmp_path}: Spark 3.5.1, but 4.3 is needed. Get it: unset SPARK_HOME")
    assert [found.ok for found in doctor.check_spark_home({"SPARK_HOME": str(tmp_path / "jars")})] == [False]
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").rename(tmp_path / "jars" / "spark-core_2.13-4.3.1.jar")
    assert [found.ok for found in doctor.check_spark_home({"SPARK_HOME": str(tmp_path)})] == [True]
    assert list(doctor.check_spark_home({})) == []


def test_another_python_for_the_workers(tmp_path: Path) -> None:
    other = program(tmp_path / "python", OTHER_PYTHON)
    told = the_line(run("-m", "minispark_stream", "demo", env={"PYSPARK_PYTHON": other}))
    assert told.startswith(f"demo: Python of the workers (PYSPARK_PYTHON={other}): 3.9, but the driver is ")
    told = the_line(run("-m", "minispark_stream", "demo", env={"PYSPARK_PYTHON": "/nope"}))
    assert told.startswith("demo: Python of the workers (PYSPARK_PYTHON=/nope): does not run. Get it: unset PYSPARK_PYTHON")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("java.net.BindException: Address already in use: Service 'sparkDriver' failed after 0 retries!\n\tat x", "Service 'sparkDriver' failed"),
        ("java.net.BindException: bind(..) failed with error(-99): Cannot assign requested address: Service\n", "Cannot assign requested"),
        (": java.nio.channels.UnresolvedAddressException\n\tat x", "export SPARK_LOCAL_IP=127.0.0.1"),
        ("Caused by: java.net.UnknownHostException: box: Name or service not known\n", "export SPARK_LOCAL_IP=127.0.0.1"),
        ("Error while sending or receiving", "spark.ui.port to a free port"),
    ],
)
def test_what_java_says_of_ports_and_names(monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    monkeypatch.setattr(doctor, "check_java", lambda *_: doctor.Diagnosis("Java"))
    found: Any = cause.of_start(RuntimeError(said))
    assert found.startswith("Spark has not started: ") and told in found and cause.ASK in found and "\n" not in found


def test_another_error_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_java", lambda *_: doctor.Diagnosis("Java"))
    assert cause.of_start(RuntimeError("spark.master is wrong")) is None


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file in the place of the folder")
    told = the_line(run("-m", "minispark_stream", "demo", cwd=tmp_path))
    assert told.startswith("demo: ") and "--out FOLDER" in told


def test_a_clone_that_is_only_on_the_path_is_looked_at_all_the_same() -> None:
    """doctor reads the ranges from pyproject.toml if nothing is installed: the same as in the metadata."""
    text = (ROOT / "pyproject.toml").read_text()
    lines = requirements.requirements_of(text)
    assert lines[0].startswith("pyarrow") and any('extra == "test"' in line for line in lines)
    assert {found.says.split()[0] for found in doctor.check_packages(lines, {"pyspark": "4.3.0"}.get)} >= {"pyspark", "pandas:"}
