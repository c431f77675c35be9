"""Every type, as a key and as a value of every operator with state, on both engines.

A *cell* is a type in a place of an operator. What is in it is found out by running it:

1. All types are put into one row, and a batch of the query runs over it on Spark and on the model. Where the engines refuse or disagree, the
   types are divided in halves, down to the single type of which that is true.
2. The types that both take run together, over all batches: without a restart, with restarts, and by both engines in turn. Where the engines
   agree in rows, metrics and the bytes of the state, that goes for each of the types; where they do not, the types are divided as in (1).

       outcomes(spark, "aggregation", "key", ["int", "variant"])
       ->  {"int": {"round trip": "equal", "restart": "equal", ...}, "variant": {"refused": "GROUP_EXPRESSION_TYPE_IS_NOT_ORDERABLE"}}

tests/conformance/types.json has what the long run of test_types.py found, and docs/types.md shows it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import IntegerType, StructType

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.tools.compare.engine_run import EngineRun
from tests.conformance.inputs import rows_of

FOUND = Path(__file__).with_name("types.json")

TYPES = {
    "boolean": "v > 1",
    "tinyint": "CAST(v AS TINYINT)",
    "smallint": "CAST(v AS SMALLINT)",
    "int": "v",
    "bigint": "CAST(v AS BIGINT) * 10000000000",
    "float": "CAST(v AS FLOAT) / 3",
    "double": "CAST(v AS DOUBLE) / 3",
    "decimal(10,2)": "CAST(v AS DECIMAL(10,2)) / 4",
    "decimal(38,10)": "CAST(v AS DECIMAL(38,10)) / 4",
    "string": "k || CAST(v AS STRING)",
    "binary": "CAST(k AS BINARY)",
    "date": "date_add(DATE'2024-01-01', v)",
    "time": "make_time(12, v, 1.5)",
    "timestamp": "ts + make_dt_interval(v)",
    "timestamp_ntz": "CAST(ts AS TIMESTAMP_NTZ)",
    "array": "array(v, null, 1)",
    "map": "map('a', v)",
    "struct": "struct(v, k)",
    "year-month interval": "make_ym_interval(v, 1)",
    "day-time interval": "make_dt_interval(v)",
    "calendar interval": "make_interval(0, ifnull(v, 7), 0, ifnull(v, 7))",
    "variant": "parse_json('{\"a\":' || v || '}')",
    "void": "null",
    "array of void": "array(null, null)",
    "struct with void": "struct(v, null AS n)",
    "array of structs with void": "array(null, struct(k, null AS n))",
    "struct with a name twice": "struct(v, k AS v)",
    "null struct of fields that are not null": "CASE WHEN v > 1 THEN struct(1 AS y, 'a' AS z) END",
    "array with a null struct of such fields": "array(struct(1 AS y), null)",
    "null map of such structs": "CASE WHEN v > 1 THEN map('a', struct(1 AS y), 'b', null) END",
    "year-month interval in an array": "array(make_ym_interval(v, 1), null)",
    "calendar interval in a struct": "struct(make_interval(0, ifnull(v, 7)) AS i, v)",
    "calendar interval in an array": "array(make_interval(0, v), null)",
    "variant in a struct": "struct(parse_json('1') AS p, CASE WHEN v > 1 THEN parse_json('[2]') END AS q)",
    "geometry": "st_geomfromwkb(X'0101000000000000000000f03f0000000000000040')",
    "text with a collation": "k COLLATE utf8_lcase",
}
NAMES = list(TYPES)
PLACES = ("key", "value")
EQUAL = "equal"


def line(second: int, k: str, v: int | None) -> dict[str, Any]:
    return {"ts": f"2024-01-01 12:{second // 60:02d}:{second % 60:02d}", "k": k, "v": v}


FEED = [
    rows_of(line(0, "a", 1), line(1, "b", 2)),
    rows_of(line(2, "a", 2), line(3, "a", 1), line(4, "B", None)),
    rows_of(line(5, "b", 2), line(6, "A", 1)),
    rows_of(line(1000, "c", 3)),
]


def read(session: Any, input_dir: str, names: Sequence[str]) -> Any:
    """The stream with a column for each of some types."""
    rows = session.readStream.schema("ts timestamp, k string, v int").json(input_dir).withWatermark("ts", "10 seconds")
    return rows.select("*", *(F.expr(TYPES[name]).alias(f"x{NAMES.index(name)}") for name in names))


def columns(names: Sequence[str]) -> list[str]:
    return [f"x{NAMES.index(name)}" for name in names]


# -- queries -----------------------------------------------------------------------------------------------------


def aggregation(rows: Any, keys: list[str], values: list[str]) -> Any:
    return rows.groupBy(*(keys or ["k"])).agg(F.count("*"), *(F.first(x).alias(f"first_{x}") for x in values))


def session_window(rows: Any, keys: list[str], values: list[str]) -> Any:
    return rows.groupBy(F.session_window("ts", "2 seconds"), "k", *keys).agg(F.count("*"), *(F.last(x).alias(f"last_{x}") for x in values))


def limit_above_an_aggregation(rows: Any, keys: list[str], values: list[str]) -> Any:
    """More than there are, because which rows a limit lets pass is not certain above a shuffle."""
    return rows.groupBy(F.window("ts", "2 seconds"), "k", *keys).agg(F.count("*"), *(F.first(x).alias(f"first_{x}") for x in values)).limit(100)


def join(rows: Any, keys: list[str], values: list[str]) -> Any:
    """A row and those of the next or last three seconds; `v` is there for a join without other keys."""
    all_columns = list(dict.fromkeys(["v", *keys, *values]))
    left, right = (rows.select(*(F.col(x).alias(f"{side}_{x}") for x in ["ts", *all_columns])) for side in ("l", "r"))
    condition = F.expr("r_ts BETWEEN l_ts - INTERVAL 3 SECONDS AND l_ts + INTERVAL 3 SECONDS AND r_v < 3")
    return left.join(right, [condition, *(F.col(f"l_{x}") == F.col(f"r_{x}") for x in ["v", *keys])], "left")


def to_keep(value: Any) -> Any:
    """A value of a pandas frame, as a state takes it."""
    if isinstance(value, np.ndarray):
        return [to_keep(one) for one in value]
    if isinstance(value, dict):
        return {name: to_keep(one) for name, one in value.items()}
    return None if value is None or value is pd.NaT or isinstance(value, float) and value != value else value


def keep_last(names: Sequence[str]) -> Callable[..., Iterator[pd.DataFrame]]:
    """A function that keeps the number of rows and some columns of the last one."""

    def function(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        found = [row for frame in frames for row in frame.to_dict("records")]
        before: tuple[Any, ...] = state.get if state.exists else (0, *[None] * len(names))
        after = (before[0] + len(found), *(to_keep(found[-1][name]) for name in names))
        state.update(after)
        yield pd.DataFrame({"n": [after[0]], "rows": [f"{before} {found}"]})

    return function


def grouped(rows: Any, keys: list[str], values: list[str]) -> tuple[Any, StructType]:
    """The rows by their keys, and the schema of a state that has these values."""
    state = StructType().add("n", IntegerType())
    for x in values:
        state.add(x, rows.schema[x].dataType)
    return rows.select("k", *dict.fromkeys([*keys, *values])).groupBy("k", *keys), state


def apply_in_pandas_with_state(rows: Any, keys: list[str], values: list[str]) -> Any:
    by_key, state = grouped(rows, keys, values)
    return by_key.applyInPandasWithState(keep_last(values), "n int, rows string", state, "update", "NoTimeout")


class KeepLast(StatefulProcessor):
    """Keeps the number of a key's rows and some columns of the last one."""

    def __init__(self, state: StructType):
        self.state = state

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", self.state)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N803
        found = self.of(rows)
        before: Any = self.last.get() if self.last.exists() else (0, *[None] * (len(self.state) - 1))
        after = (before[0] + len(found), *(to_keep(found[-1][name]) for name in self.state.names[1:]))
        self.last.update(after)
        yield self.answer(after[0], f"{tuple(before)} {found}")

    def of(self, rows: Any) -> list[Any]:
        return list(rows)

    def answer(self, n: int, text: str) -> Any:
        return Row(n=n, rows=text)

    def close(self) -> None:
        pass


