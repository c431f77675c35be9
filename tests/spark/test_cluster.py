"""On a cluster: two executors with a JVM each, one of which is killed between two batches.

The cluster is Spark's own `local-cluster`, and it needs a driver of its own, which is the program below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark

DRIVER = '''
import json, os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from minispark_stream import MiniSparkSession

folder = Path(sys.argv[1])
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", 3).getOrCreate()
)
mini = MiniSparkSession(spark)

def counts(session):
    words = session.readStream.schema("value string").format("text").load(str(folder / "in"))
    return words.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()

def run(session):
    query = (
        counts(session).writeStream.outputMode("complete").format("memory").queryName("counts")
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return {row.word: row["count"] for row in session.table("counts").collect()}

def executor_of_this_task(_):
    """The process id of the JVM, and where the worker has the model from."""
    import minispark_stream
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rsplit(")", 1)[1].split()[1]), minispark_stream.__file__

found = []
for batch, text in enumerate(["to be", "or not", "to be or", "not to be"]):
    (folder / "in" / f"{batch}.txt").write_text(text)
    found.append(run(spark if batch == 2 else mini))  # either engine goes on where the other stopped
    executor, path = spark.sparkContext.range(1, numSlices=1).map(executor_of_this_task).first()
    if batch == 1:
        os.kill(executor, signal.SIGKILL)
print(json.dumps({"found": found, "path": path}))
'''


def test_state_is_found_again_when_an_executor_is_lost(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    home = tmp_path / "spark"  # its workers write into it
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    environment = {**os.environ, "SPARK_HOME": str(home)}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=600,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    result = json.loads(ran.stdout.splitlines()[-1])
    words = "to be or not to be or not to be".split()
    assert result["found"] == [Counter(words[:end]) for end in (2, 4, 7, 10)]
    assert "minispark_stream.zip" in result["path"]
