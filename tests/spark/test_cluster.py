"""On a cluster: Spark's own standalone one, with a master and two workers that take each other for different machines.

An executor is killed between two batches, a task fails after it has written its state, and one that hangs there gets a second,
speculative attempt elsewhere. At last an executor is killed while it writes a snapshot. Before all that, each partition keeps its host
from batch to batch. The driver is the program below.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

DRIVER = '''
import json, os, signal, sys, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as F
from minispark_stream import MiniSparkSession
from minispark_stream.engine.runtime import stream_execution
from minispark_stream.engine.state.maintenance import MaintenanceRound

folder = Path(sys.argv[1])
confs = {
    "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 3, "spark.executor.memory": "512m", "spark.speculation": "true",
    "spark.speculation.quantile": 0.3, "spark.speculation.interval": "100ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": 2, "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
}
spark = SparkSession.builder.config(map=confs).getOrCreate()
mini = MiniSparkSession(spark)

def counts(session):
    words = session.readStream.schema("value string").format("text").load(str(folder / "in"))
    return words.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()

def shaky(batches):
    """When it has all rows of a partition, its state is written. The first attempt to get there fails, in one task, or hangs."""
    yield from batches
    partition = TaskContext.get().partitionId()
    try:
        (folder / f"first {partition}").touch(exist_ok=False)
    except FileExistsError:
        (folder / f"second {partition}").touch()
        return
    if partition == 0:
        raise RuntimeError("the first attempt fails")
    if partition == 1:
        time.sleep(600)

def run(session, result):
    query = (
        result.writeStream.outputMode("complete").format("memory").queryName("counts")
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return {row.word: row["count"] for row in session.table("counts").collect()}

def executor_of_this_task(_=None):
    """The process id of the JVM, and where the worker has the model from."""
    import minispark_stream
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rsplit(")", 1)[1].split()[1]), minispark_stream.__file__

def say_where(batches):
    """Every attempt notes on which host it has run."""
    yield from batches
    with (folder / "where").open("a") as notes:
        notes.write(f"{TaskContext.get().partitionId()} {os.environ['SPARK_LOCAL_IP']}\\n")

def note_where_the_partitions_are():
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # two executors and the driver
        time.sleep(0.1)
    for _ in range(5):
        numbers = mini.readStream.format("rate-micro-batch").options(rowsPerBatch=30).load()
        counted = numbers.groupBy((F.col("value") % 10).alias("k")).count()
        writer = counted.mapInArrow(say_where, counted.schema).writeStream.outputMode("complete").format("noop")
        writer.option("checkpointLocation", str(folder / "numbers")).trigger(availableNow=True).start().awaitTermination()

class KilledOnce(MaintenanceRound):
    """The first snapshot is written under a hidden name, and before it gets its own, the executor is killed."""

    def run(self):
        def kill(*_):
            (folder / "killed").touch()
            os.kill(executor_of_this_task()[0], signal.SIGKILL)
            time.sleep(600)
        rename = os.replace
        os.replace = rename if (folder / "killed").exists() else kill
        try:
            return super().run()
        finally:
            os.replace = rename

note_where_the_partitions_are()
found = []
for batch, text in enumerate(["to be", "or not", "to be or", "not to be", "that is"]):
    (folder / "in" / f"{batch}.txt").write_text(text)
    session = spark if batch == 2 else mini  # either engine goes on where the other stopped
    result = counts(session)
    found.append(run(session, result.mapInArrow(shaky, result.schema) if batch == 3 else result))
    executor, path = spark.sparkContext.range(1, numSlices=1).map(executor_of_this_task).first()
    if batch == 1:
        os.kill(executor, signal.SIGKILL)

spark.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "100ms")
stream_execution.MaintenanceRound = KilledOnce
writer = counts(mini).writeStream.outputMode("complete").format("memory").queryName("counts")
query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
snapshots = []
for batch in (5, 6):
    (folder / "in" / f"{batch}.txt").write_text("the question")
    query.processAllAvailable()
    while len(snapshots) < 3:  # of each partition one
        time.sleep(0.1)
        snapshots = [event.outputs for event in query.trace.events if event.step == "maintenance" and event.outputs.get("snapshot")]
found.append({row.word: row["count"] for row in mini.table("counts").collect()})
query.stop()
print(json.dumps({
    "found": found, "path": path, "second": [p.name for p in folder.glob("second *")], "driver": os.getpid(), "snapshots": snapshots,
    "where": (folder / "where").read_text(), "killed": (folder / "killed").exists(), "unfinished": len(list(folder.glob("checkpoint/state/0/*/.*.snapshot.*.tmp"))),
}))
'''


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone cluster of two workers with a core each."""
    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def start(class_name: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", "--host", host, "--webui-port", "0"]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "512m",
                       "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
        with (tmp_path / f"{class_name}-{host}.log").open("wb") as log:
            return subprocess.Popen([*command, *arguments], env=environment, stdout=log, stderr=log)

    url = f"spark://127.0.0.1:{port}"
    started = [start("master.Master", "127.0.0.1", "--port", port)]
    for host in ("127.0.0.1", "127.0.0.2"):  # a speculative attempt runs on another host than the first
        started.append(start("worker.Worker", host, "--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / host), url))
    yield url
    for process in reversed(started):
        process.terminate()
        process.wait()


def test_state_outlives_lost_executors_and_second_attempts(master: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master, str(driver), str(tmp_path)]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(submit, env=environment, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]
    result = json.loads(ran.stdout.splitlines()[-1])
    words = "to be or not to be or not to be that is the question the question".split()
    assert result["found"] == [Counter(words[:end]) for end in (2, 4, 7, 10, 12, 16)]
    assert {"second 0", "second 1"} <= set(result["second"])
    assert "minispark_stream.zip" in result["path"]
    assert keeps_its_host(result["where"])
    assert result["killed"] and result["unfinished"] == 1
    assert str(result["driver"]) not in {snapshot["worker"].rpartition(":")[2] for snapshot in result["snapshots"]}


def keeps_its_host(notes: str) -> bool:
    """Whether nearly all tasks of a partition ran on one host; a speculative attempt runs on the other one."""
    seen = Counter(tuple(line.split()) for line in notes.splitlines())
    mostly = {partition: max((n, host) for (p, host), n in seen.items() if p == partition) for partition, _ in seen}
    return len({host for _, host in mostly.values()}) == 2 and sum(n for n, _ in mostly.values()) >= 0.9 * seen.total()
