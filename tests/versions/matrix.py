"""Which tool runs on which Spark: an environment for each version, and play.py in it, classic and over Spark Connect.

    make versions                     all versions; the environments are kept in build/versions
    make versions VERSIONS="3.5 4.0"  some

The exit code is 1 if a cell has failed. What is refused is no failure: its sentence is printed below the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
KINDS = ("classic", "connect")
# PySpark 3.5 was released before NumPy 2, and pyarrow 20 is the last one that reads NumPy 1.
OF_OLD = {"3.5": ["numpy<2", "pyarrow<20", "setuptools<80"]}
# PySpark 3.5 starts no Spark Connect by itself: its server comes from Maven.
CONNECT_JAR = {"3.5": "org.apache.spark:spark-connect_2.12:{}"}


def environment(version: str) -> Path:
    """The Python of an environment with this PySpark and with this package, as a user installs it."""
    folder = ROOT / "build" / "versions" / version
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        wanted = [f"{ROOT}[kit,pictures,monitoring]", f"pyspark[connect]=={version}.*", *OF_OLD.get(version, [])]
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True)
    return python


def play(version: str, kind: str) -> dict[str, str]:
    """tool -> what came of it."""
    python = environment(version)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}
    env |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    if kind == "connect" and version in CONNECT_JAR:
        exact = subprocess.run([python, "-c", "import pyspark; print(pyspark.__version__)"], capture_output=True, text=True, env=env).stdout
        env["PYSPARK_SUBMIT_ARGS"] = f"--packages {CONNECT_JAR[version].format(exact.strip())} pyspark-shell"
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), str(Path(__file__).with_name("play.py")), kind, f"{folder}/run"]
        try:
            done = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return {"the run": "FAILED: it took more than 10 minutes"}
    cells = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"tool"')]
    if not cells:
        return {"the run": f"FAILED: {' '.join(done.stderr.strip().splitlines()[-1:])}"}
    return {one["tool"]: one["cell"] for one in cells}


def table(cells: dict[tuple[str, str], dict[str, str]]) -> str:
    tools = list(dict.fromkeys(tool for column in cells.values() for tool in column))
    heads = [f"{version} {kind}" for version, kind in cells]
    lines = ["| tool | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for tool in tools:
        lines.append(f"| {tool} | " + " | ".join(column.get(tool, "-").partition(":")[0] for column in cells.values()) + " |")
    lines += [
        f"{version} {kind}, {tool}: {cell}"
        for (version, kind), column in cells.items() for tool, cell in column.items() if cell != "ok"
    ]
    return "\n".join(lines)


def main(versions: list[str]) -> int:
    cells = {(version, kind): play(version, kind) for version in versions or VERSIONS for kind in KINDS}
    print(table(cells))
    return int(any(cell.startswith("FAILED") for column in cells.values() for cell in column.values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
