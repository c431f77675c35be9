"""Every aggregate function that Spark has, on a stream: the registry of functions says which these are."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random

FEED = [random_rows(1, 25), random_rows(2, 25), random_rows(3, 10)]

# What some functions take are the sketches that others make: here columns of a table with one row.
SKETCHES = """
    SELECT hll_sketch_agg(x) hll, theta_sketch_agg(x) theta, kll_sketch_agg_bigint(x) klong, kll_sketch_agg_double(y) kdouble,
           kll_sketch_agg_float(CAST(y AS FLOAT)) kfloat, approx_top_k_accumulate(x) top, bitmap_construct_agg(x) bits,
           tuple_sketch_agg_double(x, y) tdouble, tuple_sketch_agg_integer(x, CAST(x AS INT)) tint
    FROM VALUES (1L, 0.5D), (2L, 1.5D), (3L, 2.5D) AS t(x, y)
"""

CALLS = {
    "any": "any(b)", "any_value": "any_value(i)", "approx_count_distinct": "approx_count_distinct(s)",
    "approx_percentile": "approx_percentile(d, array(0.25D, 0.5D))", "approx_top_k": "approx_top_k(i)",
    "approx_top_k_accumulate": "approx_top_k_accumulate(i)", "approx_top_k_combine": "approx_top_k_combine(top)",
    "array_agg": "array_agg(i)", "avg": "avg(m)", "bit_and": "bit_and(i)", "bit_or": "bit_or(l)", "bit_xor": "bit_xor(i)",
    "bitmap_and_agg": "bitmap_and_agg(bits)", "bitmap_construct_agg": "bitmap_construct_agg(abs(i))",
    "bitmap_or_agg": "bitmap_or_agg(bits)", "bool_and": "bool_and(b)", "bool_or": "bool_or(b)",
    "collect_list": "collect_list(st)", "collect_set": "array_sort(collect_set(d))", "collect_union": "array_sort(collect_union(xs))",
    "corr": "corr(d, i)", "count": "count(*)", "count_if": "count_if(i > 0)", "count_min_sketch": "count_min_sketch(i, 0.1D, 0.9D, 7)",
    "covar_pop": "covar_pop(d, i)", "covar_samp": "covar_samp(d, i)", "every": "every(b)", "first": "first(s, true)",
    "first_value": "first_value(i)", "histogram_numeric": "histogram_numeric(d, 3)", "hll_sketch_agg": "hll_sketch_agg(s)",
    "hll_union_agg": "hll_union_agg(hll)", "kll_merge_agg_bigint": "kll_merge_agg_bigint(klong)",
    "kll_merge_agg_double": "kll_merge_agg_double(kdouble)", "kll_merge_agg_float": "kll_merge_agg_float(kfloat)",
    "kll_sketch_agg_bigint": "kll_sketch_agg_bigint(l)", "kll_sketch_agg_double": "kll_sketch_agg_double(d)",
    "kll_sketch_agg_float": "kll_sketch_agg_float(CAST(d AS FLOAT))", "kurtosis": "kurtosis(d)", "last": "last(st, true)",
    "last_value": "last_value(d)", "listagg": "listagg(s, ',')", "max": "max(st)", "max_by": "max_by(s, d)", "mean": "mean(l)",
    "median": "median(d)", "min": "min(xs)", "min_by": "min_by(st, l)", "mode": "mode(i, true)", "percentile": "percentile(i, 0.3D)",
    "percentile_approx": "percentile_approx(l, 0.5D, 100)", "percentile_cont": "percentile_cont(0.5D) WITHIN GROUP (ORDER BY d)",
    "percentile_disc": "percentile_disc(0.5D) WITHIN GROUP (ORDER BY i)", "regr_avgx": "regr_avgx(d, i)",
    "regr_avgy": "regr_avgy(d, i)", "regr_count": "regr_count(d, i)", "regr_intercept": "regr_intercept(d, i)",
    "regr_r2": "regr_r2(d, i)", "regr_slope": "regr_slope(d, i)", "regr_sxx": "regr_sxx(d, i)", "regr_sxy": "regr_sxy(d, i)",
    "regr_syy": "regr_syy(d, i)", "skewness": "skewness(d)", "some": "some(b)", "std": "std(i)", "stddev": "stddev(d)",
    "stddev_pop": "stddev_pop(d)", "stddev_samp": "stddev_samp(l)", "string_agg": "string_agg(s)", "sum": "sum(m)",
    "theta_intersection_agg": "theta_intersection_agg(theta)", "theta_sketch_agg": "theta_sketch_agg(s)",
    "theta_union_agg": "theta_union_agg(theta)", "try_avg": "try_avg(l)", "try_sum": "try_sum(l * 1000000)",
    "tuple_intersection_agg_double": "tuple_intersection_agg_double(tdouble)",
    "tuple_intersection_agg_integer": "tuple_intersection_agg_integer(tint)",
    "tuple_sketch_agg_double": "tuple_sketch_agg_double(s, d)", "tuple_sketch_agg_integer": "tuple_sketch_agg_integer(s, i)",
    "tuple_union_agg_double": "tuple_union_agg_double(tdouble)", "tuple_union_agg_integer": "tuple_union_agg_integer(tint)",
    "var_pop": "var_pop(d)", "var_samp": "var_samp(i)", "variance": "variance(d)",
}
OF_GROUPING_SETS = {"grouping", "grouping_id"}
OF_METRIC_VIEWS = {"measure"}  # which cannot be streams

AT_ONCE = 12
PARTS = [sorted(CALLS)[i : i + AT_ONCE] for i in range(0, len(CALLS), AT_ONCE)]


def aggregate_functions(spark: SparkSession) -> set[str]:
    """The names of all aggregate functions, from the group that Spark's documentation puts them in."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    ids = registry.listFunction()
    infos = (registry.lookupFunction(ids.apply(i)).get() for i in range(ids.size()))
    return {info.getName() for info in infos if info.getGroup() == "agg_funcs"}


