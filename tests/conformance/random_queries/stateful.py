"""Steps with state, and those that end a chain. As any step, each gives rows (ts, k, v, w).

    ("distinct", ["k", "v"])                             dropDuplicates
    ("distinct within the watermark", ["k"])
    ("window", 10, 5, 2, True, "sum(v) AS v, ...")       of 10 minutes every 5 from minute 2, by k or not
    ("session", "5 minutes", True, "sum(v) AS v, ...")
    ("join", "left_outer", "range", 5, 20, "v <= rv")    with the second stream, within a range of time, of a window, or at any time
    ("group", "groupBy", ["k"], "sum(v) AS v, ...")      without a window
    ("state", "EventTimeTimeout")                        applyInPandasWithState
    ("limit", 3), ("sort", "v")
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from tests.conformance.random_queries.row_wise import Step

MINUTES = (1, 5, 10, 30)
AGGREGATES = (
    "count(*) AS v, max(w) AS w", "sum(v) AS v, min(w) AS w", "avg(v) AS v, count(w) AS w", "max(v) AS v, max(ts) AS w",
    "count(v) FILTER (WHERE v > 0) AS v, bool_or(v > 0) AS w", "sum(v) / count(*) AS v, min(k) AS w", "sum(v) AS v, every(v > 0) AS w",
    "approx_count_distinct(w) AS v, max(w) AS w", "median(v) AS v, mode(w, true) AS w", "min(v) AS v, max(struct(ts, v)) AS w",
    "percentile_approx(v, 0.5D) AS v, bit_or(CAST(v AS INT)) AS w", "try_sum(v) AS v, count_if(v > 0) AS w",
    "sum(CAST(v AS DECIMAL(20,4))) AS v, max_by(v, struct(ts, v)) AS w", "stddev(v) AS v, array_sort(collect_set(v)) AS w",
    "count(v, w) AS v, array_sort(collect_list(v)) AS w", "max(v) + min(v) AS v, max(date_trunc('HOUR', ts)) AS w",
    "sum(minute(ts)) AS v, sum(make_dt_interval(minute(ts))) AS w", "sum(1) AS v, avg(make_ym_interval(minute(ts) % 3, 1)) AS w",
    "regr_count(v, v) AS v, max(named_struct('a', v, 'b', array(ts))) AS w", "count(*) AS v, null AS w", "try_avg(v) AS v, bit_xor(hash(w)) AS w",
    "hll_sketch_estimate(hll_sketch_agg(CAST(v AS STRING))) AS v, max(CAST(w AS STRING)) AS w", "count(DISTINCT v) AS v, max(w) AS w",
)
JOINS = (*["inner", "left_outer", "right_outer", "full_outer", "left_semi"] * 3, "left_anti")
STATEFUL = {"distinct", "distinct within the watermark", "window", "session", "join", "group", "state", "limit", "sort"}
FRAME = "ts timestamp, k string, v bigint, w int"


def draw(r: random.Random) -> Step:
    """A step that keeps state."""
    return drawn(r, r.choice(["distinct", "distinct within the watermark", "window", "window", "session", "join", "join", "join", "state"]))


def draw_below(r: random.Random) -> Step:
    """A step of a stream that is to be joined."""
    return drawn(r, r.choice(["distinct", "distinct within the watermark", "window", "window", "session"]))


def drawn(r: random.Random, kind: str) -> Step:
    match kind:
        case "distinct":
            return kind, r.choice([["k"], ["ts", "k"], ["k", "v"], ["ts", "k", "v", "w"]])
        case "distinct within the watermark":
            return kind, r.choice([["k"], ["k", "v"], ["w"]])
        case "window":
            size = r.choice(MINUTES)
            slide = min(size, r.choice(MINUTES))
            return kind, size, slide, r.choice([0, 0, 0, 2]) % slide, r.random() < 0.6, r.choice(AGGREGATES)
        case "session":
            gap = r.choice([*(f"{minutes} minutes" for minutes in MINUTES), "CASE WHEN v > 0 THEN '5 minutes' ELSE '10 minutes' END"])
            return kind, gap, r.random() < 0.7, r.choice(AGGREGATES)
        case "join":
            how, reach = r.choice(JOINS), (r.choice([0, 5, 20]), r.choice([0, 5, 20]))
            when = r.choice([("range", *reach)] * 4 + [("window", 10, 0)] * 2 + [("same", 0, 0)] + [("any", 0, 0)] * (how == "inner"))
            return kind, how, *when, r.choice(["true", "true", "v <= rv", "rv IS NULL OR v IS NULL OR v > 0"])
    return kind, r.choice(["NoTimeout", "EventTimeTimeout"])


def draw_last(r: random.Random) -> Step:
    """A step after which no other operator with state may come."""
    if r.random() < 0.3:
        return "limit", r.randrange(1, 6)
    return "group", r.choice(["groupBy", "groupBy", "groupBy", "rollup", "cube"]), r.choice([["k"], ["k", "w"], [], ["w"]]), r.choice(AGGREGATES)


def apply(df: Any, step: Step, other: Callable[[], Any], mode: str) -> Any:
    """The rows after the step; `other` is the second stream."""
    match step:
        case "distinct", columns:
            return df.dropDuplicates(columns)
        case "distinct within the watermark", columns:
            return df.dropDuplicatesWithinWatermark(columns)
        case "window", size, slide, start, by_key, aggregates:
            window = F.window("ts", f"{size} minutes", f"{slide} minutes", f"{start} minutes")
            return windowed(df, window, "window", by_key, aggregates)
        case "session", gap, by_key, aggregates:
            return windowed(df, F.session_window("ts", gap if gap[0].isdigit() else F.expr(gap)), "session_window", by_key, aggregates)
        case "join", how, when, before, after, residual:
            return joined(df, other(), how, when, (before, after), residual)
        case "group", function, by, aggregates:
            rows = getattr(df, function)(*by).agg(F.max("ts").alias("ts"), *aggregated(aggregates))
            return rows.select("ts", "k" if "k" in by else F.lit(None).cast("int").alias("k"), "v", "w" if "w" in by else F.col("of_w").alias("w"))
        case "state", timeout:
            states = df.selectExpr("ts", "CAST(k AS STRING) AS k", "CAST(v AS DOUBLE) AS v").groupBy("k")
            return states.applyInPandasWithState(count_up if timeout == "NoTimeout" else count_until, FRAME, "n bigint", mode, timeout)
        case "limit", n:
            return df.limit(n)
        case "sort", by:
            return df.orderBy(by, "ts", F.expr("CAST(k AS STRING)"), F.expr("CAST(w AS STRING)"))
    raise AssertionError(step)


def aggregated(aggregates: str) -> list[Any]:
    return [F.expr(text).alias(name) for text, name in zip(aggregates.removesuffix(" AS w").split(" AS v, "), ("v", "of_w"))]


def windowed(df: Any, window: Any, name: str, by_key: bool, aggregates: str) -> Any:
    keys = ["k"] if by_key else []
    no_key = F.lit(None).cast(df.schema["k"].dataType)
    rows = df.groupBy(window, *keys).agg(*aggregated(aggregates))
    return rows.select(F.window_time(name).alias("ts"), F.col("k") if by_key else no_key.alias("k"), "v", F.col("of_w").alias("w"))


def joined(df: Any, other: Any, how: str, when: str, reach: tuple[int, int], residual: str) -> Any:
    right = other.select(F.col("ts").alias("rts"), F.col("k").alias("rk"), F.col("v").alias("rv"))
    same_type = df.schema["k"].dataType == right.schema["rk"].dataType
    condition = F.expr(f"{'k = rk' if same_type else 'CAST(k AS STRING) = CAST(rk AS STRING)'} AND {residual}")
    match when:
        case "range":
            condition &= F.expr(f"rts BETWEEN ts - INTERVAL {reach[0]} MINUTES AND ts + INTERVAL {reach[1]} MINUTES")
        case "window":
            df, right = (rows.withColumn(name, F.window(ts, f"{reach[0]} minutes")) for rows, name, ts in ((df, "in", "ts"), (right, "right_in", "rts")))
            condition &= F.expr("in = right_in")
        case "same":
            condition &= F.expr("ts = rts")
    rows = df.join(right, condition, how)
    return rows.selectExpr("ts", "k", "v", "w" if how in ("left_semi", "left_anti") else "rv AS w")


def count_up(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """How many rows a key has had, when it had the last of them, and how many have come now."""
    rows = pd.concat(frames)
    n = (state.get[0] if state.exists else 0) + len(rows)
    state.update((n,))
    yield pd.DataFrame({"ts": [rows["ts"].max()], "k": [key[0]], "v": [n], "w": [len(rows)]})


def count_until(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """As `count_up`, until there is no row for ten minutes; then one more row, with -1."""
    if state.hasTimedOut:
        yield pd.DataFrame({"ts": [pd.NaT], "k": [key[0]], "v": [state.get[0]], "w": [-1]}).astype({"ts": "datetime64[ns]"})
        state.remove()
        return
    yield from count_up(key, frames, state)
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 600_000)
