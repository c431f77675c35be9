"""The thirty claims of notebook 21, each attacked with three other queries than the notebook's, on real Spark.

    claim 9, "Update mode gives only what has changed."          the notebook says: depends
    counts by a window      only the window of the new row       agrees
    a sum of zeros          the same row once more               does not
    dropDuplicates          only new keys                        agrees         -> depends, as the notebook says

A run counts only if it can tell the claim from its opposite: two rows of one time say nothing about the least and the greatest time.
Settings that Spark calls internal, and switches its own checks off with, are left alone: without them, Spark's continuous processing
would count, too. The three runs must come to the verdict that stands in the notebook.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import mode
from threading import Event
from types import ModuleType
from typing import Any

import nbformat
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

pytestmark = pytest.mark.usefixtures("spark_files", "course")

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "21_folklore.ipynb"
IN_TIME = "k = of AND clicked BETWEEN ts AND ts + INTERVAL 5 MINUTES"

Runs = tuple[bool, bool, bool]
Attack = Callable[[Any], Runs]  # is given the module `folklore`; says of each run whether it agrees with the claim
ATTACKS: dict[int, Attack] = {}


@pytest.fixture
def lab(course: ModuleType) -> ModuleType:
    """notebooks/folklore.py, on the Spark of the tests."""
    return import_module("folklore")


def attack(number: int) -> Callable[[Attack], Attack]:
    """The docstring of the function is the claim, as the notebook has it."""

    def registered(function: Attack) -> Attack:
        ATTACKS[number] = function
        return function

    return registered


def said_in_the_notebook() -> tuple[dict[int, str], dict[int, str]]:
    """The claims, and the verdicts that the saved outputs have, by number."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    printed = [output.text for cell in cells if cell.cell_type == "code" for output in cell.outputs if "text" in output]
    begin = next(number for number, text in enumerate(texts) if "## Exercises" in text)
    claims = re.findall(r"^(\d+)\. (.+)$", "\n".join(texts[:begin]), re.M)
    verdicts = re.findall(r"^ ?(\d+)  (true|depends|false) ", "\n".join(printed), re.M)
    return {int(number): claim for number, claim in claims}, {int(number): verdict for number, verdict in verdicts}


CLAIMS, VERDICTS = said_in_the_notebook()


def test_every_claim_has_a_verdict_and_is_attacked() -> None:
    assert sorted(CLAIMS) == sorted(VERDICTS) == sorted(ATTACKS) == list(range(1, 31))
    assert {number: function.__doc__ for number, function in ATTACKS.items()} == CLAIMS


@pytest.mark.parametrize("number", range(1, 31))
def test_three_other_queries_come_to_the_same_verdict(lab: ModuleType, number: int) -> None:
    holds = ATTACKS[number](lab)
    assert lab.verdict(*holds) == VERDICTS[number], f"{number}. {CLAIMS[number]}: the runs say {holds}"


# What several attacks use.


def windows(rows: DataFrame, minutes: int = 5) -> DataFrame:
    return rows.groupBy(F.window("ts", f"{minutes} minutes")).count()


def joined(lab: Any, how: str, *delays: str | None, condition: str = IN_TIME) -> Any:
    """Ads joined with clicks; the ad a has no click."""
    ads, clicks = (lab.Input(["a 12:00"], ["b 12:30"], ["b 12:40"]).rows(delay) for delay in (*delays, *delays)[:2])
    return lab.run(ads.join(clicks.toDF("of", "clicked"), F.expr(condition), how))


def rows_of(ran: Any, batch: int) -> list[str]:
    return [row for number, row in ran.came_out if number == batch]


def dropped(ran: Any) -> int:
    return sum(ran.of_state("numRowsDroppedByWatermark"))


def uncommit(ran: Any, batch: int, *more: Path) -> None:
    """As if the process had died before it wrote the batch's entry of the commit log, and of other logs."""
    for log in (ran.checkpoint / "commits", *more):
        for name in (f"{batch}", f".{batch}.crc"):
            (log / name).unlink(missing_ok=True)


