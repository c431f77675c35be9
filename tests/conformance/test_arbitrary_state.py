"""applyInPandasWithState: a function with a state of its own for each key does the same on both engines.

Times are minutes after 12:00; `at("ann", 3)` is a click of Ann at 12:03. The watermark runs 10 minutes behind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from minispark_stream import MiniSparkSession
from minispark_stream.tools.compare.checkpoint_files import comparable_files

SCHEMA = "ts timestamp, user string, n int, price decimal(8,2), tags array<string>, day date, page struct<site:string,id:int>"
Function = Callable[..., Any]
Build = Callable[[Any, str], DataFrame]
EVENT_TIME, PROCESSING_TIME = GroupStateTimeout.EventTimeTimeout, GroupStateTimeout.ProcessingTimeTimeout
# Each step one batch: with a processing-time timeout, both engines would otherwise run batches for ever.
ONE_BATCH_PER_STEP: Any = {"trigger": {"once": True}, "confs": {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}}


@pytest.fixture
def compare(compare: Callable[..., Any]) -> Callable[..., Any]:
    """As everywhere, and the query must not fail, unless `fails`."""

    def run(*arguments: Any, fails: bool = False, **named: Any) -> Any:
        result = compare(*arguments, **named)
        assert result.model.condition == ("STREAM_FAILED" if fails else None)
        return result

    return run


def at(user: str | None, minute: float | None = 0, **columns: Any) -> str:
    """A click of a user, as a line of JSON."""
    click: dict[str, Any] = {"user": user, "n": 1, **columns}
    if minute is not None:
        click["ts"] = str(datetime(2024, 1, 1, 12) + timedelta(seconds=round(minute * 60)))
    return json.dumps({name: value for name, value in click.items() if value is not None})


def clicks(session: Any, input_dir: str, watermark: bool = True) -> DataFrame:
    stream = session.readStream.schema(SCHEMA).json(input_dir)
    return stream.withWatermark("ts", "10 minutes") if watermark else stream


def with_state(
    function: Function, output: str, state: str, *keys: str, mode: str = "update", timeout: str = GroupStateTimeout.NoTimeout,
    watermark: bool = True,
) -> Build:
    def build(session: Any, input_dir: str) -> DataFrame:
        grouped = clicks(session, input_dir, watermark).groupBy(*(keys or ["user"]))
        return grouped.applyInPandasWithState(function, output, state, mode, timeout)

    return build


def rows(comparison: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each batch."""
    return [sorted(batch.rows, key=repr) for batch in comparison.model.batches]


def state_operators(comparison: Any, name: str) -> list[int]:
    """One counter of the state operator, for each batch."""
    return [batch.progress["stateOperators"][0][name] for batch in comparison.model.batches]


def count(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """How many rows a key has had."""
    total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"user": [key[0]], "total": [total]})


COUNTS: tuple[Any, str, str] = (count, "user string, total long", "total long")


# --- the state of a key -------------------------------------------------------------------------------------------


def test_a_state_is_kept_from_batch_to_batch(compare):
    result = compare(
        with_state(*COUNTS), feed=[[at("ann"), at("bob"), at("ann")], [at("ann")], [at("eve"), at("bob")]], output_mode="update"
    )
    assert rows(result) == [[("ann", 2), ("bob", 1)], [("ann", 3)], [("bob", 2), ("eve", 1)]]
    assert state_operators(result, "numRowsTotal") == [2, 2, 3]
    assert state_operators(result, "numRowsUpdated") == [2, 1, 2]


def test_a_comment_is_no_part_of_the_schema_of_a_state(compare):
    compare(with_state(count, "user string, total long", "total long COMMENT 'so far'"), [[at("ann")], [at("ann")]], output_mode="update", restart_after=[0])


def test_append_mode_gives_the_same_rows(compare):
    result = compare(with_state(*COUNTS, mode="append"), feed=[[at("ann"), at("ann")], [at("ann")]])
    assert rows(result) == [[("ann", 2)], [("ann", 3)]]


