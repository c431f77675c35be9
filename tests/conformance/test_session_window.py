"""Session windows: both engines build the same sessions, keep them in the same state files, and let them go together.

Times are minutes after 12:00; `at("ann", 3)` is a click of Ann at 12:03. The watermark runs 10 minutes behind.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.checkpoint_files import comparable_files

SCHEMA = "ts timestamp, user string, n int, price decimal(8,2), weight double, gap string, page struct<site:string,id:int>"
MERGE_LOCALLY = {"spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": "true"}


def at(user: str | None, minute: float | None, **columns: Any) -> str:
    """A click of a user, as a line of JSON."""
    click: dict[str, Any] = {"user": user, "n": 1, **columns}
    if minute is not None:
        click["ts"] = str(datetime(2024, 1, 1, 12) + timedelta(seconds=round(minute * 60)))
    return json.dumps({name: value for name, value in click.items() if value is not None})


def clicks(session: Any, input_dir: str) -> DataFrame:
    return session.readStream.schema(SCHEMA).json(input_dir).withWatermark("ts", "10 minutes")


def sessions(gap: str | Column, *keys: str) -> Callable[[Any, str], DataFrame]:
    """Clicks per user and session."""

    def build(session: Any, input_dir: str) -> DataFrame:
        grouped = clicks(session, input_dir).groupBy(F.session_window("ts", gap), *(keys or ["user"]))
        return grouped.agg(F.count("*").alias("clicks"), F.sum("n").alias("n"))

    return build


def state_operators(comparison: Any, name: str) -> list[int]:
    """One counter of the (only) state operator, for each batch with data."""
    progress = [batch.progress for batch in comparison.model.batches]
    return [p["stateOperators"][0][name] for p in progress if p["numInputRows"]]


def rows(comparison: Any) -> list[tuple[Any, ...]]:
    """All rows that left the query: start and end of the session as minutes, and the other columns."""
    return [
        (f"{window['start']:%H:%M}-{window['end']:%H:%M}", *rest)
        for batch in comparison.model.batches for window, *rest in batch.rows
    ]


# --- which rows are one session -----------------------------------------------------------------------------------


def test_rows_that_are_less_than_a_gap_apart_are_one_session_in_whatever_order_they_come(compare):
    result = compare(
        sessions("5 minutes"),
        feed=[[at("ann", 7), at("bob", 1), at("ann", 0), at("ann", 20), at("ann", 4)], [at("ann", 60)]],
    )
    assert sorted(rows(result)) == [("12:00-12:12", "ann", 3, 3), ("12:01-12:06", "bob", 1, 1), ("12:20-12:25", "ann", 1, 1)]


def test_a_session_that_ends_when_the_next_begins_is_merged_with_it(compare):
    result = compare(sessions("5 minutes"), feed=[[at("ann", 0), at("ann", 5)], [at("ann", 60)]])
    assert rows(result) == [("12:00-12:10", "ann", 2, 2)]


def test_a_later_batch_continues_a_session(compare):
    compare(sessions("5 minutes"), feed=[[at("ann", 0)], [at("ann", 4)], [at("ann", 8), at("bob", 8)], [at("ann", 60)]])


def test_one_click_can_join_two_sessions_of_the_state(compare):
    result = compare(sessions("5 minutes"), feed=[[at("ann", 0), at("ann", 8)], [at("ann", 4)], [at("bob", 60)]])
    assert state_operators(result, "numRowsTotal")[:2] == [2, 1]
    assert state_operators(result, "numRowsRemoved")[:2] == [0, 1]


def test_an_earlier_click_moves_the_start_of_a_session_and_so_its_key_in_state(compare):
    result = compare(sessions("5 minutes"), feed=[[at("ann", 4)], [at("ann", 1)], [at("bob", 60)]])
    assert state_operators(result, "numRowsRemoved")[:2] == [0, 1]


def test_all_sessions_of_a_user_are_written_again_when_one_of_them_changes(compare):
    result = compare(
        sessions("2 minutes"), feed=[[at("ann", 0), at("ann", 5), at("ann", 9), at("bob", 3)], [at("ann", 6)], [at("bob", 7)]]
    )
    assert state_operators(result, "numRowsUpdated")[:3] == [4, 3, 2]


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_each_row_may_bring_its_own_gap(compare):
    result = compare(
        sessions(F.col("gap")),
        feed=[
            [at("ann", 0, gap="30 minutes"), at("ann", 1, gap="10 seconds"), at("ann", 29, gap="1 minute")],
            [at("ann", 29.5, gap="1 day"), at("bob", 20, gap="1 minute")],
            [at("bob", 60 * 40, gap="1 second")],
        ],
    )
    assert ("12:00-12:29", "ann", 4, 4) in rows(result)


def test_a_gap_may_depend_on_other_columns(compare):
    gap = F.when(F.col("user") == "ann", "1 minute").when(F.col("n") > 3, "20 minutes").otherwise("5 minutes")
    compare(
        sessions(gap),
        feed=[[at("ann", 0), at("ann", 2), at("bob", 0, n=5), at("bob", 18)], [at("bob", 22), at("ann", 1)], [at("ann", 90)]],
    )


def test_a_row_whose_gap_is_null_zero_or_negative_is_in_no_session(compare):
    result = compare(
        sessions(F.col("gap")),
        feed=[
            [at("ann", 0), at("ann", 1, gap="0 seconds"), at("ann", 2, gap="-5 minutes"), at("ann", 3, gap="1 minute")],
            [at("ann", 60, gap="1 minute")],
        ],
    )
    assert rows(result) == [("12:03-12:04", "ann", 1, 1)]


@pytest.mark.parametrize("gap", ["0 minutes", "-5 minutes"])
def test_a_fixed_gap_that_is_not_positive_gives_no_session(compare, gap):
    result = compare(sessions(gap), feed=[[at("ann", 0)], [at("ann", 60)]])
    assert not rows(result)


# --- keys ---------------------------------------------------------------------------------------------------------


def test_a_null_user_is_a_user_and_a_null_time_is_no_time(compare):
    compare(
        sessions("5 minutes"),
        feed=[[at(None, 0), at(None, 3), at("ann", None), at("", 3)], [at(None, 5), at("ann", 6)], [at("ann", 60)]],
    )


def test_the_session_may_stand_between_other_keys(compare):
    def build(session, input_dir):
        grouped = clicks(session, input_dir).groupBy("page", F.session_window("ts", "5 minutes"), "weight", "user")
        return grouped.agg(F.sum("n").alias("n")).select("n", "session_window.end", "page.site", "weight")

    pages = [{"site": "a", "id": 1}, {"site": "a"}, None]
    compare(
        build,
        feed=[
            [at("ann", m, page=p, weight=w) for m in (0, 3) for p in pages for w in (0.0, -0.0, None)],
            [at("ann", 6, page=pages[1], weight=-0.0), at("ann", 1, page=pages[2])],
            [at("ann", 60)],
        ],
    )


# --- late rows and eviction ---------------------------------------------------------------------------------------


def test_a_session_leaves_when_the_watermark_reaches_its_end(compare):
    result = compare(sessions("5 minutes"), feed=[[at("ann", 0)], [at("bob", 14.9)], [at("bob", 15)], [at("bob", 16)]])
    assert rows(result) == [("12:00-12:05", "ann", 1, 1)]


def test_a_late_row_is_dropped_even_where_its_session_would_have_joined_one_in_state(compare):
    result = compare(
        sessions("5 minutes"),
        feed=[
            [at("ann", 20)],
            [at("ann", 5), at("ann", 5), at("ann", 4), at("ann", 5.1)],  # watermark 12:10: the first three end by then
            [at("ann", 60)],
        ],
    )
    assert sum(state_operators(result, "numRowsDroppedByWatermark")) == 2  # counted after partial aggregation


def test_late_rows_are_counted_as_sessions_when_sessions_merge_before_the_shuffle(compare):
    result = compare(
        sessions("5 minutes"), feed=[[at("ann", 40)], [at("ann", 5), at("ann", 6), at("bob", 45)], [at("bob", 90)]],
        confs=MERGE_LOCALLY,
    )
    assert sum(state_operators(result, "numRowsDroppedByWatermark")) == 1


def test_without_no_data_batches_sessions_leave_one_batch_later(compare):
    compare(
        sessions("5 minutes"), feed=[[at("ann", 0)], [at("bob", 30)], [at("bob", 31)], [at("ann", 32)]],
        confs={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    )


# --- aggregates ---------------------------------------------------------------------------------------------------


def test_every_kind_of_buffer_is_merged_in_the_order_of_the_sessions(compare):
    def build(session, input_dir):
        return clicks(session, input_dir).groupBy("user", F.session_window("ts", "5 minutes")).agg(
            F.sum("price"), F.avg("price"), F.avg("n"), F.min("gap"), F.max("page"), F.stddev("weight"), F.corr("n", "weight"),
            F.first("n"), F.last("gap", True), F.collect_list("n"), F.max_by("gap", "ts"),
            F.expr("count(*) filter (where n > 2)"),
        )

    one = [
        at("ann", m, n=m, price=m / 4, weight=m * 0.1, gap=f"g{m}" if m % 3 else None, page={"site": "s", "id": m % 4})
        for m in (0, 9, 3, 13, 20, 1)
    ]
    compare(build, feed=[one[:2], one[2:4], [at("ann", 6), at("ann", 17, n=7)], one[4:], [at("ann", 99)]])


def test_of_two_sessions_that_begin_together_that_of_the_state_comes_first(compare):
    """Although it ends later: sorted by its end, too, the new one would come first."""
    def build(session, input_dir):
        return clicks(session, input_dir).groupBy("user", F.session_window("ts", "5 minutes")).agg(F.collect_list("n").alias("ns"))

    seen = compare(build, feed=[[at("ann", 4, n=2), at("ann", 0, n=3)], [at("ann", 0, n=4)], [at("ann", 99)]])
    assert [ns for batch in seen.model.batches for *_, ns in batch.rows] == [[3, 2, 4]]


def test_a_session_without_aggregate_function_is_still_state(compare):
    window = F.session_window("ts", "5 minutes")
    compare(
        lambda session, input_dir: clicks(session, input_dir).groupBy(window, "user").agg(F.lit(1)),
        feed=[[at("ann", 0), at("ann", 2)], [at("ann", 4)], [at("ann", 60)]],
    )


# --- output modes -------------------------------------------------------------------------------------------------


def test_complete_mode_keeps_every_session_but_still_drops_late_rows(compare):
    result = compare(
        sessions("5 minutes"),
        feed=[[at("ann", 0), at("ann", 8)], [at("ann", 30)], [at("bob", 31)], [at("ann", 4), at("bob", 28)]],
        output_mode="complete",
    )
    assert sum(state_operators(result, "numRowsDroppedByWatermark")) == 1
    assert state_operators(result, "numStateStoreInstances") == [0, 0, 0, 0]


def test_complete_mode_without_a_watermark_merges_however_late_a_row_is(compare):
    def build(session, input_dir):
        events = session.readStream.schema(SCHEMA).json(input_dir)
        return events.groupBy(F.session_window("ts", "5 minutes"), "user").count().orderBy("session_window", "user")

    compare(build, feed=[[at("ann", 0), at("ann", 8)], [at("ann", 300)], [at("ann", 4), at("bob", 28)]], output_mode="complete")


# --- around the operator ------------------------------------------------------------------------------------------


def test_only_the_end_of_the_session_as_a_key_is_an_ordinary_aggregation(compare):
    def build(session, input_dir):
        return clicks(session, input_dir).groupBy(F.session_window("ts", "5 minutes").end.alias("end"), "user").count()

    result = compare(build, feed=[[at("ann", 0), at("ann", 1)], [at("ann", 60)]], output_mode="update")
    assert {b.progress["stateOperators"][0]["operatorName"] for b in result.model.batches} == {"stateStoreSave"}


def test_sessions_can_be_counted_in_windows(compare):
    def build(session, input_dir):
        ended = sessions("5 minutes")(session, input_dir)
        return ended.groupBy(F.window(F.window_time("session_window"), "15 minutes")).agg(F.count("*"), F.max("clicks"))

    compare(build, feed=[[at("ann", 0), at("bob", 3), at("ann", 9)], [at("ann", 40)], [at("bob", 70)]])


def test_a_session_as_the_only_key_is_refused_when_the_query_runs(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    (tmp_path / "in").mkdir()
    for name, session in (("spark", spark), ("model", mini)):
        counts = clicks(session, str(tmp_path / "in")).groupBy(F.session_window("ts", "5 minutes")).count()
        (tmp_path / "in" / "one.json").write_text(at("ann", 0))
        query = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).start()
        with pytest.raises(StreamingQueryException, match="Global aggregation with session window in streaming query"):
            query.awaitTermination()


def test_the_time_may_not_be_a_key_beside_its_session(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    for name, session in (("spark", spark), ("model", mini)):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / "one.json").write_text(at("ann", 0))
        counts = clicks(session, str(tmp_path / "in")).groupBy(F.session_window("ts", "5 minutes"), "ts").count()
        query = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).start()
        with pytest.raises(StreamingQueryException, match="MULTIPLE_EVENT_TIME_COLUMNS. More than one event time columns are"):
            query.awaitTermination()


# --- restarts -----------------------------------------------------------------------------------------------------


def many_clicks(batches: int) -> list[list[str]]:
    """Clicks of six users, up to an hour out of order, with gaps of their own."""
    dice = random.Random(7)
    gaps = ["1 minute", "3 minutes", "0 seconds", None, "8 minutes"]
    return [
        [
            at(dice.choice(["ann", "bob", "cid", "dea", "eve", None]), dice.uniform(0, 60) + 20 * batch, n=dice.randint(-9, 9),
               weight=dice.uniform(-1, 1), gap=dice.choice(gaps), price=dice.randint(0, 999) / 100)
            for _ in range(47)
        ]
        for batch in range(batches)
    ]


def statistics(session: Any, input_dir: str) -> DataFrame:
    return clicks(session, input_dir).groupBy("user", F.session_window("ts", F.col("gap"))).agg(
        F.count("*"), F.sum("price"), F.avg("n"), F.sum("weight"), F.last("n"),
    )


@pytest.mark.parametrize("confs", [{}, MERGE_LOCALLY], ids=["merged after the shuffle", "merged before the shuffle too"])
def test_many_sessions_survive_restarts(compare, confs):
    result = compare(statistics, feed=[*many_clicks(7), [at("ann", 999, gap="1 minute")]], restart_after=(1, 4), confs=confs)
    assert sum(len(batch.rows) for batch in result.model.batches) > 50


@pytest.mark.parametrize("engines", ["SMSM", "MSMS", "SMMS"])
def test_each_engine_continues_the_sessions_of_the_other(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, engines: str
):
    feed = many_clicks(4)

    def run(order: str) -> tuple[list[list[tuple[Any, ...]]], dict[str, Any]]:
        """Each letter is a run over one more file, by Spark (S) or the model (M), on the same checkpoint."""
        source, checkpoint = tmp_path / order / "in", tmp_path / order / "checkpoint"
        source.mkdir(parents=True)
        batches: list[list[tuple[Any, ...]]] = []
        for i, engine in enumerate(order):
            (source / f"{i}.json").write_text("\n".join(feed[i]))
            query = statistics(spark if engine == "S" else mini, str(source)).writeStream.foreachBatch(
                lambda df, _: batches.append(sorted(map(tuple, df.collect()), key=repr))
            )
            query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        files = comparable_files(str(checkpoint))
        return batches, {name: content for name, content in files.items() if name.startswith("state/")}

    assert run(engines) == run("SSSS")
