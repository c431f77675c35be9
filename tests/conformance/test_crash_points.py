"""A kill at any durable action, in stateful operators of every kind and in each output mode.

In the long run of the tests it is a few points of each query, drawn by a seed; `make crash-test` takes all of them.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.conformance.crash_explorer import Explorer, Outcome, photograph
from tests.conformance.inputs import at

ALL = os.environ.get("MINISPARK_CRASH") == "all"
SAMPLE = 2  # points of each query
# Whether a batch without data runs is not to decide what becomes of a row: after a restart there is none (test_crash.py).
INPUT = [[*at("12:01", "12:02"), *at("12:02", k="b")], at("12:06", "12:07", "12:03"), at("12:13", k="c"), at("12:30")]
LATER = [at("13:00", k="b"), at("13:30")]


def events(session: Any, folder: str) -> DataFrame:
    read = session.readStream.schema("ts timestamp, k string").option("maxFilesPerTrigger", 1).json(folder)
    return read.withWatermark("ts", "1 minute")


def outer_join(session: Any, folder: str) -> DataFrame:
    left, right = events(session, folder).alias("a"), events(session, folder).where("k = 'b'").alias("b")
    on = F.expr("a.k = b.k AND b.ts >= a.ts AND b.ts <= a.ts + interval 5 minutes")
    return left.join(right, on, "left_outer").select("a.ts", "a.k", F.col("b.ts").alias("then"))


QUERIES: dict[str, tuple[str, Callable[[Any, str], DataFrame]]] = {
    "windows": ("append", lambda s, d: events(s, d).groupBy(F.window("ts", "5 minutes"), "k").count()),
    "windows updated": ("update", lambda s, d: events(s, d).groupBy(F.window("ts", "5 minutes"), "k").count()),
    "counts complete": ("complete", lambda s, d: events(s, d).groupBy("k").count()),
    "sessions": ("append", lambda s, d: events(s, d).groupBy(F.session_window("ts", "3 minutes"), "k").count()),
    "first of each key": ("append", lambda s, d: events(s, d).dropDuplicates(["ts", "k"])),
    "first within the watermark": ("append", lambda s, d: events(s, d).dropDuplicatesWithinWatermark(["k"])),
    "limit": ("append", lambda s, d: events(s, d).limit(5)),
    "outer join": ("append", outer_join),
    "no state": ("append", lambda s, d: events(s, d).select("k")),
}


def put(folder: Path, first: int, files: list[list[str]]) -> None:
    folder.mkdir(exist_ok=True)
    for i, lines in enumerate(files, first):
        (folder / f"{i}.json").write_text("\n".join(lines))
        os.utime(folder / f"{i}.json", (1_700_000_000 + i,) * 2)


class Case:
    """One query: its input, the run that nothing disturbs, and a run with photographs, from which it is killed again and again."""

    def __init__(self, name: str, mini: MiniSparkSession, folder: Path, patch: pytest.MonkeyPatch):
        self._mini, self._patch, self._folder = mini, patch, folder
        self._mode, self._build = QUERIES[name]
        self.explorer = Explorer(folder / "work")
        self.expected = self._run_twice(Explorer(folder / "undisturbed"))

    def outcomes(self, most: int | None = None) -> Iterator[tuple[str, Outcome | Exception]]:
        """(moment, what came of it) of a kill at every point, or at some, in an order that a seed decides."""
        photograph(self.explorer, self._patch)
        self.explorer.looks = True
        yield "without a kill", self._run_twice(self.explorer)
        points = self.explorer.points
        for moment, disk in random.Random(29).sample(points, min(most or len(points), len(points))):
            self.explorer.put_back(disk)
            try:
                yield moment, self._run(self.explorer)
            except Exception as e:
                yield moment, e

    def _run_twice(self, explorer: Explorer) -> Outcome:
        """After a restart, no engine runs a batch without data before there is data again: so there is some, at last."""
        explorer.folder.mkdir()
        shutil.rmtree(self._folder / "in", ignore_errors=True)
        put(self._folder / "in", 0, INPUT)
        self._run(explorer)
        explorer.looks = False
        put(self._folder / "in", len(INPUT), LATER)
        return self._run(explorer)

    def _run(self, explorer: Explorer) -> Outcome:
        return explorer.run(self._mini, self._build, self._folder / "in", self._mode)


@pytest.mark.parametrize("name", QUERIES)
def test_no_durable_action_is_a_bad_moment(
    mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = Case(name, mini, tmp_path, monkeypatch)
    for moment, outcome in case.outcomes(None if ALL else SAMPLE):
        assert outcome == case.expected, f"killed at: {moment}"
    assert len(case.explorer.points) > 30