class KeepLastInPandas(KeepLast):
    def of(self, rows: Any) -> list[Any]:
        return [row for frame in rows for row in frame.to_dict("records")]

    def answer(self, n: int, text: str) -> Any:
        return pd.DataFrame({"n": [n], "rows": [text]})


def transform_with_state(rows: Any, keys: list[str], values: list[str]) -> Any:
    by_key, state = grouped(rows, keys, values)
    return by_key.transformWithState(KeepLast(state), "n int, rows string", "update", "none")


def transform_with_state_in_pandas(rows: Any, keys: list[str], values: list[str]) -> Any:
    by_key, state = grouped(rows, keys, values)
    return by_key.transformWithStateInPandas(KeepLastInPandas(state), "n int, rows string", "update", "none")


Query = Callable[[Any, list[str], list[str]], Any]
OPERATORS: dict[str, tuple[str, Query]] = {
    "aggregation": ("update", aggregation),
    "session window": ("append", session_window),
    "dropDuplicates": ("append", lambda rows, keys, values: rows.dropDuplicates(["k", *keys])),
    "dropDuplicatesWithinWatermark": ("append", lambda rows, keys, values: rows.dropDuplicatesWithinWatermark(["k", *keys])),
    "limit": ("append", lambda rows, keys, values: rows.limit(4)),
    "limit below an aggregation": ("complete", lambda rows, keys, values: aggregation(rows.limit(4), keys, values)),
    "limit above an aggregation": ("append", limit_above_an_aggregation),
    "stream-stream join": ("append", join),
    "applyInPandasWithState": ("update", apply_in_pandas_with_state),
    "transformWithState": ("update", transform_with_state),
    "transformWithStateInPandas": ("update", transform_with_state_in_pandas),
}
CELLS = [(operator, place) for operator in OPERATORS for place in PLACES if (operator, place) != ("limit", "key")]
# transformWithState wants column families.
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
WAYS: dict[str, dict[str, Any]] = {
    "round trip": {},
    "restart": {"restart_after": (0, 1, 2)},
    "the model begins, Spark goes on": {"restart_after": (0, 1, 2), "relay": ("model", "spark")},
    "Spark begins, the model goes on": {"restart_after": (0, 1, 2), "relay": ("spark", "model")},
}


