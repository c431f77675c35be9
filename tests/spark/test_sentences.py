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
