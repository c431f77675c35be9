"""StreamingDeduplicationSuite, StreamingDeduplicationWithinWatermarkSuite."""

from __future__ import annotations

from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, TIMES, Test, at, case, rows


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


@case
def a_key_without_event_time_is_remembered_for_good(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "10 minutes").dropDuplicates(["v"]), schemas=TIMES) as t:
        t.add([(at(10), 1)])
        t.add([(at(60), 2)])
        t.add([(at(61), 1)])
        t.expect([(at(10), 1), (at(60), 2)])
        t.expect_state(rows=2)


@case
def null_is_a_key_like_any_other(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates(["v"]), schemas=NUMBERS) as t:
        t.add([None, None, 1])
        t.expect([None, 1])


@case
def distinct_drops_duplicates(test: Test) -> None:
    with test(lambda session, n: n.select(F.abs("v").alias("v")).distinct(), "update", schemas=NUMBERS) as t:
        t.add([1, -1, 2])
        t.expect([1, 2])


@case
def within_the_watermark_needs_a_watermark(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicatesWithinWatermark(["v"]), schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")


@case
def keys_survive_a_restart_and_a_crash(test: Test) -> None:
    with test(lambda session, n: n.dropDuplicates(), schemas=NUMBERS) as t:
        t.add([1])
        t.crash("commitOffsets")
        t.add([1, 2])
        t.restart()
        t.add([1, 2, 3])
        t.expect([1, 2, 3])
