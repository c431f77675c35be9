"""Structured Streaming on one page: windowed counts of a folder of files, on PySpark's batch API.

A streaming query is a loop around batch jobs. What makes it more than a loop is on this page: no
row is lost or counted twice, whenever the process is killed, because all that the loop must know is
on disk. The numbers are the ten steps of a micro-batch, in this package and in the documents:

(1) Read both logs. The batch to run is the first one that is not in the commit log.
(2) If it is not in the offset log either, look for new files. Without any, a batch runs only if the
    watermark has moved.
(3) Write the batch into the offset log *before* it runs: run again, it reads the same files.
(4) Make a plan over the rows of these files; nothing is read yet.
(5) to (8) Make one plan from new rows and old state: drop the late groups, by the watermark of the
    batch before; add the counts in the last version of the state; mark the windows that the
    watermark of this batch has passed, which are then evicted from the state.
(9) Act: one Spark job writes the next version of the state, and the sink receives from it the rows
    that the output mode asks for.
(10) Write the batch into the commit log, with the watermark of the next batch. Begin again at (1).

    size 5 minutes, delay 10 minutes, mode "append", one file per batch
    batch  offsets/N                rows         late up to  evicted up to  output       commits/N
    0      1.json, watermark 0      12:02 12:04  0           0              -            11:54
    1      2.json, watermark 11:54  12:21        0           11:54          -            12:11
    2      3.json, watermark 12:11  12:04        11:54       12:11          12:00 -> 3   12:11
    3      4.json, watermark 12:11  12:04        12:11       12:11          -            12:11

So there are two watermarks. When batch 2 reads the row of 12:04, the watermark, 12:11, has already
passed the end of its window, but the row still counts: batch 1 ran under 11:54, so the window is
still in the state, and its count has not been emitted. A row is late only if an earlier batch has
evicted its window, as with the row of batch 3. In this run, file 3 is there when batch 1 ends. If
it were not, a batch without data would run at once, under 12:11, and would evict the window.

What this page leaves out, and where to find it:

- other sources (engine/sources/base.py) and other operators (engine/operators/base.py), several of
  them in one query (engine/runtime/watermark_propagator.py), and everything else that Spark can
  plan (engine/runtime/template.py)
- a state store that writes only what has changed
  (engine/state/hdfs_backed_state_store_provider.py) and deletes old versions
  (engine/state/maintenance.py)
- Spark's own file formats, so that one engine can resume the other's query
  (engine/checkpointing/offset_seq_log.py)
- a trigger that waits for more files (engine/runtime/trigger_executor.py), several queries at a
  time (streaming_query_manager.py), progress reports (engine/runtime/progress_reporter.py), a trace
  (lens/steps/)

Shown by tests/conformance/test_one_page.py::test_the_page_does_what_structured_streaming_does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

ROW = "ts timestamp, key string"
STATE = """window struct<start: timestamp, end: timestamp>, key string, count long,
           changed boolean, expired boolean"""
OUTPUT = {"append": "expired", "update": "changed", "complete": "true"}  # which rows the sink gets


@dataclass(frozen=True)
class WindowedCount:
    """A query: how many rows of each key there are in each window of event time.

    Args:
        source: a folder, into which somebody moves JSON files with the columns of ROW.
        checkpoint: a folder of the query's own, for everything that it must remember.
        sink: receives the rows of a batch and its number, and again if it was killed in between.
        mode: "append", "update" or "complete".
        size, slide, delay: such as "10 minutes"; the delay says how long to wait for late rows.
        files_per_batch: how many files a batch reads at most.
    """

    source: Path
    checkpoint: Path
    sink: Callable[[DataFrame, int], None]
    mode: str = "append"
    size: str = "5 minutes"
    slide: str = "5 minutes"
    delay: str = "10 minutes"
    files_per_batch: int = 1


def run(spark: SparkSession, query: WindowedCount) -> None:
    """Process all files that are there. After a kill at any line, a second call continues."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.adaptive.enabled", False)  # it would not measure a batch of late rows
    offsets, commits = query.checkpoint / "offsets", query.checkpoint / "commits"
    (query.checkpoint / "state" / "0").mkdir(parents=True, exist_ok=True)  # no state yet
    last_ran_under = None  # which watermark; a restart does not know it, and waits for new files
    while True:
        planned, done = entries(offsets), entries(commits)  # (1)
        batch = len(done)
        if batch == len(planned):
            watermark_ms = done[-1]["next_watermark_ms"] if done else 0
            files = new_files(query, planned)  # (2)
            watermark_moved = last_ran_under is not None and watermark_ms > last_ran_under
            if not files and not (watermark_moved and query.mode != "complete"):
                return
            planned.append({"files": files, "watermark_ms": watermark_ms})
            add_entry(offsets, batch, planned[batch])  # (3)
        late_ms = planned[batch - 1]["watermark_ms"] if batch > 0 else 0
        next_watermark_ms = run_batch(spark, query, batch, late_ms, **planned[batch])
        add_entry(commits, batch, {"next_watermark_ms": next_watermark_ms})  # (10)
        last_ran_under = planned[batch]["watermark_ms"]


