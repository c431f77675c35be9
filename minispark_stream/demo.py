"""The demo: real flights and word count, on both engines, compared.

1. Some days of departures from New York (flights.py), six hours of arrival in each file; event time is when a flight was
   scheduled, arrival order is when it really left, so late rows are really late.
2. Flights per carrier and scheduled hour, with a watermark, in append mode: an hour is written when it is final.
3. The same for the words of the steps that the trace shows, in update mode.
4. A table of batches for each, and one HTML page with every step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from minispark_stream.compare.comparison import Comparison
from minispark_stream.compare.side_by_side import side_by_side
from minispark_stream.flights import flight_steps, flights_per_carrier_and_hour, word_count
from minispark_stream.trace.events import STEPS

AVAILABLE_NOW = {"availableNow": True}


def demo(first_day: date, days: int, out: Path) -> int:
    """Run the demo.

    Args:
        first_day: the first day of flights, in 2013.
        days: how many days.
        out: where the HTML pages go.

    Returns:
        the exit code: 0 when both engines agree on everything.
    """
    out.mkdir(parents=True, exist_ok=True)
    spark = _session()
    try:
        flights = side_by_side(spark, flights_per_carrier_and_hour, [_all_flights(first_day, days)], trigger=AVAILABLE_NOW)
        _show(f"Flights per carrier and hour, {days} days from {first_day}", flights, out / "flights.html")
        lines = [step.says for step in STEPS.values()]
        words = side_by_side(spark, word_count, [lines[:6], lines[6:12], lines[12:]], output_mode="update")
        _show("Word count", words, out / "word_count.html")
    finally:
        spark.stop()
    return 1 if flights.differences or words.differences else 0


def _session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master("local[2]").appName("minispark_stream demo")
    spark: SparkSession = (
        builder.config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _all_flights(first_day: date, days: int) -> Callable[[str], None]:
    def write(folder: str) -> None:
        for old in Path(folder).glob("*.csv"):
            old.unlink()
        for write_one in flight_steps(folder, first_day, days, hours=6):
            write_one()

    return write


def _show(title: str, comparison: Comparison, page: Path) -> None:
    print(f"\n{title}\n")
    print(comparison.table().to_string(index=False))
    print("Both engines agree." if not comparison.differences else "\n".join(map(str, comparison.differences)))
    print(f"Every step of every batch: {comparison.to_html(page).resolve()}")
