"""Queries that nobody wrote: schema, query, input, lateness, restarts and what a foreachBatch function does with each batch are
drawn, and both engines must agree.

A query is drawn as a chain of steps over rows (ts, k, v, w), and each step gives such rows again, so that any step may
follow any other. Whether Spark takes the chain is for Spark to say: what it refuses, the model must refuse too.

    MINISPARK_QUERIES=300 pytest tests/conformance/test_random_queries.py      a long run, with other queries each time
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, side_by_side
from tests.conformance.actions import ACTIONS
from tests.conformance.inputs import rows_of

LONG_RUN = int(os.environ.get("MINISPARK_QUERIES", "0"))

# A value of each type. Halves are exact in binary: sums do not depend on the order of rows.
VALUES: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda r: r.randrange(-9, 9),
    "bigint": lambda r: r.randrange(-(2**40), 2**40),
    "double": lambda r: r.randrange(-9, 9) / 2,
    "decimal(10,2)": lambda r: r.randrange(-999, 999) / 4,
    "string": lambda r: r.choice(["", "x", "yy", "ü"]),
    "boolean": lambda r: r.random() < 0.5,
    "date": lambda r: r.choice(["2024-01-01", "2023-06-30"]),
    "struct<a:int,b:string>": lambda r: {"a": r.randrange(3), "b": r.choice("xy")},
}
KEYS = {**VALUES, "int": lambda r: r.randrange(3), "bigint": lambda r: r.randrange(3), "string": lambda r: r.choice("abé")}
NUMBERS = ("int", "bigint", "double", "decimal(10,2)")
AGGREGATES = (
    "count(*) AS v, max(w) AS w", "sum(v) AS v, min(w) AS w", "avg(v) AS v, count(w) AS w", "max(v) AS v, max(ts) AS w",
    "count(v) FILTER (WHERE v > 0) AS v, bool_or(v > 0) AS w", "sum(v) / count(*) AS v, min(k) AS w",
    "approx_count_distinct(w) AS v, max(w) AS w", "median(v) AS v, mode(w, true) AS w",
    "percentile_approx(v, 0.5D) AS v, bit_or(CAST(v AS INT)) AS w", "try_sum(v) AS v, count_if(v > 0) AS w",
)
ROW_WISE_KINDS = {"where", "select", "explode"}
MINUTES = st.sampled_from([1, 5, 10, 30])


@dataclass(frozen=True)
class Rows:
    """The rows of one stream: time goes on by 15 minutes a step, and a row may be an hour late; a fifth of all is null."""

    k: str
    v: str
    w: str
    seed: int

    @property
    def schema(self) -> str:
        return f"ts timestamp, k {self.k}, v {self.v}, w {self.w}"

    def steps(self, count: int) -> list[list[str]]:
        rng = random.Random(self.seed)
        return [rows_of(*(self._row(rng, step) for _ in range(rng.randrange(1, 8)))) for step in range(count)]

    def _row(self, rng: random.Random, step: int) -> dict[str, Any]:
        minute = 15 * step + rng.choice([rng.randrange(60, 75), rng.randrange(75)])
        columns = (("k", KEYS[self.k]), ("v", VALUES[self.v]), ("w", VALUES[self.w]))
        values = {name: None if rng.random() < 0.2 else draw(rng) for name, draw in columns}
        return {"ts": f"2024-01-01 {minute // 60:02d}:{minute % 60:02d}:00", **values}


@dataclass(frozen=True)
class Query:
    """A chain of steps, each a name and its arguments, over a stream with a watermark or without."""

    delay: int | None
    steps: tuple[tuple[Any, ...], ...]
    output_mode: str

    def build(self, left: Rows, right: Rows) -> Any:
        def build(session: Any, input_dir: str) -> Any:
            df = self.read(session, f"{input_dir}/left", left)
            for step in self.steps:
                df = self.apply(df, step, lambda: self.read(session, f"{input_dir}/right", right))
            return df

        return build

    def read(self, session: Any, folder: str, rows: Rows) -> Any:
        os.makedirs(folder, exist_ok=True)
        df = session.readStream.schema(rows.schema).json(folder)
        return df if self.delay is None else df.withWatermark("ts", f"{self.delay} minutes")

    def apply(self, df: Any, step: tuple[Any, ...], other: Any) -> Any:
        match step:
            case "where", condition:
                return df.where(condition)
            case "select", v:
                return df.select("ts", "k", F.expr(v).alias("v"), "w")
            case "explode", n:
                return df.withColumn("v", F.explode(F.array(*["v"] * n)))
            case ("union",):
                return df.union(other())
            case "distinct", columns:
                return df.dropDuplicates(columns)
            case "distinct within the watermark", columns:
                return df.dropDuplicatesWithinWatermark(columns)
            case "group", by, aggregates:
                keys = [column for column in ("k", "w") if column in by]
                some = [F.expr(e) for e in aggregates.split(", ")]
                return df.groupBy(*keys).agg(F.max("ts").alias("ts"), *some).select("ts", *keys[:1], "v")
            case "window", size, slide, by_key, aggregates:
                window = F.window("ts", f"{size} minutes", f"{min(size, slide)} minutes")
                return self.windowed(df, window, "window", by_key, aggregates)
            case "session", gap, by_key, aggregates:
                return self.windowed(df, F.session_window("ts", f"{gap} minutes"), "session_window", by_key, aggregates)
            case "join", how, before, after:
                right = other().select(F.col("ts").alias("rts"), F.col("k").alias("rk"), F.col("v").alias("rv"))
                within = f"rts BETWEEN ts - interval {before} minutes AND ts + interval {after} minutes"
                joined = df.join(right, F.expr(f"k = rk AND {within}"), how)
                return joined if how == "left_semi" else joined.select("ts", "k", "v", F.col("rv").alias("w"))
            case "limit", n:
                return df.limit(n)
        raise AssertionError(step)

    def windowed(self, df: Any, window: Any, name: str, by_key: bool, aggregates: str) -> Any:
        keys = ["k"] if by_key else []
        no_key = F.lit(None).cast(df.schema["k"].dataType)
        rows = df.groupBy(window, *keys).agg(*(F.expr(e) for e in aggregates.split(", ")))
        return rows.select(F.window_time(name).alias("ts"), F.col("k") if by_key else no_key.alias("k"), "v", "w")


ROW_WISE = st.one_of(
    st.tuples(st.just("where"), st.sampled_from(["v > 0", "k IS NOT NULL", "v IS NULL OR v < 5", "minute(ts) % 3 > 0"])),
    st.tuples(st.just("select"), st.sampled_from(["v + v", "coalesce(v, 0)", "-v"])),
    st.tuples(st.just("explode"), st.integers(1, 2)),
    st.tuples(st.just("union")),
)
STATEFUL = st.one_of(
    st.tuples(st.just("distinct"), st.sampled_from([["k"], ["ts", "k"], ["k", "v"]])),
    st.tuples(st.just("distinct within the watermark"), st.sampled_from([["k"], ["k", "v"]])),
    st.tuples(st.just("window"), MINUTES, MINUTES, st.booleans(), st.sampled_from(AGGREGATES)),
    st.tuples(st.just("session"), MINUTES, st.booleans(), st.sampled_from(AGGREGATES)),
    st.tuples(
        st.just("join"), st.sampled_from(["inner", "left_outer", "right_outer", "full_outer", "left_semi"]),
        st.sampled_from([0, 5, 20]), st.sampled_from([0, 5, 20]),
    ),
)
LAST = st.one_of(
    st.tuples(st.just("group"), st.sampled_from([["k"], ["k", "w"], []]), st.sampled_from(AGGREGATES)),
    st.tuples(st.just("limit"), st.integers(1, 5)),
)


@dataclass(frozen=True)
class Case:
    """A query, the rows of its two streams, how many steps, after which it is restarted, who then runs it, and what the sink does."""

    query: Query
    left: Rows
    right: Rows
    steps: int
    restarts: tuple[int, ...]
    relay: tuple[str, ...]
    actions: tuple[str, ...]

    def collect(self, batch: DataFrame) -> list[tuple[str, Any]]:
        """What the sink gets of a batch."""
        return [(name, ACTIONS[name](batch)) for name in self.actions]


def in_one_order(chain: list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Which rows a limit lets pass, and which row of a key is the first, is only certain while rows are in a file's order."""
    found: list[tuple[Any, ...]] = []
    for name, *arguments in chain:
        if not {step[0] for step in found} <= ROW_WISE_KINDS:
            if name == "limit":
                continue
            if name.startswith("distinct"):
                arguments = [["ts", "k", "v", "w"]]
        found.append((name, *arguments))
    return tuple(found)


