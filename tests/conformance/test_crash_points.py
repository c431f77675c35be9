"""A kill at any durable action, in stateful operators of every kind and in each output mode; and a second kill after the first.

In the long run of the tests it is a few points of each query, drawn by a seed. `make crash-test` takes all of them, and for each one
a second kill at a point of the run that follows, which a seed draws; what it has explored is a table in docs/crashes.md. With
`MINISPARK_CRASH=2/4` it is the second quarter of the points. What was explored stays in build/crash, and is not explored again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.conformance.crash_explorer import Explorer, Outcome, photograph
from tests.conformance.inputs import at
from tests.result_tables import fill_in

PART = os.environ.get("MINISPARK_CRASH", "").replace("all", "1/1")
SAMPLE = 2  # points of each query
BUILD = Path(__file__).parents[2] / "build/crash"
# Whether a batch without data runs is not to decide what becomes of a row: after a restart there is none (test_crash.py).
INPUT = [[*at("12:01", "12:02"), *at("12:02", k="b")], at("12:06", "12:07", "12:03"), at("12:13", k="c"), at("12:30")]
LATER = [at("13:00", k="b")]
END = [at("13:30"), at("14:00", k="c")]


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


def put(folder: Path, files: list[list[str]]) -> None:
    folder.mkdir()
    for i, lines in enumerate(files):
        (folder / f"{i}.json").write_text("\n".join(lines))
        os.utime(folder / f"{i}.json", (1_700_000_000 + i,) * 2)


class Case:
    """One query: its input, the run that nothing disturbs, and a run with photographs, from which it is killed again and again.

    The input comes in stages: after a restart, no engine runs a batch without data before there is data again, so there is some.
    """

    def __init__(self, name: str, mini: MiniSparkSession, folder: Path, patch: pytest.MonkeyPatch):
        self._mini, self._patch, self._folder = mini, patch, folder
        self._mode, self._build = QUERIES[name]
        self.explorer = Explorer(folder / "work")
        self.expected = self._undisturbed(Explorer(folder / "undisturbed"))

    def outcomes(self) -> Iterator[tuple[str, Outcome | Exception]]:
        """(moment, what came of it) of the run without a kill, and of kills at the points that are to be explored."""
        photograph(self.explorer, self._patch)
        self.explorer.looks = True
        yield "without a kill", self._undisturbed(self.explorer)
        self.points = self.explorer.points
        if not PART:
            for moment, disk in random.Random(29).sample(self.points, SAMPLE):
                self.explorer.put_back(disk)
                yield moment, self._run(self.explorer, LATER + END)
            return
        number, of = map(int, PART.split("/"))
        for at_point, (moment, disk) in list(enumerate(self.points))[number - 1 :: of]:
            self.explorer.put_back(disk)
            self.explorer.points, self.explorer.looks = [(moment, disk)], True
            self._run(self.explorer, LATER)
            self.explorer.looks = False
            yield moment, self._run(self.explorer, LATER + END)
            second, disk = random.Random(at_point).choice(self.explorer.points)
            self.explorer.put_back(disk)
            yield f"{moment}, then at: {second}", self._run(self.explorer, LATER + END)

    def _undisturbed(self, explorer: Explorer) -> Outcome | Exception:
        explorer.folder.mkdir()
        self._run(explorer, [])
        explorer.looks = False
        return self._run(explorer, LATER + END)

    def _run(self, explorer: Explorer, more: list[list[str]]) -> Outcome | Exception:
        """Run the query to the end of its first input, and of some more."""
        shutil.rmtree(self._folder / "in", ignore_errors=True)
        put(self._folder / "in", INPUT + more)
        try:
            return explorer.run(self._mini, self._build, self._folder / "in", self._mode)
        except Exception as e:
            return e


@pytest.mark.parametrize("name", QUERIES)
def test_no_durable_action_is_a_bad_moment(
    mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if PART and explored(name).exists():
        pytest.skip("explored already")
    began, kills = time.monotonic(), -1
    case = Case(name, mini, tmp_path, monkeypatch)
    assert not isinstance(case.expected, Exception), case.expected
    for moment, outcome in case.outcomes():
        assert outcome == case.expected, f"killed at: {moment}"
        kills += 1
    assert len(case.points) > 30
    if PART:
        report(name, kills, time.monotonic() - began)


def explored(name: str, part: str = PART) -> Path:
    return BUILD / f"{name} {part.replace('/', ' of ')}.json"


def report(name: str, kills: int, seconds: float) -> None:
    """Keep what a part of the long run has explored; when all parts are there, they are a line of the page."""
    BUILD.mkdir(parents=True, exist_ok=True)
    explored(name).write_text(json.dumps([kills, seconds]))
    of = int(PART.partition("/")[2])
    parts = [explored(name, f"{i}/{of}") for i in range(1, of + 1)]
    if all(part.exists() for part in parts):
        kills, seconds = map(sum, zip(*(json.loads(part.read_text()) for part in parts)))
        fill_in("crashes.md", {name: (QUERIES[name][0], kills // 2, kills // 2, f"{seconds / 60:.1f}")}, QUERIES)
