"""What the cases have in common: how one is told from a helper, and a few inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from minispark_stream.testing import StreamTest

Test = Callable[..., StreamTest]
CASES: list[Callable[[Test], None]] = []
NUMBERS = {"n": "v int"}
TIMES = {"n": "t timestamp, v int"}
TWO = {"left": "t timestamp, k int, l int", "right": "t timestamp, k int, r int"}
DAY = "2026-03-01"


def case(function: Callable[[Test], None]) -> Callable[[Test], None]:
    CASES.append(function)
    return function


def at(minute: int) -> str:
    return f"{DAY} {12 + minute // 60}:{minute % 60:02d}:00"


def rows(*minutes: int) -> list[tuple[str, int]]:
    return [(at(minute), minute) for minute in minutes]


def windowed(session: Any, n: DataFrame) -> DataFrame:
    """Windows of five minutes, with a watermark of ten."""
    return n.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes")).count().select("window.start", "count")
