"""The testing kit: what a test does to a query does the same on both engines, and a wrong expectation fails."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream.testing import StreamTest, stream_test

EVENTS = {"events": "time timestamp, k string"}
engines = pytest.mark.parametrize("engine", ["model", "spark", "both"])


def counts(session: Any, words: DataFrame) -> DataFrame:
    return words.groupBy("word").count()


def windows(session: Any, events: DataFrame) -> DataFrame:
    counted = events.withWatermark("time", "10 minutes").groupBy(F.window("time", "5 minutes"), "k").count()
    return counted.select("window.start", "k", "count")


@engines
def test_a_first_test(spark: SparkSession, engine: str) -> None:
    """The types are those of the first rows."""
    with stream_test(spark, counts, output_mode="update", engine=engine) as t:
        t.add([{"word": "a"}, {"word": "b"}, {"word": "a"}])
        t.expect([{"word": "a", "count": 2}, ("b", 1)])
        t.expect_state(rows=2)
        t.expect_state(key={"word": "a"}, value={"count": 2})
        t.add([("a",)])
        t.add()
        t.expect([("a", 3)])
        t.expect([])
        t.expect_watermark(None)


@engines
def test_watermark_late_rows_and_a_crash_at_each_step_that_both_engines_show(spark: SparkSession, engine: str) -> None:
    with stream_test(spark, windows, engine=engine, schemas=EVENTS) as t:
        t.add([("2026-03-01 12:04", "a")])
        t.expect_watermark("2026-03-01 11:54:00")
        t.expect([])
        t.add("""
            time             | k
            2026-03-01 12:30 | b
        """)
        t.expect([("2026-03-01 12:00", "a", 1)])
        t.add([("2026-03-01 12:01", "late")])
        t.expect_late(1)
        t.expect_late(0)
        t.stop()
        t.add([("2026-03-01 12:31", "waits")])
        t.expect_state(rows=1)
        t.restart()
        t.expect_state(rows=2)
        for step in ("walCommit", "addBatch", "commitOffsets"):
            t.crash(step)
            t.add([("2026-03-01 12:31", step)])
            t.restart()
        t.add([("2026-03-01 13:31", "z")])
        t.expect([("2026-03-01 12:30", k, 1) for k in ("b", "waits", "walCommit", "addBatch", "commitOffsets")])


@pytest.mark.parametrize("step", ["latestOffset", "commitSource", "stateOperator", "finishTrigger"])
def test_the_model_can_die_at_its_other_steps(spark: SparkSession, step: str) -> None:
    with stream_test(spark, counts, "update", schemas={"words": "word string"}) as t:
        t.add(["a"])
        t.crash(step)
        t.add(["a", "b"])
        t.restart()
        t.expect([("a", 1), ("a", 2), ("b", 1)])


@engines
def test_a_folder_in_complete_mode(spark: SparkSession, engine: str) -> None:
    def lines(session: Any, folder: str) -> DataFrame:
        return session.readStream.text(folder).groupBy("value").count().orderBy("value")

    with stream_test(spark, lines, "complete", engine) as t:
        t.add(["a", "b"])
        t.add("a\nc")
        t.expect([("a", 2), ("b", 1), ("c", 1)])
        t.expect([("a", 2), ("b", 1), ("c", 1)])


@engines
def test_several_inputs_a_table_and_a_function_of_the_users(spark: SparkSession, engine: str) -> None:
    spark.createDataFrame([(1, "one"), (2, "two")], "id int, name string").createOrReplaceTempView("names")
    written: list[tuple[int, int]] = []

    def joined(session: Any, left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right, "id").join(session.table("names"), "id")

    types = {"left": "id int, l string", "right": "id int, r string"}
    on_batch = lambda data, batch_id: written.append((batch_id, data.count()))
    with stream_test(spark, joined, engine=engine, schemas=types, on_batch=on_batch, seed=7) as t:
        t.add(left=[(1, "x"), (3, "x")])
        t.expect([])
        t.add(right=[(1, "y")], left=[(2, "x")])
        t.expect([{"id": 1, "l": "x", "r": "y", "name": "one"}])
    assert sorted(written) == sorted([(0, 0), (1, 1)] * (2 if engine == "both" else 1))


@engines
def test_time_goes_on_when_the_test_says_so(spark: SparkSession, engine: str) -> None:
    def seen(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "said": ["gone"]})
        else:
            state.update((1,))
            state.setTimeoutDuration(60_000)
            yield pd.DataFrame({"k": [key[0]], "said": ["here"]})

    def present(session: Any, events: DataFrame) -> DataFrame:
        return events.groupBy("k").applyInPandasWithState(seen, "k string, said string", "n int", "update", "ProcessingTimeTimeout")

    with stream_test(spark, present, "update", engine, schemas={"events": "k string"}) as t:
        t.add(["a"])
        t.expect([("a", "here")])
        t.advance("50 seconds")
        t.expect([])
        t.advance("20 seconds")
        t.expect([("a", "gone")])


def test_a_source_of_the_model_has_the_time_of_the_test(spark: SparkSession) -> None:
    """Spark's own rate source has a clock of its own."""
    rate = lambda session: session.readStream.format("rate").option("rowsPerSecond", 2).load()
    with stream_test(spark, rate, now="2026-03-01 12:00") as t:
        t.advance("1 second")
        t.expect([("2026-03-01 12:00:00", 0), ("2026-03-01 12:00:00.5", 1)])


