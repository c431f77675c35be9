"""What may be in a column: each type as a key and as a value of each stateful operator, through state that both engines write.

Every operator runs once, over one wide row with all types that Spark takes there. The engines take turns: the model begins, goes
on with its own state, then Spark goes on, then the model again. Rows, metrics and the bytes of the state are those of Spark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import rows_of

TYPES = {
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


def aggregation(rows: Any, keys: list[str], values: list[str]) -> Any:
    return rows.groupBy(*keys).count() if keys else rows.groupBy("k").agg(*(F.first(x).alias(x) for x in values))


def session_window(rows: Any, keys: list[str], values: list[str]) -> Any:
    return rows.groupBy(F.session_window("ts", "2 seconds"), "k", *keys).agg(F.count("*"), *(F.last(x).alias(f"last_{x}") for x in values))


def join(rows: Any, keys: list[str], values: list[str]) -> Any:
    """A row and those of the next or last three seconds; `v` is there for a join without other keys."""
    all_columns = list(dict.fromkeys(["v", *keys, *values]))
    left, right = (rows.select(*(F.col(x).alias(f"{side}_{x}") for x in ["ts", *all_columns])) for side in ("l", "r"))
    condition = F.expr("r_ts BETWEEN l_ts - INTERVAL 3 SECONDS AND l_ts + INTERVAL 3 SECONDS AND r_v < 3")
    return left.join(right, [condition, *(F.col(f"l_{x}") == F.col(f"r_{x}") for x in ["v", *keys])], "left")


def count_frames(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    rows = [str(row) for frame in frames for row in frame.values.tolist()]
    seen = (state.get[0] if state.exists else 0) + len(rows)
    state.update((seen,))
    yield pd.DataFrame({"n": [seen], "rows": [", ".join(rows)]})


def apply_in_pandas_with_state(rows: Any, keys: list[str], values: list[str]) -> Any:
    grouped = rows.select("k", *dict.fromkeys([*keys, *values])).groupBy("k", *keys)
    return grouped.applyInPandasWithState(count_frames, "n int, rows string", "n int", "update", "NoTimeout")


Query = Callable[[Any, list[str], list[str]], Any]
OPERATORS: dict[str, tuple[str, Query]] = {
    "aggregation": ("update", aggregation),
    "session window": ("append", session_window),
    "dropDuplicates": ("append", lambda rows, keys, values: rows.dropDuplicates(["k", *keys])),
    "dropDuplicatesWithinWatermark": ("append", lambda rows, keys, values: rows.dropDuplicatesWithinWatermark(["k", *keys])),
    "limit": ("append", lambda rows, keys, values: rows.limit(4)),
    "stream-stream join": ("append", join),
    "applyInPandasWithState": ("update", apply_in_pandas_with_state),
}

VARIANTS = ("variant", "variant in a struct")
NOT_BYTES = ("geometry", "text with a collation")
INTERVALS = ("calendar interval", "calendar interval in a struct", "calendar interval in an array")
NO_ARROW = {"year-month interval", "year-month interval in an array", *INTERVALS, "struct with a name twice"}  # in a user's function
# What Spark refuses as a key.
NO_KEYS = {
    "aggregation": {*VARIANTS, *NOT_BYTES},
    "dropDuplicates": {*VARIANTS, *NOT_BYTES, "null map of such structs"},
    "dropDuplicatesWithinWatermark": {*VARIANTS, *NOT_BYTES},
    "stream-stream join": {*VARIANTS, *INTERVALS, "geometry", "null map of such structs"},
    "applyInPandasWithState": {*VARIANTS, *NO_ARROW, *NOT_BYTES, "null map of such structs"},
}
PLACES = [
    (operator, place) for operator in OPERATORS for place in ("key", "value")
    if (operator, place) not in (("limit", "key"), ("session window", "key"))
]


def as_text(df: Any) -> list[Any]:
    """Rows of which every column can be compared."""
    cells = [F.hex(F.expr(f"st_asbinary(`{f.name}`)")) if f.dataType.typeName() == "geometry" else F.col(f"`{f.name}`").cast("string") for f in df.schema]
    return df.toDF(*df.columns).select(*cells).collect()


@pytest.mark.parametrize(("operator", "place"), PLACES, ids=lambda name: name)
def test_each_engine_goes_on_with_what_the_other_has_kept(compare: Compare, operator: str, place: str) -> None:
    mode, query = OPERATORS[operator]
    keys = columns([name for name in NAMES if name not in NO_KEYS[operator]]) if place == "key" else []
    values = columns([name for name in NAMES if operator != "applyInPandasWithState" or name not in NO_ARROW])
    compare(
        lambda s, d: query(read(s, d, NAMES), keys, values), FEED, output_mode=mode,
        restart_after=(0, 1, 2), relay=("model", "model", "spark", "model"), collect=as_text,
    )