def test_no_function_is_left_out(spark: SparkSession) -> None:
    assert aggregate_functions(spark) == {*CALLS, *OF_GROUPING_SETS, *OF_METRIC_VIEWS}


@pytest.mark.parametrize("names", PARTS, ids=lambda names: f"{names[0]}-{names[-1]}")
def test_rows_and_state_are_sparks_and_the_other_engine_goes_on(compare: Compare, names: list[str]) -> None:
    """Rows, metrics and the bytes of the state; each engine goes on with what the other has written."""

    def query(session: Any, input_dir: str) -> Any:
        rows = read_random(session, input_dir).crossJoin(session.sql(SKETCHES))
        return rows.groupBy("k").agg(*(F.expr(CALLS[name]) for name in names))

    compare(query, FEED, output_mode="update", restart_after=(0, 1), relay=("model", "spark", "model"))


OVER_TYPES = {
    "sum and avg": [f"{f}({column})" for f in ("sum", "avg") for column in ("i", "l", "d", "m")],
    "min and max": [f"{f}({column})" for f in ("min", "max") for column in ("i", "s", "dt", "ts", "m", "d", "st", "xs", "b")],
    "min_by, max_by, first and last": [
        "max_by(s, d)", "min_by(s, i)", "max_by(st, l)", "first(i)", "last(i)", "first(i, true)", "last(d, true)", "first(st)",
        "last(xs)",
    ],
    "variances": ["stddev(d)", "var_pop(d)", "skewness(d)", "kurtosis(d)", "corr(d, i)", "covar_samp(d, l)", "regr_slope(d, i)"],
    "in an expression": [
        "sum(i) FILTER (WHERE d > 0)", "count(*) FILTER (WHERE b)", "sum(i) / count(*)", "round(avg(d), 2)", "7", "count(i)",
        "size(collect_list(st))",
    ],
    "in an expression, without a function of Java": ["sum(i) / count(*)", "round(avg(d), 2)", "k", "max(i) FILTER (WHERE b)", "7"],
}


@pytest.mark.parametrize("kind", OVER_TYPES)
def test_types_and_expressions(compare: Compare, kind: str) -> None:
    def query(session: Any, input_dir: str) -> Any:
        return read_random(session, input_dir).groupBy("k").agg(*(F.expr(e).alias(f"c{i}") for i, e in enumerate(OVER_TYPES[kind])))

    compare(query, FEED, output_mode="update")


def test_a_function_that_sql_does_not_know(compare: Compare) -> None:
    compare(lambda s, d: read_random(s, d).groupBy("k").agg(F.product("d")), FEED, output_mode="update")


@pytest.mark.parametrize("grouped", ["rollup", "cube"])
def test_grouping_sets(compare: Compare, grouped: str) -> None:
    def query(session: Any, input_dir: str) -> Any:
        rows = getattr(read_random(session, input_dir), grouped)("k", "b")
        return rows.agg(F.count("*"), F.approx_count_distinct("s"), F.grouping("k"), F.grouping_id())

    compare(query, FEED, output_mode="update", restart_after=(1,), relay=("model", "spark"))


@pytest.mark.parametrize("names", [PARTS[0], PARTS[2], PARTS[-2]], ids=lambda names: f"{names[0]}-{names[-1]}")
def test_sessions_merge_every_kind_of_buffer(compare: Compare, names: list[str]) -> None:
    def query(session: Any, input_dir: str) -> Any:
        rows = read_random(session, input_dir).withWatermark("ts", "5 minutes").crossJoin(session.sql(SKETCHES))
        return rows.groupBy(F.session_window("ts", "2 minutes"), "k").agg(*(F.expr(CALLS[name]) for name in names))

    compare(query, FEED, output_mode="append", restart_after=(1,), relay=("model", "spark"))


@pytest.mark.parametrize("call", ["count(DISTINCT i)", "collect_list(DISTINCT i)"])
def test_what_needs_all_rows_at_once_is_refused_alike(spark: SparkSession, tmp_path: Any, call: str) -> None:
    told = []
    for session in (spark, MiniSparkSession(spark)):
        rows = read_random(session, str(tmp_path)).groupBy("k").agg(F.expr(call))
        with pytest.raises(Exception) as e:  # noqa: PT011 - the two are compared
            rows.writeStream.outputMode("update").format("noop").start()
        told.append((type(e.value), str(e.value).partition("\n")[0]))
    assert told[0] == told[1]
