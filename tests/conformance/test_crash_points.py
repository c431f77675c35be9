"""A kill at any durable action, in stateful operators of every kind and in each output mode; and a second kill after the first.

In the long run of the tests it is a few points of each query, drawn by a seed. `make crash-test` takes all of them, and for each one
a second kill at a point of the run that follows, which a seed draws; what it has explored is a table in docs/crashes.md. With
`MINISPARK_CRASH=2/4` it is the second quarter of the points. What was explored stays in build/crash, and is not explored again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set
from tests.conformance.crash_explorer import Explorer, Outcome, Point, photograph
from tests.conformance.crash_inputs import Folder, Input, Topic
from tests.conformance.crash_queries import MORE, QUERIES
from tests.result_tables import fill_in

PART = os.environ.get("MINISPARK_CRASH", "").replace("all", "1/1")
BUILD = Path(__file__).parents[2] / "build/crash"
FIRST, SECOND = 2, 3  # a kill is in one of so many stages, and a second one, too
# What is there and what is not there yet, at some of the points.
UNFINISHED = [
    ("checkpoint/sources/0/0", "checkpoint/offsets/0"),
    ("checkpoint/offsets/1", "checkpoint/commits/1"),
    ("out/", "checkpoint/commits/0"),
]
KINDS = ("kills", "second kills", "full disks", "by Spark", "runs", "to the end")
Came = tuple[str, str, Outcome | Exception]  # one of KINDS, the moment, and what came of it
BY_SPARK = 5  # of the points of a query, so many also lead to real Spark, which takes much longer
EVERY = QUERIES | (MORE if PART else {})


class Case:
    """One query: the run that nothing disturbs, with photographs, from which it is killed again and again."""

    def __init__(self, explorer: Explorer, mini: MiniSparkSession, spark: SparkSession):
        self.explorer, self.mini, self.spark = explorer, mini, spark
        self.expected = explorer.run(mini, photographed=FIRST)
        self.points, self.writes = explorer.points, list(explorer.writes)

    def kills(self, points: Iterable[Point], second: bool) -> Iterator[Came]:
        """At each point; and, if `second`, once more in the run that follows."""
        for point in points:
            yield "kills", point.moment, self.explorer.kill(point, self.mini, photographed=SECOND * second)
            if second:
                then = random.Random(point.moment).choice(self.explorer.points)
                yield "second kills", f"{point.moment}, then at: {then.moment}", self.explorer.kill(then, self.mini)

    def full_disks(self, points: Iterable[Point]) -> Iterator[Came]:
        """What the driver is about to write does not fit; when the query has ended with this error, there is room again."""
        for point in points:
            self.explorer.put_back(point)
            self.explorer.is_full = True
            assert "No space left on device" in str(self.explorer.run(self.mini))
            yield "full disks", f"no room at: {point.moment}", self.explorer.kill(self.explorer.left(), self.mini)

    def kills_before_spark(self, points: Iterable[Point]) -> Iterator[Came]:
        """Kills of the model, after which real Spark goes on."""
        for point in points:
            self.explorer.put_back(point)
            yield "by Spark", f"{point.moment}; Spark goes on", self.explorer.run(self.spark)


def outcomes(name: str, case: Case) -> Iterator[Came]:
    """A few of all; in the long run, all of the part that is asked for."""
    draw = random.Random(29)
    # Spark refuses a checkpoint with half of a first entry (docs/differences.md).
    for_spark = [point for point in case.points if not any("offsets/." in path for path in point.disk)]
    if PART:
        number, of = map(int, PART.split("/"))
        yield from case.kills(case.points[number - 1 :: of], second=True)
        yield from case.full_disks(case.writes[number - 1 :: of])
    else:
        yield from case.kills(draw.sample(case.points, 1), second=False)
        yield from case.full_disks(draw.sample(case.writes, 1))
    if EVERY[name].sink != "delta":  # of which Spark has none here
        yield from case.kills_before_spark(draw.sample(for_spark, BY_SPARK if PART else 1))


@pytest.mark.parametrize("name", EVERY)
def test_no_durable_action_is_a_bad_moment(
    request: pytest.FixtureRequest, spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    spark_files: None, name: str,
) -> None:
    if PART and explored(name).exists():
        pytest.skip("explored already")
    query, began = EVERY[name], time.monotonic()
    if query.sink == "delta":
        pytest.importorskip("deltalake")
    source: Input
    if query.of_kafka:
        source = Topic(request.getfixturevalue("kafka"), query.stages)
    else:
        source = Folder(tmp_path / "in", query.stages)
    explorer = Explorer(query, source, tmp_path / "work")
    photograph(explorer, monkeypatch)
    with confs_set(spark, query.confs):
        case = Case(explorer, mini, spark)
        assert not isinstance(case.expected, Exception), case.expected
        assert all(unfinished(case.points, *there_and_missing) for there_and_missing in UNFINISHED)
        counts: Counter[str] = Counter()
        for kind, moment, outcome in outcomes(name, case):
            assert outcome == case.expected, moment
            counts[kind] += 1
    if PART:
        report(name, {**counts, "runs": explorer.runs, "to the end": explorer.runs_to_the_end, "seconds": time.monotonic() - began})


def unfinished(points: list[Point], there: str, missing: str) -> bool:
    """Whether there is a disk that has the one file, or one in that folder, and not the other."""
    return any(any(path.startswith(there) and path[-1] != "/" for path in point.disk) and missing not in point.disk for point in points)


def explored(name: str, part: str = PART) -> Path:
    return BUILD / f"{name} {part.replace('/', ' of ')}.json"


def report(name: str, counts: dict[str, float]) -> None:
    """Keep what a part of the long run has explored; when all parts are there, they are a line of the page."""
    BUILD.mkdir(parents=True, exist_ok=True)
    explored(name).write_text(json.dumps(counts))
    of = int(PART.partition("/")[2])
    parts = [explored(name, f"{i}/{of}") for i in range(1, of + 1)]
    if all(part.exists() for part in parts):
        total: Counter[str] = sum((Counter(json.loads(part.read_text())) for part in parts), Counter())
        query, minutes = EVERY[name], total.pop("seconds") / 60
        fill_in("crashes.md", {name: (query.mode, query.store, query.sink, *(total[kind] for kind in KINDS), f"{minutes:.1f}")}, EVERY)
