"""`explain_output` says what would have to arrive; this does it, on both engines, and rows come out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import MiniSparkSession, explain_output
from minispark_stream.tools.compare.prepared import confs_set

DELAYS = {"a": 2, "b": 10}  # minutes, by the name of the input


class Query(NamedTuple):
    """`feed`: time and key by input, all at once; `then`: what comes where the answer names no time, such as a partner."""

    build: Callable[..., DataFrame]
    feed: dict[str, list[str]]
    mode: str = "append"
    then: dict[str, list[str]] | None = None
    confs: dict[str, str] = {}


def rows(session: Any, folder: str, name: str) -> DataFrame:
    read = session.readStream.schema(f"t{name} timestamp, k{name} string").csv(f"{folder}/{name}")
    return read.withWatermark(f"t{name}", f"{DELAYS[name]} minutes")


def alike(session: Any, folder: str, name: str) -> DataFrame:
    read = session.readStream.schema("t timestamp, k string").csv(f"{folder}/{name}")
    return read.withWatermark("t", f"{DELAYS[name]} minutes")


def windows(session: Any, folder: str) -> DataFrame:
    return rows(session, folder, "a").groupBy(F.window("ta", "5 minutes")).count()


def union(session: Any, folder: str) -> DataFrame:
    return alike(session, folder, "a").union(alike(session, folder, "b")).groupBy(F.window("t", "5 minutes")).count()


def sessions(session: Any, folder: str) -> DataFrame:
    return rows(session, folder, "a").groupBy("ka", F.session_window("ta", "5 minutes")).count()


def joined(how: str) -> Callable[..., DataFrame]:
    def build(session: Any, folder: str) -> DataFrame:
        near = F.expr("ka = kb AND tb BETWEEN ta AND ta + INTERVAL 5 MINUTES")
        return rows(session, folder, "a").join(rows(session, folder, "b"), near, how)

    return build


def joined_and_counted(session: Any, folder: str) -> DataFrame:
    return joined("leftOuter")(session, folder).groupBy(F.window("ta", "5 minutes")).agg(F.count("kb"))


def longer_windows(session: Any, folder: str) -> DataFrame:
    return windows(session, folder).groupBy(F.window(F.window_time("window"), "15 minutes")).agg(F.sum("count"))


def distinct_and_counted(session: Any, folder: str) -> DataFrame:
    return rows(session, folder, "a").dropDuplicates(["ka", "ta"]).groupBy(F.window("ta", "5 minutes")).count()


class Alarm(StatefulProcessor):
    """Rows come out only because of a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        self.handle.registerTimer(int(max(frame["ta"].max() for frame in rows).timestamp() * 1000) + 60_000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield pd.DataFrame({"k": [key[0]]})


def alarms(session: Any, folder: str) -> DataFrame:
    return rows(session, folder, "a").groupBy("ka").transformWithStateInPandas(Alarm(), "k string", "append", "eventTime")


def timers(by: str) -> Callable[..., DataFrame]:
    """Rows come out only because of a timer."""
    def alarm(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"k": [key[0]]})
            return
        newest = max(frame["ta"].max() for frame in frames)
        state.update((1,))
        if by == "EventTimeTimeout":
            state.setTimeoutTimestamp(int(newest.timestamp() * 1000) + 60_000)
        else:
            state.setTimeoutDuration(1)

    return lambda session, folder: rows(session, folder, "a").groupBy("ka").applyInPandasWithState(alarm, "k string", "n int", "append", by)


