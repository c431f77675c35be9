"""transformWithState on a store with column families: state variables, timers and ttl do the same on both engines.

The conf asks for Spark's RocksDB provider, and for its changelogs, which are compared as all else is. Times are minutes after 12:00; `at("ann", 3)` is a click of Ann at 12:03. The watermark runs 10 minutes behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.comparison import Comparison
from tests.conformance.conftest import Compare

pytest.importorskip("google.protobuf", reason="Spark's own workers for transformWithState want it")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SCHEMA = "ts timestamp, user string, n int"
NOON = datetime(2024, 1, 1, 12)
NOON_MS = 1704110400000
ONCE: Any = {"trigger": {"once": True}, "confs": {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}}
TWO_PARTITIONS: Any = {"confs": {"spark.sql.shuffle.partitions": "2"}}


def at(user: str | None, minute: float = 0, n: int | None = 1) -> str:
    click = {"user": user, "n": n, "ts": str(NOON + timedelta(minutes=minute))}
    return json.dumps({name: value for name, value in click.items() if value is not None})


@pytest.fixture
def compare(compare: Compare) -> Compare:
    def run(build: Callable[..., Any], feed: Any, *, fails: bool = False, confs: Any = None, **arguments: Any) -> Comparison:
        families = {PROVIDER: ROCKS_DB, CHANGELOGS: "true", "spark.sql.shuffle.partitions": "1"}
        result = compare(build, feed, confs=families | (confs or {}), **{"output_mode": "update"} | arguments)
        assert result.model.condition == ("STREAM_FAILED" if fails else None)
        return result

    return run


class Processor(StatefulProcessor):
    """One that declares what its subclass uses; what it emits is text: who, and what there is to tell."""

    frames = True

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.declare(handle)

    def declare(self, handle: StatefulProcessorHandle) -> None: ...

    def out(self, key: Any, *told: Any) -> Any:
        if self.frames:
            return pd.DataFrame({"user": [key[0]], "told": [repr(told)]})
        return Row(user=key[0], told=repr(told))

    def rows(self, rows: Iterator[Any]) -> list[Any]:
        """The numbers of a key's rows."""
        return [n for frame in rows for n in frame["n"]] if self.frames else [row.n for row in rows]

    def close(self) -> None: ...


def query(
    processor: StatefulProcessor, *keys: Any, time: str = "none", mode: str = "update", initial: Any = None,
    watermark: bool = False, output: str = "user string, told string",
) -> Callable[[Any, str], DataFrame]:
    """The same query for frames or Rows; `initial` are the rows of the initial state."""

    def build(session: Any, input_dir: str) -> DataFrame:
        stream = session.readStream.schema(SCHEMA).json(input_dir)
        grouped = (stream.withWatermark("ts", "10 minutes") if watermark or time == "eventtime" else stream).groupBy(*(keys or ["user"]))
        start = session.createDataFrame(initial, "user string, n int").groupBy("user") if initial else None
        make = grouped.transformWithStateInPandas if getattr(processor, "frames", True) else grouped.transformWithState
        return make(processor, output, mode, time, start)

    return build


def told(result: Any) -> list[list[tuple[Any, ...]]]:
    return [sorted(batch.rows, key=repr) for batch in result.model.batches]


# --- variables ----------------------------------------------------------------------------------------------------


class Values(Processor):
    def declare(self, handle):
        self.total = handle.getValueState("total", "total long, last string")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        before, there = self.total.get(), self.total.exists()
        numbers = self.rows(rows)
        if 0 in numbers:
            self.total.clear()
        else:
            self.total.update(((before[0] if before else 0) + sum(numbers), None if 5 in numbers else "x"))
        yield self.out(key, before, there, self.total.get(), self.total.exists(), timerValues.getCurrentWatermarkInMs())


class ValuesOfRows(Values):
    frames = False


