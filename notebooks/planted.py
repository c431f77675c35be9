"""Five streaming queries, each with a bug (notebook 22). `MENDED` has the same queries without it, by their names.

    planted.failure(test, planted.orders_once)               how a test fails for the query with the bug
    planted.failure(test, planted.MENDED["orders_once"])     None: it passes without
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

Query = Callable[..., DataFrame]

ORDERS = {"orders": "id int, sent timestamp"}
CLICKS = {"clicks": "time timestamp, page string"}
FORUM = {"questions": "id int, asked timestamp", "answers": "question int, answered timestamp, helper string"}
REPORTS = {"reports": "device string, time timestamp"}
BASKETS = {"baskets": "id int, items array<string>"}
WITHIN_AN_HOUR = "id = question AND answered >= asked AND answered <= asked + INTERVAL 1 HOUR"


def orders_once(session: Any, orders: DataFrame) -> DataFrame:
    """A shop may send an order twice within an hour. Each order comes out once."""
    return orders.withWatermark("sent", "1 hour").dropDuplicates(["id", "sent"])


def clicks_of_a_page(session: Any, clicks: DataFrame) -> DataFrame:
    """Clicks on each page in five minutes. A click that comes ten minutes late still counts."""
    return _clicks_in_windows(clicks.withWatermark("time", "10 seconds"))


def who_helped(session: Any, questions: DataFrame, answers: DataFrame) -> DataFrame:
    """Each question, with who answered it within an hour, or null when nobody did. Answers of the bot do not count."""
    asked, answered = questions.withWatermark("asked", "0 seconds"), answers.withWatermark("answered", "0 seconds")
    return asked.join(answered, F.expr(WITHIN_AN_HOUR), "left_outer").where("helper <> 'bot'").select("id", "helper")


def silent_devices(session: Any, reports: DataFrame) -> DataFrame:
    """A device that has not reported for ten minutes of event time."""

    def look(device: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"device": [device[0]]})
        elif not state.exists:
            reported_ms = int(max(frame["time"].max() for frame in frames).timestamp() * 1000)
            state.update((reported_ms,))
            state.setTimeoutTimestamp(reported_ms + 600_000)

    return _by_device(reports, look)


def items_of_baskets(session: Any, baskets: DataFrame) -> DataFrame:
    """A row for each item of a basket. A basket that is empty is a row, too, with a null."""
    return baskets.select("id", F.explode("items").alias("item"))


def _clicks_in_windows(timed: DataFrame) -> DataFrame:
    return timed.groupBy(F.window("time", "5 minutes"), "page").count().select("window.start", "page", "count")


def _by_device(reports: DataFrame, function: Callable[..., Iterator[pd.DataFrame]]) -> DataFrame:
    timed, timeout = reports.withWatermark("time", "0 seconds"), GroupStateTimeout.EventTimeTimeout
    return timed.groupBy("device").applyInPandasWithState(function, "device string", "reported long", "append", timeout)


def _silent_devices(session: Any, reports: DataFrame) -> DataFrame:
    def look(device: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"device": [device[0]]})
        else:
            reported_ms = int(max(frame["time"].max() for frame in frames).timestamp() * 1000)
            state.update((reported_ms,))
            state.setTimeoutTimestamp(reported_ms + 600_000)

    return _by_device(reports, look)


def _who_helped(session: Any, questions: DataFrame, answers: DataFrame) -> DataFrame:
    asked, answered = questions.withWatermark("asked", "0 seconds"), answers.withWatermark("answered", "0 seconds")
    return asked.join(answered.where("helper <> 'bot'"), F.expr(WITHIN_AN_HOUR), "left_outer").select("id", "helper")


MENDED: dict[str, Query] = {
    "orders_once": lambda session, orders: orders.withWatermark("sent", "1 hour").dropDuplicatesWithinWatermark(["id"]),
    "clicks_of_a_page": lambda session, clicks: _clicks_in_windows(clicks.withWatermark("time", "10 minutes")),
    "who_helped": _who_helped,
    "silent_devices": _silent_devices,
    "items_of_baskets": lambda session, baskets: baskets.select("id", F.explode_outer("items").alias("item")),
}


def failure(test: Callable[[Query], Any], query: Query) -> AssertionError | None:
    """How the test fails for a query; None when it passes."""
    try:
        test(query)
    except AssertionError as failed:
        return failed
    return None