def ways(operator: str) -> dict[str, dict[str, Any]]:
    """In which ways each type is run by itself. transformWithState goes from engine to engine with all types at once."""
    return {way: how for way, how in WAYS.items() if not has_families(operator) or "relay" not in how}


def has_families(operator: str) -> bool:
    return operator.startswith("transformWithState")


# -- what comes out ----------------------------------------------------------------------------------------------


def as_text(df: Any) -> list[Any]:
    """Rows of which every column can be compared."""
    cells = [F.hex(F.expr(f"st_asbinary(`{f.name}`)")) if f.dataType.typeName() == "geometry" else F.col(f"`{f.name}`").cast("string") for f in df.schema]
    return df.toDF(*df.columns).select(*cells).collect()


def compares(operator: str, keys: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """The arguments of `side_by_side` for an operator."""
    confs = ROCKSDB if has_families(operator) else {}
    return {"build": build(operator, keys, values), "output_mode": OPERATORS[operator][0], "collect": as_text, "confs": confs}


def build(operator: str, keys: Sequence[str], values: Sequence[str]) -> Callable[[Any, str], Any]:
    _, query = OPERATORS[operator]
    names = [name for name in NAMES if name in keys or name in values]
    return lambda session, folder: query(read(session, folder, names), columns(keys), columns(values))


def compared(
    spark: SparkSession, operator: str, place: str, names: Sequence[str], feed: Sequence[list[str]], how: Mapping[str, Any]
) -> dict[str, str]:
    """{} if both engines agree and run; what both refuse; or on what they differ."""
    keys, values = (names, []) if place == "key" else ([], names)
    found: list[str] = []
    try:
        comparison = side_by_side(spark, feed=feed, **compares(operator, keys, values), trace="steps", progress=False, **how)
        found = list(map(str, comparison.differences))
        spark_says, model_says = (_why(run) for run in (comparison.spark, comparison.model))
    except PySparkException:
        spark_says, model_says = (_refusal_at_once(session, operator, keys, values) for session in (spark, MiniSparkSession(spark)))
    if spark_says != model_says:
        return {"different": f"Spark: {spark_says or 'runs'}; the model: {model_says or 'runs'}"}
    return {"refused": spark_says} if spark_says else {"different": "; ".join(found)} if found else {}


def _refusal_at_once(session: Any, operator: str, keys: Sequence[str], values: Sequence[str]) -> str | None:
    """Why an engine does not even build the query, or does not start it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            writer = build(operator, keys, values)(session, folder).writeStream.outputMode(OPERATORS[operator][0]).format("noop")
            writer.option("checkpointLocation", f"{folder}/checkpoint").start().stop()
        except PySparkException as error:
            return f"{error.getCondition() or type(error).__name__} before the first batch"
    return None


def _why(run: EngineRun) -> str | None:
    """A condition of Spark's; of an error that has none, its class and words, without the numbers of columns."""
    if run.error is None or run.cause is None:
        return run.error
    return run.cause.name if run.cause.has_condition else re.sub(r"#\d+L?|@\w+", "", str(run.cause))


def outcomes(spark: SparkSession, operator: str, place: str, names: Sequence[str] = NAMES) -> dict[str, dict[str, str]]:
    """Type -> what is in its cell."""
    found: dict[str, dict[str, str]] = {name: {} for name in names}

    def running() -> list[str]:
        return [name for name in names if not {"refused", "different"} & found[name].keys()]

    def divided(part: Sequence[str], feed: Sequence[list[str]], how: Mapping[str, Any]) -> bool:
        """Whether the engines agree on these types; if not, `found` says on which they do not."""
        outcome = compared(spark, operator, place, part, feed, how) if part else {}
        if outcome and len(part) > 1:
            half = len(part) // 2
            return all([divided(part[:half], feed, how), divided(part[half:], feed, how)])
        for name in part:
            found[name] |= outcome
        return not outcome

    divided(running(), FEED[:1], {})  # (1)
    for way, how in ways(operator).items():  # (2)
        while not divided(running(), FEED, how):
            pass
        for name in running():
            found[name][way] = EQUAL
    return found


def recorded() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """Operator -> place -> type -> what was found."""
    return json.loads(FOUND.read_text(encoding="utf-8"))
