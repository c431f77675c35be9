"""What may be in a column: each type as a key and as a value of each stateful operator, through state that both engines write.

Every operator runs once, over one wide row with all types that Spark takes there. The engines take turns: the model begins, goes
on with its own state, then Spark goes on, then the model again. Rows, metrics and the bytes of the state are those of Spark alone.
What Spark refuses, the model refuses at the same moment with the same condition. docs/types.md is the table of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import MiniSparkSession, side_by_side
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


class CountRows(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("n", "n int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N803
        found = [str(row) for frame in rows for row in frame.values.tolist()]
        seen = (self.state.get() or (0,))[0] + len(found)
        self.state.update((seen,))
        yield pd.DataFrame({"n": [seen], "rows": [", ".join(found)]})

    def close(self) -> None:
        pass


def transform_with_state(rows: Any, keys: list[str], values: list[str]) -> Any:
    grouped = rows.select("k", *dict.fromkeys([*keys, *values])).groupBy("k", *keys)
    return grouped.transformWithStateInPandas(CountRows(), "n int, rows string", "update", "none")


Query = Callable[[Any, list[str], list[str]], Any]
OPERATORS: dict[str, tuple[str, Query]] = {
    "aggregation": ("update", aggregation),
    "session window": ("append", session_window),
    "dropDuplicates": ("append", lambda rows, keys, values: rows.dropDuplicates(["k", *keys])),
    "dropDuplicatesWithinWatermark": ("append", lambda rows, keys, values: rows.dropDuplicatesWithinWatermark(["k", *keys])),
    "limit": ("append", lambda rows, keys, values: rows.limit(4)),
    "stream-stream join": ("append", join),
    "applyInPandasWithState": ("update", apply_in_pandas_with_state),
    "transformWithState": ("update", transform_with_state),
}
CONFS = {
    "transformWithState": {
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    }
}

ROW_BY_ROW = ("variant", "variant in a struct")
NOT_BYTES = ("geometry", "text with a collation")
INTERVALS = ("calendar interval", "calendar interval in a struct", "calendar interval in an array")
NO_ARROW = ("year-month interval", "year-month interval in an array", *INTERVALS, "struct with a name twice")
# By operator and place: what Spark, and so the model, refuses.
REFUSED: dict[tuple[str, str], dict[str, str]] = {
    ("aggregation", "key"): dict.fromkeys([*ROW_BY_ROW, *NOT_BYTES], "?"),
    ("session window", "key"): dict.fromkeys([*ROW_BY_ROW, *NOT_BYTES], "?"),
    ("dropDuplicates", "key"): dict.fromkeys([*ROW_BY_ROW, *NOT_BYTES, "null map of such structs"], "?"),
    ("dropDuplicatesWithinWatermark", "key"): dict.fromkeys([*ROW_BY_ROW, *NOT_BYTES], "?"),
    ("stream-stream join", "key"): dict.fromkeys([*ROW_BY_ROW, *INTERVALS, "geometry", "null map of such structs"], "?"),
    ("applyInPandasWithState", "key"): dict.fromkeys([*ROW_BY_ROW, *NO_ARROW, *NOT_BYTES, "null map of such structs"], "?"),
    ("applyInPandasWithState", "value"): dict.fromkeys(NO_ARROW, "?"),
    ("transformWithState", "key"): dict.fromkeys([*ROW_BY_ROW, *NO_ARROW, *NOT_BYTES, "null map of such structs"], "?"),
    ("transformWithState", "value"): dict.fromkeys(NO_ARROW, "?"),
}
PLACES = [(operator, place) for operator in OPERATORS for place in ("key", "value") if (operator, place) != ("limit", "key")]


def taken(operator: str, place: str) -> list[str]:
    """The types that the operator takes in the place, all at once."""
    refused = REFUSED.get((operator, place), {})
    return columns([name for name in NAMES if name not in refused])


def as_text(df: Any) -> list[Any]:
    """Rows of which every column can be compared."""
    cells = [F.hex(F.expr(f"st_asbinary(`{f.name}`)")) if f.dataType.typeName() == "geometry" else F.col(f"`{f.name}`").cast("string") for f in df.schema]
    return df.toDF(*df.columns).select(*cells).collect()


@pytest.mark.parametrize(("operator", "place"), PLACES, ids="-".join)
def test_each_engine_goes_on_with_what_the_other_has_kept(
    spark: SparkSession, spark_files: None, tmp_path: Path, operator: str, place: str
) -> None:
    mode, query = OPERATORS[operator]
    keys = taken(operator, place) if place == "key" else []
    on_rocks_db = operator in CONFS  # each engine has state of its own
    comparison = side_by_side(
        spark, lambda s, d: query(read(s, d, NAMES), keys, taken(operator, "value")), FEED, output_mode=mode,
        restart_after=(0, 1, 2), relay=("model", "model", "model" if on_rocks_db else "spark", "model"), collect=as_text,
        confs=CONFS.get(operator), directory=str(tmp_path), trace="steps", progress=False,
    )
    found = [d for d in comparison.differences if not (on_rocks_db and d.what.startswith("state/"))]
    assert not found, "\n".join(str(d)[:2000] for d in found)
    assert len(comparison.model.batches) >= len(FEED)


def refusal(session: Any, folder: Path, operator: str, place: str, name: str) -> str:
    """When a query is refused, and by which condition."""
    mode, query = OPERATORS[operator]
    [column] = columns([name])
    moment = "the query is built"
    confs = CONFS.get(operator, {})
    for key, value in confs.items():
        session.conf.set(key, value)
    try:
        rows = query(read(session, str(folder), [name]), *(([column], []) if place == "key" else ([], [column])))
        moment = "start"
        started = rows.writeStream.outputMode(mode).format("noop").trigger(availableNow=True).start()
        moment = "the first batch"
        started.awaitTermination()
    except Exception as e:
        conditions = re.findall(r"\[([A-Z][A-Z_.]+)\]", str(e).partition("=== Streaming")[0])
        return f"{moment}: {' '.join(dict.fromkeys(conditions))}" + str(e)[:900]
    finally:
        for key in confs:
            session.conf.unset(key)
    return "ran"


def test_what_spark_refuses_is_refused_alike(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("\n".join(FEED[0]))
    told = {}
    for (operator, place), refused in REFUSED.items():
        for name in refused:
            told[operator, place, name] = [refusal(s, tmp_path, operator, place, name) for s in (spark, MiniSparkSession(spark))]
            print("REFUSED", operator, place, name, "".join("\nSAYS " + repr(t) for t in told[operator, place, name]))
