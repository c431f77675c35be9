"""A disk that is full: the query stops with Spark's error, and goes on without loss when there is room again."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit the files of another process")
ROWS = 20_000


@contextmanager
def full_disk(spark: SparkSession) -> Iterator[None]:
    """No file of Spark's JVM may grow beyond 16 KiB: the next write fails, as on a disk without room."""
    pid = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (16 << 10, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


def what_stops(session: Any, folder: Path) -> tuple[str | None, bool]:
    """The error of a query whose second batch does not fit; in the end, all rows are there once."""
    (folder / "in").mkdir(parents=True)
    numbers = session.readStream.schema("n long").csv(str(folder / "in"))
    writer = numbers.writeStream.format("csv").option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)

    def run() -> None:
        writer.start(str(folder / "out")).awaitTermination()

    (folder / "in/small.csv").write_text("-1")
    run()
    (folder / "in/large.csv").write_text("\n".join(map(str, range(ROWS))))
    with full_disk(session), pytest.raises(StreamingQueryException) as failed:
        run()
    run()
    written = session.read.schema("n long").csv(str(folder / "out"))
    assert sorted(n for (n,) in written.collect()) == list(range(-1, ROWS))
    return failed.value.getCondition(), "TASK_WRITE_FAILED" in str(failed.value)


def test_output_that_does_not_fit_is_written_once_there_is_room(spark: SparkSession, tmp_path: Path) -> None:
    expected = what_stops(spark, tmp_path / "spark")
    assert what_stops(MiniSparkSession(spark), tmp_path / "model") == expected