@pytest.mark.parametrize("processor", [Values(), ValuesOfRows()])
def test_a_value_for_each_key(compare, processor):
    result = compare(
        query(processor),
        [[at("ann"), at("ann", 0, 2), at("bob"), at(None)], [at("ann", 1, 5)], [at("ann", 2, 0), at("bob"), at(None, 3, 7)]],
        **TWO_PARTITIONS,
    )
    assert ("ann", "((8, None), True, None, False, -1)") in told(result)[2]


class Commented(Values):
    def declare(self, handle):
        self.total = handle.getValueState("total", "total long COMMENT 'so far', last string")


def test_a_comment_is_no_part_of_the_schema_of_a_variable(compare):
    compare(query(Commented()), [[at("ann")], [at("ann")]], restart_after=[0])


class Lists(Processor):
    def declare(self, handle):
        self.seen = handle.getListState("seen", "n int, s string")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        before, there = list(self.seen.get()), self.seen.exists()
        for n in self.rows(rows):
            if n == 0:
                self.seen.clear()
            elif n < 0:
                self.seen.put([(int(n), "put"), (int(n) - 1, None)])
            elif n > 9:
                self.seen.appendList([(int(n), "list"), (int(n) + 1, "list")])
            else:
                self.seen.appendValue((int(n), "one"))
        yield self.out(key, before, there, list(self.seen.get()))


class ListsOfRows(Lists):
    frames = False


def test_a_list_for_each_key(compare):
    compare(
        query(ListsOfRows()),
        [
            [at("ann", 0, 1), at("ann", 0, 2), at("bob", 0, 10)], [at("ann", 0, 3), at("bob", 0, -4), at("bob", 0, 4)],
            [at("ann", 0, 0), at("bob", 0, 20)], [at("ann", 0, 6), at("bob", 0, 0), at("bob", 0, 1)],
        ],
    )


class Maps(Processor):
    def declare(self, handle):
        self.pages = handle.getMapState("pages", "page string, id int", "count int, half double")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        there = self.pages.exists()
        for n in self.rows(rows):
            page = (f"page {abs(n)}"[: 4 + abs(n)], int(abs(n)))
            if n == 0:
                self.pages.clear()
            elif n < 0:
                self.pages.removeKey(page)
            else:
                count = self.pages.getValue(page)[0] if self.pages.containsKey(page) else 0
                self.pages.updateValue(page, (count + 1, n / 2))
        yield self.out(
            key, there, list(self.pages.iterator()), list(self.pages.keys()), list(self.pages.values()),
            self.pages.getValue(("none", 1)), self.pages.exists(),
        )


def test_a_map_for_each_key(compare):
    numbers = [3, 1, 1, 300, 12, 2]
    compare(
        query(Maps()),
        [
            [*(at("ann", 0, n) for n in numbers), at("bob", 0, 1)], [at("ann", 0, -1), at("ann", 0, -7), at("bob", 0, 3)],
            [at("ann", 0, 0), at("bob", 0, -1)], [at("ann", 0, 4)],
        ],
    )


class Types(Processor):
    def declare(self, handle):
        self.state = handle.getValueState(
            "state", "t timestamp, d date, m decimal(10,2), xs array<int>, s struct<a:int,b:string>, b boolean, y binary, f float"
        )

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        before = self.state.get()
        frame = pd.concat(list(rows))
        self.state.update((frame["ts"].iloc[0], NOON.date(), None, [1, None], (3, "x"), frame["n"].iloc[0] > 1, b"ab", 0.5))
        yield pd.DataFrame({"user": [repr(key)], "told": [repr((before, list(frame.columns), [str(t) for t in frame.dtypes]))]})


def test_values_and_keys_of_many_types(compare):
    feed = [[at("ann", 3), at("bob", 9, 2), at(None, 1, None)], [at("ann", 3), at("bob", 9), at(None, 1, 3)]]
    compare(query(Types(), "user", "n", "ts"), feed, **TWO_PARTITIONS)


class Two(Processor):
    """Several variables; the schema as an object."""

    def declare(self, handle):
        from pyspark.sql.types import LongType, StructType

        self.count = handle.getValueState("count", StructType().add("n", LongType()))
        self.seen = handle.getListState("seen", StructType().add("n", LongType()))

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        numbers = self.rows(rows)
        self.count.update(((self.count.get() or (0,))[0] + len(numbers),))
        self.seen.appendList([(n,) for n in numbers])
        yield self.out(key, self.count.get(), list(self.seen.get()))


