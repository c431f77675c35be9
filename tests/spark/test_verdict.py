"""What a comparison on real Spark says in its verdict, its table and its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import side_by_side
from minispark_stream.lens.trace.fates import fates
from minispark_stream.lens.view.board import Board
from minispark_stream.lens.view.event_plane import planes
from minispark_stream.lens.view.merged_walk import stops
from minispark_stream.tools.compare.comparison import Comparison

ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}


def words(session: Any, folder: str) -> DataFrame:
    lines = session.readStream.schema("value string").text(folder)
    return lines.groupBy("value").count()


def divided(session: Any, folder: str) -> DataFrame:
    lines = session.readStream.schema("value string").text(folder)
    return lines.select(F.lit(1) / F.col("value").cast("int"))


def paid(session: Any, folder: str) -> DataFrame:
    """A left join below a windowed count: rows leave the join with nulls, and are counted."""
    def rows(name: str) -> Any:
        read = session.readStream.schema(f"t{name} timestamp, k{name} string").csv(f"{folder}/{name}")
        return read.withWatermark(f"t{name}", "5 minutes")

    near = F.expr("ka = kb AND tb BETWEEN ta AND ta + INTERVAL 10 MINUTES")
    return rows("a").join(rows("b"), near, "leftOuter").groupBy(F.window("ta", "10 minutes")).agg(F.count("kb"))


class Visits(StatefulProcessor):
    """The last visit of each user, and a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.last = handle.getValueState("last", "page string")
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        for frame in rows:
            self.last.update((frame["page"].iloc[-1],))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 60_000)
        yield pd.DataFrame({"user": [key[0]]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        self.last.clear()
        yield pd.DataFrame({"user": [f"{key[0]} is gone"]})

    def close(self) -> None: ...


def visits(session: Any, folder: str) -> DataFrame:
    read = session.readStream.schema("t timestamp, user string, page string").csv(folder).withWatermark("t", "1 minute")
    return read.groupBy("user").transformWithStateInPandas(Visits(), "user string", "update", "eventTime")


def lose_the_one_before(checkpoint: str) -> None:
    newest = max(int(path.name) for path in Path(checkpoint, "offsets").glob("[0-9]*"))
    for name in (f"{newest - 1}", f".{newest - 1}.crc"):
        Path(checkpoint, "offsets", name).unlink(missing_ok=True)


def said_to_be_different(compared: Comparison) -> list[Any]:
    board = Board(None, compared.differing)
    return [(s.moment.key, name) for s in stops(compared.traces) for name, html in board.panels(s).items() if "<small>differ" in html]


def test_engines_that_fail_alike_say_why_and_after_how_many_batches(spark: SparkSession) -> None:
    failed = side_by_side(spark, divided, [["1"], ["0"]], progress=False)
    assert "1 batch, and then both engines fail alike: DIVIDE_BY_ZERO: Division by zero." in failed.to_text()
    for run in (failed.spark, failed.model):
        assert str(run.error).startswith("STREAM_FAILED: DIVIDE_BY_ZERO: Division by zero.")
        assert "DIVIDE_BY_ZERO" in str(run.trace.batches[-1].error)
    gap = side_by_side(spark, words, [["a"], ["b"], ["c"]], output_mode="update", restart_after={1: lose_the_one_before}, progress=False)
    assert gap.differences == () and "2 batches, and then both engines fail alike: batch 0 doesn't exist" in gap.to_text()


def test_nothing_is_red_where_the_engines_agree(spark: SparkSession) -> None:
    feed = [{"a": ["2024-01-01 12:00:00,x", "2024-01-01 12:01:00,y"], "b": ["2024-01-01 12:02:00,x"]},
            {"a": ["2024-01-01 12:40:00,z"], "b": ["2024-01-01 12:41:00,z"]}, {"a": ["2024-01-01 13:20:00,q"], "b": ["2024-01-01 13:20:00,q"]}]
    below = side_by_side(spark, paid, feed, progress=False)
    assert below.differences == () and sum(len(batch.rows) for batch in below.spark.batches) > 0
    assert not said_to_be_different(below) and "1970" not in below.to_text() + below._repr_html_()

    pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")
    rows = [["2024-01-01 12:00:00,ann,home"], ["2024-01-01 12:10:00,bob,shop"], ["2024-01-01 12:30:00,bob,home"]]
    timers = side_by_side(spark, visits, rows, output_mode="update", confs=ROCKS_DB, progress=False)
    assert timers.differences == () and ("ann is gone",) in [row for batch in timers.model.batches for row in batch.rows]
    assert "\\x00" not in timers._repr_html_()
    (plane,) = planes(fates(timers.model.trace))
    assert [one.title for one in plane.timers] == [  # ann's was set when there was no watermark yet
        "timer of user=ann for 1970-01-01 00:01:00: set in batch 0; fired in batch 1",
        "timer of user=bob for 2024-01-01 12:00:00: set in batch 2; fired in batch 3",
        "timer of user=bob for 2024-01-01 12:10:00: set in batch 4; fired in batch 5",
    ]
    assert min(plane.times()) > 1_700_000_000_000  # the picture does not begin in 1970
    assert not said_to_be_different(timers)
