"""Small queries on real Spark, as notebook 21 runs them to decide about a claim.

    hour = Input(["a 12:00"], ["b 12:30"])                        two files, which are two batches
    ran = run(hour.rows("10 minutes").groupBy("k").count(), "update")
    ran.came_out       [(0, "a 1"), (1, "b 1")]                   what the sink was given, with the number of the batch
    ran.error          None, or the condition of the error
    decide(9, True, because="...")                                prints the verdict

A claim is decided by what one or several runs say of it: true if all agree with it, false if none does; otherwise it depends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from course import spark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row

from minispark_stream.tools.compare.engine_run import cause_of
from minispark_stream.tools.compare.prepared import confs_set

VERDICTS: dict[int, str] = {}
_temporary = TemporaryDirectory()
_folders: Iterator[Path] = (Path(_temporary.name, str(number)) for number in count())


class Input:
    """A folder of JSON files with the columns k and ts. A list of rows, such as "a 12:00", is a file; "a" alone has no time."""

    def __init__(self, *files: list[str]):
        self.folder = next(_folders)
        self.folder.mkdir()
        self.files = 0
        for rows in files:
            self.put(*rows)

    def put(self, *rows: str, into: int | None = None, hours: int = 0) -> None:
        """One more file, or another text of the file `into`; so many hours younger than the first ones."""
        number = self.files if into is None else into
        self.files = max(self.files, number + 1)
        parts = (row.partition(" ") for row in rows)
        lines = [{"k": k, "ts": f"2024-01-01 {time}:00" if time else None} for k, _, time in parts]
        path = self.folder / f"{number}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number + 3600 * hours,) * 2)

    def rows(self, delay: str | None = None, files: int = 1, **options: str) -> DataFrame:
        """The stream, with so many files in a batch."""
        reader = spark.readStream.schema("k string, ts timestamp").options(maxFilesPerTrigger=files, **options)
        read = reader.json(str(self.folder))
        return read.withWatermark("ts", delay) if delay else read


class Run:
    """What a query did until it had read everything, or failed."""

    def __init__(self) -> None:
        self.checkpoint = next(_folders)
        self.came_out: list[tuple[int, str]] = []
        self.reports: list[dict[str, Any]] = []
        self.error: str | None = None

    @property
    def watermarks(self) -> list[str]:
        """What each batch has found as the watermark of the next one."""
        commits = self.checkpoint / "commits"
        numbers = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        lines = [(commits / str(number)).read_text().splitlines() for number in numbers]
        reached = [json.loads(last)["nextBatchWatermarkMs"] for *_, last in lines]
        return [f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M}" for ms in reached]

    def of_state(self, name: str) -> list[int]:
        """A number of the first operator with state, of each batch."""
        return [report["stateOperators"][0][name] for report in self.reports]


def run(
    rows: DataFrame, mode: str = "append", *, onto: Run | None = None, confs: Mapping[str, Any] | None = None,
    sink: Callable[[DataFrame, int], object] | None = None, trigger: Mapping[str, Any] | None = None,
) -> Run:
    """Run a query on real Spark until it has read everything.

    Args:
        rows: the query.
        onto: a run whose checkpoint this one goes on with.
        sink: a function for foreachBatch; otherwise the rows are kept.
        trigger: such as {"once": True}.
    """
    ran = Run()
    ran.checkpoint = onto.checkpoint if onto else ran.checkpoint

    def keep(batch: DataFrame, number: int) -> None:
        ran.came_out += [(number, said(row)) for row in sorted(batch.collect(), key=str)]

    with confs_set(spark, dict(confs or {})):
        try:
            writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(ran.checkpoint))
            query = writer.foreachBatch(sink or keep).trigger(**(trigger or {"availableNow": True})).start()
        except PySparkException as error:
            ran.error = error.getCondition() or type(error).__name__
            return ran
        try:
            query.awaitTermination()
        except PySparkException as error:
            cause = cause_of(str(error))
            ran.error = cause.name if cause else type(error).__name__
    ran.reports = [json.loads(report.json) for report in query.recentProgress]
    return ran


def said(row: Row) -> str:
    """A row in a few letters: a window by its beginning, a time without its day."""
    values = (value.start if isinstance(value, Row) else value for value in row)
    return " ".join(f"{value:%H:%M}" if isinstance(value, datetime) else str(value) for value in values)


def decide(number: int, *holds: bool, because: str) -> None:
    """Print what the runs say of a claim, each of which agrees with it or does not."""
    VERDICTS[number] = verdict(*holds)
    print(f"{number:2}  {VERDICTS[number]:8} {because}")


def verdict(*holds: bool) -> str:
    """True if all runs agree with a claim, false if none does; otherwise it depends."""
    return "depends" if any(holds) and not all(holds) else str(all(holds)).lower()