class Three(Two):
    """What Two has, less a variable, more another."""

    def declare(self, handle):
        super().declare(handle)
        handle.deleteIfExists("count")
        self.count = handle.getValueState("newcount", "n long")


def test_a_restart_in_the_middle(compare):
    feed = [[at("ann"), at("bob")], [at("ann", 0, 2)], [at("ann", 0, 3), at("bob", 0, 3)]]
    result = compare(query(Two()), feed, restart_after=[1])
    assert told(result)[2] == [("ann", "((3,), [(1,), (2,), (3,)])"), ("bob", "((2,), [(1,), (3,)])")]


def test_another_processor_goes_on_with_the_state(compare):
    runs = {"n": 0}

    def build(session: Any, input_dir: str) -> DataFrame:
        runs["n"] += 1
        return query(Two() if runs["n"] % 2 else Three())(session, input_dir)

    result = compare(build, [[at("ann"), at("bob")], [at("ann")]], restart_after=[0])
    assert told(result)[1] == [("ann", "((1,), [(1,), (1,)])")]


class Deleted(Processor):
    """Uses variables that it has declared and deleted: what each action says."""

    def declare(self, handle):
        self.value = handle.getValueState("value", "n long")
        self.list = handle.getListState("list", "n long")
        self.map = handle.getMapState("map", "k long", "n long")
        for name in ("value", "list", "map"):
            handle.deleteIfExists(name)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        self.rows(rows)
        value, one, two = self.value, self.list, self.map
        actions = [
            value.exists, value.get, lambda: value.update((1,)), value.clear,
            one.exists, lambda: list(one.get()), lambda: one.put([(1,)]), lambda: one.appendValue((1,)), lambda: one.appendList([(1,)]),
            one.clear, two.exists, lambda: two.getValue((1,)), lambda: two.containsKey((1,)), lambda: two.updateValue((1,), (1,)),
            lambda: list(two.iterator()), lambda: list(two.keys()), lambda: list(two.values()), lambda: two.removeKey((1,)), two.clear,
        ]
        yield self.out(key, *map(self.attempt, actions))

    def attempt(self, action):
        try:
            return action()
        except Exception as e:
            return f"{type(e).__name__}: {e}"


def test_a_variable_that_was_deleted_says_what_cannot_be_done(compare):
    result = compare(query(Deleted()), [[at("ann")]])
    [(_, said)] = told(result)[0]
    assert "Error checking value state exists: Value state value is not initialized." in said


class OtherType(Processor):
    def declare(self, handle):
        self.count = handle.getValueState("count", "n string")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        yield self.out(key, self.count.get())


class OtherKind(OtherType):
    def declare(self, handle):
        self.count = handle.getListState("count", "n long")


@pytest.mark.parametrize("other", [OtherType(), OtherKind()])
def test_a_variable_cannot_become_another_one(compare, other):
    runs = {"n": 0}

    def build(session: Any, input_dir: str) -> DataFrame:
        runs["n"] += 1
        return query(Two() if runs["n"] % 2 else other)(session, input_dir)

    compare(build, [[at("ann")], [at("ann")]], restart_after=[0], fails=True)


# --- timers -------------------------------------------------------------------------------------------------------


