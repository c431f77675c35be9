"""Two streams are joined: what waits, until when, and what leaves without a partner.

`l(…)` and `r(…)` are rows of the left and the right stream; times are minutes after 12:00.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from minispark_stream.engine.runtime import query_planner
from minispark_stream.engine.runtime.template import Template, compile_template
from minispark_stream.engine.state.loaded_providers import unload_stores
from minispark_stream.engine.state.state_files import StateFiles
from minispark_stream.engine.state.state_records import records
from minispark_stream.engine.state.state_store import StateStoreConf, StateStoreId
from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random, rows_of

SCHEMA = "k string, ts timestamp, v int"
Streams = tuple[Any, Any]


def row(k: str | None, minute: int | None = 0, v: int | None = None) -> dict[str, Any]:
    ts = None if minute is None else f"2024-01-01 {12 + minute // 60}:{minute % 60:02d}:00"
    return {"k": k, "ts": ts, "v": v}


def step(left: list[dict[str, Any]] = [], right: list[dict[str, Any]] = []) -> dict[str, list[str]]:  # noqa: B006
    return {"left": rows_of(*left), "right": rows_of(*right)}


def streams(session: Any, input_dir: str, delay: str | None = "10 minutes") -> Streams:
    left, right = (session.readStream.schema(SCHEMA).json(f"{input_dir}/{side}") for side in ("left", "right"))
    right = right.select(F.col("k").alias("rk"), F.col("ts").alias("rts"), F.col("v").alias("rv"))
    if delay is None:
        return left, right
    return left.withWatermark("ts", delay), right.withWatermark("rts", delay)


def joined(how: str = "inner", on: str = "k = rk", delay: str | None = "10 minutes") -> Callable[[Any, str], Any]:
    def build(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, delay)
        return left.join(right, F.expr(on), how)

    return build


WITHIN = "k = rk AND rts >= ts AND rts <= ts + interval 10 minutes"
FEED = [
    step([row("a", 2, 1), row("b", 3, 2), row("c", 5, 3)], [row("a", 4, 10), row("a", 30, 11)]),
    step([row("a", 3, 4), row("a", 3, 4)], [row("b", 9, 12), row("d", 1, 13)]),
    step([row("d", 40, 5), row("b", 41, 6)], [row("d", 45, 14), row("a", 8, 15)]),
    step([row("e", 70, 7)], [row("e", 71, 16)]),
    step([row("b", 75, 8), row("a", 1, 9)], [row("b", 76, 17), row("c", 6, 18)]),
    step([row("z", 120)], [row("z", 120)]),
]
KINDS = ["inner", "left", "right", "full", "left_semi"]
UNLIKE = ["full", "left_semi"]  # what the other kinds do with a pair or with a row without a partner, a full join does, too


@pytest.mark.parametrize("how", KINDS)
def test_a_time_range_with_restarts(compare: Compare, how: str) -> None:
    comparison = compare(joined(how, WITHIN), FEED, restart_after=(2,))
    for theirs, ours in zip(comparison.spark.batches, comparison.model.batches):
        told_of = [batch.progress["stateOperators"][0]["customMetrics"].keys() for batch in (theirs, ours)]
        assert told_of[0] == told_of[1]


@pytest.mark.parametrize("how", UNLIKE)
def test_a_window_as_join_key(compare: Compare, how: str) -> None:
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir)
        left = left.select("k", "v", F.window("ts", "15 minutes").alias("w"))
        right = right.select(F.col("rk").alias("k"), "rv", F.window("rts", "15 minutes").alias("w"))
        return left.join(right, ["k", "w"], how)

    compare(query, FEED)


@pytest.mark.parametrize("how", UNLIKE)
def test_the_event_time_as_join_key(compare: Compare, how: str) -> None:
    compare(joined(how, "k = rk AND ts = rts"), [*FEED, step([row("q", 130, 1)], [row("q", 130, 2)]), step([row("q", 200)], [row("q", 200)])])


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_a_semi_join_would_evict_at_once_waits_on_the_left_side_alone(compare: Compare, side: str) -> None:
    """Rows of the side without a watermark are never late, but their time is a key that the watermark passes."""
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, None)
        late = {"left": (left.withWatermark("ts", "5 minutes"), right), "right": (left, right.withWatermark("rts", "5 minutes"))}
        return late[side][0].join(late[side][1], F.expr("k = rk AND ts = rts"), "left_semi")

    compare(query, [step([row("a", 60)], [row("b", 60)]), step([row("c", 2)], [row("c", 2), row("d", 90)]), step([row("d", 90)], [row("a", 1)])])


@pytest.mark.parametrize("how", UNLIKE)
def test_a_condition_on_one_side_alone(compare: Compare, how: str) -> None:
    compare(joined(how, f"{WITHIN} AND v > 2 AND rv < 16"), FEED)


@pytest.mark.parametrize("how", UNLIKE)
def test_a_condition_on_both_sides(compare: Compare, how: str) -> None:
    compare(joined(how, f"{WITHIN} AND (v + rv) % 2 = 1"), FEED)


@pytest.mark.parametrize("how", KINDS)
def test_new_rows_that_are_put_aside_while_spark_filters_their_pairs(compare: Compare, how: str) -> None:
    """With this conf, the model takes any number of new rows for many."""
    confs = {"spark.sql.streaming.stateStore.maxRowsInDict": "0"}
    compare(joined(how, f"{WITHIN} AND v > 2 AND (v + rv) % 2 = 1"), FEED, restart_after=(2,), confs=confs)


def test_without_a_watermark_all_rows_are_kept(compare: Compare) -> None:
    compare(joined("inner", "k = rk", None), FEED)


def test_without_a_time_range_all_rows_are_kept(compare: Compare) -> None:
    compare(joined("inner", "k = rk"), FEED)


def test_a_stream_without_new_rows_says_nothing_about_the_keys_of_the_other_one(compare: Compare) -> None:
    """Of the right rows, only those with such a key are read if the optimizer knows the condition, which it forgets above an empty stream."""
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, None)
        return left.where("k != 'b'").join(right, F.expr("k = rk"))

    both = step([row("a"), row("b")], [row("a"), row("b")])
    comparison = compare(query, [{"left": both["left"]}, {"right": both["right"]}, both])
    assert [batch.progress["numInputRows"] for batch in comparison.model.batches] == [1, 2, 2]


def test_a_plan_is_made_once_for_the_streams_that_have_new_rows_until_it_is_forgotten(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def noted(*args: Any) -> Template:
        made.append(args)
        return compile_template(*args)

    monkeypatch.setattr(query_planner, "KEPT_TEMPLATES", 2)
    monkeypatch.setattr(query_planner, "compile_template", noted)
    both = step([row("a")], [row("a")])
    left, right = ({side: both[side]} for side in ("left", "right"))
    compare(joined("inner", "k = rk", delay=None), [left, right, both, left])
    assert len(made) == 4  # for left, for both, for right in place of left, and for left in place of right


def test_keys_that_are_never_null_in_the_schemas_of_older_sparks(compare: Compare) -> None:
    """The log of a query that was begun by Spark 4.2 does not have this conf."""
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, None)
        return left.withColumn("k", F.coalesce("k", F.lit(""))).join(right, F.expr("k = rk"))

    compare(query, FEED[:2], confs={"spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false"}, restart_after=(0,))


@pytest.mark.parametrize("on", ["k = rk AND rts > ts - interval 5 minutes", "k = rk AND ts < rts + interval 5 minutes", "k = rk AND rts <= ts"])
def test_a_bound_in_one_direction(compare: Compare, on: str) -> None:
    compare(joined("inner", on), FEED)


@pytest.mark.parametrize("how", UNLIKE)
def test_null_keys(compare: Compare, how: str) -> None:
    feed = [step([row(None, 1, 1), row("a", 2, 2)], [row(None, 2, 3), row("a", 3, 4)]), step([row(None, 60)], [row("b", 60)]), step([row("c", 120)], [row("c", 120)])]
    compare(joined(how, WITHIN), feed)


def test_null_event_times_are_kept(compare: Compare) -> None:
    feed = [step([row("a", None, 1)], [row("a", None, 2)]), step([row("a", 60)], [row("a", 60)]), step([row("a", 90)], [row("a", 90)])]
    compare(joined("inner", WITHIN), feed)


def test_the_key_is_an_expression(compare: Compare) -> None:
    compare(joined("inner", "upper(k) = upper(rk) AND v % 3 = rv % 3"), FEED)


def test_several_keys_of_other_types(compare: Compare) -> None:
    compare(joined("left", "k = rk AND v = rv - 10 AND cast(v as double) = cast(rv - 10 as double) AND rts >= ts AND rts <= ts + interval 1 hour"), FEED)


def lose_rows(checkpoint: str, num_keys: int) -> None:
    """Of each key, which has so many columns, the stored left rows with the indexes 1, 3 and 4 are missing."""
    for folder in Path(checkpoint, "state/0").glob("*/left-keyWithIndexToValue"):
        files = StateFiles(StateStoreId(f"{checkpoint}/state", 0, int(folder.parent.name), folder.name), StateStoreConf())
        if files.has_delta(1):
            kept = [(key, row) for key, row in records(files.read_delta(1)) if key[8 + 8 * num_keys] not in (1, 3, 4)]
            (folder / ".1.delta.crc").unlink(missing_ok=True)
            files.write_delta(1, [([key for key, _ in kept], [row for _, row in kept])])


@pytest.mark.parametrize(("how", "on"), [("full", WITHIN), ("left_semi", "rk = k AND ts = rts")])
def test_rows_that_the_state_has_lost_are_skipped(compare: Compare, how: str, on: str) -> None:
    """Of the nulls, a semi join counts more than Spark, which does not look at all of them."""
    feed = [
        step([row(k, 3, i) for i, k in enumerate("aabaabbbbaa")], []),
        step([row("a", 30, 6)], [row("a", 3, 10), row("a", 3, 11)]),
        step([], [row("a", 33)]),
    ]
    confs = {"spark.sql.streaming.stateStore.skipNullsForStreamStreamJoins.enabled": "true"}
    comparison = compare(joined(how, on), feed, confs=confs, restart_after={0: lambda checkpoint: lose_rows(checkpoint, 1 + on.startswith("rk"))})
    spark, model = (
        [batch.progress["stateOperators"][0]["customMetrics"]["skippedNullValueCount"] for batch in engine.batches]
        for engine in (comparison.spark, comparison.model)
    )
    assert model > spark if how == "left_semi" else model == spark != [0] * len(spark)


@pytest.mark.parametrize("policy", ["min", "max"])
def test_two_watermarks(compare: Compare, policy: str) -> None:
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, None)
        left, right = left.withWatermark("ts", "2 minutes"), right.withWatermark("rts", "20 minutes")
        return left.join(right, F.expr(WITHIN), "left")

    compare(query, FEED, confs={"spark.sql.streaming.multipleWatermarkPolicy": policy})


def test_a_stream_with_itself(compare: Compare) -> None:
    def query(session: Any, input_dir: str) -> Any:
        events = session.readStream.schema(SCHEMA).json(input_dir).withWatermark("ts", "5 minutes").withColumnRenamed("v", "key0")
        return events.alias("a").join(events.alias("b"), F.expr("a.k = b.k AND a.ts < b.ts AND b.ts <= a.ts + interval 10 minutes"))

    feed = [rows_of(row("a", 1, 1), row("a", 5, 2)), rows_of(row("a", 9, 3), row("b", 9, 4)), rows_of(row("a", 40, 5))]
    compare(query, feed, restart_after=(1,))


def test_a_stream_with_itself_under_other_names_is_read_twice(compare: Compare) -> None:
    """Without other names, Spark shuffles the rows once, and the second source has read none."""

    def query(session: Any, input_dir: str) -> Any:
        events = session.readStream.schema(SCHEMA).json(input_dir).select("k", "v")
        return events.select(F.col("k").alias("other"), F.col("v").alias("w")).join(events, F.expr("other = k"))

    comparison = compare(query, [rows_of(row("a", 1, 1), row("b", 5, 2), row("a", 9, 3))])
    assert comparison.model.batches[0].progress["numInputRows"] == 6


def forget_state(batches: Any) -> Any:
    """In a worker: the next batch has to load its state."""
    unload_stores()
    yield from batches


def rows_and_no_state(batch: Any) -> list[Any]:
    rows = batch.collect()
    batch.sparkSession.range(0, 16, 1, 8).mapInArrow(forget_state, "id long").collect()
    return rows


def test_state_is_loaded_in_a_batch_that_has_no_left_rows(compare: Compare) -> None:
    """There, the columns of a semi join have another order than in the batch that has stored its rows."""
    def query(session: Any, input_dir: str) -> Any:
        left, right = streams(session, input_dir, None)
        left = left.select("k", "v", F.window("ts", "15 minutes").alias("w"))
        right = right.withWatermark("rts", "10 minutes").select(F.col("rk").alias("k"), "rv", F.window("rts", "15 minutes").alias("w"))
        return left.join(right, ["k", "w"], "left_semi")

    compare(query, FEED[:3], collect=rows_and_no_state)


def test_a_table_joined_to_the_outcome(compare: Compare) -> None:
    def query(session: Any, input_dir: str) -> Any:
        names = session.createDataFrame([("a", "Ann"), ("b", "Bob")], "k string, name string")
        return joined("left", WITHIN)(session, input_dir).join(names, "k", "left").select("name", "v", "rv")

    compare(query, FEED)


def test_update_mode_of_an_inner_join(compare: Compare) -> None:
    compare(joined("inner", WITHIN), FEED, output_mode="update")


def test_without_data_batches_nulls_wait_for_the_next_data(compare: Compare) -> None:
    compare(joined("full", WITHIN), FEED, confs={"spark.sql.streaming.noDataMicroBatches.enabled": "false"})


@pytest.mark.parametrize("how", UNLIKE)
def test_each_engine_goes_on_where_the_other_stopped(compare: Compare, how: str) -> None:
    relay = ("model", "spark") if KINDS.index(how) % 2 else ("spark", "model")  # they take turns, so each follows the other
    compare(joined(how, WITHIN), FEED, restart_after=range(5), relay=relay)


def test_a_join_without_equal_keys_fails_when_it_runs(compare: Compare) -> None:
    comparison = compare(joined("inner", "v < rv"), FEED[:1])
    assert comparison.model.condition == "STREAM_FAILED"


@pytest.mark.parametrize(
    ("how", "mode"),
    [("cross", "append"), ("left_anti", "append"), ("left", "update"), ("left_semi", "update")],
)
def test_what_spark_finds_out_when_the_first_batch_is_planned(compare: Compare, how: str, mode: str) -> None:
    """A cross join is let pass at the start; the others, when the check is off."""
    def joined(session: Any, input_dir: str) -> Any:
        left = read_random(session, input_dir).select("k", "ts", "i").withWatermark("ts", "1 hour")
        right = read_random(session, input_dir).select(F.col("k").alias("kk"), F.col("ts").alias("tt"), "d").withWatermark("tt", "1 hour")
        return left.join(right, F.expr("k = kk AND ts > tt - interval 1 hour"), how)

    confs = {"spark.sql.streaming.unsupportedOperationCheck": "false"}
    comparison = compare(joined, [random_rows(1, 4)], output_mode=mode, confs=confs)
    assert (comparison.model.error is None) == (how == "left_semi")