def failing_once(given: list[Any]) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch that takes the first batch with rows, and then fails."""

    def sink(batch: DataFrame, number: int) -> None:
        rows = [row.k for row in batch.collect()]
        first = not given
        given.extend(rows)
        if first and rows:
            raise RuntimeError("no space left")

    return sink


def keeping(given: list[Any]) -> Callable[[DataFrame, int], None]:
    return lambda batch, number: given.extend(row.k for row in batch.collect())


# Watermarks


@attack(1)
def _(lab: Any) -> Runs:
    """The watermark is the minimum over the partitions of the input."""
    two = lab.Input(["a 12:00", "b 12:30"])
    spread = lab.run(two.rows().repartition(2).withWatermark("ts", "10 minutes").select("k")).watermarks[-1]
    one_is_empty = lab.run(lab.Input(["a 12:00"]).rows().repartition(2).withWatermark("ts", "10 minutes").select("k")).watermarks[-1]
    two_files = lab.Input(["a 12:00"], ["b 12:30"]).rows("10 minutes", files=2)
    kept = lab.run(two_files.dropDuplicatesWithinWatermark(["k"])).watermarks[-1]
    return spread == "11:50", one_is_empty == "00:00", kept == "11:50"


@attack(2)
def _(lab: Any) -> Runs:
    """Of several inputs, the one that is furthest behind decides about the watermark."""
    join = joined(lab, "inner", "10 minutes", "20 minutes").watermarks[-1]  # both see 12:40
    three = [lab.Input([row]).rows("10 minutes") for row in ("a 12:00", "b 12:30", "c 12:15")]
    greatest = lab.run(three[0].union(three[1]).union(three[2]), confs={"spark.sql.streaming.multipleWatermarkPolicy": "max"})
    silent = lab.run(lab.Input(["a 12:00"]).rows("10 minutes").union(lab.Input().rows("10 minutes")))
    return join == "12:20", greatest.watermarks[-1] == "11:50", silent.watermarks[-1] == "00:00"


@attack(3)
def _(lab: Any) -> Runs:
    """A row that is older than the watermark is dropped."""
    late = lab.Input(["a 12:00"], ["a 12:21"], ["a 12:22"], ["b 12:04"]).rows("10 minutes")
    unique, plain = lab.run(late.dropDuplicates(["k", "ts"])), lab.run(late)
    complete = lab.run(windows(late), "complete")
    return dropped(unique) == 1, (3, "b 12:04") not in plain.came_out, "12:00 2" not in rows_of(complete, 3)


@attack(4)
def _(lab: Any) -> Runs:
    """What a batch brings moves the watermark of the next batch, and not its own."""
    in_one_file = lab.run(windows(lab.Input(["a 12:30", "a 12:00"]).rows("10 minutes")))
    again = lab.Input(["a 12:00"])
    first = lab.run(windows(again.rows("10 minutes")))
    again.put("a 12:30")
    second = lab.run(windows(again.rows("10 minutes")), onto=first)
    read_in = next(report["batchId"] for report in second.reports if report["numInputRows"])
    unique = lab.run(lab.Input(["a 12:00"], ["b 12:30", "a 12:01"]).rows("10 minutes").dropDuplicatesWithinWatermark(["k"]))
    return (1, "12:00 1") in in_one_file.came_out, second.came_out == [(read_in + 1, "12:00 1")], dropped(unique) == 0


@attack(5)
def _(lab: Any) -> Runs:
    """A watermark never goes back."""

    def restarted(before: Any, after: Any, *confs: dict[str, str]) -> bool:
        feed = lab.Input(["a 12:00"], ["a 12:30"])
        first = lab.run(before(feed), confs=confs[0] if confs else None)
        feed.put("b 12:05")
        return _is_sorted(lab.run(after(feed), onto=first, confs=confs[1] if confs else None).watermarks)

    longer = restarted(lambda feed: windows(feed.rows("10 minutes")), lambda feed: windows(feed.rows("2 hours")))
    gone = restarted(lambda feed: feed.rows("10 minutes").select("k"), lambda feed: feed.rows().select("k"))
    other = lab.Input(["c 12:00"])
    policies = [{"spark.sql.streaming.multipleWatermarkPolicy": policy} for policy in ("max", "min")]
    both = lambda feed: windows(feed.rows("10 minutes").union(other.rows("10 minutes")))  # noqa: E731
    return longer, gone, restarted(both, both, *policies)


def _is_sorted(values: list[Any]) -> bool:
    return values == sorted(values)


@attack(6)
def _(lab: Any) -> Runs:
    """A row without an event time is dropped."""
    rows = lab.Input(["a 12:00", "b"], ["c 13:00"]).rows("10 minutes")
    unique = lab.run(rows.dropDuplicates(["k"]))
    sessions = lab.run(rows.groupBy(F.session_window("ts", "5 minutes"), "k").count())
    by_key = lab.run(rows.groupBy("k").count(), "update")
    only_a = [row for _, row in sessions.came_out] == ["12:00 a 1"]
    return (0, "b None") not in unique.came_out, only_a, (0, "b 1") not in by_key.came_out


# What comes out


@attack(7)
def _(lab: Any) -> Runs:
    """In append mode there is a watermark, even if the query declares none."""
    rows = lab.Input(["a 12:00"], ["b 12:30"]).rows()
    unique = lab.run(rows.dropDuplicates(["k", "ts"]))
    return lab.run(rows).watermarks[-1] != "00:00", unique.of_state("numRowsTotal")[-1] < 2, joined(lab, "left", None).error is None


@attack(8)
def _(lab: Any) -> Runs:
    """As long as no new row comes, nothing comes out."""
    rows, other = (lab.Input(["a 12:00"], [row]).rows("10 minutes") for row in ("b 12:30", "c 12:30"))
    clicks = other.where("k = 'c'").toDF("of", "clicked")
    runs = lab.run(windows(rows), "complete"), lab.run(rows), lab.run(rows.join(clicks, F.expr(IN_TIME), "left"))
    first, second, third = (max(ran.came_out)[0] == 1 for ran in runs)
    return first, second, third


@attack(9)
def _(lab: Any) -> Runs:
    """Update mode gives only what has changed."""
    rows = lab.Input(["a 12:00", "b 12:10"], ["a 12:01"]).rows("10 minutes")
    runs = (lab.run(query, "update") for query in (
        windows(rows), rows.groupBy("k").agg(F.sum(F.lit(0))), rows.dropDuplicates(["k"]),
    ))
    first, second, third = (not set(rows_of(ran, 0)) & set(rows_of(ran, 1)) for ran in runs)
    return first, second, third


@attack(10)
def _(lab: Any) -> Runs:
    """Complete mode keeps every group for ever, whatever the watermark is."""
    far = lab.Input(["b 12:00", "b 12:20", "a 12:00"], ["b 12:10"], ["b 18:00"]).rows("1 minute")
    totals = [lab.run(query, "complete").of_state("numRowsTotal") for query in (
        windows(far), far.groupBy("k").count().where("count > 2"),
        far.groupBy(F.session_window("ts", "15 minutes"), "k").count(),
    )]
    first, second, third = map(_is_sorted, totals)
    return first, second, third


@attack(11)
def _(lab: Any) -> Runs:
    """Append mode gives each window once."""

    def once(query: Callable[[DataFrame], DataFrame], dies: bool = False) -> bool:
        feed = lab.Input(["a 12:00"], ["a 12:30"])
        given: list[str] = []
        sink = lambda batch, number: given.extend(lab.said(row) for row in batch.collect())  # noqa: E731
        first = lab.run(query(feed.rows("10 minutes")), sink=sink)
        if dies:
            uncommit(first, first.reports[-1]["batchId"])
        feed.put("a 12:01")
        lab.run(query(feed.rows("10 minutes")), sink=sink, onto=first)
        return bool(given) and len(given) == len(set(given))

    sliding = lambda rows: rows.groupBy(F.window("ts", "10 minutes", "5 minutes")).count()  # noqa: E731
    sessions = lambda rows: rows.groupBy(F.session_window("ts", "5 minutes")).count()  # noqa: E731
    return once(sliding), once(sessions), once(sliding, dies=True)


@attack(12)
def _(lab: Any) -> Runs:
    """A stream cannot be sorted."""
    rows = lab.Input(["b 12:00", "a 12:01"]).rows("10 minutes")
    counts = rows.groupBy("k").count().orderBy("k")
    refused = lab.run(rows.dropDuplicates(["k"]).orderBy("k")), lab.run(counts, "update"), lab.run(counts.limit(1), "complete")
    first, second, third = (ran.error is not None for ran in refused)
    return first, second, third


# State


@attack(13)
def _(lab: Any) -> Runs:
    """With a watermark, the state of `dropDuplicates` stays small."""
    keys = lab.Input(["a 12:00"], ["b 12:20"], ["c 12:40"])
    queries = (
        keys.rows("10 minutes").dropDuplicates(),
        keys.rows("10 minutes").withColumn("hour", F.date_trunc("hour", "ts")).dropDuplicates(["k", "hour"]),
        keys.rows("1 day").dropDuplicates(["k", "ts"]),
    )
    first, second, third = (lab.run(query).of_state("numRowsTotal")[-1] < 3 for query in queries)
    return first, second, third


@attack(14)
def _(lab: Any) -> Runs:
    """A filter after `groupBy` keeps the state small."""
    grouped = lab.Input(["a 12:00"], ["b 12:20"], ["c 12:40"]).rows().groupBy("k").agg(F.count("*").alias("n"), F.max("ts").alias("newest"))
    conditions = "k IN ('a', 'b')", "newest > TIMESTAMP'2024-01-01 12:10:00'", "k = 'a' OR n > 5"
    first, second, third = (
        lab.run(grouped.where(condition), "update").of_state("numRowsTotal")[-1] < 3 for condition in conditions
    )
    return first, second, third


@attack(15)
def _(lab: Any) -> Runs:
    """Another number of shuffle partitions takes effect when the query starts again."""
    four = {"spark.sql.shuffle.partitions": "4"}

    def restarted(query: Callable[[DataFrame], DataFrame], mode: str) -> Any:
        feed = lab.Input(["a 12:00"])
        first = lab.run(query(feed.rows("10 minutes")), mode)
        feed.put("b 12:30")
        return lab.run(query(feed.rows("10 minutes")), mode, onto=first, confs=four)

    of_state = [restarted(query, mode).of_state("numShufflePartitions")[-1] == 4 for query, mode in (
        (lambda rows: rows.dropDuplicates(["k"]), "append"), (windows, "complete"),
    )]
    feed, partitions, fixed = lab.Input(["a 12:00"]), [], {"spark.sql.adaptive.enabled": "false"}
    sink = lambda batch, number: partitions.append(batch.rdd.getNumPartitions())  # noqa: E731
    first = lab.run(feed.rows().repartition("k"), sink=sink, confs=fixed)
    feed.put("b 12:30")
    lab.run(feed.rows().repartition("k"), sink=sink, onto=first, confs={**fixed, **four})
    return of_state[0], of_state[1], partitions[-1] == 4


@attack(16)
def _(lab: Any) -> Runs:
    """A join of two streams needs watermarks."""
    unlimited = joined(lab, "inner", None, condition="k = of")
    of_right, of_left = joined(lab, "left", None, "10 minutes"), joined(lab, "left", "10 minutes", None)
    return unlimited.error is not None, of_right.error is not None, of_left.error is not None


@attack(17)
def _(lab: Any) -> Runs:
    """An outer join gives its nulls only when the watermark has moved on."""
    table = lab.spark.createDataFrame([("b",)], "of string")
    with_table = lab.run(lab.Input(["a 12:00"]).rows("10 minutes").join(table, F.expr("k = of"), "left"))
    full, hopeless = joined(lab, "full", "10 minutes"), joined(lab, "full", "10 minutes", condition=f"{IN_TIME} AND k <> 'a'")
    first, second, third = (
        not any("a 12:00 None" in row for row in rows_of(ran, 0)) for ran in (with_table, full, hopeless)
    )
    return first, second, third


@attack(18)
def _(lab: Any) -> Runs:
    """A stream cannot be aggregated twice."""
    rows = lab.Input(["a 12:00"], ["b 12:30"]).rows("10 minutes")
    hourly = windows(rows).groupBy(F.window("window", "1 hour")).count()
    sessions = rows.groupBy(F.session_window("ts", "5 minutes"), "k").count().groupBy(F.window("session_window", "1 hour")).count()
    thrice = hourly.groupBy(F.window("window", "1 day")).count()
    refused = lab.run(hourly, "complete"), lab.run(sessions), lab.run(thrice)
    first, second, third = (ran.error is not None for ran in refused)
    return first, second, third


# Triggers and sources


@attack(19)
def _(lab: Any) -> Runs:
    """`availableNow` does the same as `once`."""
    three = lab.Input(["a 12:00"], ["b 12:30"], ["a 12:40"])
    queries = (
        (three.rows(files=3).groupBy("k").count(), "update"), (windows(three.rows("10 minutes", files=3)), "append"),
        (three.rows(files=2), "append"),
    )
    first, second, third = (
        lab.run(query, mode).came_out == lab.run(query, mode, trigger={"once": True}).came_out for query, mode in queries
    )
    return first, second, third


@attack(20)
def _(lab: Any) -> Runs:
    """With `processingTime="1 second"`, a batch runs every second."""
    always = lab.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    silent = windows(lab.Input(["a 12:00"]).rows("10 minutes"))

    def slow(batch: DataFrame, number: int) -> None:
        time.sleep(1.5)

    writers = always.writeStream.format("noop"), silent.writeStream.format("noop"), always.writeStream.foreachBatch(slow)
    queries = [writer.trigger(processingTime="1 second").start() for writer in writers]
    deadline = time.monotonic() + 60
    while min(len(query.recentProgress) for query in (queries[0], queries[2])) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    reports = [[report for report in query.recentProgress if "addBatch" in report.durationMs] for query in queries]
    for query in queries:
        query.stop()
    begun = [[lab.datetime.fromisoformat(report.timestamp) for report in of_query] for of_query in reports]
    gaps = [[round((after - before).total_seconds()) for before, after in pairwise(times)] for times in begun]
    first, second, third = (bool(some) and mode(some) == 1 for some in gaps)
    return first, second, third


@attack(21)
def _(lab: Any) -> Runs:
    """`maxFilesPerTrigger` limits what a batch reads."""

    def most(ran: Any) -> int:
        return max(report["numInputRows"] for report in ran.reports)

    three = lab.Input(["a 12:00"], ["b 12:01"], ["c 12:02"])
    of_two_inputs = lab.run(three.rows().union(lab.Input(["d 12:00"], ["e 12:01"]).rows()))
    given: list[str] = []
    failed = lab.run(three.rows(files=3), sink=failing_once(given))
    again = lab.run(three.rows(files=1), sink=keeping(given), onto=failed)
    return most(lab.run(three.rows(files=2))) == 2, most(of_two_inputs) == 1, most(again) == 1


@attack(22)
def _(lab: Any) -> Runs:
    """Continuous processing can do simple aggregations."""
    ticks = lab.spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    queries = (ticks.groupBy().count(), "complete"), (ticks.dropDuplicates(["value"]), "append"), (
        ticks.groupBy(F.window("timestamp", "1 minute")).max("value"), "update")
    first, second, third = (lab.run(query, mode, trigger={"continuous": "1 second"}).error is None for query, mode in queries)
    return first, second, third


@attack(23)
def _(lab: Any) -> Runs:
    """A file that changes is read again."""

    def changed(file: Any, **options: str) -> Any:
        first = lab.run(file.rows(**options))
        file.put("b 12:01", hours=2)
        lab.run(file.rows(**options), onto=first)
        file.put("zz 12:00", into=0, hours=3)
        return lab.run(file.rows(**options), onto=first).came_out

    given: list[str] = []
    file = lab.Input(["a 12:00"])
    failed = lab.run(file.rows(), sink=failing_once(given))
    file.put("zz 12:00", into=0)
    lab.run(file.rows(), sink=keeping(given), onto=failed)
    return changed(lab.Input(["a 12:00"])) != [], changed(lab.Input(["a 12:00"]), maxFileAge="1h") != [], given == ["a", "zz"]


@attack(24)
def _(lab: Any) -> Runs:
    """A stream of files needs a schema."""
    folder = str(lab.Input(["a 12:00"]).folder)

    def refused(kind: str) -> bool:
        try:
            return lab.run(lab.spark.readStream.format(kind).load(folder)).error is not None
        except PySparkException:
            return True

    return refused("text"), refused("csv"), refused("orc")


# Sinks and restarts


@attack(25)
def _(lab: Any) -> Runs:
    """`foreachBatch` is given each batch once."""

    def once(before_the_restart: Callable[[Any], object]) -> bool:
        feed, given = lab.Input(["a 12:00"], ["b 12:01"]), []
        sink = lambda batch, number: given.append(number)  # noqa: E731
        first = lab.run(feed.rows(), sink=sink)
        before_the_restart(first)
        feed.put("c 12:02")
        lab.run(feed.rows(), sink=sink, onto=first)
        return given == [0, 1, 2]

    given: list[str] = []
    feed = lab.Input(["a 12:00"])
    lab.run(feed.rows(), sink=keeping(given), onto=lab.run(feed.rows(), sink=failing_once(given)))
    return once(lambda first: None), once(lambda first: uncommit(first, 1)), given == ["a"]


@attack(26)
def _(lab: Any) -> Runs:
    """When a batch runs again, the file sink writes its rows a second time."""

    def again(*logs: str, pattern: str = "") -> bool:
        feed, table, ran = lab.Input(["a 12:00"], ["b 12:01"]), lab.Run().checkpoint, lab.Run()
        for before in (True, False):
            writer = feed.rows().writeStream.format("parquet").option("checkpointLocation", str(ran.checkpoint))
            writer.trigger(availableNow=True).start(str(table)).awaitTermination()
            if before:
                uncommit(ran, 1, *(table / log for log in logs))
        return lab.spark.read.parquet(f"{table}{pattern}").count() == 3

    manifest = "_spark_metadata"
    return again(pattern="/*.parquet"), again(manifest, pattern="/*.parquet"), again(manifest)


@attack(27)
def _(lab: Any) -> Runs:
    """Two queries over one DataFrame read the source once."""
    rows = lab.Input(["a 12:00"]).rows()
    rows.createOrReplaceTempView("of_two_queries")
    of_view = [lab.run(lab.spark.table("of_two_queries")).came_out for _ in range(2)]
    together = [rows.writeStream.format("noop").trigger(availableNow=True).start() for _ in range(2)]
    for query in together:
        query.awaitTermination()
    cached = False
    with suppress(PySparkException):  # "Queries with streaming sources must be executed with writeStream.start()"
        cached = lab.run(rows.cache()).error is None
    read = sum(report.numInputRows for query in together for report in query.recentProgress)
    return len(of_view[0] + of_view[1]) == 1, read == 1, cached


@attack(28)
def _(lab: Any) -> Runs:
    """Two actions in `foreachBatch` compute the batch twice, unless it is persisted."""

    def computed(above: Callable[[DataFrame], DataFrame] = lambda rows: rows, below: Callable[[DataFrame], DataFrame] = lambda rows: rows,
                 kept: Callable[[DataFrame], DataFrame] = lambda batch: batch) -> int:
        rows = lab.spark.sparkContext.accumulator(0)

        def touch(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                rows.add(len(batch))
                yield batch

        def two_actions(batch: DataFrame, number: int) -> None:
            batch = kept(batch)
            batch.count()
            batch.write.format("noop").mode("overwrite").save()

        lab.run(above(below(feed.rows().select("k")).mapInPandas(touch, "k string")), sink=two_actions)
        return int(rows.value)

    feed = lab.Input(["a 12:00", "b 12:01"])
    twice = computed(below=lambda rows: rows.repartition(2))
    above_it_is_state = computed(above=lambda rows: rows.dropDuplicates())
    return twice == 4, above_it_is_state == 4, computed(kept=lambda batch: batch.localCheckpoint()) == 4


@attack(29)
def _(lab: Any) -> Runs:
    """`stop()` waits for the batch that is running."""
    begun, ended = Event(), []
    rows = lab.Input(["a 12:00"]).rows()

    def slow(batch: DataFrame, number: int) -> None:
        begun.set()
        time.sleep(0.5)
        ended.append(number)

    waited = rows.writeStream.foreachBatch(slow).start()
    begun.wait(60)
    waited.stop()

    def seconds_to_stop(query: Any) -> float:
        while not lab.spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        before = time.monotonic()
        query.stop()
        return time.monotonic() - before

    sleepy = F.udf(lambda text: str(Event().wait(40)))
    of_a_function = seconds_to_stop(rows.select(sleepy("k")).writeStream.format("noop").start())
    of_foreach = seconds_to_stop(rows.writeStream.foreach(lambda row: time.sleep(40)).start())
    return ended == [0], of_a_function > 20, of_foreach > 20


@attack(30)
def _(lab: Any) -> Runs:
    """A broken query is repaired by deleting its checkpoint."""

    def newest(table: dict[str, int]) -> Callable[[DataFrame, int], None]:
        def replace(batch: DataFrame, number: int) -> None:
            table.clear()
            table.update((row.k, row["count"]) for row in batch.collect())

        return replace

    feed, of_files = lab.Input(["a 12:00"], ["b 12:01"]), lab.Run().checkpoint
    table: dict[str, int] = {}

    def run_again(**how: Any) -> None:
        shutil.rmtree(lab.run(feed.rows().groupBy("k").count(), "complete", **how).checkpoint)

    run_again(sink=newest(table))
    run_again(sink=newest(table))
    replaced = table == {"a": 1, "b": 1}

    def into_files() -> None:
        checkpoint = lab.Run().checkpoint
        writer = feed.rows().writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(str(of_files)).awaitTermination()
        shutil.rmtree(checkpoint)

    into_files()
    (feed.folder / "0.json").unlink()
    feed.put("c 12:02")
    into_files()  # its batches 0 and 1 are in the manifest already, so c is never written
    written = sorted(row.k for row in lab.spark.read.parquet(str(of_files)).collect())
    run_again(sink=newest(table))
    return replaced, written == ["a", "b", "c"], table == {"a": 1, "b": 1, "c": 1}
