"""Operators that were registered: rows, state, progress, watermark, output modes, restarts, and what the trace says of a row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import minispark_stream
from minispark_stream import MiniSparkSession, inspect, registry
from minispark_stream.engine.operators.operator_of_ones_own import Operator, Task
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.view.questions import questions
from minispark_stream.testing import stream_test
from tests.spark.test_registry import install


class EveryNth(Operator):
    """Of each key, every n-th row passes."""

    state = "seen LONG"
    output_modes = ("append", "complete")

    def __init__(self, n: int):
        self.n = n

    def run(self, rows: Iterable[tuple[Row, Row]], state: MutableMapping[Row, Row], task: Task) -> None:
        for key, row in rows:
            seen = state[key].seen + 1 if key in state else 1
            state[key] = (seen,)  # type: ignore[assignment]
            if seen % self.n == 0:
                task.pass_on(row, f"kept: every {self.n}rd row of key {key[0] if key else 'everything'}")
            else:
                task.drop(row, "passed over")
                task.count("numRowsPassedOver")


class Quiet(Operator):
    """Says how many rows a key had, when the watermark is past its newest row; then the key is forgotten."""

    state = "newest TIMESTAMP, rows LONG"
    output = "k STRING, rows LONG"
    uses_watermark = True

    def run(self, rows: Iterable[tuple[Row, Row]], state: MutableMapping[Row, Row], task: Task) -> None:
        for key, row in rows:
            newest, count = state.get(key, (row.time, 0))
            state[key] = (max(newest, row.time), count + 1)  # type: ignore[assignment]
            task.keep(row, f"row {count + 1} of its key")
        for key in list(state):
            if state[key].newest <= task.watermark:
                task.emit(key.k, state.pop(key).rows)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_registered", {"sources": {}, "sinks": {}, "operators": {}})
    minispark_stream.register_operator("every_nth", EveryNth)
    minispark_stream.register_operator("quiet", Quiet)
    module = __import__(__name__, fromlist=["EveryNth"])
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def every_third(events: DataFrame) -> DataFrame:
    return events.groupBy("k").operator("every_nth", n=3)  # type: ignore[attr-defined]


def test_rows_state_progress_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    mini = MiniSparkSession(spark, trace="rows")
    (tmp_path / "in").mkdir()

    def run(number: int, lines: str) -> Any:
        (tmp_path / "in" / f"{number}.csv").write_text(lines.replace(" ", "\n"))
        events = mini.readStream.schema("k string, v int").csv(str(tmp_path / "in"))
        writer = every_third(events.where("v < 6")).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.format("parquet").trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        return query

    query = run(0, "a,1 b,1 a,1 a,1")
    assert rows_in(spark, tmp_path) == [("a", 1)]
    (progress,) = [one for one in query.recentProgress if one.numInputRows]
    (state,) = progress.stateOperators
    assert (state.operatorName, state.numRowsTotal, state.numRowsUpdated) == ("every_nth", 2, 2)
    assert state.customMetrics["numRowsPassedOver"] == 3
    words = [one.fate for one in query.trace.fate({"k": "a"}).rows]  # equal rows, in the order in which they came
    assert words == ["passed over", "passed over", "kept: every 3rd row of key a; emitted in batch 0"]

    query = run(1, "b,2 a,9 b,3 a,2")
    assert rows_in(spark, tmp_path) == [("a", 1), ("b", 3)]
    assert dict(query.trace.fate({"v": 9}).rows[0].stations)["fate"].startswith("left out")
    found = fates(query.trace)
    (asked,) = [one for one in questions(query.trace, found) if "every_nth" in one.asks]
    assert asked.choices == ("kept: every 3rd row of key b", "passed over") and asked.right == 0
    page = query.trace.to_html(tmp_path / "page.html").read_text()
    assert "kept: every 3rd row of key b" in page and "passed over" in page
    (operator,) = inspect(str(tmp_path / "checkpoint")).operators
    assert operator.name == "every_nth"


def rows_in(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.parquet(str(folder / "out")).collect())


def test_a_watermark_drops_late_rows_and_lets_state_go(spark: SparkSession) -> None:
    def query(session: Any, events: DataFrame) -> DataFrame:
        quiet = events.withWatermark("time", "1 minute").groupBy("k").operator("quiet")  # type: ignore[attr-defined]
        return quiet.where("rows > 0")

    with stream_test(spark, query, schemas={"events": "time timestamp, k string"}) as t:
        t.add([("2026-03-01 12:00", "a"), ("2026-03-01 12:01", "a"), ("2026-03-01 12:03", "b")])
        t.expect([("a", 2)])  # the batch without data, after the watermark has moved to 12:02
        t.expect_state(rows=1)
        t.add([("2026-03-01 11:59", "b")])
        t.expect_late(1)
        t.expect_fate({"time": "2026-03-01 12:03:00"}, "row 1 of its key")
        t.expect_fate({"time": "2026-03-01 11:59:00"}, "at or before the late watermark")


def test_without_a_key_and_below_an_aggregation(spark: SparkSession) -> None:
    def query(session: Any, events: DataFrame) -> DataFrame:
        return events.groupBy().operator("every_nth", n=2).groupBy("k").count()  # type: ignore[attr-defined]

    with stream_test(spark, query, output_mode="complete", schemas={"events": "k string"}) as t:
        t.add([("a",), ("a",)])
        t.add([("b",), ("b",), ("b",)])
        t.expect([("a", 1), ("b", 1)])
        assert [one["numStateStoreInstances"] for one in t.progress["stateOperators"]] == [2, 1]


def test_what_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    mini = MiniSparkSession(spark)
    events = mini.readStream.format("rate").load()
    with pytest.raises(AnalysisException, match="not supported in Update output mode"):
        events.groupBy("value").operator("every_nth", n=2).writeStream.format("noop").outputMode("update").start()  # type: ignore[attr-defined]
    with pytest.raises(AnalysisException, match="not supported without a watermark"):
        events.groupBy(F.col("value").cast("string").alias("k")).operator("quiet").writeStream.format("noop").start()  # type: ignore[attr-defined]
    with pytest.raises(AnalysisException, match=r"No operator is registered as 'every'\. Registered are: every_nth, quiet\."):
        events.groupBy("value").operator("every")  # type: ignore[attr-defined]
    with pytest.raises(AnalysisException, match="needs a stream of a MiniSparkSession"):
        spark.range(3).groupBy("id").operator("every_nth", n=2)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="must be callable"):
        minispark_stream.register_operator("nothing", None)  # type: ignore[arg-type]


def test_an_entry_point(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {"sources": {}, "sinks": {}, "operators": {}})
    install(tmp_path, monkeypatch, f"[minispark_stream.operators]\nnth = {__name__}:EveryNth\n")
    operator = registry.create_operator("nth", {"n": 4})
    assert type(operator).__name__ == "EveryNth" and json.dumps(vars(operator)) == '{"n": 4}'
