"""EventTimeWatermarkSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, TIMES, TWO, Test, at, case, rows, windowed


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


@case
def a_number_is_no_event_time(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("v", "1 minute"), schemas=NUMBERS) as t:
        t.expect_error("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE")


@case
def the_watermark_does_not_go_back(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "10 minutes"), schemas=TIMES) as t:
        t.add(rows(25))
        t.add(rows(20))
        t.expect_watermark(at(15))


@case
def a_month_has_31_days(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "1 month"), schemas=TIMES) as t:
        t.add(rows(0))
        t.expect_watermark("2026-01-29 12:00")


@case
def complete_mode_forgets_nothing_and_drops_nothing(test: Test) -> None:
    with test(windowed, "complete", schemas=TIMES) as t:
        t.add(rows(10))
        t.add(rows(25))
        t.add(rows(10))
        t.expect([(at(10), 2), (at(25), 1)])
        t.expect_late(0)


@case
def update_mode_drops_late_rows(test: Test) -> None:
    with test(windowed, "update", schemas=TIMES) as t:
        t.add(rows(25))
        t.add(rows(10, 26))
        t.expect([(at(25), 1), (at(25), 2)])
        t.expect_late(1)


@case
def a_row_is_in_each_window_that_covers_it(test: Test) -> None:
    def sliding(session: Any, n: DataFrame) -> DataFrame:
        return n.groupBy(F.window("t", "10 minutes", "5 minutes")).count().select("window.start", "count")

    with test(sliding, "update", schemas=TIMES) as t:
        t.add(rows(7, 12))
        t.expect([(at(0), 1), (at(5), 2), (at(10), 1)])


@case
def rows_may_be_grouped_by_the_event_time_itself(test: Test) -> None:
    with test(lambda session, n: n.withWatermark("t", "0 seconds").groupBy("t").count(), schemas=TIMES) as t:
        t.add(rows(10, 10, 11))
        t.expect([(at(10), 2), (at(11), 1)])


@case
def the_event_time_keeps_its_watermark_under_another_name(test: Test) -> None:
    def renamed(session: Any, n: DataFrame) -> DataFrame:
        return n.withWatermark("t", "0 seconds").select(F.col("t").alias("time")).groupBy("time").count()

    with test(renamed, schemas=TIMES) as t:
        t.add(rows(10))
        t.expect([(at(10), 1)])


@case
def windows_without_a_watermark_cannot_be_appended(test: Test) -> None:
    with test(lambda session, n: n.groupBy(F.window("t", "5 minutes")).count(), schemas=TIMES) as t:
        t.expect_error("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")


@case
def of_several_watermarks_of_a_union_the_oldest_holds_the_windows(test: Test) -> None:
    def build(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        both = left.withWatermark("t", "0 seconds").select("t").union(right.withWatermark("t", "10 minutes").select("t"))
        return both.groupBy(F.window("t", "5 minutes")).count().select("window.start", "count")

    with test(build, schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1)], right=[(at(24), 1, 1)])
        t.expect([])
        t.add(left=[(at(30), 1, 1)], right=[(at(25), 1, 1)])
        t.expect([(at(10), 1)])
