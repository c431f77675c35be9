"""Checkpoints of queries that ran in Spark's real-time mode.

    python -m tests.conformance.real_time_checkpoint FOLDER      writes FOLDER/count and FOLDER/distinct, each with one batch: a b a

A process of its own writes them, because all stages of such a query run at once, and need more cores than the tests' Spark has.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

QUERIES: dict[str, Any] = {"count": lambda df: df.groupBy("value").count(), "distinct": lambda df: df.dropDuplicates(["value"])}


def write_checkpoints(spark: SparkSession, folder: Path) -> None:
    jvm: Any = spark._jvm
    streams = getattr(jvm, "org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream")
    for name, query in QUERIES.items():
        stream = streams.singlePartition(spark._jsparkSession, jvm.org.apache.spark.sql.Encoders.STRING())
        values = jvm.java.util.ArrayList(list("aba"))
        stream.addData(jvm.scala.jdk.CollectionConverters.ListHasAsScala(values).asScala().toSeq())
        writer = query(DataFrame(stream.toDF(), spark)).writeStream.outputMode("update").format("console")
        running = writer.option("checkpointLocation", str(folder / name)).trigger(realTime="5 seconds").start()
        while running.isActive and not (folder / name / "commits/0").exists():
            time.sleep(0.1)
        running.stop()
        if (error := running.exception()) is not None:
            raise error


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[4]").config("spark.sql.shuffle.partitions", "1")
    write_checkpoints(builder.config("spark.ui.enabled", "false").getOrCreate(), Path(sys.argv[1]))
