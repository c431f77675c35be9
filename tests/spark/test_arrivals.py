"""The first rows of a batch, read once to be shown and to be followed."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from minispark_stream import MiniSparkSession
from minispark_stream.engine.sources.memory import MemoryStream
from minispark_stream.lens.recording import arrivals
from minispark_stream.lens.trace.events import MAX_ROWS


def outputs(spark: SparkSession, rows: int) -> dict[str, Any]:
    """What the steps getBatch and addBatch of a batch with so many rows recorded."""
    numbers = MemoryStream(MiniSparkSession(spark, trace="rows"), "value int")
    numbers.add_data([(i,) for i in range(rows)])
    query = numbers.to_df().where("value % 2 = 0").writeStream.format("noop").start()
    try:
        query.processAllAvailable()
        return {e.step: e.outputs for e in query.trace.events if e.step in ("getBatch", "addBatch")}  # type: ignore[attr-defined]
    finally:
        query.stop()


def test_rows_are_shown_as_far_as_they_fit_and_all_are_followed(spark: SparkSession) -> None:
    steps = outputs(spark, 2 * MAX_ROWS + 2)
    assert [row["value"] for row in steps["getBatch"]["rows"]] == list(range(MAX_ROWS))
    assert [row["value"] for row in steps["addBatch"]["rows"]] == list(range(0, 2 * MAX_ROWS, 2))
    assert steps["addBatch"]["emitted"] == MAX_ROWS + 1  # more than are shown
    assert [row["row"]["value"] for row in steps["addBatch"]["arrivals"] if "at" in row] == list(range(0, 2 * MAX_ROWS + 2, 2))


def test_rows_that_cannot_be_numbered_are_shown_and_not_followed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(arrivals, "_taken", lambda *_: 1 / 0)
    steps = outputs(spark, 3)
    assert steps["getBatch"]["rows"] == [{"value": 0}, {"value": 1}, {"value": 2}]
    assert (steps["addBatch"]["emitted"], steps["addBatch"]["arrivals"]) == (2, None)
    assert "could not be followed" in caplog.text
