"""StreamingInnerJoinSuite, StreamingOuterJoinSuite, StreamingFullOuterJoinSuite, StreamingLeftSemiJoinSuite, StreamingJoinSuite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, TWO, Test, at, case


def joined(how: str) -> Callable[..., DataFrame]:
    """A row of the right side comes within five minutes after one of the left side."""

    def build(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = left.withWatermark("t", "10 minutes").alias("a"), right.withWatermark("t", "10 minutes").alias("b")
        on = F.expr("a.k = b.k AND b.t >= a.t AND b.t <= a.t + interval 5 minutes")
        return left.join(right, on, how).select("l", "r") if how != "left_semi" else left.join(right, on, how).select("l")

    return build


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


KEYS = {"a": "k int, x int", "b": "k int, y int"}


@case
def equal_keys_meet_each_other_all(test: Test) -> None:
    with test(lambda session, a, b: a.join(b, "k"), schemas=KEYS) as t:
        t.add(a=[(1, 1), (1, 2)], b=[(1, 3), (1, 4)])
        t.expect([(1, x, y) for x in (1, 2) for y in (3, 4)])
        t.expect_state(rows=4)


@case
def a_window_may_be_the_key_of_a_join(test: Test) -> None:
    def by_window(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = (
            one.withWatermark("t", "10 minutes").select(F.window("t", "5 minutes").alias("w"), column)
            for one, column in ((left, "l"), (right, "r"))
        )
        return left.join(right, "w").select("w.start", "l", "r")

    with test(by_window, schemas=TWO) as t:
        t.add(left=[(at(11), 1, 1), (at(16), 1, 2)], right=[(at(13), 1, 3)])
        t.expect([(at(10), 1, 3)])


@case
def a_condition_on_one_side_lets_an_outer_row_go_alone(test: Test) -> None:
    def build(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = left.withWatermark("t", "10 minutes").alias("a"), right.withWatermark("t", "10 minutes").alias("b")
        on = F.expr("a.l > 5 AND a.k = b.k AND b.t >= a.t AND b.t <= a.t + interval 5 minutes")
        return left.join(right, on, "left_outer").select("l", "r")

    with test(build, schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1), (at(10), 1, 7)], right=[(at(11), 1, 2)])
        t.expect([(1, None), (7, 2)])


@case
def a_left_row_that_has_met_its_partner_never_comes_alone(test: Test) -> None:
    with test(joined("left_outer"), schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1)])
        t.crash("commitOffsets")
        t.add(right=[(at(12), 1, 3)])
        t.restart()
        t.add(left=[(at(60), 9, 9)], right=[(at(60), 8, 8)])
        t.expect([(1, 3)])


@case
def late_rows_meet_nobody(test: Test) -> None:
    with test(joined("inner"), schemas=TWO) as t:
        t.add(left=[(at(60), 1, 1)], right=[(at(60), 2, 2)])
        t.add(left=[(at(10), 1, 5)], right=[(at(12), 1, 6)])
        t.expect([])
        t.expect_late(2)


@case
def an_outer_join_without_a_watermark_is_refused(test: Test) -> None:
    with test(lambda session, a, b: a.join(b, "k", "left_outer"), schemas=KEYS) as t:
        t.expect_error("AnalysisException")


@case
def an_outer_join_cannot_be_updated(test: Test) -> None:
    with test(joined("full_outer"), "update", schemas=TWO) as t:
        t.expect_error("AnalysisException")


@case
def a_join_without_equal_keys_is_refused(test: Test) -> None:
    with test(lambda session, a, b: a.join(b, F.col("x") < F.col("y")), schemas=KEYS) as t:
        t.add(a=[(1, 1)], b=[(1, 2)])
        t.expect_error("STREAM_FAILED")


def with_table(how: str) -> Callable[..., DataFrame]:
    return lambda session, n: n.join(session.createDataFrame([(1, "one"), (3, "three")], "v int, name string"), "v", how)


@case
def a_table_may_decide_which_rows_of_a_stream_pass(test: Test) -> None:
    with test(with_table("left_semi"), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([1])


@case
def a_table_may_decide_which_rows_of_a_stream_do_not_pass(test: Test) -> None:
    with test(with_table("left_anti"), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([2])


@case
def a_table_cannot_be_kept_whole_beside_a_stream(test: Test) -> None:
    with test(with_table("right_outer"), schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")
