"""A script that is run by a virtual environment's Python which was not activated: `.venv/bin/python script.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, os, sys
from contextlib import suppress
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
    found = []
    for thread in threads(process):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end at any time
            found += open(f"/proc/{process}/task/{thread}/children").read().split()
    return found

def command(process):
    return open(f"/proc/{process}/cmdline").read().replace(chr(0), " ")

def processes():
    parent = os.getppid()
    jvm = open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1]
    memory = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    its_own = int(memory["Private_Dirty"].split()[0]) // 1024
    return {"parents": [line for line in map(command, children(jvm)) if "daemon" in line], "threads": len(threads(parent)),
            "workers": len(children(parent)), "MB": int(memory["Rss"].split()[0]) // 1024, "MB of its own": its_own}

def worker():
    of_python = {"python": sys.executable, "modules": list(sys.modules), "path": sys.path, "pyspark": sys.modules["pyspark"].__file__}
    return of_python | (processes() if os.path.exists("/proc/self/stat") else {})

in_worker = json.loads(spark.range(1).select(F.udf(lambda: json.dumps(worker()))()).first()[0])
print(json.dumps({"counted": counted, **in_worker}))
"""


@pytest.fixture
def environment(tmp_path):
    """What a script is run with: no other Python than a broken one is on the path."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'another python3, without any package' >&2\nexit 1\n")
    other.chmod(0o755)
    java = Path(shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}") or "").resolve().parents[1]
    of_java = {"JAVA_HOME": str(java), "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
    return {"PATH": f"{other.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", **of_java}


def run(environment: dict[str, str], folder: Path, *arguments: str, script: str = SCRIPT, python: str = sys.executable) -> Any:
    (folder / "script.py").write_text(script)
    command = [python, "script.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_local_workers_import_pyspark_from_its_folder(environment, tmp_path):
    seen = run(environment, tmp_path)
    assert (seen["counted"], seen["python"]) == ([3], sys.executable)
    assert seen["pyspark"] == pyspark.__file__
    assert not [path for path in seen["path"] if path.endswith(("pyspark.zip", "-src.zip", ".jar"))]
    if sys.platform == "linux":
        assert [line.split()[2] for line in seen["parents"]] == ["minispark_stream.worker_daemon"], "one for all"
        assert (seen["threads"], seen["workers"]) == (1, 1), "a process with threads must not fork"


NUMBERS = """
import json, sys, time
from pyspark.sql import SparkSession

def draw(batches):
    import random, uuid
    import numpy as np
    import pandas as pd
    for batch in batches:
        time.sleep(2)  # so that each task has a worker of its own
        drawn = [random.random(), np.random.rand(), int(pd.Series(range(10**9 // 1000)).sample(1).iloc[0]), str(uuid.uuid4())]
        yield pd.DataFrame({"drawn": [json.dumps(drawn)]})

confs = dict(conf.split("=") for conf in sys.argv[1:])
spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").config(map=confs).getOrCreate()
if "minispark_stream.worker_daemon" not in confs.values():
    from minispark_stream import MiniSparkSession
    MiniSparkSession(spark)
print(json.dumps([json.loads(row[0]) for row in spark.range(0, 4, 1, 4).mapInPandas(draw, "drawn string").collect()]))
"""


@pytest.mark.parametrize("confs", [(), ("spark.python.daemon.module=minispark_stream.worker_daemon",)], ids=["default", "asked for"])
def test_no_two_workers_draw_the_same_random_numbers(environment, tmp_path, confs):
    drawn = run(environment | {"PYSPARK_PYTHON": sys.executable}, tmp_path, *confs, script=NUMBERS)
    for of_one_kind in zip(*drawn):
        assert len(set(of_one_kind)) == 4


CLONE = """
import json, os, sys
from contextlib import suppress
sys.path.insert(0, sys.argv[1])
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

@F.udf
def seen(i):
    return json.dumps([sys.executable, dict(os.environ).get("PYTHONPATH"), [path for path in sys.path if "minispark" not in path]])

before = spark.range(1).select(seen("id")).first()[0]
from minispark_stream import MiniSparkSession
mini = MiniSparkSession(spark)
after = [spark.range(1).select(function("id")).first()[0] for function in (seen, F.udf(seen.func))]
rows = mini.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
counts = rows.groupBy().count()
counts.writeStream.format("memory").queryName("counts").outputMode("complete").trigger(once=True).start().awaitTermination()
print(json.dumps([before, after, mini.table("counts").first()[0]]))
"""


def test_a_package_that_only_the_driver_finds_breaks_no_function(environment, tmp_path):
    """As in a clone that is only on `sys.path`. Another `python3` is first in the PATH of the workers, which has all packages."""
    venv.create(tmp_path / "bare", with_pip=False)
    [packages] = (tmp_path / "bare").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # whose own .pth files are not read
    python = tmp_path / "bare/bin/python3"
    env = environment | {"PATH": f"{python.parent}:/usr/bin:/bin"}
    del env["PYTHONPATH"]
    before, after, counted = run(env, tmp_path, str(ROOT), script=CLONE, python=str(python))
    assert json.loads(before)[0] == str(python) and after == [before, before] and counted == 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_workers_of_a_local_spark_share_what_their_parent_has_imported(environment, tmp_path):
    seen = run(environment, tmp_path)
    assert {"numpy", "pandas", "pyarrow", "minispark_stream.engine.operators.aggregation.state_store_save"} <= set(seen["modules"])
    assert seen["MB of its own"] < seen["MB"] / 3