@st.composite
def rows(draw: Any, k: str, v: str, w: str) -> Rows:
    return Rows(k, v, w, draw(st.integers(0, 2**32)))


@st.composite
def cases(draw: Any) -> Case:
    before, stateful = draw(st.lists(ROW_WISE, max_size=2)), draw(st.lists(STATEFUL, min_size=1, max_size=2))
    chain = in_one_order([*before, *stateful, *draw(st.lists(ROW_WISE, max_size=1)), *draw(st.lists(LAST, max_size=1))])
    groups = any(step[0] in ("group", "window", "session") for step in chain)
    mode = draw(st.sampled_from(["append", "update", "complete"] if groups else ["append", "append", "update"]))
    delay = draw(st.sampled_from([0, 10, 30, 10, 30, None]))
    types = draw(st.sampled_from(sorted(KEYS))), draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(sorted(VALUES)))
    steps = draw(st.integers(2, 5))
    return Case(
        Query(delay, chain, mode), draw(rows(*types)), draw(rows(*types)), steps,
        tuple(sorted(draw(st.sets(st.integers(0, steps - 1), max_size=2)))),
        draw(st.sampled_from([("model",), ("model", "spark"), ("spark", "model")])),
        tuple(draw(st.one_of(st.just(["rows"]), st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=2)))),
    )