def new_files(query: WindowedCount, planned: list[dict[str, Any]]) -> list[str]:
    """The oldest files that are in no entry of the offset log."""
    known = {file for entry in planned for file in entry["files"]}
    there = sorted(query.source.glob("[!._]*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [str(path) for path in there if str(path) not in known][: query.files_per_batch]


def run_batch(
    spark: SparkSession, query: WindowedCount, batch: int,
    late_ms: int, files: list[str], watermark_ms: int,
) -> int:
    """Read version `batch` of the state, and write version `batch + 1`.

    Returns the watermark of the next batch, in milliseconds.
    """

    def passed(by_ms: int) -> Column:
        """Whether a watermark has passed the window. In mode "complete", all windows stay."""
        is_before = F.col("window.end") <= F.timestamp_millis(F.lit(by_ms))
        return F.lit(query.mode != "complete") & is_before

    # (4)
    event_time = Observation()  # measured by the job while it reads
    new = spark.read.schema(ROW).json(files)
    reached = F.max("ts") - F.expr(f"INTERVAL {query.delay}")
    reached = F.unix_millis(F.greatest(reached, F.timestamp_millis(F.lit(watermark_ms))))
    new = new.observe(event_time, reached.alias("next_watermark_ms"))

    # (5) to (8)
    versions = query.checkpoint / "state"
    old = spark.read.schema(STATE).parquet(str(versions / str(batch))).where("NOT expired")
    old = old.select("window", "key", "count", F.lit(False).alias("changed"))
    counts = new.groupBy(F.window("ts", query.size, query.slide), "key").count()
    counts = counts.where(~passed(late_ms)).withColumn("changed", F.lit(True))
    both = old.unionByName(counts).groupBy("window", "key")
    state = both.agg(F.sum("count").alias("count"), F.max("changed").alias("changed"))
    state = state.withColumn("expired", passed(watermark_ms))

    # (9)
    version = str(versions / str(batch + 1))
    state.write.mode("overwrite").parquet(version)
    output = spark.read.schema(STATE).parquet(version).where(OUTPUT[query.mode])
    query.sink(output.select("window", "key", "count"), batch)
    return event_time.get["next_watermark_ms"] if files else watermark_ms


def entries(log: Path) -> list[dict[str, Any]]:
    """All entries of a log; an entry has the number of its batch."""
    numbers = sorted(int(path.name) for path in log.glob("*") if path.name.isdigit())
    return [json.loads((log / str(number)).read_text()) for number in numbers]


def add_entry(log: Path, batch: int, entry: dict[str, Any]) -> None:
    """The file appears in one rename: a reader finds all of it or nothing."""
    log.mkdir(parents=True, exist_ok=True)
    unfinished = log / f"{batch}.unfinished"
    unfinished.write_text(json.dumps(entry))
    unfinished.replace(log / str(batch))
