"""The option asyncProgressTrackingEnabled: who may have it, which entries the logs get, and where a restart begins."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.prepared import confs_set

ON = {"asyncProgressTrackingEnabled": "true"}
INTERVAL = "asyncProgressTrackingCheckpointIntervalMs"
NEVER, ALWAYS = {INTERVAL: "600000"}, {INTERVAL: "0"}  # after the first batch of a run
ANY_SINK = {"_asyncProgressTrackingOverrideSinkSupportCheck": "true"}

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


@pytest.fixture
def engines(spark: Any, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    caplog.set_level(logging.CRITICAL, "minispark_stream")  # some queries fail on purpose
    return {"spark": spark, "model": MiniSparkSession(spark)}


class Run(NamedTuple):
    """What one run did: its batches, the entries of the logs after it, the names of the input files, and its error."""

    batches: list[tuple[int, list[str]]]
    offsets: list[int]
    commits: list[int]
    files: list[str]
    error: str | None


def add_files(folder: Path, count: int) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    for i in range(count):
        path = folder / "in" / f"{i}.txt"
        if not path.exists():
            path.write_text(f"{i}\n")
            os.utime(path, (1_700_000_000 + i,) * 2)
    return folder / "in"


def entries(folder: Path, log: str) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoint" / log).glob("[0-9]*"))


def words(error: BaseException | None) -> str | None:
    """The first line of an error, without the wrapper that Spark's thread leaves around it."""
    return None if error is None else str(error).split("\n")[0].removeprefix("org.apache.spark.SparkException: ")


def run(session: Any, folder: Path, files: int, options: Mapping[str, str], read: Read = lambda reader: reader) -> Run:
    """Read everything into a function, and stop."""
    batches: list[tuple[int, list[str]]] = []
    rows = read(session.readStream.option("maxFilesPerTrigger", 1)).text(str(add_files(folder, files)))
    writer = rows.writeStream.options(checkpointLocation=f"{folder}/checkpoint", **(ON | ANY_SINK | dict(options)))
    query = writer.foreachBatch(lambda df, i: batches.append((i, sorted(row.value for row in df.collect())))).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    left = sorted(path.name for path in (folder / "in").iterdir() if path.suffix == ".txt")
    return Run(batches, entries(folder, "offsets"), entries(folder, "commits"), left, words(query.exception()))


def refusal(session: Any, folder: Path, options: Mapping[str, str], write: Write, rows: Read = lambda rows: rows) -> tuple[str, str, str | None]:
    """Where a query is refused ("start" or "query"), by which class, in which words. ("runs", "", None) if it is not."""
    text = session.readStream.text(str(add_files(folder, 2)))
    try:
        query = write(rows(text).writeStream.options(checkpointLocation=f"{folder}/checkpoint", **options)).start()
    except Exception as e:
        return "start", type(e).__name__, words(e)
    try:
        query.processAllAvailable()
    except Exception:
        return "query", type(query.exception()).__name__, words(query.exception())
    finally:
        query.stop()
    return "runs", "", None


def on_both(engines: Mapping[str, Any], tmp_path: Path, ask: Callable[[Any, Path], Any]) -> Any:
    """The answer of both engines, which is the same."""
    told = {}
    for name, session in engines.items():
        (tmp_path / name).mkdir()
        told[name] = ask(session, tmp_path / name)
    assert told["model"] == told["spark"]
    return told["model"]


