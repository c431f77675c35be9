"""The page that explains the idea (minispark_stream/one_page.py) does what real Structured Streaming does.

Queries and inputs are drawn, and so are the lines at which the page is killed. Of a kill, Spark is shown what it leaves on
disk: what Spark did after that moment is taken back, and then both go on.

    MINISPARK_QUERIES=200 pytest tests/conformance/test_one_page.py      a long run, with other queries each time
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import one_page
from minispark_stream.one_page import WindowedCount
from tests.conformance.inputs import at, rows_of

LONG_RUN = int(os.environ.get("MINISPARK_QUERIES", "0"))
MINUTES = st.sampled_from([1, 5, 10, 30])


@dataclass(frozen=True)
class Case:
    """A query without its folders, how many files come in each step, and the line, counted as they are executed, at which
    the page is killed in a step."""

    query: dict[str, Any]
    files: tuple[int, ...]
    kills: tuple[int | None, ...]
    seed: int

    def step(self, i: int) -> list[list[str]]:
        """The files of a step, as JSON lines: most rows are of the step's quarter of an hour, some are up to an hour late."""
        rng = random.Random(f"{self.seed} {i}")

        def time() -> str | None:
            if rng.random() < 0.15:
                return None if rng.random() < 0.8 else "1969-12-31 23:50:00"
            minute = 15 * i + rng.choice([60 + rng.randrange(15), rng.randrange(75)])
            return f"2024-01-01 {minute // 60:02d}:{minute % 60:02d}:{rng.choice(['00', '00', '59.999', '30.000001'])}"

        return [
            rows_of(*({"ts": time(), "key": rng.choice(["a", "b", "", None])} for _ in range(rng.randrange(8))))
            for _ in range(self.files[i])
        ]


@st.composite
def cases(draw: Any) -> Case:
    size = draw(MINUTES)
    query = {
        "mode": draw(st.sampled_from(["append", "update", "append", "update", "complete"])),
        "size": f"{size} minutes",
        "slide": f"{min(size, draw(MINUTES))} minutes",
        "delay": f"{draw(st.sampled_from([0, 5, 10, 30]))} minutes",
        "files_per_batch": draw(st.integers(1, 2)),
    }
    files = draw(st.lists(st.integers(1, 2), min_size=2, max_size=3))
    kills = [draw(st.one_of(st.integers(1, 150), st.none())) for _ in files]
    return Case(query, tuple(files), tuple(kills), draw(st.integers(0, 2**32)))


class Killed(BaseException):
    pass