def test_a_state_can_be_removed_and_begun_again(compare):
    def until_three(key, frames, state):
        total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        if total >= 3:
            state.remove()
        else:
            state.update((total,))
        yield pd.DataFrame({"user": [key[0]], "total": [total], "exists": [state.exists]})

    result = compare(
        with_state(until_three, "user string, total long, exists boolean", "total long"),
        feed=[[at("ann"), at("bob")], [at("ann"), at("ann")], [at("ann")]], output_mode="update",
    )
    assert rows(result)[1:] == [[("ann", 3, False)], [("ann", 1, True)]]
    assert state_operators(result, "numRowsTotal") == [2, 1, 2]
    assert state_operators(result, "numRowsRemoved") == [0, 1, 0]


def test_what_was_done_last_counts(compare):
    def indecisive(key, frames, state):
        for n in pd.concat(list(frames))["n"]:
            if n > 0:
                state.update((n,))
            else:
                state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [str(state.getOption)]})

    compare(
        with_state(indecisive, "user string, n string", "n int"),
        feed=[[at("1", n=5), at("1", n=0), at("1", n=7), at("2", n=5), at("2", n=0)], [at("2", n=0), at("1", n=0)]],
        output_mode="update",
    )


def test_a_state_that_the_function_only_looks_at_is_not_written_again(compare):
    def once(key, frames, state):
        if not state.exists:
            state.update((sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"user": [key[0]], "total": [state.get[0]]})

    result = compare(
        with_state(once, "user string, total long", "total long"), feed=[[at("ann")], [at("ann"), at("bob")]],
        output_mode="update",
    )
    assert state_operators(result, "numRowsUpdated") == [1, 1]


def test_what_the_function_is_told(compare):
    def report(key, frames, state):
        told = (
            state.exists, state.getOption, state.hasTimedOut, state.getCurrentWatermarkMs(), state.oldTimeoutTimestamp,
            str(state), type(key).__name__, [list(frame.columns) for frame in frames],
        )
        state.update((len(key),))
        yield pd.DataFrame({"told": [repr(told)]})

    compare(
        with_state(report, "told string", "n int", "user", "n"),
        feed=[[at("ann", 3)], [at("ann", 45)], [at("ann", 50), at("bob", 1)]], output_mode="update",
    )


# --- keys and schemas ---------------------------------------------------------------------------------------------


def test_a_null_is_a_key_like_any_other(compare):
    result = compare(with_state(*COUNTS), feed=[[at(None), at(""), at("ann")], [at(None), at("")]], output_mode="update")
    assert rows(result)[1] == [("", 2), (None, 2)]


def test_keys_of_several_columns_and_types(compare):
    def describe(key, frames, state):
        total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"key": [repr(key)], "total": [total]})

    pages = [{"site": "a", "id": 1}, {"site": "a"}, None]
    lines = [
        at("ann", minute, page=page, day=day, price=price)
        for minute, day, price in ((0, "2024-02-03", 1.5), (1, None, 1.5), (None, "1969-12-31", None))
        for page in pages
    ]
    compare(
        with_state(describe, "key string, total long", "total long", "page", "day", "price", "ts"),
        feed=[lines, lines[::2]], output_mode="update",
    )


def test_zero_and_minus_zero_are_one_key_of_a_batch(compare):
    def build(session, input_dir):
        stream = session.readStream.schema("x double, y float").json(input_dir)
        return stream.groupBy("x", "y").applyInPandasWithState(
            lambda key, frames, state: [pd.DataFrame({"key": [repr(key)], "rows": [sum(len(frame) for frame in frames)]})],
            "key string, rows long", "n long", "update", GroupStateTimeout.NoTimeout,
        )

    lines = [f'{{"x": {x}, "y": {y}}}' for x in ("0.0", "-0.0", '"NaN"') for y in ("-0.0", "0.0", "null")]
    compare(build, feed=[lines], output_mode="update")


