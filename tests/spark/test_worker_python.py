"""A script that is run by a virtual environment's Python which was not activated: `.venv/bin/python script.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, os, sys
from pyspark.sql import SparkSession, functions as F
from minispark_stream import MiniSparkSession

confs = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 1, **dict(conf.split("=") for conf in sys.argv[1:])}
spark = SparkSession.builder.master("local[1]").config(map=confs).getOrCreate()
mini = MiniSparkSession(spark)
rows = mini.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
counts = rows.groupBy().count()
counts.writeStream.format("memory").queryName("counts").outputMode("complete").trigger(once=True).start().awaitTermination()
counted = [row[0] for row in mini.table("counts").collect()]

def threads(process):
    return os.listdir(f"/proc/{process}/task")

def children(process):
    return [child for thread in threads(process) for child in open(f"/proc/{process}/task/{thread}/children").read().split()]

def command(process):
    return open(f"/proc/{process}/cmdline").read().replace(chr(0), " ")

def processes():
    parent = os.getppid()
    jvm = open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1]
    return {"parents": [line for line in map(command, children(jvm)) if "daemon" in line], "threads": len(threads(parent)),
            "workers": len(children(parent))}

def worker():
    of_python = {"python": sys.executable, "modules": list(sys.modules), "path": sys.path, "pyspark": sys.modules["pyspark"].__file__}
    return of_python | (processes() if os.path.exists("/proc/self/stat") else {})

in_worker = json.loads(spark.range(1).select(F.udf(lambda: json.dumps(worker()))()).first()[0])
print(json.dumps({"counted": counted, **in_worker}))
"""
MODULES = "import sys, minispark_stream.worker_daemon; print(*sys.modules)"


@pytest.fixture
def environment(tmp_path):
    """What a script is run with: no other Python than a broken one is on the path."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'another python3, without any package' >&2\nexit 1\n")
    other.chmod(0o755)
    java = Path(shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}") or "").resolve().parents[1]
    return {"PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": str(java), "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(environment: dict[str, str], folder: Path, *confs: str) -> dict[str, Any]:
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", *confs]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_local_workers_import_pyspark_from_its_folder(environment, tmp_path):
    seen = run(environment, tmp_path)
    assert (seen["counted"], seen["python"]) == ([3], sys.executable)
    assert seen["pyspark"] == pyspark.__file__
    assert not [path for path in seen["path"] if path.endswith(("pyspark.zip", "-src.zip", ".jar"))]
    if sys.platform == "linux":
        assert [line.split()[2] for line in seen["parents"]] == ["minispark_stream.local_worker_daemon"], "one for all"
        assert (seen["threads"], seen["workers"]) == (1, 1), "a process with threads must not fork"


def test_the_workers_of_a_local_spark_run_the_drivers_python(environment, tmp_path):
    seen = run(environment, tmp_path, "spark.python.daemon.module=minispark_stream.worker_daemon")
    assert (seen["counted"], seen["python"]) == ([3], sys.executable)
    in_parent = subprocess.run([sys.executable, "-c", MODULES], env=environment, capture_output=True, text=True).stdout.split()
    assert "minispark_stream.engine.operators.state_store_save" in in_parent
    its_own = set(seen["modules"]) - set(in_parent)
    assert not its_own & {"numpy", "pandas", "pyarrow"} and not [name for name in its_own if name.startswith("minispark_stream")]
