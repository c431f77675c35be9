"""Streaming programs as the public examples have them, each with a bug that people make: a test of a few lines finds it.

Each program takes `bug`; its test passes without the bug, and fails with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from minispark_stream.testing import stream_test

Test = Callable[..., Any]  # stream_test, with the session
TESTS: list[Callable[[Test, bool], None]] = []


def finds(test: Callable[[Test, bool], None]) -> Callable[[Test, bool], None]:
    TESTS.append(test)
    return test


def word_count(session: Any, lines: DataFrame, bug: bool) -> DataFrame:
    """Spark's structured_network_wordcount. The bug: two spaces make an empty word."""
    words = lines.select(F.explode(F.split("value", " " if bug else " +")).alias("word"))
    return words.groupBy("word").count()


@finds
def words_are_counted(test: Test, bug: bool) -> None:
    with test(partial(word_count, bug=bug), "complete", schemas={"lines": "value string"}) as t:
        t.add(["a  b", "a"])
        t.expect([("a", 2), ("b", 1)])


def windowed_word_count(session: Any, words: DataFrame, bug: bool) -> DataFrame:
    """Spark's structured_network_wordcount_windowed. The bug: the windows do not slide."""
    window = F.window("time", "10 minutes", "10 minutes" if bug else "5 minutes")
    return words.withWatermark("time", "10 minutes").groupBy(window, "word").count().select("window.start", "word", "count")


@finds
def a_word_is_in_two_windows(test: Test, bug: bool) -> None:
    with test(partial(windowed_word_count, bug=bug), "update", schemas={"words": "time timestamp, word string"}) as t:
        t.add([("2026-03-01 12:07", "owl")])
        t.expect([("2026-03-01 12:00", "owl", 1), ("2026-03-01 12:05", "owl", 1)])


def visits(session: Any, clicks: DataFrame, bug: bool) -> DataFrame:
    """Spark's structured_sessionization. The bug: five seconds in the place of five minutes."""
    session_window = F.session_window("time", "5 seconds" if bug else "5 minutes")
    return clicks.withWatermark("time", "10 minutes").groupBy(session_window, "user").count().select("user", "count")


@finds
def clicks_of_a_visit_belong_together(test: Test, bug: bool) -> None:
    with test(partial(visits, bug=bug), schemas={"clicks": "time timestamp, user string"}) as t:
        t.add([("2026-03-01 12:00", "ann"), ("2026-03-01 12:03", "ann"), ("2026-03-01 13:00", "bob")])
        t.expect([("ann", 2)])


def orders_once(session: Any, orders: DataFrame, bug: bool) -> DataFrame:
    """Orders that a shop may send twice. The bug: the time is part of the key, and the second message has another one."""
    timed = orders.withWatermark("sent", "1 hour")
    return timed.dropDuplicates(["id", "sent"]) if bug else timed.dropDuplicatesWithinWatermark(["id"])


@finds
def an_order_that_is_sent_twice_counts_once(test: Test, bug: bool) -> None:
    with test(partial(orders_once, bug=bug), schemas={"orders": "id int, sent timestamp"}) as t:
        t.add([(7, "2026-03-01 12:00")])
        t.add([(7, "2026-03-01 12:01")])
        t.expect([(7, "2026-03-01 12:00")])


AD = {"shown": "ad int, time timestamp", "clicked": "ad int, at timestamp"}


def clicks_on_ads(session: Any, shown: DataFrame, clicked: DataFrame, bug: bool) -> DataFrame:
    """Ads and the clicks within an hour after them. The bug: an ad of which nobody takes notice is not reported."""
    ads, clicks = shown.withWatermark("time", "0 seconds").alias("a"), clicked.withWatermark("at", "0 seconds").alias("c")
    on = F.expr("a.ad = c.ad AND at >= time AND at <= time + interval 1 hour")
    return ads.join(clicks, on, "inner" if bug else "left_outer").select("a.ad", F.col("at").isNotNull().alias("clicked"))


@finds
def an_ad_without_a_click_is_reported(test: Test, bug: bool) -> None:
    with test(partial(clicks_on_ads, bug=bug), schemas=AD) as t:
        t.add(shown=[(1, "2026-03-01 12:00"), (2, "2026-03-01 12:00")], clicked=[(1, "2026-03-01 12:10")])
        t.add(shown=[(9, "2026-03-01 18:00")], clicked=[(8, "2026-03-01 18:00")])
        t.expect([(1, True), (2, False)])


