"""What Spark does above the task that saves: where each key comes once, the functions are evaluated without a map of keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession


@pytest.mark.parametrize(
    "function, by, aggregations",
    [
        pytest.param("stddev(v)", ["k"], 0, id="a function that consists of expressions"),
        pytest.param("approx_count_distinct(v)", ["k"], 1, id="a function that is written in Java"),
        pytest.param("1", ["k"], 1, id="no function at all"),
        pytest.param("stddev(v)", [], 1, id="no keys: there is a row even if there are none"),
    ],
)
def test_only_what_needs_it_is_aggregated_once_more(
    mini: MiniSparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], function: str, by: list[str], aggregations: int
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"k": "a", "v": 1.5}\n{"k": "b", "v": 2.5}\n{"k": "a", "v": 4.5}\n')
    counted = mini.readStream.schema("k string, v double").json(str(tmp_path / "in")).groupBy(*by).agg(F.expr(function))
    write = counted.writeStream.format("noop").outputMode("complete").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = write.trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain()
    above_save = capsys.readouterr().out.partition("StateStoreSave")[0]
    assert above_save.count("HashAggregate") == aggregations
