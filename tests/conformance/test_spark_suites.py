"""What Spark's own streaming suites hold, in our own words: each case is a test of the kit, and runs on both engines at once.

The names of the suites are those of Spark's test classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream.testing import StreamTest, stream_test

Test = Callable[..., StreamTest]
CASES: list[Callable[[Test], None]] = []
NUMBERS = {"n": "v int"}
TIMES = {"n": "t timestamp, v int"}
TWO = {"left": "t timestamp, k int, l int", "right": "t timestamp, k int, r int"}
DAY = "2026-03-01"


def case(function: Callable[[Test], None]) -> Callable[[Test], None]:
    CASES.append(function)
    return function


def at(minute: int) -> str:
    return f"{DAY} {12 + minute // 60}:{minute % 60:02d}:00"


def rows(*minutes: int) -> list[tuple[str, int]]:
    return [(at(minute), minute) for minute in minutes]


def windowed(session: Any, n: DataFrame) -> DataFrame:
    """Windows of five minutes, with a watermark of ten."""
    return n.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes")).count().select("window.start", "count")


def joined(how: str) -> Callable[..., DataFrame]:
    """A row of the right side comes within five minutes after one of the left side."""

    def build(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = left.withWatermark("t", "10 minutes").alias("a"), right.withWatermark("t", "10 minutes").alias("b")
        on = F.expr("a.k = b.k AND b.t >= a.t AND b.t <= a.t + interval 5 minutes")
        return left.join(right, on, how).select("l", "r") if how != "left_semi" else left.join(right, on, how).select("l")

    return build


def sessions(session: Any, n: DataFrame) -> DataFrame:
    """Sessions of one key, which sessions of a stream must have."""
    counted = n.withWatermark("t", "10 minutes").groupBy(F.session_window("t", "5 minutes"), F.col("v") > 0).count()
    return counted.select("session_window.start", "session_window.end", "count")


# -- StreamingAggregationSuite ------------------------------------------------------------------------------------------


@case
def update_mode_shows_the_groups_that_changed(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([3])
        t.expect([(3, 1)])
        t.add([3, 2])
        t.expect([(3, 2), (2, 1)])
        t.stop()
        t.restart()
        t.add([3, 2, 1])
        t.expect([(3, 3), (2, 2), (1, 1)])
        t.expect_state(rows=3)


@case
def complete_mode_repeats_everything_in_order(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count().orderBy("count"), "complete", schemas=NUMBERS) as t:
        t.add([3, 3, 2])
        t.expect([(2, 1), (3, 2)])
        t.add([1])
        t.expect([(1, 1), (2, 1), (3, 2)])


@case
def append_mode_without_a_watermark_is_refused(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), schemas=NUMBERS) as t:
        t.expect_error("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")


@case
def a_query_without_state_cannot_be_complete(test: Test) -> None:
    with test(lambda session, n: n.select("v"), "complete", schemas=NUMBERS) as t:
        t.expect_error("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")


@case
def an_aggregation_of_everything_has_one_row_of_state(test: Test) -> None:
    with test(lambda session, n: n.agg(F.sum("v"), F.count("*")), "update", schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([(3, 2)])
        t.add([None])
        t.expect([(3, 3)])
        t.expect_state(rows=1)


@case
def null_is_a_group_like_any_other(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([None, 1])
        t.add([None])
        t.expect([(None, 1), (1, 1), (None, 2)])


@case
def averages_go_on_where_they_were(test: Test) -> None:
    with test(lambda session, n: n.groupBy((F.col("v") % 2).alias("odd")).agg(F.avg("v"), F.max("v")), "update", schemas=NUMBERS) as t:
        t.add([1, 2])
        t.add([2, 6, 9])
        t.expect([(1, 1.0, 1), (0, 2.0, 2), (0, 10 / 3, 6), (1, 5.0, 9)])


@case
def a_batch_that_fails_in_the_middle_leaves_the_state_as_it_was(test: Test) -> None:
    checked = lambda session, n: n.groupBy(F.when(F.col("v") == 9, F.raise_error("nine")).otherwise(F.col("v")).alias("v")).count()
    with test(checked, "update", schemas=NUMBERS) as t:
        t.add([1, 1])
        t.add([1, 9])
        t.expect_error("USER_RAISED_EXCEPTION")
        t.restart(lambda session, n: n.groupBy("v").count())
        t.expect([(1, 2), (1, 3), (9, 1)])


@case
def another_type_of_key_is_refused_after_a_restart(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([1])
        t.restart(lambda session, n: n.groupBy(F.col("v").cast("string").alias("v")).count())
        t.add([1])
        t.expect_error("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")


# -- EventTimeWatermarkSuite --------------------------------------------------------------------------------------------


@case
def append_mode_shows_a_window_once_when_it_is_final(test: Test) -> None:
    with test(windowed, schemas=TIMES) as t:
        t.add(rows(10, 11, 12, 13, 14))
        t.expect_watermark(at(4))
        t.expect([])
        t.add(rows(25))
        t.expect_watermark(at(15))
        t.expect([(at(10), 5)])
        t.expect_state(rows=1)


@case
def update_mode_shows_a_window_whenever_it_changes(test: Test) -> None:
    with test(windowed, "update", schemas=TIMES) as t:
        t.add(rows(10, 11))
        t.expect([(at(10), 2)])
        t.add(rows(25, 10))
        t.expect([(at(25), 1), (at(10), 3)])
        t.expect_state(rows=1)


@case
def rows_behind_the_watermark_are_dropped(test: Test) -> None:
    with test(windowed, schemas=TIMES) as t:
        t.add(rows(10, 11, 12))
        t.add(rows(25))
        t.expect([(at(10), 3)])
        t.add(rows(10))
        t.expect_late(1)
        t.add(rows(17))
        t.expect_late(0)
        t.expect([])


@case
def the_watermark_survives_a_restart(test: Test) -> None:
    with test(windowed, schemas=TIMES) as t:
        t.add(rows(25))
        t.stop()
        t.restart()
        t.expect_watermark(at(15))
        t.add(rows(10, 17))
        t.expect_late(1)
        t.add(rows(40))
        t.expect([(at(15), 1), (at(25), 1)])


@case
def without_batches_without_data_a_window_waits_for_the_next_row(test: Test) -> None:
    confs = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    with test(windowed, schemas=TIMES, **confs) as t:
        t.add(rows(10))
        t.add(rows(25))
        t.expect_watermark(at(15))
        t.expect([])
        t.add(rows(26))
        t.expect([(at(10), 1)])


@case
def the_slower_of_two_inputs_holds_the_watermark(test: Test) -> None:
    with test(two_watermarks, schemas=TWO) as t:
        t.add(left=[(at(30), 1, 1)])
        t.expect_watermark(None)
        t.add(right=[(at(25), 1, 1)])
        t.expect_watermark(at(15))
        t.add(left=[(at(60), 1, 1)])
        t.expect_watermark(at(15))


@case
def by_the_policy_max_the_faster_input_decides(test: Test) -> None:
    with test(two_watermarks, schemas=TWO, **{"spark.sql.streaming.multipleWatermarkPolicy": "max"}) as t:
        t.add(left=[(at(30), 1, 1)])
        t.expect_watermark(at(20))
        t.add(right=[(at(25), 1, 1)])
        t.expect_watermark(at(20))


def two_watermarks(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
    return left.withWatermark("t", "10 minutes").select("k").union(right.withWatermark("t", "10 minutes").select("k"))


@case
def a_null_event_time_is_in_no_window_and_moves_nothing(test: Test) -> None:
    with test(windowed, schemas=TIMES) as t:
        t.add([(None, 1)])
        t.expect_watermark(None)
        t.add(rows(20))
        t.add([(None, 2)])
        t.expect_watermark(at(10))
        t.expect_state(rows=1)


# -- StreamingDeduplicationSuite, StreamingDeduplicationWithinWatermarkSuite ---------------------------------------------


@case
def duplicates_are_dropped_for_good_without_a_watermark(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates(), schemas=NUMBERS) as t:
        t.add([1, 1, 2])
        t.expect([1, 2])
        t.add([1, 3])
        t.expect([3])
        t.expect_state(rows=3)


@case
def duplicates_by_some_columns(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates(["k"]), schemas={"n": "k string, v int"}) as t:
        t.add([("a", 1)])
        t.add([("a", 2), ("b", 1)])
        t.expect([("a", 1), ("b", 1)])


@case
def what_the_watermark_has_passed_is_no_longer_remembered(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "10 minutes").dropDuplicates(["t"]).select("v"), schemas=TIMES) as t:
        t.add([*rows(10), *rows(10)])
        t.expect([10])
        t.add(rows(25))
        t.expect_state(rows=1)
        t.add(rows(10))
        t.expect_late(1)
        t.expect([25])


@case
def within_the_watermark_a_row_may_come_again_later(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "10 minutes").dropDuplicatesWithinWatermark(["v"]), schemas=TIMES) as t:
        t.add([(at(10), 1)])
        t.add([(at(15), 1)])
        t.expect([(at(10), 1)])
        t.add([(at(40), 2)])
        t.add([(at(41), 1)])
        t.expect([(at(40), 2), (at(41), 1)])


@case
def deduplicated_rows_are_counted_once(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates().groupBy((F.col("v") % 2).alias("odd")).count(), "complete", schemas=NUMBERS) as t:
        t.add([1, 1, 2])
        t.add([1, 3])
        t.expect([(1, 2), (0, 1)])


# -- StreamingInnerJoinSuite, StreamingOuterJoinSuite, StreamingFullOuterJoinSuite, StreamingLeftSemiJoinSuite -----------


@case
def an_inner_join_finds_rows_of_earlier_batches(test: Test) -> None:
    with test(lambda session, a, b: a.join(b, "k"), schemas={"a": "k int, x int", "b": "k int, y int"}) as t:
        t.add(a=[(1, 10)])
        t.expect([])
        t.add(b=[(1, 20), (2, 20)])
        t.expect([(1, 10, 20)])
        t.stop()
        t.restart()
        t.add(a=[(1, 11), (2, 10)])
        t.expect([(1, 11, 20), (2, 10, 20)])


@case
def a_range_of_times_bounds_the_state_of_a_join(test: Test) -> None:
    with test(joined("inner"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1)], right=[(at(12), 1, 2), (at(20), 1, 3)])
        t.expect([(1, 2)])
        t.add(left=[(at(60), 2, 4)], right=[(at(60), 3, 5)])
        t.expect_watermark(at(50))
        t.expect_state(rows=2)


@case
def a_left_row_without_a_partner_comes_with_nulls_when_none_can_come(test: Test) -> None:
    with test(joined("left_outer"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1), (at(11), 2, 2)], right=[(at(12), 1, 3)])
        t.expect([(1, 3)])
        t.add(left=[(at(60), 9, 9)], right=[(at(60), 8, 8)])
        t.expect([(2, None)])


@case
def a_right_outer_join_keeps_the_right_side(test: Test) -> None:
    with test(joined("right_outer"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1)], right=[(at(12), 1, 3), (at(12), 7, 7)])
        t.expect([(1, 3)])
        t.add(left=[(at(60), 9, 9)], right=[(at(60), 8, 8)])
        t.expect([(None, 7)])


@case
def a_full_outer_join_keeps_both(test: Test) -> None:
    with test(joined("full_outer"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1), (at(11), 2, 2)], right=[(at(12), 1, 3), (at(12), 7, 7)])
        t.expect([(1, 3)])
        t.add(left=[(at(60), 9, 9)], right=[(at(60), 8, 8)])
        t.expect([(2, None), (None, 7)])


@case
def a_left_semi_join_gives_a_row_once(test: Test) -> None:
    with test(joined("left_semi"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1), (at(10), 2, 2)])
        t.add(right=[(at(11), 1, 1), (at(12), 1, 2)])
        t.expect([1])
        t.add(right=[(at(13), 1, 3)])
        t.expect([])


@case
def a_null_key_meets_nobody(test: Test) -> None:
    with test(lambda session, a, b: a.join(b, "k"), schemas={"a": "k int, x int", "b": "k int, y int"}) as t:
        t.add(a=[(None, 10)], b=[(None, 20)])
        t.expect([])


@case
def a_table_is_joined_as_it_is(test: Test) -> None:
    def named(session: Any, n: DataFrame) -> DataFrame:
        return n.join(session.createDataFrame([(1, "one")], "v int, name string"), "v", "left_outer")

    with test(named, schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([(1, "one"), (2, None)])
        t.expect_state(rows=0)


@case
def a_stream_joined_with_itself_reads_its_rows_on_both_sides(test: Test) -> None:
    with test(lambda session, n: n.join(n.select("v", (F.col("v") * 2).alias("twice")), "v"), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.add([1])
        t.expect([(1, 2), (2, 4), (1, 2), (1, 2), (1, 2)])


# -- StreamingSessionWindowSuite ----------------------------------------------------------------------------------------


@case
def a_session_leaves_when_the_watermark_has_passed_its_end(test: Test) -> None:
    with test(sessions, schemas=TIMES) as t:
        t.add(rows(10, 13))
        t.expect([])
        t.add(rows(40))
        t.expect([(at(10), at(18), 2)])


@case
def a_row_in_between_makes_one_session_of_two(test: Test) -> None:
    with test(sessions, schemas=TIMES) as t:
        t.add(rows(10, 18))
        t.expect_state(rows=2)
        t.add(rows(14))
        t.expect_state(rows=1)
        t.add(rows(60))
        t.expect([(at(10), at(23), 3)])


@case
def complete_mode_repeats_every_session(test: Test) -> None:
    with test(sessions, "complete", schemas=TIMES) as t:
        t.add(rows(10))
        t.expect([(at(10), at(15), 1)])
        t.add(rows(12))
        t.expect([(at(10), at(17), 2)])


# -- StreamSuite, StreamingQuerySuite -----------------------------------------------------------------------------------


@case
def a_limit_counts_over_all_batches(test: Test) -> None:
    with test(lambda session, n: n.limit(3), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.add([3])
        t.add([4])
        t.expect([1, 2, 3])


@case
def a_union_has_the_rows_of_both(test: Test) -> None:
    with test(lambda session, a, b: a.union(b), schemas={"a": "v int", "b": "v int"}) as t:
        t.add(a=[1], b=[2])
        t.add(b=[3])
        t.expect([1, 2, 3])


@case
def what_arrives_while_a_query_is_stopped_waits_for_it(test: Test) -> None:
    with test(lambda session, n: n.select((F.col("v") + 1).alias("v")), schemas=NUMBERS) as t:
        t.add([1])
        t.stop()
        t.add([2])
        t.add([3])
        t.expect([2])
        t.restart()
        t.expect([3, 4])


@case
def a_better_query_goes_on_where_the_other_one_failed(test: Test) -> None:
    with test(lambda session, n: n.select((10 / F.col("v")).alias("x")), schemas=NUMBERS) as t:
        t.add([2])
        t.add([0, 5])
        t.expect_error("DIVIDE_BY_ZERO")
        t.restart(lambda session, n: n.where("v != 0").select((10 / F.col("v")).alias("x")))
        t.expect([5.0, 2.0])


@case
def counts_are_not_doubled_by_a_crash_before_the_commit(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([1])
        t.crash("commitOffsets")
        t.add([1])
        t.restart()
        t.add([1])
        t.expect([(1, 1), (1, 2), (1, 3)])


# -- MultiStatefulOperatorsSuite ----------------------------------------------------------------------------------------


@case
def windows_of_windows_in_one_query(test: Test) -> None:
    def hours(session: Any, n: DataFrame) -> DataFrame:
        five = n.withWatermark("t", "0 seconds").groupBy(F.window("t", "5 minutes")).count()
        ten = five.groupBy(F.window("window", "10 minutes").alias("w")).agg(F.sum("count").alias("sum"), F.count("*").alias("windows"))
        return ten.select("w.start", "sum", "windows")

    with test(hours, schemas=TIMES) as t:
        t.add(rows(10, 11, 12, 17))
        t.add(rows(31))
        t.add(rows(45))
        t.expect([(at(10), 4, 2), (at(30), 1, 1)])


@case
def duplicates_are_dropped_before_a_window_counts_them(test: Test) -> None:
    def distinct(session: Any, n: DataFrame) -> DataFrame:
        seen = n.withWatermark("t", "0 seconds").dropDuplicates(["t", "v"])
        return seen.groupBy(F.window("t", "5 minutes")).agg(F.count("*").alias("c"), F.sum("v")).select("window.start", "c", "sum(v)")

    with test(distinct, schemas=TIMES) as t:
        t.add([*rows(10), *rows(10), *rows(11)])
        t.add(rows(20))
        t.expect([(at(10), 2, 21)])


# -- FlatMapGroupsWithStateSuite ----------------------------------------------------------------------------------------


def count_until_quiet(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield pd.DataFrame({"v": [key[0]], "n": [-state.get[0]]})
        state.remove()
    else:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((n,))
        state.setTimeoutDuration(10_000)
        yield pd.DataFrame({"v": [key[0]], "n": [n]})


@case
def a_group_that_is_quiet_times_out_when_time_goes_on(test: Test) -> None:
    def build(session: Any, n: DataFrame) -> DataFrame:
        return n.groupBy("v").applyInPandasWithState(count_until_quiet, "v int, n int", "n int", "update", "ProcessingTimeTimeout")

    with test(build, "update", schemas=NUMBERS) as t:
        t.add([1, 1])
        t.advance("5 seconds")
        t.add([1, 2])
        t.expect([(1, 2), (1, 3), (2, 1)])
        t.advance("11 seconds")
        t.expect([(1, -3), (2, -1)])
        t.expect_state(rows=0)


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.__name__)
def test_a_case_of_sparks_suites(spark: SparkSession, one: Callable[[Test], None]) -> None:
    one(partial(stream_test, spark, engine="both"))


def test_results_may_be_pruned_by_the_time_of_the_batch(spark: SparkSession) -> None:
    def recent(session: Any, n: DataFrame) -> DataFrame:
        return n.groupBy("t").count().where(F.col("t") >= F.current_timestamp() - F.expr("interval 10 minutes"))

    with stream_test(spark, recent, "complete", "both", schemas={"n": "t timestamp"}, now=at(0)) as t:
        t.add([at(0), at(5)])
        t.expect([(at(0), 1), (at(5), 1)])
        t.advance("12 minutes")
        t.add([at(5)])
        t.expect([(at(5), 2)])
