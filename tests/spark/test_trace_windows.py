"""The trace of a real run: a windowed count with a watermark of 10 minutes, stopped by an error in batch 3, started again.

    batch   rows (event time)        too late up to   finished up to   out                  next watermark
    0       12:02 12:07              -                -                -                    11:57
    1       12:14                    -                11:57            -                    12:04
    2       12:21 12:08 12:04        11:57            12:04            -                    12:11
    3 (x2)  12:04 12:30              12:04            12:11            12:00=3 12:05=2      12:20
    4       12:05 12:40              12:11            12:20            12:10=1              12:30
    5       no data                  12:20            12:30            12:20=1              12:30

`python -m tests.spark.test_trace_windows` records tests/golden/trace_windows.{json,txt} anew; the unit tests draw that trace.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession
from minispark_stream.lens.trace.trace import Trace

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [
    ["12:02:00,a", "12:07:00,b"],
    ["12:14:00,c"],
    ["12:21:00,d", "12:08:00,e", "12:04:00,f"],
    ["12:04:00,g", "12:30:00,h"],
    ["12:05:00,i", "12:40:00,j"],
]


def record(spark: SparkSession, directory: Path) -> Trace:
    """Run the query until it fails, start it again, and give the trace of both runs."""
    spark.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "1h")  # nothing happens on another thread
    (directory / "in").mkdir(parents=True)
    for i, rows in enumerate(FILES):
        file = directory / "in" / f"{i}.csv"
        file.write_text("".join(f"2024-01-01 {row}\n" for row in rows))
        os.utime(file, (1_700_000_000 + i, 1_700_000_000 + i))
    full_disk = [True]

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        if batch_id == 3 and full_disk:
            full_disk.clear()
            raise OSError("No space left on device")

    def run() -> Trace:
        session = MiniSparkSession(spark, trace="rows")
        events = session.readStream.schema("time timestamp, word string").option("maxFilesPerTrigger", 1)
        windows = (
            events.csv(str(directory / "in")).withWatermark("time", "10 minutes")
            .groupBy(F.window("time", "5 minutes")).count().select("window.start", "window.end", "count")
        )
        query = (
            windows.writeStream.queryName("windows").foreachBatch(write)
            .option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as e:
            assert "No space left on device" in str(e)
        return query.trace  # type: ignore[attr-defined]

    try:
        return run() + run()
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.maintenanceInterval")


def test_a_run_that_fails_and_starts_again_gives_the_golden_text(spark: SparkSession, tmp_path: Path) -> None:
    recorded = record(spark, tmp_path)
    assert recorded.to_text() == (GOLDEN / "trace_windows.txt").read_text(encoding="utf-8")
    functions = [event.inputs["functions"] for event in recorded.events if event.step == "stateOperator"]
    assert functions[0] == [{"name": "count", "function": "count", "buffers": 1}]


if __name__ == "__main__":
    import tempfile

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    with tempfile.TemporaryDirectory() as folder:
        session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        record(session, Path(folder) / "first")  # what a first run takes longer for is not what the page is to show
        recorded = record(session, Path(folder) / "second")
    recorded.save(GOLDEN / "trace_windows.json")
    (GOLDEN / "trace_windows.txt").write_text(recorded.to_text(), encoding="utf-8")