ONE = {"a": ["12:01,x", "12:21,y"]}
ROCKS_DB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
}
TWO = {"a": ["12:01,x", "12:20,y"], "b": ["12:02,x", "12:21,z"]}
QUERIES = {
    "windows": Query(windows, ONE),
    "update": Query(windows, ONE, "update", {"a": ["12:22,z"]}),
    "union": Query(union, TWO),
    "sessions": Query(sessions, ONE),
    "distinct": Query(lambda s, d: rows(s, d, "a").dropDuplicates(["ka", "ta"]), ONE, then={"a": ["12:22,new"]}),
    "within": Query(lambda s, d: rows(s, d, "a").dropDuplicatesWithinWatermark(["ka"]), ONE, then={"a": ["12:22,new"]}),
    "inner join": Query(joined("inner"), TWO, then={"b": ["12:22,y"]}),
    "left join": Query(joined("leftOuter"), TWO, then={"b": ["12:22,y"]}),
    "left join, counted": Query(joined_and_counted, TWO, then={"a": ["12:59,q"], "b": ["12:59,q"]}),
    "right join": Query(joined("rightOuter"), TWO, then={"a": ["12:20,z"]}),
    "full join": Query(joined("fullOuter"), TWO, then={"b": ["12:22,y"]}),
    "semi join": Query(joined("leftSemi"), TWO, then={"b": ["12:22,y"]}),
    "windows, then longer ones": Query(longer_windows, ONE, then={"a": ["12:59,q"]}),
    "distinct, then windows": Query(distinct_and_counted, ONE, then={"a": ["12:59,q"]}),
    "sessions, complete": Query(sessions, ONE, "complete", {"a": ["12:22,z"]}),
    "timers of transformWithState": Query(alarms, ONE, then={"a": ["12:40,new"]}, confs=ROCKS_DB),
    "complete": Query(windows, ONE, "complete", {"a": ["12:22,z"]}),
    "event-time timers": Query(timers("EventTimeTimeout"), ONE, then={"a": ["12:40,new"]}),
    "processing-time timers": Query(  # by themselves, batches would follow each other for ever
        timers("ProcessingTimeTimeout"), ONE, then={"a": ["12:40,new"]}, confs={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    ),
}


def into(out: list[Any]) -> Callable[[DataFrame, int], None]:
    return lambda batch, _: out.extend(batch.collect())


def put(folder: Path, number: int, step: dict[str, list[str]]) -> None:
    hidden = [(folder / name / f".{number}", folder / name / f"{number}.csv") for name in step]
    for (path, _), lines in zip(hidden, step.values()):
        path.write_text("".join(f"2024-01-01 {line}\n" for line in lines))
    for path, shown in hidden:
        path.rename(shown)


def advised(answer: Any) -> dict[str, datetime]:
    """Input -> the event time that an answer asks for there; "" where it names no input."""
    said = dict(answer.lines).get("would help", "")
    found = re.findall(r"of (\d{4}-\S+ [\d:.]+)(?: or later| and the delay of its)(?: on the input FileStreamSource\[(\w)\])?", said)
    return {name: datetime.fromisoformat(time) for time, name in found}


def asked_for(query: Query, answer: Any) -> dict[str, list[str]]:
    """What an answer asks for, as a step of the feed."""
    times = advised(answer)
    if not times:
        assert query.then is not None, f"nothing is advised: {answer}"
        assert any(word in dict(answer.lines)["waits for"] for word in ("new rows", "new key", "partner")) or "well after" in str(answer)
        return query.then
    of_input = dict.fromkeys(query.feed, times[""]) if "" in times else times
    return {name: [f"{time:%H:%M:%S.%f},later"] for name, time in of_input.items()}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_come_out_when_what_is_advised_arrives(spark: SparkSession, mini: MiniSparkSession, name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    for engine, session in (("spark", spark), ("model", mini)):
        folder, checkpoint, out = tmp_path / engine, str(tmp_path / f"checkpoint-{engine}"), list[Any]()
        for one in query.feed:
            (folder / one).mkdir(parents=True)
        put(folder, 0, query.feed)
        writer = query.build(session, str(folder)).writeStream.outputMode(query.mode).option("checkpointLocation", checkpoint)
        with confs_set(session, {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "200ms", **query.confs}):
            running = writer.foreachBatch(into(out)).start()
        try:
            running.processAllAvailable()
            before, answer, alone = len(out), explain_output(running), explain_output(checkpoint)
            for number in (1, 2):
                said = explain_output(running)
                put(folder, number, asked_for(query, said))
                running.processAllAvailable()
                if len(out) > before or "passes it on" not in str(said):
                    break
            assert len(out) > before, f"{engine}: {answer}"
        finally:
            running.stop()
        from_the_checkpoint = advised(alone)
        if name == "union":  # which delay is whose is not in the checkpoint
            assert {time - timedelta(minutes=DELAYS[one]) for one, time in advised(answer).items()} == {from_the_checkpoint[""]}, alone
        elif query.then is None and "join" not in name:
            assert from_the_checkpoint == advised(answer), alone


def plain_rows(session: Any, folder: str, **options: Any) -> DataFrame:
    return session.readStream.schema("t timestamp, k string").options(**options).csv(f"{folder}/a")


def nothing(batch: DataFrame, number: int) -> None:
    """A function of foreachBatch that reads its batch three times."""
    for _ in range(3):
        batch.collect()


FUTURE = ["12:01,x", "12:21,y"]
SILENT: dict[str, tuple[Callable[..., DataFrame], list[str], str, str]] = {  # query, feed, topic and what it says
    "the reader filters": (lambda s, d: plain_rows(s, d).where("k = 'q'"), FUTURE, "no input", "or the reader has left out the rows that do not pass Filter (k = q)"),
    "a filter above": (lambda s, d: windows(s, d).where("count > 9"), FUTURE, "would help", "emits, but only what passes Filter (count > cast(9 as bigint))"),
    "a table has no partner": (lambda s, d: plain_rows(s, d).join(s.range(0).selectExpr("'q' AS k"), "k"), FUTURE, "on the way", "Join Inner, (k = k)"),
    "limit": (lambda s, d: plain_rows(s, d).limit(1), FUTURE, "waits for", "nothing: the limit of 1 is used up"),
    "a time of the future": (windows, ["12:01,x", "12:21,y", "not a time,z"], "too far", "2926-01-01 11:58:00, is later than the clock, 20"),
    "null": (windows, ["not a time,z"], "no event time", "ta is null in every row that was measured"),
    "three times": (plain_rows, FUTURE, "batches", "6 rows in (each counts again whenever the function of foreachBatch reads its batch)"),
    "no file fits": (lambda s, d: plain_rows(s, f"{d}/*.json"), FUTURE, "not read yet", "/*.json/a is a pattern, and no file fits it"),
    "not listed": (lambda s, d: plain_rows(s, d, pathGlobFilter="*.json"), FUTURE, "not read yet", "1 file in "),
}


@pytest.mark.parametrize("name", SILENT)
def test_why_nothing_comes_out_is_not_guessed(spark: SparkSession, mini: MiniSparkSession, name: str, tmp_path: Path) -> None:
    build, feed, topic, said = SILENT[name]
    for engine, session in (("spark", spark), ("model", mini)):
        folder = tmp_path / engine
        (folder / "a").mkdir(parents=True)
        put(folder, 0, {"a": feed})
        if "future" in name:
            (folder / "a" / "1.csv").write_text("2926-01-01 12:00,z\n")
        with confs_set(session, {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "50ms"}):
            running = build(session, str(folder)).writeStream.foreachBatch(nothing).start()
        try:
            running.processAllAvailable()
            answer = dict(explain_output(running).lines)
            assert said in answer[topic], f"{engine}: {answer}"
            assert ("would help" in answer) == (name == "a filter above"), answer
        finally:
            running.stop()
        ended = dict(explain_output(running).lines)  # its temporary checkpoint is gone
        assert ended["query"] == "it has ended, so nothing comes out until it is started again"
        assert ("in stateStoreSave" in ended["held"]) == (build is windows or name == "a filter above"), ended


def test_what_has_arrived_and_waits_is_said(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    for engine, session in (("spark", spark), ("model", mini)):
        for number in range(3):
            (tmp_path / engine / "a").mkdir(parents=True, exist_ok=True)
            put(tmp_path / engine, number, {"a": ONE["a"]})
        writer = plain_rows(session, str(tmp_path / engine), maxFilesPerTrigger=1).writeStream.trigger(processingTime="1 hour")
        running = writer.format("noop").start()
        try:
            deadline = time.monotonic() + 120
            while not (running.recentProgress and running.status["message"] == "Waiting for next trigger"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            answer = dict(explain_output(running).lines)
            assert answer["not read yet"].startswith(f"2 files in {tmp_path}/{engine}/a that no batch has read so far"), answer
            assert answer["next batch"].startswith("the trigger lets one begin every 1 h, the last one began 20"), answer
        finally:
            running.stop()


def test_one_row_on_the_input_that_is_behind_is_enough(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path) -> None:
    for engine, session in (("spark", spark), ("model", mini)):
        for name in "ab":
            (tmp_path / engine / name).mkdir(parents=True)
        put(tmp_path / engine, 0, {"a": ["12:20,x"], "b": ["12:01,y"]})
        out = list[Any]()
        with confs_set(session, {"spark.sql.shuffle.partitions": "1", "spark.sql.streaming.pollingDelay": "200ms"}):
            running = union(session, str(tmp_path / engine)).writeStream.foreachBatch(into(out)).start()
        try:
            running.processAllAvailable()
            answer = explain_output(running)
            assert "FileStreamSource[b]: its own is 11:51:00" in dict(answer.lines)["held back by"], f"{engine}: {answer}"
            assert list(advised(answer)) == ["b"], f"{engine}: {answer}"
            put(tmp_path / engine, 1, {"b": [f"{advised(answer)['b']:%H:%M:%S.%f},later"]})
            running.processAllAvailable()
            assert out, f"{engine}: {answer}"
        finally:
            running.stop()