NOOP: Write = lambda writer: writer.format("noop")
REFUSED: dict[str, tuple[dict[str, str], Write, str]] = {
    "availableNow": (ON, lambda w: w.format("noop").trigger(availableNow=True), "cannot be used with AvailableNow trigger"),
    "once": (ON, lambda w: w.format("noop").trigger(once=True), "cannot be used with Once trigger"),
    "foreachBatch": (ON, lambda w: w.foreachBatch(lambda df, i: None), "Sink ForeachBatchSink does not support"),
    "the sink is checked before the trigger": (ON, lambda w: w.foreachBatch(lambda df, i: None).trigger(once=True), "Sink ForeachBatchSink"),
    "neither true nor false": ({"asyncProgressTrackingEnabled": "yes"}, NOOP, 'For input string: "yes"'),
    "with a space": ({"asyncProgressTrackingEnabled": "true "}, NOOP, 'For input string: "true "'),
    "an empty text": ({"asyncProgressTrackingEnabled": ""}, NOOP, 'For input string: ""'),
    "the check of the sink, neither true nor false": (ON | {next(iter(ANY_SINK)): "1"}, NOOP, 'For input string: "1"'),
    "an interval that is no number": (ON | {INTERVAL: "1s"}, NOOP, 'For input string: "1s"'),
    "an interval that is too large": (ON | {INTERVAL: "9" * 20}, NOOP, f'For input string: "{"9" * 20}"'),
    "the interval is read before the sink": (ON | {INTERVAL: ""}, lambda w: w.foreachBatch(lambda df, i: None), 'For input string: ""'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_start_refuses(engines: dict[str, Any], tmp_path: Path, name: str) -> None:
    options, write, expected = REFUSED[name]
    where, _, told = on_both(engines, tmp_path, lambda session, folder: refusal(session, folder, options, write))
    assert where == "start" and told is not None and expected in told


def test_start_refuses_files(engines: dict[str, Any], tmp_path: Path) -> None:
    def to_files(session: Any, folder: Path) -> Any:
        where, kind, told = refusal(session, folder, ON, lambda w: w.format("json").option("path", f"{folder}/out"))
        return where, kind, str(told).replace(str(folder), "")

    told = on_both(engines, tmp_path, to_files)
    assert told == ("start", "IllegalArgumentException", "Sink FileSink[file:/out] does not support async progress tracking")


def test_the_plan_is_checked_first(engines: dict[str, Any], tmp_path: Path) -> None:
    options = {"asyncProgressTrackingEnabled": "yes"}
    told = on_both(engines, tmp_path, lambda session, folder: refusal(session, folder, options, NOOP, lambda rows: rows.orderBy("value")))
    assert told[:2] == ("start", "AnalysisException")


@pytest.mark.parametrize(
    "stateful", [lambda rows: rows.dropDuplicates(), lambda rows: rows.groupBy("value").count(), lambda rows: rows.limit(1)],
    ids=["dropDuplicates", "count", "limit"],
)
def test_state_ends_the_query_in_its_first_batch(engines: dict[str, Any], tmp_path: Path, stateful: Read) -> None:
    def write(writer: Any) -> Any:
        return writer.format("noop").outputMode("append" if "limit" in str(stateful.__code__.co_names) else "update")

    where, _, told = on_both(engines, tmp_path, lambda session, folder: refusal(session, folder, ON, write, stateful))
    assert where == "query" and "Stateful streaming queries does not support async progress tracking at this moment." in str(told)


def test_without_the_cache_of_the_logs_no_query_runs(engines: dict[str, Any], tmp_path: Path, spark: Any) -> None:
    with confs_set(spark, {"spark.sql.streaming.metadataCache.enabled": "false"}):
        assert on_both(engines, tmp_path, lambda session, folder: refusal(session, folder, ON, NOOP))[0] == "query"


ACCEPTED: dict[str, tuple[dict[str, str], Write]] = {
    "noop": (ON, NOOP),
    "memory": (ON, lambda w: w.format("memory").queryName(f"q{time.monotonic_ns()}")),
    "foreach": (ON, lambda w: w.foreach(lambda row: None)),
    "with a watermark": (ON, NOOP),
    "a negative interval": (ON | {INTERVAL: "-1"}, NOOP),
    "an interval with a sign": (ON | {INTERVAL: "+5"}, NOOP),
    "off, with an interval that is no number": ({INTERVAL: "soon"}, NOOP),
    "spelt otherwise, it is another option": ({"asyncprogresstrackingenabled": "yes"}, NOOP),
    "off, with availableNow": ({"asyncProgressTrackingEnabled": "FALSE"}, lambda w: w.format("noop").trigger(availableNow=True)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_runs(engines: dict[str, Any], tmp_path: Path, name: str) -> None:
    options, write = ACCEPTED[name]

    def rows(text: Any) -> Any:
        return text.withColumn("ts", F.current_timestamp()).withWatermark("ts", "1 second") if "watermark" in name else text

    told = on_both(engines, tmp_path, lambda session, folder: refusal(session, folder, options, write, rows))
    assert told == ("runs", "", None)


def test_restarts_begin_where_the_logs_end(engines: dict[str, Any], tmp_path: Path) -> None:
    def runs(session: Any, folder: Path) -> list[Run]:
        return [run(session, folder, files, options) for files, options in ((3, NEVER), (5, NEVER), (6, ALWAYS), (8, NEVER))]

    first, second, third, fourth = on_both(engines, tmp_path, runs)
    assert first.batches == [(0, ["0"]), (1, ["1"]), (2, ["2"])] and (first.offsets, first.commits) == ([0], [0])
    assert second.batches == [(1, ["1", "2", "3"]), (2, ["4"])] and second.commits == [0, 1]  # rows 1 and 2 come twice
    assert third.batches == [(2, ["4", "5"])] and third.offsets == [0, 1, 2]
    assert fourth.batches == [(3, ["6"]), (4, ["7"])] and fourth.offsets == [0, 1, 2, 3]


def test_with_and_without_the_option_in_turns(engines: dict[str, Any], tmp_path: Path) -> None:
    off = {"asyncProgressTrackingEnabled": "false"}

    def runs(session: Any, folder: Path) -> list[Run]:
        return [run(session, folder, files, NEVER | options) for files, options in ((3, {}), (5, off), (7, {}))]

    assert [one.offsets for one in on_both(engines, tmp_path, runs)] == [[0], [0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    "offsets, commits, first",
    [
        ((0, 2, 5), (0, 2), (5, ["3", "4", "5"])),
        ((5,), (0, 1, 2, 3, 4), (5, ["0", "1", "2", "3", "4", "5"])),
        ((5,), (0, 1, 2, 3, 4, 5), (6, ["6"])),
        ((0,), (), (0, ["0"])),
    ],
)
def test_a_restart_over_gaps_in_the_logs(
    engines: dict[str, Any], tmp_path: Path, offsets: tuple[int, ...], commits: tuple[int, ...], first: tuple[int, list[str]]
) -> None:
    def runs(session: Any, folder: Path) -> Run:
        run(session, folder, 6, ALWAYS)
        for log, kept in (("offsets", offsets), ("commits", commits)):
            for i in set(range(6)) - set(kept):
                (folder / "checkpoint" / log / str(i)).unlink()
                (folder / "checkpoint" / log / f".{i}.crc").unlink(missing_ok=True)
        return run(session, folder, 8, NEVER)

    assert on_both(engines, tmp_path, runs).batches[0] == first


def test_a_file_is_archived_when_no_restart_can_need_it(engines: dict[str, Any], tmp_path: Path) -> None:
    def runs(session: Any, folder: Path) -> list[Run]:
        def archive(reader: Any) -> Any:
            return reader.options(cleanSource="archive", sourceArchiveDir=f"{folder}/archive")

        return [run(session, folder, files, NEVER, archive) for files in (4, 6)]

    first, second = on_both(engines, tmp_path, runs)
    assert first.files == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert second.files == ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt"]


def test_entries_to_keep_are_those_that_were_written(engines: dict[str, Any], tmp_path: Path, spark: Any) -> None:
    def runs(session: Any, folder: Path) -> list[list[int]]:
        return [run(session, folder, files, NEVER).offsets for files in (6, 7, 9, 14)]

    with confs_set(spark, {"spark.sql.streaming.minBatchesToRetain": "2", "spark.sql.streaming.asyncLogPurge.enabled": "false"}):
        assert on_both(engines, tmp_path, runs) == [[0], [0, 1], [1, 2], [2, 3]]


def test_the_commit_of_format_2_names_no_files(engines: dict[str, Any], tmp_path: Path, spark: Any) -> None:
    def runs(session: Any, folder: Path) -> list[str]:
        run(session, folder, 2, ALWAYS)
        return [(folder / "checkpoint" / "commits" / str(i)).read_text() for i in (0, 1)]

    with confs_set(spark, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}):
        assert on_both(engines, tmp_path, runs) == ['v2\n{"nextBatchWatermarkMs":0}'] * 2


def stopped_by(session: Any, folder: Path, do: Callable[[Path], object]) -> str | None:
    """What ends a query when something has been done to its checkpoint after its first batch."""
    rows = session.readStream.text(str(add_files(folder, 1)))
    query = rows.writeStream.format("noop").options(checkpointLocation=f"{folder}/checkpoint", **ON, **ALWAYS).start()
    query.processAllAvailable()
    until = time.monotonic() + 60
    while not entries(folder, "commits") and time.monotonic() < until:
        time.sleep(0.05)
    do(folder / "checkpoint")
    for files in range(2, 100):
        add_files(folder, files)
        try:
            query.processAllAvailable()
        except Exception:
            break
    query.stop()
    return str(words(query.exception())).replace(str(folder), "")


def another_run_has_written(log: str) -> Callable[[Path], object]:
    return lambda checkpoint: shutil.copy(checkpoint / log / "0", checkpoint / log / "1")


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_an_entry_that_another_run_has_written_ends_the_query(engines: dict[str, Any], tmp_path: Path, log: str) -> None:
    told = {}
    for name, session in engines.items():
        (tmp_path / name).mkdir()
        told[name] = stopped_by(session, tmp_path / name, another_run_has_written(log))
    assert all(str(one).startswith("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.") for one in told.values()), told


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_log_that_cannot_be_written_ends_the_query(engines: dict[str, Any], tmp_path: Path, log: str) -> None:
    def block(checkpoint: Path) -> None:
        shutil.rmtree(checkpoint / log)
        (checkpoint / log).write_text("a file")

    told = on_both(engines, tmp_path, lambda session, folder: stopped_by(session, folder, block))
    assert told.startswith(f"[STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.{log.removesuffix('s').upper()}_LOG] ")


def test_the_trace_says_which_entries_are_in_memory_only(engines: dict[str, Any], tmp_path: Path) -> None:
    rows = engines["model"].readStream.option("maxFilesPerTrigger", 1).text(str(add_files(tmp_path, 2)))
    query = rows.writeStream.format("noop").options(checkpointLocation=f"{tmp_path}/checkpoint", **ON, **NEVER).start()
    query.processAllAvailable()
    query.stop()
    text = query.trace.to_text()
    assert "offsets/0 written" in text and "commits/0 written" in text
    assert "offsets/1 kept in memory only" in text and "commits/1 kept in memory only" in text