NOT_A_NUMBER = "case when v = 0 then double('NaN') else (double('inf') * v) - (double('inf') * v) end"  # in two bit patterns


@pytest.mark.parametrize("key", [NOT_A_NUMBER, "struct(v as z)", "array(v, v)", "array(struct(float(v) as z))"])
def test_equal_numbers_are_one_key_wherever_they_are(compare, key):
    def build(session, input_dir):
        stream = session.readStream.schema("v double").json(input_dir).selectExpr(f"{key} as x")
        return stream.groupBy("x").applyInPandasWithState(
            lambda key, frames, state: [pd.DataFrame({"rows": [sum(len(frame) for frame in frames)]})],
            "rows long", "n long", "update", GroupStateTimeout.NoTimeout,
        )

    lines = [f'{{"v": {v}}}' for v in ("0.0", "-0.0", "0.0", "-0.0")]
    assert rows(compare(build, feed=[lines], output_mode="update")) == [[(4,)]]


def test_a_function_may_give_rows_without_columns(compare):
    def nothing(key, frames, state):
        yield from (frame[[]] for frame in frames)

    def build(session, input_dir):
        return with_state(nothing, "", "n long")(session, input_dir).select(F.lit(1))

    assert rows(compare(build, feed=[[at("ann"), at("ann"), at("bob")]], output_mode="update")) == [[(1,)] * 3]


def test_a_state_of_every_type_comes_back_as_it_was_put(compare):
    schema = (
        "n long, price decimal(10,2), day date, ts timestamp, ok boolean, name string, raw binary, x double, f float, "
        "small short, tiny byte, page struct<site:string,at:struct<day:date,id:int>>, local timestamp_ntz, "
        "took interval day to second"
    )

    def remember(key, frames, state):
        before = state.getOption
        n = sum(len(frame) for frame in frames) + (before[0] or 0 if before else 0)
        day, noon = date(1969, 12, 31) + timedelta(days=n), datetime(2024, 1, 1, 12, 0, 0, n)
        new = (
            n, Decimal(n) / 3, day, noon, n % 2 == 0, "é" * n, bytes(range(n)), n / 3, 0.1, -n, n, ("x", (day, n)), noon,
            timedelta(days=-n, microseconds=n),
        )
        state.update(tuple(None for _ in new) if key[0] == "nobody" else new)
        yield pd.DataFrame({"user": [key[0]], "before": [repr(before)]})

    users = ["ann", "bob", "nobody"]
    compare(
        with_state(remember, "user string, before string", schema),
        feed=[[at(u) for u in users], [at(u) for u in users], [at("ann"), at("ann"), at("bob")]], output_mode="update",
    )


def test_a_state_may_hold_arrays_and_maps(mini: MiniSparkSession, tmp_path: Path):
    """On the model alone: a worker of Spark 4.3.0 cannot read such a schema (KeyError: 'elementType')."""

    def remember(key, frames, state):
        yield pd.DataFrame({"before": [repr(state.getOption)]})
        state.update((["a", None], {"x": ("s", 1), "y": None}))

    (tmp_path / "in").mkdir()
    left: list[str] = []
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_text(at("ann"))
        build = with_state(remember, "before string", "tags array<string>, pages map<string,struct<site:string,id:int>>")
        writer = build(mini, str(tmp_path / "in")).writeStream.outputMode("update").trigger(availableNow=True)
        writer = writer.foreachBatch(lambda df, _: left.extend(row.before for row in df.collect()))
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert left == ["None", "(['a', None], {'x': Row(site='s', id=1), 'y': None})"]


