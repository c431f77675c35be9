"""StreamSuite, StreamingQuerySuite, StreamingLimitSuite, and what a restart goes on with."""

from __future__ import annotations

from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, Test, at, case


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


@case
def a_limit_of_a_complete_result_begins_anew(test: Test) -> None:
    most = lambda session, n: n.groupBy("v").count().orderBy(F.desc("count")).limit(1)
    with test(most, "complete", schemas=NUMBERS) as t:
        t.add([1, 1, 2])
        t.expect([(1, 2)])
        t.add([2, 2])
        t.expect([(2, 3)])


@case
def a_limit_is_remembered_after_a_crash(test: Test) -> None:
    with test(lambda session, n: n.limit(3), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.crash("commitOffsets")
        t.add([3])
        t.restart()
        t.add([4])
        t.expect([1, 2, 3])


@case
def a_limit_counts_what_is_left_of_duplicates(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates().limit(2), schemas=NUMBERS) as t:
        t.add([1, 1])
        t.add([1, 2])
        t.expect([1, 2])


@case
def a_limit_cannot_be_updated(test: Test) -> None:
    with test(lambda session, n: n.limit(3), "update", schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")


@case
def rows_of_a_stream_have_no_order(test: Test) -> None:
    with test(lambda session, n: n.orderBy("v"), schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")


@case
def a_stream_less_another_one_is_refused(test: Test) -> None:
    with test(lambda session, a, b: a.exceptAll(b), schemas={"a": "v int", "b": "v int"}) as t:
        t.expect_error("AnalysisException")


@case
def one_row_may_become_many(test: Test) -> None:
    words = lambda session, n: n.select(F.explode(F.split("line", " ")).alias("word"))
    with test(words, schemas={"n": "line string"}) as t:
        t.add(["a b", "c"])
        t.expect(["a", "b", "c"])


@case
def a_stream_may_be_united_with_itself(test: Test) -> None:
    with test(lambda session, n: n.union(n.select((F.col("v") * 10).alias("v"))), schemas=NUMBERS) as t:
        t.add([1])
        t.add([2])
        t.expect([1, 10, 2, 20])


@case
def a_python_function_is_called_for_each_row(test: Test) -> None:
    with test(lambda session, n: n.select(F.udf(lambda v: v + 1, "int")("v").alias("v")), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.expect([2, 3])


@case
def the_time_of_a_batch_is_that_of_the_clock(test: Test) -> None:
    with test(lambda session, n: n.select("v", F.current_timestamp().alias("now")), schemas=NUMBERS, now=at(0)) as t:
        t.add([1])
        t.advance("5 minutes")
        t.add([2])
        t.expect([(1, at(0)), (2, at(5))])


@case
def the_condition_of_a_query_may_change(test: Test) -> None:
    with test(lambda session, n: n.where("v > 1"), schemas=NUMBERS) as t:
        t.add([1, 2])
        t.restart(lambda session, n: n.where("v > 3"))
        t.add([3, 4])
        t.expect([2, 4])


@case
def a_batch_that_dies_before_its_log_entry_is_planned_anew(test: Test) -> None:
    with test(lambda session, n: n.select("v"), schemas=NUMBERS) as t:
        t.add([1])
        t.crash("walCommit")
        t.add([2])
        t.restart()
        t.expect([1, 2])


@case
def a_batch_may_die_twice(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count(), "update", schemas=NUMBERS) as t:
        t.crash("addBatch")
        t.add([1])
        t.crash("commitOffsets")
        t.restart()
        t.restart()
        t.expect([(1, 1)])
