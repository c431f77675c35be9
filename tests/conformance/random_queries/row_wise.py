"""Steps without state: what a batch query would make of the rows (ts, k, v, w) of each batch.

    ("select", "abs(v)", "struct(k, v)")        these expressions as v and w; v stays a number
    ("explode", "explode(array(v, 1)) AS v")    a generator in the place of v
    ("where", "v > 0")
    ("udf", "pandas")                           a function of the user
    ("table", "left_outer"), ("ask", "v > (SELECT avg(x) FROM t)")      a static side
    ("union",), ("branches", "v > 0")           a second stream below, or two halves of this one
    ("repartition", 3)                          rows in another order
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, StringType

Step = tuple[Any, ...]

WHERE = (
    "v > 0", "k IS NOT NULL", "v IS NULL OR v < 5", "minute(ts) % 3 > 0", "hash(k, w) % 2 = 0", "current_timestamp() > ts",
    "ts < current_date()", "rand(7) < 2", "uuid() IS NOT NULL", "length(CAST(w AS STRING)) > 0", "v BETWEEN -5 AND 5 OR w IS NULL",
    "CAST(k AS STRING) IN ('0', '1', 'a', '0.50')", "monotonically_increasing_id() >= 0", "false", "true", "v + 1 > v",
    "ts > TIMESTAMP'2024-01-01 00:20:00'", "CAST(k AS STRING) LIKE '%1%' OR v % 2 = 0", "NOT (v <=> 1)",
)
NUMERIC = (
    "v + v", "coalesce(v, 0)", "-v", "abs(v)", "v % 4", "greatest(v, 1)", "CAST(v AS DOUBLE) / 2", "nullif(v, 1)", "round(v)",
    "CASE WHEN v > 0 THEN v WHEN k IS NULL THEN 0 END", "try_divide(v, v)", "pmod(v, 3)", "if(k IS NULL, v, v + 1)", "bround(v / 4, 1)",
    "length(CAST(w AS STRING))", "hash(k) % 5", "xxhash64(k, ts) % 1000", "unix_seconds(ts)", "minute(ts)", "CAST(v AS DECIMAL(12,3))",
    "aggregate(array(v, 1), 0D, (a, x) -> a + x)", "element_at(array(v, 2), 1)", "CAST(v AS SMALLINT)", "sign(v)", "1",
    "size(filter(array(v, 1, 2), x -> x > 1))", "try_add(CAST(v AS INT), 2147483640)", "CAST(NULL AS INT)", "v", "v", "v",
    "named_struct('a', v).a", "CAST(CAST(v AS STRING) AS DOUBLE)", "datediff(DATE'2024-02-01', ts)", "ifnull(v, hour(ts))",
    "CAST(EXTRACT(SECOND FROM ts) AS INT)", "bit_count(CAST(v AS BIGINT))", "map('a', v)['a']", "array_max(array(v, 0))", "rand(3) * 0",
)
ANY = (
    "w", "w", "w", "make_dt_interval(minute(ts))", "make_ym_interval(minute(ts) % 3, 1)", "make_interval(0, minute(ts) % 4)", "CAST(k AS STRING) || 'x'",
    "struct(k, v)", "array(v, null)", "map('a', v)", "transform(array(v), x -> x * 2)", "to_json(struct(k, v))", "CAST(CAST(k AS STRING) AS BINARY)",
    "from_json('{\"a\":1}', 'a int, b string')", "date_add(DATE'2024-01-01', minute(ts))", "sha2(CAST(k AS STRING), 256)", "null",
    "date_trunc('HOUR', ts)", "ts - INTERVAL 5 MINUTES", "current_timestamp() > ts", "current_date() > DATE'2024-01-01'", "typeof(v)",
    "CASE WHEN v > 1 THEN struct(1 AS y, 'a' AS z) END", "array(struct(v), null)", "struct(w, w AS w2)", "parse_json('{\"a\":1}')",
    "split(CAST(k AS STRING), '0')", "CAST(ts AS TIMESTAMP_NTZ)", "ts", "coalesce(w, w)", "CAST(v AS DECIMAL(38,10))", "format_number(v, 2)",
    "map_from_arrays(array('p', 'q'), array(v, null))", "array_sort(array(v, 1, null))", "CAST(v AS FLOAT)", "date_format(ts, 'HH:mm')",
    "named_struct('i', make_dt_interval(1), 'v', v)", "if(isnan(CAST(v AS DOUBLE)), null, w)", "sequence(1, 1 + minute(ts) % 3)", "k",
)
EXPLODE = (
    "explode(array(v, v))", "explode(array(v))", "explode_outer(if(v > 0, array(v, 1), null))", "inline(array(struct(v), struct(v)))",
    "explode(sequence(1, 1 + minute(ts) % 3))", "explode(from_json('[1,2]', 'array<int>'))", "stack(2, v, v)",
)
TABLE_JOINS = ("inner", "left_outer", "left_semi", "left_anti", "cross", "right_outer", "full_outer")
ASK = (
    "v > (SELECT avg(x) - 4 FROM t)", "CAST(k AS STRING) IN (SELECT tk FROM t)", "CAST(k AS STRING) NOT IN (SELECT tk FROM t WHERE tk IS NOT NULL)",
    "EXISTS (SELECT 1 FROM t WHERE tk = CAST(k AS STRING) AND x > 0)", "v > (SELECT max(x) FROM t WHERE tk = CAST(k AS STRING)) - 5",
    "(SELECT count(*) FROM t) > 6 OR v > 0",
)


def increased(x: Any) -> float | None:
    return None if x is None else float(x) + 1


def doubled(x: pd.Series) -> pd.Series:
    return x.astype("float64") * 2


def all_but_ninth(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    return (frame[frame["v"] != 9] for frame in frames)


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(batches)


def _with_v(udf: Any) -> Callable[[Any], Any]:
    return lambda df: df.withColumn("v", udf("v"))


INCREASED = F.udf(increased, DoubleType())
UDFS: dict[str, Callable[[Any], Any]] = {
    "python": _with_v(INCREASED),
    "nondeterministic": _with_v(F.udf(increased, DoubleType()).asNondeterministic()),
    "pandas": lambda df: df.withColumn("v", F.pandas_udf(doubled, DoubleType())("v")),  # type: ignore[call-overload]
    "filter": lambda df: df.where(F.udf(lambda x: x is None or x < 5, BooleanType())("v")),
    "text": lambda df: df.withColumn("w", F.udf(lambda k, v: f"{k} {v}", StringType())("k", F.col("v") + F.lit(0))),
    "of the time": lambda df: df.withColumn("w", F.udf(lambda now: now is None, BooleanType())(F.current_timestamp())),
    "in a chain": lambda df: df.withColumn("v", INCREASED(INCREASED("v"))),
    "mapInPandas": lambda df: df.select("ts", "v").mapInPandas(all_but_ninth, df.select("ts", "v").schema).selectExpr("ts", "v AS k", "v", "v AS w"),
    "mapInArrow": lambda df: df.mapInArrow(unchanged, df.schema),
}
MOVES = (("repartition", 3), ("repartition by", 2), ("coalesce", 1))
IN_ORDER = {"where", "select", "explode", "udf", "key"}


def draw(r: random.Random) -> Step:
    """One step."""
    kind = r.choice(["where", "select", "select", "select", "key", "explode", "udf", "table", "ask", "union", "branches", "move"])
    match kind:
        case "where":
            return kind, r.choice(WHERE)
        case "select":
            return kind, r.choice(NUMERIC), r.choice(ANY)
        case "key":
            return kind, r.choice(["CAST(k AS STRING)", "struct(k)", "v % 3", "w", "minute(ts) % 2", "k", "make_ym_interval(minute(ts) % 2, 1)"])
        case "explode":
            return kind, r.choice(EXPLODE)
        case "udf":
            return kind, r.choice(sorted(UDFS))
        case "table":
            return kind, r.choice(TABLE_JOINS[:5] if r.random() < 0.9 else TABLE_JOINS)
        case "ask":
            return kind, r.choice(ASK)
        case "union":
            return (kind,)
        case "branches":
            return kind, r.choice(WHERE[:6])
    return r.choice(MOVES)


def apply(df: Any, step: Step, other: Callable[[], Any], table: Callable[[], Any]) -> Any:
    """The rows after the step; `other` is the second stream, `table` the static side."""
    match step:
        case "where", condition:
            return df.where(condition)
        case "select", v, w:
            return df.selectExpr("ts", "k", f"{v} AS v", f"{w} AS w")
        case "key", k:
            return df.selectExpr("ts", f"{k} AS k", "v", "w")
        case "explode", generator:
            return df.selectExpr("ts", "k", f"{generator} AS v", "w")
        case "udf", name:
            return UDFS[name](df)
        case "table", how:
            joined = df.join(table(), F.expr("CAST(k AS STRING) = tk" if how != "cross" else "x < 2"), "inner" if how == "cross" else how)
            return joined if how in ("left_semi", "left_anti") else joined.selectExpr("ts", "k", "v", "x AS w")
        case "ask", condition:
            table().createOrReplaceTempView("t")
            return df.where(condition)
        case ("union",):
            return df.union(of_types(other(), df.schema))
        case "branches", condition:
            return df.where(condition).union(df.where("v < 0"))
        case "repartition", n:
            return df.repartition(n)
        case "repartition by", n:
            return df.repartition(n, "ts")
        case "coalesce", n:
            return df.coalesce(n)
    raise AssertionError(step)


def of_types(df: Any, schema: Any) -> Any:
    """The rows with these types: nulls in the place of a column that has another."""
    return df.select(*(F.col(f.name) if df.schema[f.name].dataType == f.dataType else F.lit(None).cast(f.dataType).alias(f.name) for f in schema))