@contextmanager
def killed(now: Callable[[int], bool]) -> Iterator[None]:
    """The process ends before the first line of the page for which `now` says so, by the number of the line."""

    def trace(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != one_page.__file__:
            return None
        if event == "line" and now(frame.f_lineno):
            raise Killed
        return trace

    sys.settrace(trace)
    try:
        yield
    except Killed:
        pass
    finally:
        sys.settrace(None)


def at_the_nth(kill: int | None) -> Callable[[int], bool]:
    lines = count(1)
    return lambda line: next(lines) == kill


class Sink:
    """The rows of each batch. A batch that runs twice must give the same rows."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def put(self, rows: DataFrame, batch: int) -> None:
        found = sorted(map(repr, rows.collect()))
        assert self.batches.setdefault(batch, found) == found, f"batch {batch} ran again, with other rows"


def put(folder: Path, i: int, lines: list[str]) -> None:
    hidden = folder / f".{i}.json"
    hidden.write_text("\n".join(lines))
    os.utime(hidden, (1_700_000_000 + i,) * 2)
    hidden.rename(folder / f"{i}.json")


def structured_streaming(spark: SparkSession, query: WindowedCount) -> None:
    """The same query, in Spark's own words."""
    rows = spark.readStream.schema(one_page.ROW).option("maxFilesPerTrigger", query.files_per_batch).json(str(query.source))
    windows = rows.withWatermark("ts", query.delay).groupBy(F.window("ts", query.size, query.slide), "key").count()
    writer = windows.writeStream.outputMode(query.mode).foreachBatch(query.sink)
    writer.option("checkpointLocation", str(query.checkpoint)).trigger(availableNow=True).start().awaitTermination()


def take_back(checkpoint: Path, sink: Sink, planned: int, done: int) -> None:
    """Of Spark's checkpoint, leave what was there when `planned` batches were in the offset log and `done` in the commit log."""
    if planned == 0:
        shutil.rmtree(checkpoint)
        sink.batches.clear()
        return
    read = json.loads((checkpoint / "offsets" / str(planned - 1)).read_text().splitlines()[-1])["logOffset"]
    for log, last in {"offsets": planned - 1, "commits": done - 1, "sources/0": read, "state": done}.items():
        for path in (checkpoint / log).rglob("*"):
            if path.is_file() and (name := path.name.strip(".").split(".")[0]).isdigit() and int(name) > last:
                path.unlink()
    for batch in [batch for batch in sink.batches if batch >= done]:
        del sink.batches[batch]


def tear(checkpoint: Path, done: int) -> None:
    """What a kill leaves of a version that was being written."""
    for file in (checkpoint / "state" / str(done + 1)).glob("part-*"):
        file.write_bytes(b"half a file")


@given(cases())
@settings(
    max_examples=LONG_RUN or 3, derandomize=not LONG_RUN, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
def test_the_page_does_what_structured_streaming_does(spark: SparkSession, case: Case) -> None:
    with TemporaryDirectory() as folder:
        source = Path(folder, "in")
        source.mkdir()
        of_page, of_spark = Sink(), Sink()
        page = WindowedCount(source, Path(folder, "page"), of_page.put, **case.query)
        real = WindowedCount(source, Path(folder, "spark"), of_spark.put, **case.query)
        files = count()
        for i, kill in enumerate(case.kills):
            for lines in case.step(i):
                put(source, next(files), lines)
            structured_streaming(spark, real)
            with killed(at_the_nth(kill)):
                one_page.run(spark, page)
            planned, done = (len(one_page.entries(page.checkpoint / log)) for log in ("offsets", "commits"))
            tear(page.checkpoint, done)
            one_page.run(spark, page)
            take_back(real.checkpoint, of_spark, planned, done)
            structured_streaming(spark, real)
            assert of_page.batches == of_spark.batches


def test_the_example_of_the_page_is_true_though_it_is_killed_at_each_of_its_lines(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint, sink = tmp_path / "in", tmp_path / "checkpoint", Sink()
    source.mkdir()
    active = SparkSession.active()
    for i, times in enumerate((["12:02", "12:04"], ["12:21"], ["12:04"], ["12:04"]), start=1):
        put(source, i, [line.replace('"k"', '"key"') for line in at(*times)])
    killed_at: set[int] = set()

    def for_the_first_time(line: int) -> bool:
        first = line not in killed_at
        killed_at.add(line)
        return first

    runs, before = 0, -1
    while len(killed_at) > before:  # the last run is not killed
        runs, before = runs + 1, len(killed_at)
        with killed(for_the_first_time):
            one_page.run(spark, WindowedCount(source, checkpoint, sink.put))
    assert len(killed_at) == runs - 1 > 40
    assert SparkSession.active() is active  # the page's own session is not left behind as that of this thread
    window = "window=Row(start=datetime.datetime(2024, 1, 1, 12, 0), end=datetime.datetime(2024, 1, 1, 12, 5))"
    assert sink.batches == {0: [], 1: [], 2: [f"Row({window}, key='a', count=3)"], 3: []}
    assert [Path(*entry["files"]).name for entry in one_page.entries(checkpoint / "offsets")] == [f"{i}.json" for i in range(1, 5)]
    watermarks = [entry["next_watermark_ms"] for entry in one_page.entries(checkpoint / "commits")]
    assert [f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M}" for ms in watermarks] == ["11:54", "12:11", "12:11", "12:11"]
