"""A script that is run by a virtual environment's Python which was not activated: `.venv/bin/python script.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as F
from minispark_stream import MiniSparkSession

confs = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 1, "spark.python.daemon.module": "minispark_stream.worker_daemon"}
spark = SparkSession.builder.master("local[1]").config(map=confs).getOrCreate()
mini = MiniSparkSession(spark)
rows = mini.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
counts = rows.groupBy().count()
counts.writeStream.format("memory").queryName("counts").outputMode("complete").trigger(once=True).start().awaitTermination()
print("counted", [row[0] for row in mini.table("counts").collect()])
which = F.udf(lambda: f"{sys.executable} {' '.join(sys.modules)}")
print("udf", spark.range(1).select(which()).first()[0])
"""
MODULES = "import sys, minispark_stream.worker_daemon; print(*sys.modules)"


def test_the_workers_of_a_local_spark_run_the_drivers_python(tmp_path):
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'another python3, without any package' >&2\nexit 1\n")
    other.chmod(0o755)
    (tmp_path / "script.py").write_text(SCRIPT)
    java = Path(shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}") or "").resolve().parents[1]
    clean = {"PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": str(java), "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    counted, in_udf = done.stdout.splitlines()
    udf, python, *in_worker = in_udf.split()
    assert (counted, udf, python) == ("counted [3]", "udf", sys.executable)
    in_parent = subprocess.run([sys.executable, "-c", MODULES], env=clean, capture_output=True, text=True).stdout.split()
    assert "minispark_stream.engine.operators.state_store_save" in in_parent
    its_own = set(in_worker) - set(in_parent)
    assert not its_own & {"numpy", "pandas", "pyarrow"} and not [name for name in its_own if name.startswith("minispark_stream")]
