"""FlatMapGroupsWithStateSuite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from tests.conformance.spark_suites.cases import NUMBERS, TIMES, Test, at, case


def count_until_quiet(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield pd.DataFrame({"v": [key[0]], "n": [-state.get[0]]})
        state.remove()
    else:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((n,))
        state.setTimeoutDuration(10_000)
        yield pd.DataFrame({"v": [key[0]], "n": [n]})


@case
def a_group_that_is_quiet_times_out_when_time_goes_on(test: Test) -> None:
    def build(session: Any, n: DataFrame) -> DataFrame:
        return n.groupBy("v").applyInPandasWithState(count_until_quiet, "v int, n int", "n int", "update", "ProcessingTimeTimeout")

    with test(build, "update", schemas=NUMBERS) as t:
        t.add([1, 1])
        t.advance("5 seconds")
        t.add([1, 2])
        t.expect([(1, 2), (1, 3), (2, 1)])
        t.advance("11 seconds")
        t.expect([(1, -3), (2, -1)])
        t.expect_state(rows=0)


def until_its_time(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield pd.DataFrame({"v": [key[0]], "n": [-state.get[0]]})
        state.remove()
    else:
        rows = pd.concat(frames)
        state.update((len(rows),))
        state.setTimeoutTimestamp(int(rows["t"].max().timestamp() * 1000) + 60_000)


@case
def a_group_times_out_when_the_watermark_has_passed_its_time(test: Test) -> None:
    def build(session: Any, n: DataFrame) -> DataFrame:
        grouped = n.withWatermark("t", "0 seconds").groupBy("v")
        return grouped.applyInPandasWithState(until_its_time, "v int, n int", "n int", "update", "EventTimeTimeout")

    with test(build, "update", schemas=TIMES) as t:
        t.add([(at(10), 1), (at(10), 1)])
        t.add([(at(30), 2)])
        t.expect([(1, -2)])
        t.expect_state(rows=1)