@engines
def test_errors_are_expected_by_their_condition(spark: SparkSession, engine: str) -> None:
    with stream_test(spark, lambda session, words: words.groupBy("word").count(), engine=engine) as t:
        t.add([{"word": "a"}])
        t.expect_error("STREAMING_OUTPUT_MODE")
    with stream_test(spark, lambda s, n: n.select((F.lit(1) / F.col("i")).alias("x")), engine=engine, schemas={"n": "i int"}) as t:
        t.add([1])
        t.add([0])
        t.expect_error("DIVIDE_BY_ZERO")
        t.restart(lambda s, n: n.select(F.when(F.col("i") != 0, 1 / F.col("i")).alias("x")))  # a better query
        t.expect([1.0, None])


def test_a_changed_query_is_refused(spark: SparkSession) -> None:
    with stream_test(spark, counts, "update", "both", schemas={"words": "word string"}) as t:
        t.add(["a"])
        t.restart(lambda session, words: words.groupBy(F.length("word").alias("word")).count())
        t.add(["b"])
        t.expect_error("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")


def test_the_code_of_the_page_runs(spark: SparkSession) -> None:
    page = Path(__file__).parents[2] / "docs" / "testing.md"
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)), names)
    tests = [function for name, function in names.items() if name.startswith("test_")]
    assert len(tests) == 4
    for test in tests:
        test(spark)


def test_the_message_of_the_page_is_what_a_failed_test_says(spark: SparkSession) -> None:
    with stream_test(spark, windows, schemas=EVENTS) as t:
        for minute, k in ("12:00", "a"), ("12:30", "b"), ("12:01", "late"):
            t.add([(f"2026-03-01 {minute}", k)])
        with pytest.raises(AssertionError) as failed:
            t.expect([("2026-03-01 12:00", "a", 2)])
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    shown = re.search(r"^(    on the model, .*?)^    the run repeated on the model, step by step", page, re.S | re.M)
    assert shown and shown.group(1).replace("\n    ", "\n").strip() == str(failed.value).partition("the run repeated on the model")[0].strip()


