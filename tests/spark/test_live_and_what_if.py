"""A view of a query that runs, and a query that runs again with every turn of a knob."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from minispark_stream import MiniSparkSession, live, what_if

FEED = [["12:01,a", "12:07,b"], ["12:21,c"], ["12:04,late", "12:31,d"], ["12:41,e"]]


def windowed(session: Any, folder: str, delay: str = "0 minutes") -> DataFrame:
    parts = F.split("value", ",")
    time = F.to_timestamp(F.concat(F.lit("2024-01-01 "), parts[0]))
    rows = session.readStream.option("maxFilesPerTrigger", 1).text(folder).select(time.alias("t"), parts[1].alias("k"))
    return rows.withWatermark("t", delay).groupBy(F.window("t", "5 minutes")).count()


def test_a_query_that_fails_shows_its_error_and_the_batches_before(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(3):
        (tmp_path / "in" / f"{i}.txt").write_text("12:01,a\n")

    def boom(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            raise ValueError("boom in batch 1")
        batch.collect()

    for session in (spark, mini):
        query = windowed(session, str(tmp_path / "in")).writeStream.foreachBatch(boom).start()
        view = live(query, every_s=0.05)
        view._thread.join(120)
        assert not view._thread.is_alive() and view.comm is None
        assert "boom in batch 1" in view.html and "<small>batch</small><b>0</b>" in view.html and "<svg" in view.html
        assert ("the step that ended last" in view.html) is (session is mini)


def test_turning_the_delay_says_which_row_is_no_longer_too_late(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    panel = what_if(spark, windowed, FEED, delay=["0 minutes", "20 minutes"], crash=[None, "walCommit", "commitOffsets"], at_once=[False, True])
    panel.wait(300)
    assert "5 rows came" not in panel.html and "6 rows came, 5 were counted." in panel.html and "Too late: 12:04." in panel.html

    def turn(name: str, value: Any) -> str:
        panel.knobs[name].value = value
        panel.wait(300)
        return panel.html

    html = turn("delay", "20 minutes")
    assert "1 row more counted: 6 instead of 5." in html and "12:04 is no longer too late." in html
    for crash in ("walCommit", "commitOffsets"):
        html = turn("crash", crash)
        assert "ran twice." in html and "The results are the same." in html
    monkeypatch.setattr("minispark_stream.tools.compare.experiment.Runner", None)  # what is known is not run again
    assert "1 row fewer counted: 5 instead of 6." in turn("crash", "none") + turn("delay", "0 minutes")
    monkeypatch.undo()
    assert "Batch" not in turn("at_once", "yes")
    panel.close()
    assert not list(tmp_path.glob("what_if-*"))
