"""Spark's classes as the JVM has them in its memory, in a file: with it, a Spark starts with less than half of the processor's time.

    python -m tests.class_archive      writes build/spark.jsa, if it is not there

Each notebook and each test with a driver of its own starts a JVM, which loads 17,000 classes. The file has those that a windowed count
needs on both engines. It fits one Java and one PySpark; for another one, the JVM ignores it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "build" / "spark.jsa"


def use() -> None:
    """Let each driver that this process and its children start read the file, if there is one."""
    option = f'"-XX:SharedArchiveFile={ARCHIVE}" -Xlog:disable'
    if ARCHIVE.exists() and option not in os.environ["SPARK_SUBMIT_OPTS"]:
        os.environ["SPARK_SUBMIT_OPTS"] += f" {option}"


def count(session: Any, folder: str) -> None:
    """Play a windowed count of two rows."""
    from pyspark.sql import functions as F

    events = session.readStream.schema("ts timestamp, k string").json(f"{folder}/in").withWatermark("ts", "10 minutes")
    writer = events.groupBy(F.window("ts", "5 minutes"), "k").count().writeStream.outputMode("update").foreachBatch(lambda batch, _: batch.collect())
    writer.trigger(availableNow=True).start().awaitTermination()


def write() -> None:
    from pyspark.sql import SparkSession

    import tests.conftest  # noqa: F401 - the JVM's other options
    from minispark_stream import MiniSparkSession

    ARCHIVE.parent.mkdir(exist_ok=True)
    unfinished = ARCHIVE.with_suffix(f".{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] += f' "-XX:ArchiveClassesAtExit={unfinished}" -Xlog:disable'
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").mkdir()
        Path(folder, "in", "0.json").write_text('{"ts": "2026-03-01 12:02:00", "k": "a"}\n{"ts": "2026-03-01 12:04:00", "k": "b"}\n')
        for session in (spark, MiniSparkSession(spark)):
            count(session, folder)
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # at which the JVM ends, and writes the file
    gateway.proc.wait(timeout=300)
    unfinished.rename(ARCHIVE)


if __name__ == "__main__":
    if not ARCHIVE.exists():
        try:
            write()
        except Exception as e:
            print(f"tests will start Spark without an archive of its classes: {e}", file=sys.stderr)