def test_a_value_that_does_not_fit_its_type_is_kept_as_spark_keeps_it(compare):
    odd = [
        (1.5, "a", 7, True), (True, 5, "x", "yes"), (2**40, None, 1.0, 1), (-(2**31) - 1, True, None, None),
        (None, Decimal("1.50"), [1], 0.0),
    ]

    def odd_ones(key, frames, state):
        before = state.getOption
        state.update(odd[int(key[0])])
        yield pd.DataFrame({"user": [key[0]], "before": [repr(before)]})

    lines = [at(str(i)) for i in range(len(odd))]
    compare(
        with_state(odd_ones, "user string, before string", "i int, s string, d double, b boolean"),
        feed=[lines, lines], output_mode="update",
    )


def test_the_frames_of_a_function_become_rows_by_their_column_names(compare):
    def many_frames(key, frames, state):
        for frame in frames:
            state.update((len(frame),))
            yield pd.DataFrame({"tags": frame["tags"], "user": frame["user"], "day": frame["day"], "price": frame["price"]})
            yield pd.DataFrame()

    compare(
        with_state(many_frames, "user string, day date, price decimal(8,2), tags array<string>", "n long"),
        feed=[[at("ann", tags=["x"], price=2.5, day="2024-05-06"), at("ann"), at("bob", tags=[])]], output_mode="update",
    )


@pytest.mark.parametrize(("what", "most", "frames"), [
    ("Records", "3", ["[3, 3, 1]", "[2, 1]", "[1]"]), ("Bytes", "100", ["[2, 2, 2, 1]", "[1, 2]", "[1]"]),
])
def test_large_groups_come_in_several_frames(compare, what, most, frames):
    def sizes(key, frames, state):
        state.update((0,))
        yield pd.DataFrame({"user": [key[0]], "sizes": [str([len(frame) for frame in frames])]})

    result = compare(
        with_state(sizes, "user string, sizes string", "n long"),
        feed=[[at(user) for user, n in (("ann", 7), ("bob", 3), ("cid", 1)) for _ in range(n)]], output_mode="update",
        confs={f"spark.sql.execution.arrow.max{what}PerBatch": most, "spark.sql.shuffle.partitions": "1"},
    )
    assert rows(result) == [[*zip(("ann", "bob", "cid"), frames)]]


# --- timeouts -----------------------------------------------------------------------------------------------------


