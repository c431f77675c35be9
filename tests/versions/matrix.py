"""Which tool runs on which Spark: an environment for each version, and in it play.py and suites.py, classic and over Spark Connect.

    make versions                     all versions; the environments, and what was run in them, are kept in build/versions
    make versions VERSIONS="3.5 4.0"  some
    make versions VERSIONS="4.3@python3.13"  with another Python than that of .venv; with another Java: set JAVA_HOME
    make versions CASES=3             with a third of the cases

1. play.py uses every tool once.
2. suites.py plays a hundred cases of Spark's own suites with the testing kit.
3. The checkpoints that play.py has left are read and continued by the PySpark that this is run with, the one of the model (go_on.py).

The exit code is 1 if a cell has failed. What is refused is no failure: its sentence is printed below the table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BUILD = ROOT / "build" / "versions"
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
KINDS = ("classic", "connect")
# PySpark 3.5 was released before NumPy 2, and pyarrow 20 is the last one that reads NumPy 1.
OF_OLD = {"3.5": ["numpy<2", "pyarrow<20", "setuptools<80"]}
# PySpark 3.5 starts no Spark Connect by itself: its server comes from Maven, in the newest version that is there.
CONNECT_JAR = {"3.5": "org.apache.spark:spark-connect_2.12:3.5.+"}
SUITES = "Spark's suites"
MINUTES = {"play.py": 10, "suites.py": 30, "go_on.py": 20}

Cells = dict[str, str]


def environment(version: str) -> Path:
    """The Python of an environment with this PySpark, `4.3` or `4.3@python3.13`, and with this package, as a user installs it."""
    folder = BUILD / version
    python = folder / "bin" / "python"
    if not python.exists():
        pyspark, _, interpreter = version.partition("@")
        subprocess.run([interpreter or sys.executable, "-m", "venv", folder], check=True)
        wanted = [f"{ROOT}[kit,pictures,monitoring]", f"pyspark[connect]=={pyspark}.*", *OF_OLD.get(pyspark, [])]
        try:
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True)
        except BaseException:
            shutil.rmtree(folder)  # half an environment is not to be taken for a whole one the next time
            raise
    return python


def run(python: str | Path, script: str, *arguments: str | Path, submit: str = "") -> tuple[list[dict[str, Any]], str]:
    """The lines of JSON that a script prints, and why there may be too few of them."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
    env |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    env["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # small data: what Java saves on compiling is most of the time
    if submit:
        env["PYSPARK_SUBMIT_ARGS"] = f"{submit} pyspark-shell"
    command = [python, HERE / script, *arguments]
    try:
        done = subprocess.run(
            [str(word) for word in command], env=env, cwd=BUILD, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60 * MINUTES[script],
        )
    except subprocess.TimeoutExpired as e:
        return _lines((e.stdout or b"").decode()), f"it took more than {MINUTES[script]} minutes"
    (BUILD / "runs" / f"{script}.log").write_text(done.stderr)
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("\tat ")]
    return _lines(done.stdout), "" if done.returncode == 0 else " ".join(said[-1:]) or "it has ended"


def _lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith('{"')]


def played(version: str, kind: str, every: str) -> Cells:
    """What came of each tool, and of every nth case."""
    python = environment(version)
    folder = BUILD / "runs" / f"{version}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    submit = f"--packages {CONNECT_JAR[version]}" if kind == "connect" and version in CONNECT_JAR else ""
    lines, why = run(python, "play.py", kind, folder, submit=submit)  # (1)
    cells = {one["tool"]: one["cell"] for one in lines}
    if why:
        cells["the run"] = f"FAILED: {why}"
    lines, why = run(python, "suites.py", kind, folder / "suites", every, submit=submit)  # (2)
    counted = Counter(one["verdict"].partition(":")[0] for one in lines)
    failed = [f"{one['case']}: {one['verdict']}" for one in lines if one["verdict"].startswith("FAILED")] + [why] * bool(why)
    cells[SUITES] = "FAILED: " + "; ".join(failed) if failed else ", ".join(f"{n} {word}" for word, n in counted.items())
    return cells


def table(cells: dict[tuple[str, str], Cells]) -> str:
    tools = list(dict.fromkeys(tool for column in cells.values() for tool in column))
    heads = [f"{version} {kind}" for version, kind in cells]
    lines = ["| tool | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for tool in tools:
        lines.append(f"| {tool} | " + " | ".join(column.get(tool, "-").partition(":")[0] for column in cells.values()) + " |")
    lines += [
        f"{version} {kind}, {tool}: {cell}"
        for (version, kind), column in cells.items() for tool, cell in column.items() if ":" in cell
    ]
    return "\n".join(lines)


def main(every: str, *versions: str) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    cells: dict[tuple[str, str], Cells] = {}
    for version in versions or VERSIONS:
        for kind in KINDS:
            column = cells[version, kind] = played(version, kind, every)
            print(f"{version} {kind}: {len(column)} cells, {column[SUITES]}", flush=True)  # the table comes when all is done, an hour later
    runs = {f"{version}-{kind}": column for (version, kind), column in cells.items()}
    lines, why = run(sys.executable, "go_on.py", *(BUILD / "runs" / name for name in runs))  # (3)
    for name, column in runs.items():
        found = [one["cell"] for one in lines if one["run"] == name]
        column["its checkpoint, continued"] = found[0] if found else f"FAILED: {why}"
    print(table(cells))
    return int(any(cell.startswith("FAILED") for column in cells.values() for cell in column.values()))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
