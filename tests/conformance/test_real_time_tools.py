"""What the tools say of queries in real-time mode, on both engines: why nothing came out, and what a restart does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from minispark_stream import LowLatencyMemoryStream, MiniSparkSession, explain_output, inspect
from minispark_stream.lens.view.pipelines import runs
from tests.conformance.test_real_time_mode import SOON, log, rows_in, start, wait_for
from tests.conformance.test_real_time_state import engines, two_slots  # noqa: F401 - fixtures

LONG = {"realTime": "10 minutes"}
HELD = {"spark": "Spark gives rows to a Python function of foreach in groups: when there are many of them, or when the batch ends", "model": None}


def test_a_query_says_what_its_long_batch_means(engines: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    """While the first batch runs, and after it; on Spark also what its foreach function waits for."""
    for engine, session in engines.items():
        (tmp_path / engine).mkdir()
        stream = LowLatencyMemoryStream(session, "k string")
        stream.add_data([("a",)])
        query = start(stream.to_df().groupBy("k").count(), tmp_path / engine)
        early = dict(explain_output(query).lines)
        wait_for(lambda: 1 in log(tmp_path / engine, "commits") and query.lastProgress is not None, query)  # noqa: B023
        later = dict(explain_output(query).lines)
        query.stop()
        assert early["open batch"].startswith("batch 0 ") and "restart" not in early and not later["open batch"].startswith("batch 0 ")
        for found in (early, later):
            assert found["real time"].startswith("a batch lasts 1 s, and its rows are written while it runs")
            assert found.get("held back") == HELD[engine]
        assert later["held"].startswith("operator 0 (StatefulStreamlineAggregate): 1 key")


def test_the_console_shows_rows_when_the_batch_ends(engines: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    for engine, session in engines.items():
        writer: Any = LowLatencyMemoryStream(session, "k string").to_df().writeStream.outputMode("update").format("console")
        query = writer.option("checkpointLocation", str(tmp_path / engine)).trigger(**LONG).start()
        assert dict(explain_output(query).lines)["held back"] == "the console prints the rows of a batch when the batch ends"
        query.stop()


@pytest.mark.parametrize("stateful", [True, False], ids=["count", "no state"])
def test_what_a_restart_does_is_foretold(engines: dict[str, Any], tmp_path: Path, stateful: bool) -> None:  # noqa: F811
    """A checkpoint of either engine: a new batch with either trigger. Batches without data are no sign of state here."""
    for engine, session in engines.items():
        (tmp_path / engine).mkdir()
        stream = LowLatencyMemoryStream(session, "k string")
        stream.add_data([("a",)])
        df = stream.to_df().groupBy("k").count() if stateful else stream.to_df()
        query = start(df, tmp_path / engine)
        wait_for(lambda: 1 in log(tmp_path / engine, "commits"), query)  # noqa: B023
        query.stop()
        report = inspect(str(tmp_path / engine / "checkpoint"))
        assert report.exit_code == 0 and report.next.batch_id == max(log(tmp_path / engine, "commits")) + 1, str(report)
        ran = "It ran in real-time mode" if stateful else "If it ran in real-time mode"
        assert f"{ran}, which logs a batch when it ends" in report.next.says
        assert ("its state has each row once" in report.next.says) == stateful
        assert dict(explain_output(report.path).lines)["restart"] == report.next.says
        for number, trigger in enumerate(({"availableNow": True}, SOON), report.next.batch_id):
            stream.add_data([("b",)])
            query = start(df, tmp_path / engine, trigger)
            wait_for(lambda: number in log(tmp_path / engine, "commits"))  # noqa: B023
            query.stop()
            assert query.exception() is None


@pytest.mark.parametrize("engine", ["spark", "model"])
def test_a_first_batch_that_is_cut_off(engines: dict[str, Any], tmp_path: Path, engine: str) -> None:  # noqa: F811
    """It has left the schema of its state, which a query in micro-batches refuses; one in real-time mode begins anew."""
    folder, stream = tmp_path / "first", LowLatencyMemoryStream(engines[engine], "k string")
    folder.mkdir()
    stream.add_data([("a",)])
    df = stream.to_df().groupBy("k").count()
    query = start(df, folder, LONG)
    wait_for(lambda: (folder / "checkpoint/state/0/0/_metadata/schema").exists(), query)
    query.stop()
    foretold = inspect(str(folder / "checkpoint")).next
    assert foretold.refused is not None and foretold.refused.condition == "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
    assert "with its trigger, batch 0 begins anew" in foretold.says
    shutil.copytree(folder, tmp_path / "second")
    with pytest.raises(StreamingQueryException, match=foretold.refused.condition):
        start(df, folder, {"availableNow": True}).awaitTermination(60)
    query = start(df, tmp_path / "second")
    wait_for(lambda: 0 in log(tmp_path / "second", "commits"), query)
    query.stop()


def test_the_stages_of_a_batch_and_the_ways_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Both stages run at the same time in real-time mode, and one after the other in micro-batches; each row has its way."""
    mini = MiniSparkSession(spark, trace="rows")
    traces = {}
    for name, trigger in (("real", {"realTime": "4 seconds"}), ("micro", {"processingTime": "0 seconds"})):
        (tmp_path / name).mkdir()
        stream = LowLatencyMemoryStream(mini, "k string")
        query = start(stream.to_df().groupBy("k").count(), tmp_path / name, trigger)
        for key in "abca":
            stream.add_data([(key,)])
            wait_for(lambda: bool(rows_in(tmp_path / name / "rows")), query)  # noqa: B023
        wait_for(lambda: len(query.recentProgress) > 1 or name == "micro" and len(query.recentProgress) == 1, query)  # noqa: B023
        query.stop()
        traces[name] = query.trace
    real, micro = runs(traces["real"]), runs(traces["micro"])
    for run in real:
        first, second = run.stages
        assert len(first) == len(second) == 1 and first[0][1] < second[0][2] and second[0][1] < first[0][2]
        assert run.logged_ms is not None and run.logged_ms > max(first[0][2], second[0][2])
    for run in micro:
        first, second = run.stages
        assert max(end for _, _, end in first) <= min(begin for _, begin, _ in second)
        assert run.logged_ms is not None and run.logged_ms < min(begin for _, begin, _ in first)
    [*ways] = (way for run in real for way in run.ways)
    assert ways and all(way["read"] <= way["computed"] <= way["received"] <= way["written"] for way in ways if "written" in way)
    assert any("written" in way for way in ways)
    added, state = ([event.outputs for event in traces["real"].events if event.step == step] for step in ("addBatch", "stateOperator"))
    read = [row["k"] for one in added for rows in one.get("read", {}).values() for row in rows]
    written = [(row["k"], row["count"]) for one in added for row in one.get("rows", [])]
    assert sorted(read) == ["a", "a", "b", "c"] and sorted(written) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    counts = [{row["key"]["k"]: row["value"]["count"] for row in one["after"]} for one in state]
    assert counts[-1] == {"a": 2, "b": 1, "c": 1} and any(one["before"] != one["after"] for one in state)
    assert "Not recorded" not in traces["real"].to_html(tmp_path / "trace.html").read_text()
    svg = traces["real"].pipelines(traces["micro"]).svg
    assert "real-time mode: batch" in svg and "micro-batches: batch" in svg
