"""Sentences of notebooks and pages on what Spark does, which no other test holds to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

engines = pytest.mark.parametrize("engine", ["spark", "mini"])


def test_ten_thousand_reports_may_wait_for_an_epoch(spark: SparkSession) -> None:
    """Notebook 16, of the epoch coordinator."""
    assert spark.conf.get("spark.sql.streaming.continuous.epochBacklogQueueSize") == "10000"


@engines
@pytest.mark.parametrize("sink", ["foreachBatch", "foreach", "noop"])
def test_a_sink_without_a_checkpoint_location_forgets_everything(
    engine: str, sink: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Symptoms, *No checkpoint location*: such a query starts, and at its next start it reads everything again."""
    session: Any = request.getfixturevalue(engine)
    (tmp_path / "0.txt").write_text("a\n")

    def rows_read() -> int:
        writer = session.readStream.format("text").load(str(tmp_path)).writeStream.trigger(availableNow=True)
        to_sink = {
            "foreachBatch": lambda: writer.foreachBatch(lambda batch, number: batch.collect()),
            "foreach": lambda: writer.foreach(lambda row: None),
            "noop": lambda: writer.format("noop"),
        }
        query = to_sink[sink]().start()
        query.awaitTermination()
        return sum(report.numInputRows for report in query.recentProgress)

    assert [rows_read(), rows_read()] == [1, 1]


@engines
def test_another_order_of_keys_of_one_type_is_not_noticed(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Symptoms, *A restart with another grouping key*: the count of (a, b) goes on as that of (b, a)."""
    session: Any = request.getfixturevalue(engine)
    counted: list[tuple[str, str, int]] = []

    def run(row: str, *keys: str) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{row}.csv").write_text(row)
        counts = session.readStream.schema("k string, v string").csv(str(tmp_path / "in")).groupBy(*keys).count()
        keep = lambda batch, _: counted.extend((r.k, r.v, r["count"]) for r in batch.collect())  # noqa: E731
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()

    run("a,b", "k", "v")
    run("b,a", "v", "k")
    assert counted == [("a", "b", 1), ("b", "a", 2)]
