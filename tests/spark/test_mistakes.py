"""What Spark refuses is refused with the advice of the model, and nothing that is misspelt passes for an agreement."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession, side_by_side
from minispark_stream.testing import stream_test


def events(session: Any, folder: str) -> DataFrame:
    return session.readStream.schema("t timestamp, other timestamp, k string").csv(folder)


REFUSED: dict[str, tuple[Callable[..., DataFrame], str]] = {
    "no watermark": (lambda s, d: events(s, d).groupBy("k").count(), "put withWatermark before groupBy"),
    "after groupBy": (
        lambda s, d: events(s, d).groupBy(F.window("t", "5 minutes")).count().withWatermark("window", "1 minute"), "stands after groupBy",
    ),
    "another column": (
        lambda s, d: events(s, d).withWatermark("other", "1 minute").groupBy(F.window("t", "5 minutes")).count(),
        "on a column that is not grouped by",
    ),
}


def test_the_advice_of_the_model_is_below_the_error_of_spark(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    for build, advice in REFUSED.values():
        with pytest.raises(AnalysisException) as refused:
            side_by_side(spark, build, [["2024-01-01 12:00,,a"]], progress=False)
        assert [advice in note for note in refused.value.__notes__] == [True]
    stream = events(mini, str(tmp_path))
    actions: list[Callable[[], Any]] = [
        stream.show, stream.count, stream.collect, stream.first, stream.isEmpty, stream.toPandas, lambda: stream.take(1),
    ]
    for action in actions:
        with pytest.raises(AnalysisException) as refused:
            action()
        assert ["a stream has rows when a query runs" in note for note in refused.value.__notes__] == [True]
        assert str(refused.value).splitlines()[1] == f"FileSource[{tmp_path}]"
    with pytest.raises(AnalysisException) as refused:
        events(spark, str(tmp_path)).count()
    assert str(refused.value).splitlines()[1] == f"FileSource[{tmp_path}]"


@pytest.mark.parametrize("name", ["spark", "mini"])
def test_whichever_session_is_given_one_of_the_engines_is_spark(request: pytest.FixtureRequest, name: str) -> None:
    sessions: list[type] = []

    def counts(session: Any, folder: str) -> DataFrame:
        sessions.append(type(session))
        return events(session, folder)

    given = request.getfixturevalue(name)
    side_by_side(given, counts, [["2024-01-01 12:00,,a"]], progress=False)
    assert sessions == [SparkSession, MiniSparkSession]
    with stream_test(given, lambda session, words: words.select("word"), engine="both") as t:
        t.add([{"word": "a"}])
        assert [type(query._session) for query in t._queries] == [SparkSession, MiniSparkSession]


def test_what_would_prove_nothing_is_told(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, caplog: Any) -> None:
    def on_spark(session: Any, folder: str) -> DataFrame:
        return events(spark, folder)

    with pytest.raises(TypeError, match="it must use the session that it is called with"):
        side_by_side(spark, on_spark, [["2024-01-01 12:00,,a"]], progress=False)
    with pytest.raises(ValueError, match=r"no conf spark.sql.shuffle.partition .*: is it spark.sql.shuffle.partitions\?"):
        side_by_side(spark, events, [["2024-01-01 12:00,,a"]], confs={"spark.sql.shuffle.partition": "3"})
    with pytest.warns(UserWarning, match="is it maxFilesPerTrigger"):
        mini.readStream.option("maxFilePerTrigger", 1).text(str(tmp_path))
    caplog.set_level(logging.CRITICAL)
    empty = side_by_side(spark, events, [[]], progress=False)
    assert empty.to_text().endswith("1 batch, and no row: there is nothing to compare.")


def test_a_query_that_would_never_be_done_is_told_with_the_conf_that_ends_it(spark: SparkSession) -> None:
    def seen(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        state.setTimeoutDuration(60_000)
        yield pd.DataFrame({"k": key, "rows": [sum(map(len, frames))]})

    def with_timers(session: Any, folder: str) -> DataFrame:
        by_key = events(session, folder).groupBy("k")
        return by_key.applyInPandasWithState(seen, "k string, rows long", "n int", "update", "ProcessingTimeTimeout")

    feed, ends = [["2024-01-01 12:00,,a"], ["2024-01-01 12:01,,a"]], {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    for trigger in (None, {"availableNow": True}):
        with pytest.raises(ValueError, match=r"has timers in processing time, .* with confs=\{'spark.sql.streaming.noData.*': 'false'\}"):
            side_by_side(spark, with_timers, feed, output_mode="update", trigger=trigger, progress=False)
    for ended in ({"confs": ends}, {"trigger": {"once": True}}):
        compared = side_by_side(spark, with_timers, feed, output_mode="update", progress=False, **ended)
        assert compared.differences == () and [batch.rows for batch in compared.model.batches] == [[("a", 1)], [("a", 1)]]
