"""The checkpoints that play.py has left, read by this PySpark, and continued by Spark and by the model.

    .venv/bin/python tests/versions/go_on.py build/versions/runs/3.5-classic build/versions/runs/3.5-connect
    {"run": "3.5-classic", "cell": "ok"}

A run has counted windows; in its state is the one that begins at 12:40. A row of 14:00 moves the watermark past it.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import minispark_stream as ms
from tests.versions.play import counts, session

EXPECTED = [("2026-03-01 12:40", "home", 1)]


def go_on(spark: SparkSession, run: Path) -> None:
    checkpoint = run / "checkpoint"
    report = ms.inspect(str(checkpoint))
    assert not [finding for finding in report.findings if finding.level != "note"], report.findings
    assert [row.value for row in report.rows()] == [{"count": 1}], report.rows()
    hidden = run / "in" / ".later.json"
    hidden.write_text(json.dumps({"time": "2026-03-01 14:00:00", "page": "home"}) + "\n")
    hidden.rename(run / "in" / "later.json")
    for engine in (spark, ms.MiniSparkSession(spark)):
        with TemporaryDirectory() as folder:
            copied = shutil.copytree(checkpoint, Path(folder) / "checkpoint")
            emitted = continued(engine, run, copied)
        assert emitted == EXPECTED, (type(engine).__name__, emitted)


def continued(engine: Any, run: Path, checkpoint: Path) -> list[tuple[Any, ...]]:
    """What the query emits when it goes on."""
    emitted: list[tuple[Any, ...]] = []

    def keep(rows: Any, batch_id: int) -> None:
        start = F.date_format("window.start", "yyyy-MM-dd HH:mm")
        emitted.extend(tuple(row) for row in rows.select(start, "page", "count").collect())

    writer = counts(engine, run).writeStream.outputMode("append").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return emitted


def main(runs: list[str]) -> None:
    with TemporaryDirectory() as folder:
        spark = session("classic", Path(folder) / "events")
        for run in map(Path, runs):
            try:
                go_on(spark, run)
                cell = "ok"
            except Exception as e:
                traceback.print_exc()
                cell = f"FAILED: {type(e).__name__}: {' '.join(str(e).split())[:400]}"
            print(json.dumps({"run": run.name, "cell": cell}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
