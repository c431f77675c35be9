"""StreamingAggregationSuite, StreamingAggregationDistributionSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, Test, at, case


@case
def update_mode_shows_the_groups_of_the_batch(test: Test) -> None:
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


@case
def a_count_of_nothing_is_a_row(test: Test) -> None:
    with test(lambda session, n: n.where("v > 100").agg(F.count("*"), F.max("v")), "complete", schemas=NUMBERS) as t:
        t.add([1])
        t.expect([(0, None)])


@case
def a_condition_on_a_group_hides_it_and_keeps_it_in_the_state(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count().where("count > 1"), "update", schemas=NUMBERS) as t:
        t.add([1, 2])
        t.add([1])
        t.expect([(1, 2)])
        t.expect_state(rows=2)


@case
def groups_by_two_columns_of_which_one_is_null(test: Test) -> None:
    with test(lambda session, n: n.groupBy("k", "v").count(), "update", schemas={"n": "k string, v int"}) as t:
        t.add([("a", None), ("a", None), (None, 1), ("b", 1)])
        t.expect([("a", None, 2), (None, 1, 1), ("b", 1, 1)])


@case
def a_rollup_has_its_sums_in_the_state(test: Test) -> None:
    with test(lambda session, n: n.rollup("k").agg(F.sum("v")), "complete", schemas={"n": "k string, v int"}) as t:
        t.add([("a", 1), ("b", 2)])
        t.add([("b", 3)])
        t.expect([("a", 1), ("b", 5), (None, 6)])


@case
def a_set_of_values_grows(test: Test) -> None:
    sets = lambda session, n: n.groupBy("k").agg(F.sort_array(F.collect_set("v")).alias("vs"))
    with test(sets, "update", schemas={"n": "k string, v int"}) as t:
        t.add([("a", 2), ("a", 2)])
        t.add([("a", 1)])
        t.expect([("a", [2]), ("a", [1, 2])])


@case
def the_groups_of_few_partitions_are_those_of_many(test: Test) -> None:
    with test(lambda session, n: n.repartition(3).coalesce(1).groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([1, 1, 2])
        t.expect([(1, 2), (2, 1)])


@case
def different_values_cannot_be_counted(test: Test) -> None:
    with test(lambda session, n: n.agg(F.count_distinct("v")), "complete", schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")


@case
def an_aggregated_table_is_no_state_of_the_stream(test: Test) -> None:
    def joined_with_sums(session: Any, n: DataFrame) -> DataFrame:
        sums = session.createDataFrame([(1, 2), (1, 3)], "v int, x int").groupBy("v").agg(F.sum("x").alias("sum"))
        return n.join(sums, "v")

    with test(joined_with_sums, schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([(1, 5)])
        t.expect_state(rows=0)


@case
def another_type_of_value_is_refused_after_a_restart(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.add([1])
        t.restart(lambda session, n: n.groupBy("v").agg(F.collect_list("v").alias("count")))
        t.add([1])
        t.expect_error("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE")


@case
def results_may_be_pruned_by_the_time_of_the_batch(test: Test) -> None:
    def recent(session: Any, n: DataFrame) -> DataFrame:
        return n.groupBy("t").count().where(F.col("t") >= F.current_timestamp() - F.expr("interval 10 minutes"))

    with test(recent, "complete", schemas={"n": "t timestamp"}, now=at(0)) as t:
        t.add([at(0), at(5)])
        t.expect([(at(0), 1), (at(5), 1)])
        t.advance("12 minutes")
        t.add([at(5)])
        t.expect([(at(5), 2)])
