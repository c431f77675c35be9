"""Pictures and answers of real runs: the rules that are played over a trace agree with what the operators counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, explain_output, side_by_side
from minispark_stream.engine.times import shown_ms
from minispark_stream.lens.trace.fates import LATE, fates
from minispark_stream.lens.view.board import Board
from minispark_stream.lens.view.event_plane import planes
from minispark_stream.lens.view.join_buffers import buffers
from minispark_stream.lens.view.merged_walk import stops
from minispark_stream.lens.view.pictures import pictures
from minispark_stream.lens.view.session_lanes import lanes
from minispark_stream.lens.view.state_panel import NOT_COUNTED, operator
from minispark_stream.lens.view.world_changes import worlds
from minispark_stream.tools.compare.experiment import Experiment


def events(session: Any, folder: str, name: str = "") -> DataFrame:
    """Lines `12:01,a` of a subfolder: event time `t` and key `k`, under names of their own."""
    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(f"{folder}/{name}")
    parts = F.split("value", ",")
    time = F.to_timestamp(F.when(parts[0] != "", F.concat(F.lit("2024-01-01 "), parts[0])))
    return lines.select(time.alias(f"t{name}"), parts[1].alias(f"k{name}")).withWatermark(f"t{name}", "10 minutes")


def windows(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.window("t", "10 minutes", "5 minutes"), "k").count()


def sessions(session: Any, folder: str) -> DataFrame:
    return events(session, folder).groupBy(F.session_window("t", "5 minutes"), "k").count()


def distinct(session: Any, folder: str) -> DataFrame:
    return events(session, folder).dropDuplicatesWithinWatermark(["k"])


def joined(session: Any, folder: str) -> DataFrame:
    near = F.expr("ka = kb AND tb BETWEEN ta AND ta + INTERVAL 5 MINUTES")
    return events(session, folder, "a").join(events(session, folder, "b"), near, "left_outer")


def counts_of_counts(session: Any, folder: str) -> DataFrame:
    counts = events(session, folder).groupBy(F.window("t", "5 minutes"), "k").count()
    return counts.groupBy(F.window("window", "10 minutes")).agg(F.count("*").alias("groups"), F.sum("count").alias("rows"))


ONE = [["12:01,a", "12:03,b"], ["12:14,a", "12:04,b"], ["12:21,a", "12:02,a", ",a"], ["12:03,a", "12:03,a", "12:13,b"], ["12:41,a"]]
TWO = [
    {"a": ["12:00,x", "12:02,y"], "b": ["12:01,x"]}, {"a": ["12:20,x"], "b": ["12:30,z"]},
    {"a": ["12:30,q"], "b": ["12:31,q"]}, {"a": ["12:01,x", "12:50,q"], "b": ["12:50,q"]},
]


def sums(session: Any, folder: str) -> DataFrame:
    rows = events(session, folder).select("t", "k", F.expr("1 AS a"), F.expr("10 AS b"))
    return rows.groupBy(F.window("t", "5 minutes"), "k").agg(F.sum("a"), F.sum("b"))


def test_the_state_that_is_shown_is_what_changed_and_of_how_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    """120 keys: more than are shown of a partition. The marks are those of the rows that the operator counted."""
    keys = [f"12:01,k{n}" for n in range(120)], [f"12:14,k{n}" for n in range(60)], [f"12:14,k{n}" for n in range(9)]
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    run = Experiment(spark, sums).run({}, [*keys, ["12:31,a"], ["12:41,a"]])
    shown = [w.operators[0] for w in worlds(run.trace.events) if w.moment.event.step == "stateOperator"]
    marks = [Counter(row.mark for row in one.rows or () if row.mark) for one in shown]
    assert [m.total() for m in marks] == [o.metrics["numRowsUpdated"] + o.metrics["numRowsRemoved"] for o in shown]
    few = marks.index(Counter({"~": 9}))
    assert len(shown[few].rows or ()) == 100 and shown[few].num_rows == 180 and "100 of 180 rows" in operator(shown[few])
    assert (shown[0].rows or ())[0].after == {"sum": 1, "sum (2)": 10}
    last = shown[-1].places  # an aggregation has two tasks: one reads a version, the other one makes the next
    assert {copy.partition for copy in last.copies} == {0, 1} and {copy.version for copy in last.copies if copy.new} >= {len(shown)}
    assert last.workers and not any(worker.endswith(f":{os.getpid()}") for worker in last.workers), "not the driver"
    assert "Where it is" in operator(shown[-1])


@pytest.mark.parametrize(
    ("build", "feed", "late"), [(windows, ONE, 2), (sessions, ONE, 2), (distinct, ONE, 2), (joined, TWO, 1)],
    ids=["windows", "sessions", "distinct", "joined"],
)
def test_what_is_said_of_the_rows_is_what_the_operators_counted(
    spark: SparkSession, build: Callable[..., Any], feed: Sequence[Any], late: int
) -> None:
    compared = side_by_side(spark, build, feed, progress=False)
    assert compared.differences == ()
    marked = [(s.moment.key, name) for s in stops(compared.traces) for name, html in Board().panels(s).items() if "<small>different" in html]
    assert not marked
    found = fates(compared.model.trace)
    shown = [w.operators[0] for w in worlds(compared.model.trace.events) if w.moment.event.step == "stateOperator"]
    for one, batch in zip(shown, found.batches, strict=True):
        marked_rows = [row for row in one.rows or () if row.mark and not row.store.endswith("keyToNumValues")]
        marks, counted = sum(len(row.mark) for row in marked_rows), one.metrics["numRowsUpdated"] + one.metrics["numRowsRemoved"]
        assert (marks == counted) == (NOT_COUNTED.get(one.operator, "none") not in operator(one)), one
        if build is joined:  # a first partner is not counted
            marks -= sum(row.mark == "~" and {**row.before, "matched": 0} == {**row.after, "matched": 0} for row in marked_rows)
        if build is sessions:  # counted are those that were put
            marks = len(batch.operators[0].told_of("kept")) + one.metrics["numRowsRemoved"]
        assert marks == counted, one
    for batch in found.batches:
        counted = batch.operators[0].metrics
        keys = [str(fate.at["key"]) for fate in found.rows if fate.batch is batch and fate.what == LATE]
        merged = len(set(keys)) if build in (windows, sessions) else len(keys)
        assert counted["numRowsDroppedByWatermark"] == merged, keys
        assert counted["numRowsRemoved"] == sum(h.evicted == batch.number for h in found.holdings), batch.batch_id
    assert sum(fate.what == LATE for fate in found.rows) >= late
    for join in buffers(found):
        nulls = sum(lane.is_alone for lane in (*join.left, *join.right))
        assert len(join.pairs) + nulls == sum(len(batch.rows) for batch in compared.spark.batches)
    for lane in lanes(found):
        gone = sum(line.says.endswith("emitted and evicted") for line in lane.lines)
        assert gone == len({b.batch_id for b in compared.spark.batches for row in b.rows if row[1] == lane.key}), lane.key
    expected = {"Event time", "State files", "Logs", "Files", "Durations"}
    assert {picture.heading for picture in pictures(compared.spark.trace, fates(compared.spark.trace))} == expected
    own = {joined: "Join", sessions: "Sessions"}.get(build)
    assert {picture.heading for picture in pictures(compared.model.trace, found)} == {*expected, "Watermarks", *filter(None, [own])}


def test_rows_are_followed_from_their_window_into_the_window_above(spark: SparkSession) -> None:
    compared = side_by_side(spark, counts_of_counts, [["12:01,a", "12:07,b"], ["12:17,a"], ["12:41,a"]], progress=False)
    assert compared.differences == ()
    assert compared.columns == ("window", "groups", "rows")
    came_out = {(b.batch_id, str(window.start)): rows for b in compared.spark.batches for window, _, rows in b.rows}
    found = fates(compared.model.trace)
    ways = [way for fate in found.rows for way in found.onward(fate)]
    assert ways and all(way.operator is not None and way.operator.operator_id == 0 for way in ways)
    left = Counter(
        (found.batches[number].batch_id, way.at["key"]["window"]["start"]) for way in ways if way.holding for number in way.holding.emitted
    )
    assert left == came_out  # also of a window that comes and goes in one batch
    below, above = planes(found)
    sent = {(found.batches[n].batch_id, band.start_ms) for band in above.bands for n in band.emitted}
    assert below.dots and sent == {(batch_id, shown_ms(start)) for batch_id, start in came_out}


def test_both_engines_say_why_nothing_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.txt").write_text("12:01,a\n12:07,b\n")
    answers = {}
    for name, session in (("spark", spark), ("model", MiniSparkSession(spark))):
        counts = events(session, str(tmp_path / "in")).groupBy(F.window("t", "5 minutes")).count()
        query = counts.writeStream.format("memory").queryName(f"why_{name}").option("checkpointLocation", str(tmp_path / name)).start()
        query.processAllAvailable()
        answers[name] = dict(explain_output(query).lines)
        query.stop()
    answers["checkpoint"] = dict(explain_output(tmp_path / "spark").lines)
    for answer in answers.values():
        assert answer["watermark"] == "2024-01-01 11:57:00"
        assert answer["waits for"].startswith("the watermark 2024-01-01 12:05:00: window=[2024-01-01 12:00, 12:05) ends then")
        assert answer["would help"].startswith("a row with an event time of 2024-01-01 12:15:00 or later: 12:05:00 and the delay of 10 min")
    assert "2 rows in, rows out: 0; output mode append" in answers["spark"]["batches"]
    assert answers["spark"] == answers["model"]


def test_usual_mistakes_have_a_hint_below_the_text_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    mini = MiniSparkSession(spark)
    lines = mini.readStream.schema("t timestamp, k string").csv(str(tmp_path / "in"))
    wrong = {
        "after groupBy": lines.groupBy(F.window("t", "5 minutes")).count().withWatermark("window", "1 minute"),
        "not grouped by": lines.withWatermark("t", "1 minute").groupBy("k").count(),
        "before groupBy": lines.groupBy("k").count(),
    }
    for words, counts in wrong.items():
        with pytest.raises(AnalysisException, match="streaming aggregations without watermark") as refused:
            counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp")).start()
        assert any(words in note for note in refused.value.__notes__)
    with pytest.raises(AnalysisException, match="must be executed with writeStream.start") as shown:
        lines.show()
    assert "console" in shown.value.__notes__[0] and mini.range(1).show() is None
    with pytest.raises(AnalysisException) as missing:
        side_by_side(spark, joined, [["12:01,a"]], progress=False)
    assert missing.value.getCondition() == "PATH_NOT_FOUND" and "several inputs" in missing.value.__notes__[0]


def test_a_wrong_type_and_a_checkpoint_of_another_query_are_warned_of(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mini = MiniSparkSession(spark, trace="rows")

    def run(folder: str) -> None:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.csv").write_text("1,a\n2,b\n")
        rows = mini.readStream.schema("n int, k int").csv(str(tmp_path / folder))
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run("one")
    assert "k is null in every row" in caplog.text
    with pytest.raises(StreamingQueryException, match="Wrong basePath"):  # the last batch is asked for again, from its files
        run("two")
    assert "is it the checkpoint of another query?" in caplog.text