def refusal(session: Any, build: Any, output_mode: str) -> str | None:
    """The error condition with which an engine refuses to start the query."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            writer = build(session, folder).writeStream.outputMode(output_mode).format("noop")
            writer.option("checkpointLocation", f"{folder}/checkpoint").start().stop()
        except AnalysisException as e:
            return str(e.getCondition())
    return None


def check(spark: SparkSession, case: Case) -> None:
    query = case.query
    build = query.build(case.left, case.right)
    refused = refusal(spark, build, query.output_mode)
    assert refusal(MiniSparkSession(spark), build, query.output_mode) == refused
    if refused is not None:
        return
    streams = {"left": case.left.steps(case.steps)}
    if any(step[0] in ("join", "union") for step in query.steps):
        streams["right"] = case.right.steps(case.steps)
    feed = [{name: steps[i] for name, steps in streams.items()} for i in range(case.steps)]
    comparison = side_by_side(
        spark, build, feed, output_mode=query.output_mode, restart_after=case.restarts, relay=case.relay,
        collect=case.collect, trace="steps", progress=False,
    )
    # A join numbers the rows of a key as they come; after another operator, that is in no certain order.
    kinds = [step[0] for step in query.steps]
    in_order = "join" not in kinds or set(kinds[: len(kinds) - kinds[::-1].index("join") - 1]) <= ROW_WISE_KINDS
    # How often a batch is evaluated that a foreachBatch function uses more than once is up to each engine's plan (engine/operators/metrics.py).
    once = case.actions == ("rows",)
    # A semi join over a union becomes two joins; both read the other side, which Spark shuffles once (incremental_execution.py).
    read_alike = "union" not in kinds or ("join", "left_semi") not in [step[:2] for step in query.steps]
    found = [
        d for d in comparison.differences
        if (in_order or not d.what.endswith(".delta"))
        and (once or not d.what.startswith("operator "))
        and (read_alike or d.what not in ("rows in", "sources"))
    ]
    assert not found, "\n".join(map(str, found))


@given(cases())
@settings(
    max_examples=LONG_RUN or 15, derandomize=not LONG_RUN, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
def test_both_engines_agree(spark: SparkSession, case: Case) -> None:
    check(spark, case)