def test_the_plugin_runs_a_test_on_the_engine_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom pyspark.sql import SparkSession\n"
        "@pytest.fixture(scope='session')\ndef spark():\n    return SparkSession.builder.getOrCreate()\n"
    )
    (tmp_path / "test_it.py").write_text(
        "def test_it(stream_test, request):\n"
        "    with stream_test(lambda session, words: words.select('word')) as t:\n"
        "        t.add([{'word': 'b'}, {'word': 'a'}])\n"
        "        t.expect([('a',), ('b',)])\n"
        "        assert [query.engine for query in t._queries] == ['spark', 'model']\n"
    )
    options = ["-q", "-p", "minispark_stream.tools.testing.plugin", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--import-mode=importlib"]
    assert pytest.main([*options, "--stream-engine", "both", "--stream-seed", "7", str(tmp_path)]) == 0


def test_no_progress_bar_is_in_the_midst_of_what_pytest_prints(tmp_path: Path) -> None:
    """In a process of its own, whose Spark is that of the plugin. Spark draws a bar for a stage of more than half a second."""
    (tmp_path / "test_it.py").write_text(
        "import time\n"
        "def test_it(spark):\n"
        "    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda x: time.sleep(3)).count() == 2\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "minispark_stream.tools.testing.plugin", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, "--rootdir", str(tmp_path), str(tmp_path)], capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert ran.returncode == 0 and "1 passed" in ran.stdout
    assert "[Stage" not in ran.stdout + ran.stderr


def test_a_failure_shows_the_line_of_the_test(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom pyspark.sql import SparkSession\n"
        "@pytest.fixture(scope='session')\ndef spark():\n    return SparkSession.builder.getOrCreate()\n"
    )
    (tmp_path / "test_words.py").write_text(
        "def test_words(stream_test):\n"
        "    with stream_test(lambda session, words: words.select('word')) as t:\n"
        "        t.add([{'word': 'b'}])\n"
        "        t.expect([('a',)])\n"
    )
    options = ["-q", "-p", "minispark_stream.tools.testing.plugin", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--import-mode=importlib"]
    assert pytest.main([*options, str(tmp_path)]) == 1
    told = capfd.readouterr().out
    assert "test_words.py:4: AssertionError" in told and "missing" in told
    assert "kit.py" not in told and "def expect(" not in told and "_fail(" not in told


def wrong_rows(t: StreamTest) -> None:
    t.expect([("2026-03-01 12:00", "a", 2)])


@pytest.mark.parametrize(("expectation", "said"), [
    (wrong_rows, "the rows are not those that were expected"),
    (lambda t: t.expect_watermark("2026-03-01 12:21"), "the watermark is 2026-03-01 12:20:00, not 2026-03-01 12:21:00"),
    (lambda t: t.expect_state(rows=7), "the state has 1 row, not 7"),
    (lambda t: t.expect_state(key={"k": "q"}), "the state has no row"),
    (lambda t: t.expect_state(key={"k": "b"}, value={"count": 5}), "not {'count': 5}"),
    (lambda t: t.expect_late(0), "1 row dropped as late, not 0"),
    (lambda t: t.expect_error("DIVIDE_BY_ZERO"), "the query has not failed with DIVIDE_BY_ZERO"),
])  # fmt: skip
def test_a_wrong_expectation_fails(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, expectation: Any, said: str) -> None:
    """Each has its own words, what came of the rows, and a page."""
    if expectation is not wrong_rows:
        monkeypatch.setattr("minispark_stream.tools.testing.kit.failed", lambda query, words, replay: words)
    with pytest.raises(AssertionError) as failure, stream_test(spark, windows, schemas=EVENTS) as t:
        t.add([("2026-03-01 12:04", "a")])
        t.add([("2026-03-01 12:30", "b")])
        t.add([("2026-03-01 12:01", "late")])
        expectation(t)
    assert said in str(failure.value)
    if expectation is wrong_rows:
        text = re.sub(r" +", " ", str(failure.value))
        assert " missing start=2026-03-01 12:00:00 k=a count=2" in text and " came start=2026-03-01 12:00:00 k=a count=1" in text
        assert " dropped time=2026-03-01 12:01:00 k=late: its window ended 12:05:00" in text
        assert " waits for the watermark 2026-03-01 12:35:00" in text
        page = Path(str(failure.value).rsplit(": ", 1)[1])
        assert "late" in page.read_text(encoding="utf-8")


def test_an_error_or_a_crash_that_nobody_expects_fails(spark: SparkSession) -> None:
    with pytest.raises(AssertionError, match="DIVIDE_BY_ZERO"), stream_test(
        spark, lambda s, n: n.select(1 / F.col("i")), schemas={"n": "i int"}
    ) as t:
        t.add([0])
    with pytest.raises(AssertionError, match="should have been killed at walCommit"), stream_test(
        spark, counts, "update", schemas={"words": "word string"}
    ) as t:
        t.crash("walCommit")
        t.add()


def fails_in_batch_0(batch: DataFrame, number: int) -> None:
    raise OSError("the table is locked")


@pytest.mark.parametrize("engine", ["model", "spark"])
def test_a_failure_is_explained_by_the_run_itself(spark: SparkSession, engine: str) -> None:
    """The rows are those of a repeated run, which has no `on_batch`; what was committed is not."""
    with pytest.raises(AssertionError) as failure, stream_test(spark, windows, engine=engine, schemas=EVENTS, on_batch=fails_in_batch_0) as t:
        t.add([("2026-03-01 12:04", "a"), (None, "b")])
    said = re.sub(" +", " ", str(failure.value))
    assert "OSError: the table is locked" in said and "the run repeated on the model (without on_batch), step by step" in said
    assert " batches no batches committed; batch 0 has begun and is not committed" in said
    assert " left out time=null k=b: its event time is null, so it belongs to no window" in said


def test_a_row_whose_event_time_is_null_is_named(spark: SparkSession) -> None:
    with pytest.raises(AssertionError) as failure, stream_test(spark, windows, schemas=EVENTS) as t:
        t.add([{"time": None, "k": "b"}])
        t.expect([("2026-03-01 12:00", "b", 1)])
    assert "left out   time=null k=b: its event time is null" in str(failure.value)


def test_the_condition_of_another_error_is_named_once(spark: SparkSession) -> None:
    with pytest.raises(AssertionError) as failure, stream_test(spark, lambda s, n: n.select(1 / F.col("i")), schemas={"n": "i int"}) as t:
        t.add({"i": 0})
        t.expect_error("NO_SUCH_CONDITION")
    first = str(failure.value).split("\n")[0]
    assert first.startswith("on the model, the query has failed with DIVIDE_BY_ZERO / STREAM_FAILED / StreamingQueryException, not NO_SUCH_CONDITION: Division")
    assert first.count("DIVIDE_BY_ZERO") == 1


def returns_nothing(session: Any, words: DataFrame) -> Any:
    words.select("word")


def test_wrong_calls_say_what_is_wrong(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="engine must be one of model, spark, both"):
        stream_test(spark, counts, engine="flink")
    with pytest.raises(TypeError, match="unexpected keyword argument 'outputMode'"):
        stream_test(spark, counts, outputMode="update")
    nothing = stream_test(spark, counts, schemas={"words": "word string"})
    with stream_test(spark, counts) as t:
        for ask in (lambda: t.expect([]), lambda: t.expect_late(0), lambda: t.expect_state(rows=0), lambda: t.expect_watermark(None)):
            with pytest.raises(RuntimeError, match="add rows first, or give the types of all inputs as schemas="):
                ask()
    for call in (lambda: nothing.add(["a"]), lambda: nothing.expect([]), lambda: nothing.expect_error("X")):
        with pytest.raises(RuntimeError, match="with stream_test"):
            call()
    with pytest.raises(TypeError, match="returns_nothing must return a streaming DataFrame"):
        stream_test(spark, returns_nothing, schemas={"words": "word string"}).__enter__()
    with pytest.raises(ValueError, match="the types of right are not known"), stream_test(
        spark, lambda session, left, right: left.join(right, "id")
    ) as t:
        t.add(left=[{"id": 1}])
