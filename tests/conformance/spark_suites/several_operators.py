"""MultiStatefulOperatorsSuite."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.conformance.spark_suites.cases import NUMBERS, TIMES, TWO, Test, at, case, rows


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


@case
def what_a_join_has_found_is_counted_in_windows(test: Test) -> None:
    def build(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        left, right = left.withWatermark("t", "0 seconds").alias("a"), right.withWatermark("t", "0 seconds").alias("b")
        both = left.join(right, F.expr("a.k = b.k AND b.t >= a.t AND b.t <= a.t + interval 1 minutes")).select(F.col("a.t").alias("t"))
        return both.groupBy(F.window("t", "5 minutes")).count().select("window.start", "count")

    with test(build, schemas=TWO) as t:
        t.add(left=[(at(10), 1, 1), (at(12), 2, 2)], right=[(at(11), 1, 1), (at(12), 2, 2)])
        t.add(left=[(at(40), 9, 9)], right=[(at(40), 8, 8)])
        t.expect([(at(10), 2)])


@case
def two_aggregations_cannot_be_updated(test: Test) -> None:
    with test(lambda session, n: n.groupBy("v").count().groupBy("count").count(), "update", schemas=NUMBERS) as t:
        t.expect_error("AnalysisException")
