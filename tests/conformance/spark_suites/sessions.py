"""StreamingSessionWindowSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import TIMES, Test, at, case, rows


def sessions(session: Any, n: DataFrame) -> DataFrame:
    """Sessions of one key, which sessions of a stream must have."""
    counted = n.withWatermark("t", "10 minutes").groupBy(F.session_window("t", "5 minutes"), F.col("v") > 0).count()
    return counted.select("session_window.start", "session_window.end", "count")


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


@case
def each_key_has_sessions_of_its_own(test: Test) -> None:
    def by_key(session: Any, n: DataFrame) -> DataFrame:
        counted = n.withWatermark("t", "0 seconds").groupBy(F.session_window("t", "5 minutes"), "v").count()
        return counted.select("session_window.start", "v", "count")

    with test(by_key, schemas=TIMES) as t:
        t.add([(at(10), 1), (at(11), 2), (at(12), 1), (at(30), 3)])
        t.expect([(at(10), 1, 2), (at(11), 2, 1)])


@case
def how_long_a_session_waits_may_depend_on_the_row(test: Test) -> None:
    def build(session: Any, n: DataFrame) -> DataFrame:
        gap = F.when(F.col("v") == 1, "1 minute").otherwise("10 minutes")
        counted = n.withWatermark("t", "0 seconds").groupBy(F.session_window("t", gap), F.col("v").alias("k")).count()
        return counted.select("session_window.start", "session_window.end", "k", "count")

    with test(build, "complete", schemas=TIMES) as t:
        t.add([(at(10), 1), (at(12), 1), (at(10), 2), (at(12), 2)])
        t.expect([(at(10), at(11), 1, 1), (at(12), at(13), 1, 1), (at(10), at(22), 2, 2)])


@case
def a_session_cannot_be_updated(test: Test) -> None:
    with test(sessions, "update", schemas=TIMES) as t:
        t.expect_error("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")


@case
def a_session_without_any_other_key_is_refused(test: Test) -> None:
    with test(lambda session, n: n.groupBy(F.session_window("t", "5 minutes")).count(), "complete", schemas=TIMES) as t:
        t.add(rows(1))
        t.expect_error("STREAM_FAILED")


@case
def a_late_row_opens_no_session(test: Test) -> None:
    with test(sessions, schemas=TIMES) as t:
        t.add(rows(40))
        t.add(rows(10))
        t.expect_late(1)
        t.expect_state(rows=1)


@case
def a_session_goes_on_after_a_crash(test: Test) -> None:
    with test(sessions, schemas=TIMES) as t:
        t.add(rows(10))
        t.crash("addBatch")
        t.add(rows(14))
        t.restart()
        t.add(rows(40))
        t.expect([(at(10), at(19), 2)])