def session_of_clicks(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Clicks until five minutes pass without one, in event time."""
    if state.hasTimedOut:
        yield pd.DataFrame({"user": [key[0]], "clicks": [state.get[0]], "rows": [sum(len(frame) for frame in frames)]})
        state.remove()
        return
    rows = pd.concat(list(frames))
    last = max(int(rows["ts"].max().timestamp() * 1000), state.get[1] if state.exists else 0)
    state.update((len(rows) + (state.get[0] if state.exists else 0), last))
    state.setTimeoutTimestamp(max(last + 5 * 60_000, state.getCurrentWatermarkMs()))


SESSIONS: tuple[Any, str, str] = (session_of_clicks, "user string, clicks long, rows long", "clicks long, last long")


def test_an_event_time_timeout_calls_the_function_when_the_watermark_has_passed_it(compare):
    result = compare(
        with_state(*SESSIONS, timeout=EVENT_TIME),
        feed=[[at("ann", 0), at("bob", 4)], [at("ann", 3)], [at("cid", 18)], [at("cid", 19)], [at("eve", 40)]],
        output_mode="update",
    )
    left = [row for batch in rows(result) for row in batch]
    assert left == [("ann", 2, 0), ("bob", 1, 0), ("cid", 2, 0)]
    assert state_operators(result, "numRowsTotal")[-1] == 1


def test_a_timeout_at_the_watermark_is_not_over_yet(compare):
    def waits(key, frames, state):
        state.update((1,))
        state.setTimeoutTimestamp(1704110400000)  # 12:00
        yield pd.DataFrame({"user": [key[0]], "timed_out": [state.hasTimedOut]})

    build = with_state(waits, "user string, timed_out boolean", "n long", timeout=EVENT_TIME)
    result = compare(build, feed=[[at("ann", -5)], [at("bob", 10)]], output_mode="update")
    assert ("ann", True) not in [row for batch in rows(result) for row in batch]


def test_late_rows_are_dropped_and_counted_with_an_event_time_timeout(compare):
    result = compare(
        with_state(*SESSIONS, timeout=EVENT_TIME),
        feed=[[at("ann", 30)], [at("ann", 20), at("ann", 19), at("bob", 5), at("ann", 20.1), at("ann", None)], [at("eve", 60)]],
        output_mode="update",
    )
    assert sum(state_operators(result, "numRowsDroppedByWatermark")) == 3


@pytest.mark.parametrize("timeout", [GroupStateTimeout.NoTimeout, PROCESSING_TIME])
def test_late_rows_reach_the_function_without_one(compare, timeout):
    result = compare(
        with_state(*COUNTS, timeout=timeout), feed=[[at("ann", 30)], [at("ann", 5), at("bob", 40)], [at("ann", 1)]],
        output_mode="update", **ONE_BATCH_PER_STEP,
    )
    assert rows(result)[-1] == [("ann", 3)]
    assert sum(state_operators(result, "numRowsDroppedByWatermark")) == 0


def test_a_key_may_have_a_timeout_and_no_state(compare):
    def remind(key, frames, state):
        yield pd.DataFrame({"user": [key[0]], "timed_out": [state.hasTimedOut], "exists": [state.exists]})
        state.remove()
        if not state.hasTimedOut:
            state.setTimeoutTimestamp(1704111000000)  # 12:10

    result = compare(
        with_state(remind, "user string, timed_out boolean, exists boolean", "n long", timeout=EVENT_TIME),
        feed=[[at("ann", 1)], [at("bob", 5)], [at("cid", 30)]], output_mode="update",
    )
    assert ("ann", True, False) in [row for batch in rows(result) for row in batch]


def test_a_timeout_stays_until_the_state_is_written_again(compare):
    def first_call_sets_it(key, frames, state):
        n = sum(len(frame) for frame in frames)
        yield pd.DataFrame({"user": [key[0]], "n": [n], "timed_out": [state.hasTimedOut]})
        if state.hasTimedOut or (key[0] == "ann" and state.exists):
            state.update((0,))
        elif not state.exists:
            state.update((1,))
            state.setTimeoutTimestamp(datetime(2024, 1, 1, 12, 5))

    result = compare(
        with_state(first_call_sets_it, "user string, n long, timed_out boolean", "n long", timeout=EVENT_TIME),
        feed=[[at("ann", 1), at("bob", 1)], [at("ann", 2), at("bob", 2)], [at("cid", 30)]], output_mode="update",
    )
    assert [row[0] for batch in rows(result) for row in batch if row[2]] == ["bob", "cid"]


def test_a_processing_time_timeout_is_over_when_the_time_of_the_batch_has_passed_it(compare):
    def alarm(key, frames, state):
        yield pd.DataFrame({"user": [key[0]], "n": [sum(len(frame) for frame in frames)], "timed_out": [state.hasTimedOut]})
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((1,))
            state.setTimeoutDuration(1 if key[0] == "ann" else 10**9)  # over in the next batch, or in twelve days

    result = compare(
        with_state(alarm, "user string, n long, timed_out boolean", "n long", timeout=PROCESSING_TIME, watermark=False),
        feed=[[at("ann"), at("bob")], [at("bob")], [at("ann"), at("cid")], [at("ann")]], output_mode="update",
        state_bytes=False, **ONE_BATCH_PER_STEP,
    )
    assert rows(result)[1] == [("ann", 0, True), ("bob", 1, False)]
    assert rows(result)[3] == [("ann", 1, False)]  # new rows put the timeout off
    assert state_operators(result, "numRowsTotal") == [2, 1, 3, 3]


# --- restarts -----------------------------------------------------------------------------------------------------


def test_states_and_timeouts_survive_restarts(compare):
    users = ["ann", "bob", "cid", "dea", None]
    feed = [[at(users[(i * j) % 5], 7 * i + j % 13) for j in range(9)] for i in range(6)]
    result = compare(
        with_state(*SESSIONS, timeout=EVENT_TIME), feed=[*feed, [at("eve", 120)]], output_mode="update", restart_after=(1, 3)
    )
    assert sum(len(batch) for batch in rows(result)) >= 5


@pytest.mark.parametrize("engines", ["SMSM", "MSMS"])
def test_each_engine_continues_the_states_of_the_other(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, engines: str
):
    feed = [[at(user, 20 * i + j) for j, user in enumerate("abcab")] for i in range(4)]

    def run(order: str) -> tuple[list[Any], dict[str, Any]]:
        """Each letter is a run over one more file, by Spark (S) or the model (M), on the same checkpoint."""
        source, checkpoint = tmp_path / order / "in", tmp_path / order / "checkpoint"
        source.mkdir(parents=True)
        batches: list[Any] = []
        for i, engine in enumerate(order):
            (source / f"{i}.json").write_text("\n".join(feed[i]))
            query = with_state(*SESSIONS, timeout=EVENT_TIME)(spark if engine == "S" else mini, str(source))
            writer = query.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
            writer = writer.foreachBatch(lambda df, _: batches.append(sorted(map(tuple, df.collect()))))
            writer.trigger(availableNow=True).start().awaitTermination()
        files = comparable_files(str(checkpoint))
        return batches, {name: content for name, content in files.items() if name.startswith("state/")}

    assert run(engines) == run("SSSS")


def test_a_batch_that_failed_is_run_again_from_the_same_states(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    broken = str(tmp_path / "broken")

    def fragile(key, frames, state):
        yield from count(key, frames, state)
        if key[0] == "ann" and Path(broken).exists():
            raise ValueError("not today")

    def run(session: Any, folder: Path) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """Three runs over one more file each; the second fails. Conditions, rows of each batch, state files."""
        source, checkpoint = folder / "in", str(folder / "checkpoint")
        source.mkdir(parents=True)
        errors: list[str | None] = []
        batches: list[Any] = []
        for i, works in enumerate((True, False, True)):
            (source / f"{i}.json").write_text("\n".join([at("ann"), at("bob"), at("cid")]))
            Path(broken).unlink(missing_ok=True) if works else Path(broken).touch()
            writer = with_state(fragile, "user string, total long", "total long")(session, str(source)).writeStream
            writer = writer.foreachBatch(lambda df, i: batches.append((i, sorted(map(tuple, df.collect())))))
            query = writer.outputMode("update").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            try:
                query.awaitTermination()
                errors.append(None)
            except StreamingQueryException as e:
                assert not query.isActive and "ValueError: not today" in str(e)
                errors.append(e.getCondition())
        files = comparable_files(checkpoint)
        return errors, batches, {name: content for name, content in files.items() if name.startswith("state/")}

    outcomes = [run(session, tmp_path / type(session).__name__) for session in (spark, mini)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == [None, "STREAM_FAILED", None]
    assert [totals for _, totals in outcomes[0][1]] == [[(u, n) for u in ("ann", "bob", "cid")] for n in (1, 2, 3)]


def test_another_state_schema_is_refused_on_restart(compare):
    schemas = iter(["total long", "total int"] * 2)  # a query is built twice per engine

    def build(session, input_dir):
        return with_state(count, "user string, total long", next(schemas))(session, input_dir)

    result = compare(build, feed=[[at("ann")], [at("ann")]], output_mode="update", restart_after=(0,), fails=True)
    assert len(result.model.batches) == 1


# --- what goes wrong ----------------------------------------------------------------------------------------------


def failure(session: Any, build: Build, folder: Path) -> tuple[str, str | None, str]:
    """How a query over one click of Ann fails: exception class, condition, and the line that names the cause."""
    source = folder / "in"
    source.mkdir(exist_ok=True)
    (source / "0.json").write_text(at("ann", 30))
    writer = build(session, str(source)).writeStream.outputMode("update").format("noop")
    checkpoint = str(folder / type(session).__name__)
    with pytest.raises(PySparkException) as error:
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    text = str(error.value).split("=== Streaming Query ===")[0]
    cause = [line for line in text.splitlines() if re.search("Error: |[Ee]xception: \\[", line)][-1]
    return type(error.value).__name__, error.value.getCondition(), cause


def assert_fails_alike(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, build: Build, cause: str
) -> None:
    outcomes = [failure(session, build, tmp_path) for session in (spark, mini)]
    assert outcomes[0][:2] == outcomes[1][:2] == ("StreamingQueryException", "STREAM_FAILED")
    for _, _, line in outcomes:
        assert cause in line


def fails(function: Function, timeout: str = GroupStateTimeout.NoTimeout, watermark: bool = True) -> Build:
    return with_state(function, "user string, total long", "total long", timeout=timeout, watermark=watermark)


def raises(key: Any, frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"user": ["x"], "total": [1]})
    raise KeyError("after a frame")


RESULTS: dict[str, Function] = {
    "KeyError: 'after a frame'": raises,
    "[UDF_RETURN_TYPE] Return type of the user-defined function should be iterable, but is int": lambda k, f, s: 5,
    "should be iterable of pandas.DataFrame, but is DataFrame": lambda k, f, s: pd.DataFrame(),
    "should be iterator of pandas.DataFrame, but is iterator of str": lambda k, f, s: ["x"],
    "[RESULT_COLUMN_SCHEMA_MISMATCH]": lambda k, f, s: [pd.DataFrame({"user": ["x"]})],
    "Failed to convert the value of the column 'total'": lambda k, f, s: [pd.DataFrame({"user": ["x"], "total": ["y"]})],
    "PySparkValueError: [STATE_NOT_EXISTS]": lambda k, f, s: [s.get],
    "PySparkTypeError: [CANNOT_BE_NONE]": lambda k, f, s: [s.update(None)],
    "[STRUCT_ARRAY_LENGTH_MISMATCH]": lambda k, f, s: [s.update((1, 2)), pd.DataFrame()][1:],
}


NO_KEY = "requirement failed: The expressions for hash of a StatefulOpClusteredDist"


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        (lambda df: df.select().dropDuplicates(), NO_KEY),
        (lambda df: df.groupBy().applyInPandasWithState(count, "user string, total long", "total long", "update", "NoTimeout"), NO_KEY),
        (lambda df: df.groupBy("user").applyInPandasWithState(count, "user string, total long", "", "update", "NoTimeout"), "head of empty list"),
    ],
    ids=["dropDuplicates", "applyInPandasWithState", "no state"],
)
def test_a_key_or_a_state_without_columns_is_refused(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, query: Callable[[Any], Any], cause: str
):
    (tmp_path / "0.json").write_text(at("ann"))
    for session in (spark, mini):
        writer = query(clicks(session, str(tmp_path))).writeStream.outputMode("update").format("noop")
        with pytest.raises(StreamingQueryException, match=cause):
            writer.option("checkpointLocation", str(tmp_path / "ck" / type(session).__name__)).start().processAllAvailable()


@pytest.mark.parametrize("cause", RESULTS)
def test_an_error_in_the_function_ends_the_query(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, cause: str):
    assert_fails_alike(spark, mini, tmp_path, fails(RESULTS[cause]), cause)


@pytest.mark.parametrize(
    ("timeout", "method", "argument", "cause"),
    [
        (GroupStateTimeout.NoTimeout, "setTimeoutTimestamp", 10**13, "[CANNOT_WITHOUT] Cannot set timeout duration without"),
        (EVENT_TIME, "setTimeoutDuration", 5, "[CANNOT_WITHOUT] Cannot set timeout duration without"),
        (PROCESSING_TIME, "setTimeoutTimestamp", 10**13, "[CANNOT_WITHOUT] Cannot set timeout"),
        (PROCESSING_TIME, "setTimeoutDuration", 0, "[VALUE_NOT_POSITIVE]"),
        (PROCESSING_TIME, "setTimeoutDuration", "5 minutes", "[NOT_EXPECTED_TYPE]"),
        (EVENT_TIME, "setTimeoutTimestamp", -1, "[VALUE_NOT_POSITIVE]"),
    ],
)
def test_a_misused_timeout_ends_the_query(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, timeout: str, method: str, argument: Any, cause: str
):
    build = fails(lambda k, f, s: [getattr(s, method)(argument)], timeout)
    assert_fails_alike(spark, mini, tmp_path, build, cause)


def test_a_timeout_before_the_watermark_is_refused(compare):
    def too_late(key, frames, state):
        state.update((1,))
        state.setTimeoutTimestamp(1704110400000)  # 12:00
        return []

    compare(
        fails(too_late, EVENT_TIME), feed=[[at("ann", 11)], [at("bob", 12)]], output_mode="update", fails=True,
        confs={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    )


def test_the_watermark_can_only_be_asked_for_when_there_is_one(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    build = fails(lambda k, f, s: [s.getCurrentWatermarkMs()], watermark=False)
    assert_fails_alike(spark, mini, tmp_path, build, "[CANNOT_WITHOUT] Cannot get event time watermark timestamp without")


def test_one_event_time_column_is_enough(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    def build(session, input_dir):
        twice = clicks(session, input_dir).selectExpr("*", "ts AS again")
        return twice.groupBy("user").applyInPandasWithState(*COUNTS, "update", EVENT_TIME)

    outcomes = [failure(session, build, tmp_path) for session in (spark, mini)]
    assert all("exception: [MULTIPLE_EVENT_TIME_COLUMNS]" in line for _, _, line in outcomes)


def test_an_event_time_timeout_wants_a_watermark_when_the_query_starts(
    spark: SparkSession, mini: MiniSparkSession, tmp_path: Path
):
    conditions = []
    for session in (spark, mini):
        stream = with_state(*COUNTS, timeout=EVENT_TIME, watermark=False)(session, str(tmp_path))
        with pytest.raises(AnalysisException, match="Watermark must be specified in the query") as error:
            stream.writeStream.outputMode("update").format("noop").start()
        conditions.append(error.value.getCondition())
    assert conditions[0] == conditions[1]


def test_a_table_that_is_no_stream_has_no_state(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path):
    (tmp_path / "0.json").write_text(at("ann"))
    texts = []
    for session in (spark, mini):
        table = session.read.schema(SCHEMA).json(str(tmp_path)).groupBy("user").applyInPandasWithState(
            *COUNTS, "update", GroupStateTimeout.NoTimeout
        )
        with pytest.raises(PySparkException, match="applyInPandasWithState is unsupported in batch query") as error:
            table.collect()
        texts.append((type(error.value).__name__, error.value.getCondition()))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("key", "cause"), [
    ("make_interval(0, n)", "[UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION]"),
    ("array(make_ym_interval(n, 1))", "Not implemented type for Arrow list to pandas: month_interval"),
])
def test_a_key_that_pandas_cannot_have_is_refused(spark: SparkSession, mini: MiniSparkSession, tmp_path: Path, key: str, cause: str):
    def build(session: Any, input_dir: str) -> DataFrame:
        by_key = clicks(session, input_dir).withColumn("key", F.expr(key)).groupBy("key")
        return by_key.applyInPandasWithState(lambda k, f, s: iter([]), "n long", "n long", "update", "NoTimeout")

    assert_fails_alike(spark, mini, tmp_path, build, cause)