def paid_orders(session: Any, orders: DataFrame, payments: DataFrame, bug: bool) -> DataFrame:
    """Orders with the payment that comes after them. The bug: the range of times is the wrong way round."""
    on = "o.id = p.id AND ordered >= paid" if bug else "o.id = p.id AND paid >= ordered"
    return orders.alias("o").join(payments.alias("p"), F.expr(on)).select("o.id")


@finds
def a_payment_comes_after_its_order(test: Test, bug: bool) -> None:
    types = {"orders": "id int, ordered timestamp", "payments": "id int, paid timestamp"}
    with test(partial(paid_orders, bug=bug), schemas=types) as t:
        t.add(orders=[(1, "2026-03-01 12:00")])
        t.add(payments=[(1, "2026-03-01 12:05")])
        t.expect([1])


def hot_devices(session: Any, readings: DataFrame, bug: bool) -> DataFrame:
    """Devices with a mean above 30 degrees. The bug: only what is above 30 degrees goes into the mean."""
    some = readings.where("degrees > 30") if bug else readings
    return some.groupBy("device").agg(F.avg("degrees").alias("mean")).where("mean > 30")


@finds
def one_hot_reading_is_no_hot_device(test: Test, bug: bool) -> None:
    with test(partial(hot_devices, bug=bug), "update", schemas={"readings": "device string, degrees int"}) as t:
        t.add([("a", 31), ("a", 20), ("b", 35)])
        t.expect([("b", 35.0)])


def latest_state(session: Any, changes: DataFrame, bug: bool) -> DataFrame:
    """The newest value of each key of a change feed. The bug: the greatest value is not the newest."""
    return changes.groupBy("id").agg((F.max("value") if bug else F.max_by("value", "number")).alias("value"))


@finds
def the_newest_change_wins_in_whatever_order_they_come(test: Test, bug: bool) -> None:
    with test(partial(latest_state, bug=bug), "complete", schemas={"changes": "id int, number int, value string"}) as t:
        t.add([(1, 2, "b")])
        t.add([(1, 1, "c")])
        t.expect([(1, "b")])


def prices_in_euros(session: Any, prices: DataFrame, bug: bool) -> DataFrame:
    """Prices with the rate of a table. The bug: a price in a currency that is not in the table is lost."""
    rates = session.createDataFrame([("USD", 0.5)], "currency string, rate double")
    return prices.join(rates, "currency", "inner" if bug else "left_outer").select("id", (F.col("price") * F.col("rate")).alias("euros"))


@finds
def a_price_without_a_rate_is_not_lost(test: Test, bug: bool) -> None:
    with test(partial(prices_in_euros, bug=bug), schemas={"prices": "id int, price int, currency string"}) as t:
        t.add([(1, 10, "USD"), (2, 10, "XXX")])
        t.expect([(1, 5.0), (2, None)])


def silent_devices(session: Any, beats: DataFrame, bug: bool) -> DataFrame:
    """Devices that have said nothing for a minute. The bug: seconds in the place of milliseconds."""

    def watch(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"device": [key[0]]})
        else:
            state.update((1,))
            state.setTimeoutDuration(60 if bug else 60_000)

    return beats.groupBy("device").applyInPandasWithState(watch, "device string", "n int", "update", "ProcessingTimeTimeout")


@finds
def a_device_is_silent_after_a_minute(test: Test, bug: bool) -> None:
    with test(partial(silent_devices, bug=bug), "update", schemas={"beats": "device string"}) as t:
        t.add(["a"])
        t.advance("40 seconds")
        t.expect([])
        t.advance("30 seconds")
        t.expect([("a",)])


@pytest.mark.parametrize("one", TESTS, ids=lambda one: one.__name__)
def test_a_test_of_a_few_lines_finds_the_bug(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, one: Callable[[Test, bool], None]) -> None:
    monkeypatch.setattr("minispark_stream.tools.testing.kit.failed", lambda query, words, replay: words)
    one(partial(stream_test, spark), False)
    with pytest.raises(AssertionError, match="the rows are not those that were expected"):
        one(partial(stream_test, spark), True)


def test_there_are_ten() -> None:
    assert len(TESTS) == 10