class Timers(Processor):
    """A timer at the minute that a row says; a negative minute deletes the timer; 99: all that there are."""

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        for n in self.rows(rows):
            if n == 99:
                for timer in list(self.handle.listTimers()):
                    self.handle.deleteTimer(timer)
            elif n < 0:
                self.handle.deleteTimer(NOON_MS + int(-n) * 60_000)
            else:
                self.handle.registerTimer(NOON_MS + int(n) * 60_000)
        yield self.out(key, list(self.handle.listTimers()), timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
        minute = (expiredTimerInfo.getExpiryTimeInMs() - NOON_MS) // 60_000
        if minute == 5:
            self.handle.registerTimer(expiredTimerInfo.getExpiryTimeInMs() + 60_000)
            self.handle.registerTimer(NOON_MS + 24 * 60_000)
        yield self.out(
            key, minute, type(key).__name__, list(self.handle.listTimers()), timerValues.getCurrentWatermarkInMs()
        )


class TimersOfRows(Timers):
    frames = False


TIMED = [
    [at("ann", 0, 5), at("ann", 1, 30), at("bob", 2, 7), at("eve", 0, 300)], [at("ann", 18, 6), at("bob", 18, -7)],
    [at("eve", 2, 400), at("eve", 45, 99), at("bob", 40, 20)], [at("ann", 400, 1)],
]


def test_event_time_timers_with_batches_without_data(compare):
    result = compare(query(Timers(), time="eventtime"), TIMED)
    assert any(not b.progress["numInputRows"] and b.rows for b in result.model.batches)
    assert any(b.progress["stateOperators"][0]["numRowsDroppedByWatermark"] for b in result.model.batches)


def test_event_time_timers_after_a_restart(compare):
    compare(query(TimersOfRows(), time="eventtime", mode="append"), TIMED, restart_after=[1], output_mode="append")


class Clock(Processor):
    """Timers that are due at once, at the latest in the next batch, or never; the time itself is not told."""

    def declare(self, handle):
        self.fired = handle.getListState("fired", "what string")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        now = timerValues.getCurrentProcessingTimeInMs()
        for n in self.rows(rows):
            self.handle.registerTimer(now + int(n))
        yield self.out(key, list(self.fired.get()), now > NOON_MS, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
        late = expiredTimerInfo.getExpiryTimeInMs() <= timerValues.getCurrentProcessingTimeInMs()
        self.fired.appendValue((f"late {late}",))
        yield self.out(key, "fired", late, len(list(self.handle.listTimers())))


def test_processing_time_timers(compare):
    week = 7 * 24 * 3_600_000
    result = compare(
        query(Clock(), time="processingtime"),
        [[at("ann", 0, 0), at("bob", 0, 1), at("eve", 0, week)], [at("ann", 0, week), at("dan", 0, -5)], [at("bob", 0, week)]],
        **ONCE,
    )
    assert [sum("fired" in row[1] for row in rows) for rows in told(result)] == [1, 2, 0]


# --- ttl ----------------------------------------------------------------------------------------------------------


class Ttl(Processor):
    """Variables that expire soon (before the next batch) and ones that do not."""

    def declare(self, handle):
        day = 24 * 3_600_000
        self.short = handle.getValueState("short", "n int", 1)
        self.long = handle.getValueState("long", "n int", day)
        self.list = handle.getListState("list", "n int", 1)
        self.days = handle.getListState("days", "n int", day)
        self.map = handle.getMapState("map", "k string", "n int", 1)
        self.dict = handle.getMapState("dict", "k string", "n int", day)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        values, lists, maps = (self.short, self.long), (self.list, self.days), (self.map, self.dict)
        before = [s.exists() for s in (*values, *lists, *maps)], [v.get() for v in values], [list(s.get()) for s in lists]
        pairs = [list(m.iterator()) for m in maps], [m.getValue(("a",)) for m in maps], [m.containsKey(("b",)) for m in maps]
        for n in self.rows(rows):
            for v in values:
                v.update((int(n),))
            for s in lists:
                s.appendList([(int(n),), (int(n) + 1,)])
            for m in maps:
                m.updateValue(("a" if n > 1 else "b",), (int(n),))
        after = [v.get() for v in values], [list(s.get()) for s in lists], [list(m.keys()) for m in maps]
        yield self.out(key, before, pairs, after)


def test_ttl(compare):
    feed = [[at("ann", 0, 1), at("bob", 0, 2)], [at("ann", 0, 2)], [at("eve", 0, 1), at("ann", 0, 3)]]
    result = compare(query(Ttl(), time="processingtime"), feed, **ONCE)
    assert "[(1,), (2,)]" in told(result)[1][0][1]


class Rewritten(Processor):
    """Values that are written twice (1), cleared (0), or of which a key is removed (-1), with and without something there."""

    def declare(self, handle):
        self.kept = [handle.getValueState("kept", "n int", 1), handle.getMapState("map", "k string", "n int", 1)]

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        value, pairs = self.kept
        for n in self.rows(rows):
            if n == 0:
                value.clear()
                pairs.clear()
            elif n < 0:
                pairs.removeKey(("a",))
            else:
                for _ in range(2):
                    value.update((int(n),))
                    pairs.updateValue(("a",), (int(n),))
        yield self.out(key, value.get(), list(pairs.iterator()))


def test_what_counts_as_updated_and_removed_with_a_ttl(compare):
    """A removed key leaves its time of expiry behind, which removes a row more when it has come."""
    feed = [
        [at("ann", 0, 1), at("ann", 0, 1), at("ann", 0, 2), at("bob", 0, 0), at("eve", 0, 1)],
        [at("ann", 0, -1), at("bob", 0, -1), at("eve", 0, 0), at("zoe", 0, 1), at("zoe", 0, -1), at("zoe", 0, 3)],
        [at("joe", 0, 1)], [at("ann", 0, 5)],
    ]
    result = compare(query(Rewritten(), time="processingtime"), feed, **ONCE)
    [state] = result.spark.batches[1].progress["stateOperators"]
    assert state["customMetrics"]["numValuesRemovedDueToTTLExpiry"] == 2


class TtlWithoutTime(Processor):
    def declare(self, handle):
        handle.getValueState("short", "n int", 1000)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        yield self.out(key)


# --- initial state ------------------------------------------------------------------------------------------------


class Started(Values):
    def handleInitialState(self, key, initialState, timerValues):  # noqa: N802, N803
        numbers = list(initialState["n"]) if self.frames else [initialState.n]
        before = self.total.get()
        self.total.update(((before[0] if before else 0) + sum(int(n) for n in numbers), repr((key, numbers))))


class StartedOfRows(Started):
    frames = False


@pytest.mark.parametrize("processor", [Started(), StartedOfRows()])
def test_an_initial_state(compare, processor):
    start = [("ann", 100), ("eve", 300), ("ann", 50), ("zoe", 7)]
    result = compare(
        query(processor, initial=start), [[at("ann"), at("bob")], [at("eve"), at("bob", 0, 2)], [at("zoe")]], restart_after=[1],
        **TWO_PARTITIONS,
    )
    assert told(result)[0][0][1].startswith("((150, ")


def test_an_initial_state_with_timers(compare):
    class StartedTimers(Timers):
        def handleInitialState(self, key, initialState, timerValues):  # noqa: N802, N803
            self.handle.registerTimer(NOON_MS + 60_000 * int(initialState["n"].iloc[0]))

    compare(query(StartedTimers(), time="eventtime", initial=[("ann", 3), ("zoe", 5)]), TIMED[:2])


class SizesOfFrames(Processor):
    """How many rows the frames have. Nothing of it is state: the processor has no variables."""

    def init(self, handle):
        self.started: dict[Any, list[int]] = {}

    def handleInitialState(self, key, initialState, timerValues):  # noqa: N802, N803
        self.started.setdefault(key, []).append(len(initialState))

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        yield self.out(key, self.started.pop(key, []), [(len(frame), str(frame["n"].dtype)) for frame in rows])


@pytest.mark.parametrize(("what", "most", "of_bob"), [
    ("Records", "2", "([1], [(1, 'float64'), (2, 'float64'), (2, 'int64')])"), ("Bytes", "100", "([1], [(3, 'float64'), (2, 'float64')])"),
])
def test_frames_are_cut_by_their_rows_and_by_their_bytes(compare, what, most, of_bob):
    """The rows of the initial state are sent first; a null makes floats of the integers that are sent with it."""
    start = [("ann", 1), ("ann", 2), ("ann", 3), ("bob", 4)]
    clicks = [at("bob"), at("bob", n=None), at("bob"), at("bob"), at("bob"), at("cid"), at("cid"), at("cid"), at("dan")]
    result = compare(
        query(SizesOfFrames(), initial=start), [clicks, clicks],
        confs={f"spark.sql.execution.arrow.max{what}PerBatch": most},
    )
    assert dict(told(result)[0])["bob"] == of_bob


# --- what comes out, and what goes wrong --------------------------------------------------------------------------


class Emits(Processor):
    """Emits event times; the second column carries the watermark on."""

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        for frame in rows:
            yield pd.DataFrame({"user": frame["user"], "at": frame["ts"] + pd.Timedelta(minutes=1)})


def test_the_output_may_carry_the_watermark(compare):
    def build(session: Any, input_dir: str) -> DataFrame:
        stream = session.readStream.schema(SCHEMA).json(input_dir).withWatermark("ts", "10 minutes").groupBy("user")
        return stream.transformWithStateInPandas(
            Emits(), "user string, at timestamp", "append", "eventtime", None, "at"
        )

    compare(build, [[at("ann", 0), at("bob", 4)], [at("bob", 3), at("bob", 41)]], output_mode="append")


def test_rows_that_the_operators_above_would_not_see_stop_the_query(compare):
    def build(session: Any, input_dir: str) -> DataFrame:
        stream = session.readStream.schema(SCHEMA).json(input_dir).withWatermark("ts", "10 minutes").groupBy("user")
        return stream.transformWithStateInPandas(
            EmitsLate(), "user string, at timestamp", "append", "eventtime", None, "at"
        )

    compare(build, [[at("ann", 0)], [at("ann", 40)], [at("bob", 41)], [at("bob", 42)]], output_mode="append", fails=True)


class EmitsLate(Processor):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        for frame in rows:
            yield pd.DataFrame({"user": frame["user"], "at": [NOON] * len(frame)})


class Breaks(Values):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        if 13 in self.rows(rows):
            raise ValueError("thirteen")
        self.total.update((1, "x"))
        yield self.out(key)


class Twice(Processor):
    def declare(self, handle):
        handle.getValueState("same", "n int")
        handle.getListState("same", "n int")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        yield self.out(key)


class Reserved(TtlWithoutTime):
    def declare(self, handle):
        handle.getValueState("$total", "n int")


class Nameless(TtlWithoutTime):
    def declare(self, handle):
        handle.getListState(" ", "n int")


class NoTimers(Processor):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        self.handle.registerTimer(1)
        yield self.out(key)


class EmptyList(Lists):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        self.seen.put([])
        yield self.out(key)


class TooManyFields(Values):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        self.total.update((1, "x", 3))
        yield self.out(key)


@pytest.mark.parametrize("processor", [Breaks(), Twice(), NoTimers(), EmptyList(), TtlWithoutTime(), TooManyFields()])
def test_what_stops_the_query(compare, processor):
    compare(query(processor), [[at("ann")], [at("ann", 0, 13)]] if isinstance(processor, Breaks) else [[at("ann")]], fails=True)


@pytest.mark.parametrize(
    ("processor", "says"),
    [
        (Breaks(), "ValueError: thirteen"),
        (TooManyFields(), "PySparkRuntimeError: Error updating value state: [STRUCT_ARRAY_LENGTH_MISMATCH] Input row doesn't have"),
        (EmptyList(), "PySparkRuntimeError: Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE]"),
        (TtlWithoutTime(), "Error initializing value state: [STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL]"),
        (Reserved(), "Error initializing value state: [STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS]"),
        (Nameless(), "Error initializing list state: [STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_went_wrong_in_the_processor_is_told(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, processor: Processor, says: str
):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text(at("ann", 0, 13))
    spark.conf.set(PROVIDER, ROCKS_DB)
    try:
        for name, session in (("spark", spark), ("model", mini)):
            writer = query(processor)(session, str(tmp_path / "in")).writeStream.outputMode("update").format("noop")
            running = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
            with pytest.raises(StreamingQueryException, match=re.escape(says)):
                running.awaitTermination()
    finally:
        spark.conf.unset(PROVIDER)
