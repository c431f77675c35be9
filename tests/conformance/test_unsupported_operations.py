"""What Structured Streaming refuses: query shapes x output modes, asked of Spark's own checker and of the model's.

Each shape is built twice, on Spark's readStream and on the model's, and both plans are checked in each output mode. The
outcome must be the same: accepted, or refused with the same class, condition, parameters and text (plan included).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.window import Window

from minispark_stream import MiniSparkSession
from minispark_stream.engine.jvm import scala
from minispark_stream.engine.jvm.plans import analyzed
from minispark_stream.engine.plan.unsupported_operation_checker import check_for_streaming

WAITING_JOINS = ("left", "right", "full", "left_semi")  # their outcome hangs on watermarks and on the condition
JOINS = ("inner", "cross", "left_anti", *WAITING_JOINS)


@dataclass(frozen=True)
class Inputs:
    """The streams and the table that the shapes are made of."""

    session: Any
    folder: str

    def events(self) -> DataFrame:
        return self.session.readStream.schema("ts timestamp, k int, v bigint").json(self.folder)

    def timed(self) -> DataFrame:
        return self.events().withWatermark("ts", "10 seconds")

    def clicks(self) -> DataFrame:
        return self.events().toDF("ts2", "k2", "v2")

    def timed_clicks(self) -> DataFrame:
        return self.clicks().withWatermark("ts2", "20 seconds")

    def table(self) -> DataFrame:
        return self.session.range(5).select(F.col("id").cast("int").alias("k"), F.col("id").alias("price"))

    def sql(self, query: str) -> DataFrame:
        """SQL over the views `events`, `timed` and `prices`."""
        self.events().createOrReplaceTempView("events")
        self.timed().createOrReplaceTempView("timed")
        self.table().createOrReplaceTempView("prices")
        return self.session.sql(query)


Build = Callable[[Inputs], DataFrame]
SHAPES: dict[str, Build] = {}


def shape(build: Build) -> Build:
    SHAPES[build.__name__] = build
    return build


def window(length: str = "5 seconds", time: str = "ts") -> Any:
    return F.window(time, length)


# -- without state --------------------------------------------------------------------------------------------


@shape
def select(s):
    return s.events().select("k", F.upper(F.col("k").cast("string")))


@shape
def filter_rows(s):
    return s.events().where("v > 1")


@shape
def current_timestamp(s):
    return s.events().withColumn("now", F.current_timestamp()).withColumn("today", F.current_date())


@shape
def rand(s):
    return s.events().withColumn("x", F.rand())


@shape
def monotonically_increasing_id(s):
    return s.events().withColumn("id", F.monotonically_increasing_id())


@shape
def monotonically_increasing_id_inside_an_expression(s):
    return s.events().where(F.monotonically_increasing_id() % 2 == 0).select(F.rand())


@shape
def monotonically_increasing_id_on_the_static_side(s):
    return s.events().join(s.table().withColumn("id", F.monotonically_increasing_id()), "k")


@shape
def monotonically_increasing_id_in_an_aggregate(s):
    return s.events().groupBy("k").agg(F.max(F.monotonically_increasing_id()))


@shape
def repartition(s):
    return s.events().repartition(3, "k").coalesce(1)


@shape
def map_in_pandas(s):
    return s.events().mapInPandas(lambda frames: frames, "ts timestamp, k int, v bigint")


@shape
def group_apply_in_pandas(s):
    return s.events().groupBy("k").applyInPandas(lambda frame: frame, "ts timestamp, k int, v bigint")


@shape
def cogroup_apply_in_pandas(s):
    both = s.events().groupBy("k").cogroup(s.clicks().groupBy("k2"))
    return both.applyInPandas(lambda left, right: left, "ts timestamp, k int, v bigint")


@shape
def sample(s):
    return s.events().sample(fraction=0.5, seed=1)


@shape
def sample_of_the_static_side(s):
    return s.events().join(s.table().sample(fraction=0.5, seed=1), "k")


@shape
def random_split(s):
    return s.events().randomSplit([0.5, 0.5], seed=1)[0]


@shape
def sort(s):
    return s.events().orderBy("v")


@shape
def sort_within_partitions(s):
    return s.events().sortWithinPartitions("v")


@shape
def sort_of_the_static_side(s):
    return s.events().join(s.table().orderBy("k"), "k")


@shape
def limit(s):
    return s.events().limit(3)


@shape
def limit_of_the_static_side(s):
    return s.events().join(s.table().limit(3), "k")


@shape
def offset(s):
    return s.events().offset(1)


@shape
def limit_and_offset(s):
    return s.events().offset(1).limit(3)


@shape
def offset_of_the_static_side(s):
    return s.events().join(s.table().offset(1), "k")


@shape
def tail(s):
    s.events().tail(1)
    return s.events()


@shape
def collect(s):
    s.events().collect()
    return s.events()


@shape
def batch_query(s):
    return s.table()


@shape
def row_number(s):
    return s.events().withColumn("n", F.row_number().over(Window.partitionBy("k").orderBy("ts")))


@shape
def several_window_functions(s):
    by_key = Window.partitionBy("k").orderBy("ts")
    return s.events().select(F.rank().over(by_key) + F.sum("v").over(by_key), F.lag("v").over(by_key).alias("a `b`.c"))


@shape
def window_function_in_sql(s):
    return s.sql("SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM events WHERE v > 0")


@shape
def window_function_on_the_static_side(s):
    ranked = s.table().withColumn("n", F.row_number().over(Window.partitionBy("k").orderBy("price")))
    return s.events().join(ranked, "k")


@shape
def window_function_over_an_aggregation(s):
    counts = s.timed().groupBy(window(), "k").count()
    return counts.withColumn("n", F.row_number().over(Window.partitionBy("window").orderBy("count")))


# -- sets of rows ---------------------------------------------------------------------------------------------


@shape
def union_of_streams(s):
    return s.events().union(s.clicks())


@shape
def union_with_a_table(s):
    return s.events().select("k").union(s.table().select("k"))


@shape
def union_of_aggregations(s):
    return s.timed().groupBy(window()).count().union(s.timed().groupBy(window()).count())


@shape
def except_between_streams(s):
    return s.events().select("k").exceptAll(s.clicks().select("k2"))


@shape
def stream_except_table(s):
    return s.events().select("k").subtract(s.table().select("k"))


@shape
def table_except_stream(s):
    return s.table().select("k").subtract(s.events().select("k"))


@shape
def intersect_of_streams(s):
    return s.events().select("k").intersect(s.clicks().select("k2"))


@shape
def intersect_with_a_table(s):
    return s.events().select("k").intersectAll(s.table().select("k"))


@shape
def intersect_of_tables_as_the_static_side(s):
    return s.events().join(s.table().intersect(s.table()), "k")


# -- subqueries and SQL ---------------------------------------------------------------------------------------


@shape
def scalar_subquery_over_a_table(s):
    return s.sql("SELECT * FROM events WHERE v > (SELECT max(price) FROM prices)")


@shape
def in_subquery_over_a_table(s):
    return s.sql("SELECT * FROM events WHERE k IN (SELECT k FROM prices)")


@shape
def correlated_exists_over_a_table(s):
    return s.sql("SELECT * FROM events WHERE NOT EXISTS (SELECT 1 FROM prices WHERE prices.k = events.k)")


@shape
def lateral_join_with_a_table(s):
    return s.sql("SELECT * FROM events, LATERAL (SELECT count(*) AS n FROM prices WHERE prices.k = events.k)")


@shape
def scalar_subquery_over_a_stream(s):
    return s.sql("SELECT * FROM prices WHERE price > (SELECT max(v) FROM events)")


@shape
def in_subquery_over_a_stream(s):
    return s.sql("SELECT * FROM events WHERE k IN (SELECT k FROM timed)")


@shape
def common_table_expression(s):
    return s.sql("WITH big AS (SELECT * FROM events WHERE v > 9) SELECT a.k FROM big a JOIN big b ON a.k = b.k")


@shape
def distinct_in_sql(s):
    return s.sql("SELECT DISTINCT k FROM events")


@shape
def distinct_with_event_time_in_sql(s):
    return s.sql("SELECT DISTINCT ts, k FROM timed")


@shape
def sorted_distinct_in_sql(s):
    return s.sql("SELECT DISTINCT k FROM events ORDER BY k")


@shape
def union_distinct_in_sql(s):
    return s.sql("SELECT k FROM events UNION SELECT k FROM timed")


@shape
def distinct_of_an_aggregation_in_sql(s):
    return s.sql("SELECT DISTINCT n FROM (SELECT window, count(*) AS n FROM timed GROUP BY window(ts, '5 seconds'))")


@shape
def grouping_sets_in_sql(s):
    return s.sql("SELECT k, count(*) FROM events GROUP BY k GROUPING SETS ((k), ())")


@shape
def having_in_sql(s):
    return s.sql("SELECT k, count(*) FROM events GROUP BY k HAVING count(*) > 1")


# -- aggregations ---------------------------------------------------------------------------------------------


@shape
def count_of_all_rows(s):
    return s.events().groupBy().count()


@shape
def count_by_key(s):
    return s.events().groupBy("k").count()


@shape
def count_by_key_under_a_watermark_on_another_column(s):
    return s.timed().groupBy("k").count()


@shape
def count_by_window_without_watermark(s):
    return s.events().groupBy(window()).count()


@shape
def count_by_window(s):
    return s.timed().groupBy(window()).count()


@shape
def count_by_sliding_window_and_key(s):
    return s.timed().groupBy(F.window("ts", "10 seconds", "5 seconds"), "k").count()


@shape
def count_by_event_time(s):
    return s.timed().groupBy("ts").count()


@shape
def count_by_truncated_event_time(s):
    return s.timed().groupBy(F.date_trunc("minute", "ts")).count()


@shape
def count_by_window_with_a_lost_watermark(s):
    later = (F.col("ts") + F.expr("interval 1 hour")).alias("later")
    return s.timed().select(later).groupBy(window(time="later")).count()


@shape
def watermark_set_twice(s):
    return s.timed().withWatermark("ts", "1 minute").groupBy(window()).count()


@shape
def aggregation_then_filter(s):
    return s.timed().groupBy(window()).count().where("count > 1").select("count")


@shape
def aggregation_then_sort(s):
    return s.events().groupBy("k").count().orderBy("count")


@shape
def windowed_aggregation_then_sort(s):
    return s.timed().groupBy(window()).count().orderBy("count")


@shape
def aggregation_then_limit(s):
    return s.events().groupBy("k").count().limit(3)


@shape
def aggregation_then_sort_and_limit(s):
    return s.events().groupBy("k").count().orderBy("count").limit(3)


@shape
def sort_then_aggregation(s):
    return s.events().orderBy("v").groupBy("k").count()


@shape
def limit_then_aggregation(s):
    return s.events().limit(3).groupBy("k").count()


@shape
def count_distinct(s):
    return s.events().groupBy("k").agg(F.count_distinct("v"))


@shape
def sum_distinct_inside_an_expression(s):
    total = F.coalesce(F.sum_distinct("v") + F.max("v"), F.lit(0)).alias("total")
    return s.timed().groupBy(window()).agg(total, F.count("v"))


@shape
def count_distinct_of_the_static_side(s):
    return s.events().join(s.table().groupBy("k").agg(F.count_distinct("price")), "k")


@shape
def approx_count_distinct(s):
    return s.events().groupBy("k").agg(F.approx_count_distinct("v"))


@shape
def collect_list(s):
    return s.timed().groupBy(window()).agg(F.collect_list("v"), F.first("v"), F.percentile_approx("v", 0.5))


@shape
def pandas_udf_aggregate(s):
    @F.pandas_udf("double")  # type: ignore[call-overload]
    def mean(v: pd.Series) -> float:
        return float(v.mean())

    return s.events().groupBy("k").agg(mean("v"))


@shape
def pivot_over_given_values(s):
    return s.events().groupBy("k").pivot("v", [1, 2]).count()


@shape
def pivot_in_a_window(s):
    return s.timed().groupBy(window()).pivot("v", [1, 2]).agg(F.sum("k"))


@shape
def pivot_over_unknown_values(s):
    return s.events().groupBy("k").pivot("v").count()


@shape
def rollup(s):
    return s.events().rollup("k", "v").count()


@shape
def rollup_by_window(s):
    return s.timed().rollup(window(), "k").count()


@shape
def cube(s):
    return s.events().cube("k", "v").count()


@shape
def session_window_without_key(s):
    return s.timed().groupBy(F.session_window("ts", "5 seconds")).count()


@shape
def session_window_by_key(s):
    return s.timed().groupBy(F.session_window("ts", "5 seconds"), "k").count()


@shape
def session_window_with_dynamic_gap(s):
    gap = F.when(F.col("k") == 1, "5 seconds").otherwise("20 seconds")
    return s.timed().groupBy("k", F.session_window("ts", gap)).agg(F.sum("v"))


@shape
def session_window_without_watermark(s):
    return s.events().groupBy(F.session_window("ts", "5 seconds"), "k").count()


@shape
def session_window_then_filter(s):
    return s.timed().groupBy(F.session_window("ts", "5 seconds"), "k").count().where("count > 1")


@shape
def two_time_windows(s):
    return s.timed().groupBy(window("5 seconds"), window("10 seconds")).count()


@shape
def watermark_on_a_nested_column(s):
    return s.events().select(F.struct("ts").alias("x")).withWatermark("x.ts", "5 seconds")


@shape
def watermark_on_a_number(s):
    return s.events().withWatermark("v", "5 seconds")


# -- deduplication --------------------------------------------------------------------------------------------


@shape
def distinct(s):
    return s.events().distinct()


@shape
def drop_duplicates(s):
    return s.events().dropDuplicates(["k"])


@shape
def drop_duplicates_with_event_time(s):
    return s.timed().dropDuplicates(["k", "ts"])


@shape
def drop_duplicates_within_watermark(s):
    return s.timed().dropDuplicatesWithinWatermark(["k"])


@shape
def drop_duplicates_within_watermark_but_none_is_set(s):
    return s.events().dropDuplicatesWithinWatermark(["k"])


@shape
def drop_duplicates_within_watermark_of_a_table(s):
    return s.events().join(s.table().dropDuplicatesWithinWatermark(["k"]), "k")


# -- stream and table -----------------------------------------------------------------------------------------


def add_static_joins() -> None:
    def stream_left(how: str) -> Build:
        return lambda s: s.events().join(s.table(), ["k"], how) if how != "cross" else s.events().crossJoin(s.table())

    def stream_right(how: str) -> Build:
        return lambda s: s.table().join(s.events(), ["k"], how) if how != "cross" else s.table().crossJoin(s.events())

    for how in JOINS:
        SHAPES[f"stream_{how}_join_table"] = stream_left(how)
        SHAPES[f"table_{how}_join_stream"] = stream_right(how)


add_static_joins()


@shape
def aggregation_joined_with_a_table(s):
    return s.events().groupBy("k").count().join(s.table(), "k")


@shape
def table_joined_with_a_table_on_the_static_side(s):
    return s.events().join(s.table().join(s.table().toDF("k", "price2"), ["k"], "full"), "k")


@shape
def asof_join_with_a_table(s):
    return s.events()._joinAsOf(s.table(), "v", "price", on="k")


@shape
def asof_join_with_a_stream(s):
    return s.events()._joinAsOf(s.events(), "v", "v", on="k")


# -- stream and stream ----------------------------------------------------------------------------------------

SAME_KEY = "k = k2"
IN_RANGE = "k = k2 AND ts2 >= ts AND ts2 <= ts + interval 5 seconds"

STREAM_JOINS: dict[str, tuple[Callable[[Inputs], DataFrame], Callable[[Inputs], DataFrame], str]] = {
    "without_watermark": (Inputs.events, Inputs.clicks, SAME_KEY),
    "in_range_without_watermark": (Inputs.events, Inputs.clicks, IN_RANGE),
    "with_watermarks_but_no_range": (Inputs.timed, Inputs.timed_clicks, SAME_KEY),
    "in_range": (Inputs.timed, Inputs.timed_clicks, IN_RANGE),
    "in_range_with_watermark_on_the_left": (Inputs.timed, Inputs.clicks, IN_RANGE),
    "in_range_with_watermark_on_the_right": (Inputs.events, Inputs.timed_clicks, IN_RANGE),
    "with_a_lower_bound_only": (Inputs.timed, Inputs.timed_clicks, "k = k2 AND ts2 >= ts"),
    "with_an_upper_bound_only": (Inputs.timed, Inputs.timed_clicks, "k = k2 AND ts2 < ts + interval 1 minute"),
    "on_event_time": (Inputs.timed, Inputs.timed_clicks, "k = k2 AND ts = ts2"),
    "on_event_time_with_one_watermark": (Inputs.timed, Inputs.clicks, "ts = ts2"),
    "in_range_without_equality": (Inputs.timed, Inputs.timed_clicks, "ts2 >= ts AND ts2 <= ts + interval 5 seconds"),
}


def add_stream_joins() -> None:
    def join(left: Build, right: Build, condition: str, how: str) -> Build:
        return lambda s: left(s).join(right(s), F.expr(condition), how)

    for name, (left, right, condition) in STREAM_JOINS.items():
        for how in JOINS if name in ("without_watermark", "in_range") else WAITING_JOINS:
            SHAPES[f"stream_{how}_join_stream_{name}"] = join(left, right, condition, how)


add_stream_joins()


@shape
def self_join(s):
    events = s.timed()
    return events.alias("a").join(events.alias("b"), F.expr("a.k = b.k AND a.ts = b.ts"), "left")


@shape
def join_of_windows(s):
    left = s.timed().select(window().alias("w"), "k")
    return left.join(s.timed_clicks().select(window(time="ts2").alias("w"), "v2"), ["w"], "left")


@shape
def natural_join_in_sql(s):
    return s.sql("SELECT * FROM events NATURAL JOIN timed")


# -- one stateful operator after another ----------------------------------------------------------------------


@shape
def aggregation_of_an_aggregation(s):
    return s.events().groupBy("k").count().groupBy("count").count()


@shape
def window_of_a_window(s):
    return s.timed().groupBy(window()).count().groupBy(window("10 seconds", "window")).agg(F.sum("count"))


@shape
def count_of_a_windowed_count(s):
    return s.timed().groupBy(window()).count().groupBy("count").count()


@shape
def aggregation_then_drop_duplicates(s):
    return s.timed().groupBy(window(), "k").count().dropDuplicates(["k"])


@shape
def aggregation_then_drop_duplicates_with_event_time(s):
    return s.timed().groupBy(window(), "k").count().dropDuplicates(["window", "k"])


@shape
def aggregation_then_drop_duplicates_within_watermark(s):
    return s.timed().groupBy(window(), "k").count().dropDuplicatesWithinWatermark(["k"])


@shape
def drop_duplicates_then_aggregation(s):
    return s.timed().dropDuplicates(["k", "ts"]).groupBy(window()).count()


@shape
def drop_duplicates_then_count(s):
    return s.events().dropDuplicates(["k"]).groupBy().count()


@shape
def drop_duplicates_twice(s):
    return s.timed().dropDuplicates(["k", "ts"]).dropDuplicatesWithinWatermark(["v"])


@shape
def inner_join_then_aggregation(s):
    return s.timed().join(s.timed_clicks(), F.expr(IN_RANGE)).groupBy(window()).count()


@shape
def inner_join_then_count(s):
    return s.events().join(s.clicks(), F.expr(SAME_KEY)).groupBy("k").count()


@shape
def left_join_then_aggregation(s):
    return s.timed().join(s.timed_clicks(), F.expr(IN_RANGE), "left").groupBy(window()).count()


@shape
def left_join_then_drop_duplicates(s):
    return s.timed().join(s.timed_clicks(), F.expr(IN_RANGE), "left").dropDuplicates(["k", "ts"])


@shape
def join_of_aggregations(s):
    left = s.timed().groupBy(window().alias("w")).count()
    return left.join(s.timed_clicks().groupBy(window(time="ts2").alias("w")).agg(F.sum("v2")), "w")


@shape
def aggregation_joined_with_a_stream(s):
    return s.events().groupBy("k").count().join(s.clicks(), F.expr(SAME_KEY))


@shape
def join_of_three_streams(s):
    third = s.events().toDF("ts3", "k3", "v3")
    return s.timed().join(s.timed_clicks(), F.expr(IN_RANGE), "left").join(third, F.expr("k = k3"))


@shape
def session_window_then_aggregation(s):
    sessions = s.timed().groupBy(F.session_window("ts", "5 seconds"), "k").count()
    return sessions.groupBy(window(time="session_window")).agg(F.sum("count"))


@shape
def aggregation_then_session_window(s):
    return s.timed().groupBy(window()).count().groupBy(F.session_window("window", "5 seconds")).count()


# -- state of one's own ---------------------------------------------------------------------------------------


def with_state(df: DataFrame, mode: str, timeout: str = "NoTimeout") -> DataFrame:
    function: Any = lambda key, frames, state: frames
    return df.groupBy("k").applyInPandasWithState(function, "ts timestamp, k int", "n int", mode, timeout)


class Echo(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        return rows

    def close(self) -> None:
        pass


def with_processor(df: DataFrame, mode: str = "Append", time: str = "None") -> DataFrame:
    return df.groupBy("k").transformWithStateInPandas(Echo(), "ts timestamp, k int", mode, time)


@shape
def apply_in_pandas_with_state_in_append_mode(s):
    return with_state(s.events(), "append")


@shape
def apply_in_pandas_with_state_in_update_mode(s):
    return with_state(s.events(), "update", "ProcessingTimeTimeout")


@shape
def apply_in_pandas_with_state_with_event_time_timeout(s):
    return with_state(s.timed(), "append", "EventTimeTimeout")


@shape
def apply_in_pandas_with_state_with_event_time_timeout_but_no_watermark(s):
    return with_state(s.events(), "update", "EventTimeTimeout")


@shape
def apply_in_pandas_with_state_twice(s):
    return with_state(with_state(s.events(), "append"), "append")


@shape
def apply_in_pandas_with_state_then_count(s):
    return with_state(s.events(), "append").groupBy("k").count()


@shape
def apply_in_pandas_with_state_then_event_time_count(s):
    return with_state(s.timed(), "append").withWatermark("ts", "10 seconds").groupBy(window()).count()


@shape
def apply_in_pandas_with_state_in_update_mode_then_count(s):
    return with_state(s.events(), "update").groupBy("k").count()


@shape
def apply_in_pandas_with_state_and_event_time_timeout_then_count(s):
    return with_state(s.timed(), "append", "EventTimeTimeout").groupBy("k").count()


@shape
def apply_in_pandas_with_state_and_event_time_timeout_then_join(s):
    return with_state(s.timed(), "append", "EventTimeTimeout").join(s.clicks(), F.expr(SAME_KEY))


@shape
def aggregation_then_apply_in_pandas_with_state(s):
    counts = s.timed().groupBy(window(), "k").count().select(F.window_time("window").alias("ts"), "k")
    return with_state(counts, "append")


@shape
def apply_in_pandas_with_state_and_a_separate_aggregation(s):
    counts = s.timed().groupBy(window(), "k").count().select(F.window_time("window").alias("ts"), "k")
    return counts.union(with_state(s.timed(), "append"))


@shape
def transform_with_state(s):
    return with_processor(s.events())


@shape
def transform_with_state_in_update_mode_with_event_time(s):
    return with_processor(s.timed(), "Update", "EventTime")


@shape
def transform_with_state_twice(s):
    return with_processor(with_processor(s.events()))


@shape
def transform_with_state_then_count(s):
    return with_processor(s.events()).groupBy("k").count()


@shape
def transform_with_state_then_drop_duplicates_within_watermark(s):
    return with_processor(s.timed()).dropDuplicatesWithinWatermark(["k"])


@shape
def aggregation_then_transform_with_state(s):
    counts = s.timed().groupBy(window(), "k").count().select(F.window_time("window").alias("ts"), "k")
    return with_processor(counts)


# -- asking both ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    condition: str | None
    parameters: dict[str, str] | None
    text: str


Outcomes = dict[str, Refusal | None]  # by output mode


def outcome(action: Callable[[], Any]) -> Refusal | None:
    """None when `action` goes through, else what it was refused with."""
    try:
        action()
    except AnalysisException as e:
        parameters = {name: names_only(value) for name, value in (e.getMessageParameters() or {}).items()}
        return Refusal(e.getCondition(), parameters, names_only(str(e)))
    return None


def names_only(text: str) -> str:
    """Texts without ids, addresses, and what stands for the source in a plan."""
    text = re.sub(r"~?(StreamingRelation |Relation \[|LogicalRDD |FileSource\[).*\n?", "the source", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "node id", text)
    return re.sub(r"(#|@| at 0x)[0-9a-f]+L?", "", text)


def outcomes(spark: SparkSession, folder: Any, name: str, *modes: str) -> tuple[Outcomes, Outcomes]:
    """What Spark and the model make of a shape in some output modes."""
    checker = scala.companion(spark, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    java_modes = scala.java_class(spark, "org.apache.spark.sql.streaming.OutputMode")

    def by_spark(plan: Any, mode: str) -> None:
        checker.checkForStreaming(plan, getattr(java_modes, mode.capitalize())())

    theirs = in_each_mode(name, Inputs(spark, str(folder)), by_spark, modes)
    ours = in_each_mode(name, Inputs(MiniSparkSession(spark), str(folder)), partial(check_for_streaming, spark), modes)
    return theirs, ours


def in_each_mode(name: str, inputs: Inputs, check: Callable[[Any, str], Any], modes: tuple[str, ...]) -> Outcomes:
    plan: list[Any] = []
    refused = outcome(lambda: plan.append(analyzed(SHAPES[name](inputs))))
    return {mode: refused or outcome(partial(check, plan[0], mode)) for mode in modes}


@contextmanager
def conf(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


@pytest.mark.parametrize("name", SHAPES)
def test_the_model_refuses_what_spark_refuses(spark: SparkSession, tmp_path: Any, name: str) -> None:
    theirs, ours = outcomes(spark, tmp_path, name, "append", "update", "complete")
    assert ours == theirs


# -- what turns the checks on and off -------------------------------------------------------------------------

CORRECTNESS_CHECK = "spark.sql.streaming.statefulOperator.checkCorrectness.enabled"


def test_the_correctness_check_can_be_turned_into_a_warning(
    spark: SparkSession, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with conf(spark, CORRECTNESS_CHECK, "false"), caplog.at_level(logging.WARNING, "minispark_stream"):
        theirs, ours = outcomes(spark, tmp_path, "aggregation_of_an_aggregation", "complete")
    assert ours == theirs == {"complete": None}
    assert "Detected pattern of possible 'correctness' issue" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "select", "count_by_window", "distinct_with_event_time_in_sql", "drop_duplicates", "stream_inner_join_table",
        "drop_duplicates_within_watermark", "stream_inner_join_stream_without_watermark", "transform_with_state",
        "apply_in_pandas_with_state_in_append_mode",
    ],
)
def test_only_some_operators_can_keep_their_state_in_avro(spark: SparkSession, tmp_path: Any, name: str) -> None:
    with conf(spark, "spark.sql.streaming.stateStore.encodingFormat", "avro"):
        theirs, ours = outcomes(spark, tmp_path, name, "append")
    assert ours == theirs


def test_a_query_is_checked_when_it_starts(mini: MiniSparkSession, tmp_path: Any) -> None:
    writer = Inputs(mini, str(tmp_path)).events().writeStream.format("noop").outputMode("complete")
    with pytest.raises(AnalysisException, match="no streaming aggregations"):
        writer.start()


def test_the_check_at_the_start_can_be_turned_off(mini: MiniSparkSession, spark: SparkSession, tmp_path: Any) -> None:
    writer = Inputs(mini, str(tmp_path)).events().writeStream.format("noop").outputMode("complete")
    with conf(spark, "spark.sql.streaming.unsupportedOperationCheck", "false"):
        writer.start().stop()


def test_a_refusal_shows_the_plan_but_its_message_does_not(
    mini: MiniSparkSession, spark: SparkSession, tmp_path: Any
) -> None:
    """The plan has the sources of files as Spark shows them, with the names that the user gave."""
    evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    for evolves in ("false", "true"):
        shown = []
        for session in (spark, mini):
            inputs = Inputs(session, str(tmp_path))
            with conf(spark, evolution, evolves):
                stream = inputs.events() if evolves == "false" else session.readStream.name("mine").schema("k int").json(str(tmp_path))
                with pytest.raises(AnalysisException) as refusal:
                    stream.select("*", "_metadata.file_path").offset(1).writeStream.format("noop").start()
            assert refusal.value.getMessage() == "Offset is not supported on streaming DataFrames/Datasets"
            shown.append(re.sub(r"#\d+L?", "", str(refusal.value)))
        assert shown[0] == shown[1] and f"StreamingRelation FileSource[{tmp_path}]" in shown[1], shown


@pytest.mark.parametrize("name", ["a source alone", "a source below", "an aggregation"])
def test_a_refusal_of_continuous_processing_shows_the_same_text(
    mini: MiniSparkSession, spark: SparkSession, tmp_path: Any, name: str
) -> None:
    """To the last character: after a source alone, Spark ends no line."""
    queries = {"a source alone": lambda df: df, "a source below": lambda df: df.where("k > 1"),
               "an aggregation": lambda df: df.groupBy("k").count()}
    shown = []
    for session in (spark, mini):
        query = queries[name](session.readStream.schema("k int").json(str(tmp_path)))
        with pytest.raises(AnalysisException) as refusal:
            query.writeStream.format("noop").outputMode("update").trigger(continuous="1 second").start()
        shown.append(re.sub(r"#\d+L?", "", str(refusal.value)))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        (lambda df: df.select("k").subtract(df.sparkSession.sql("select 'a' as k")), "append"),  # an aggregation, once optimised
        (lambda df: df.groupBy("k").count(), "append"),
        (lambda df: df.groupBy(F.session_window("ts", "5 minutes"), "k").count(), "append"),
        (lambda df: df.withWatermark("ts", "1 minute").groupBy(F.session_window("ts", "5 minutes"), "k").count(), "update"),
    ],
    ids=["a set without another", "an aggregation", "sessions", "sessions in update mode"],
)
def test_what_the_check_at_the_start_lets_pass_ends_with_the_first_batch(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, query: Any, mode: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"k": "b", "ts": "2024-01-01 12:00:00"}')
    errors = []
    spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    for session in (spark, mini):
        stream = query(session.readStream.schema("k string, ts timestamp").json(str(tmp_path / "in")))
        running = stream.writeStream.outputMode(mode).format("noop").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException) as failed:
            running.awaitTermination()
        errors.append(re.findall(r"\[(?:UNSUPPORTED|STREAMING)[A-Z_.]+\] .*?SQLSTATE: \w+", str(failed.value))[0])
    spark.conf.unset("spark.sql.streaming.unsupportedOperationCheck")
    assert errors[0] == errors[1]
