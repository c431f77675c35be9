"""The demo's input: real departures in the order in which they left."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta

import pytest

from minispark_stream.tools.flights import Departure, flight_steps, hourly, read_departures


@pytest.fixture(scope="module")
def two_days():
    return read_departures(date(2013, 1, 9), days=2)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_most_delayed_flight_of_the_year_left_the_next_day(two_days):
    latest = max(two_days, key=lambda d: d.delay)
    assert latest == Departure(utc("2013-01-09T14:00"), utc("2013-01-10T11:41"), "HA", 51, "JFK", "HNL", 1301, "N384HA")


def test_flights_arrive_in_the_order_in_which_they_left_and_cancelled_ones_do_not(two_days):
    departed = [d.departed for d in two_days]
    assert departed == sorted(departed)
    assert all(d.departed == d.scheduled + timedelta(minutes=d.delay) for d in two_days)
    assert len(two_days) == 1826  # of 1834 that were scheduled
    assert [d.scheduled for d in two_days] != sorted(d.scheduled for d in two_days)


def test_one_file_for_each_hour_of_arrival_and_older_hours_have_older_files(two_days, tmp_path):
    files = [write() for write in flight_steps(tmp_path / "in", date(2013, 1, 9), days=2)]
    assert [f.name for f in files][:2] == ["flights-20130109-09.csv", "flights-20130109-10.csv"]
    times = [f.stat().st_mtime for f in files]
    assert times == sorted(set(times))
    assert times[0] == utc("2013-01-09T10:00").timestamp()
    assert sorted((tmp_path / "in").iterdir()) == sorted(files), "no temporary file is left"
    rows = [row for f in files for row in csv.DictReader(f.open())]
    assert len(rows) == len(two_days)
    assert rows[0]["scheduled"] == f"{two_days[0].scheduled:%Y-%m-%dT%H:%M:%SZ}"


def test_hours_of_arrival_can_be_put_together(two_days):
    by_six = hourly(two_days, hours=6)
    assert [start.hour for start, _ in by_six[:3]] == [6, 12, 18]
    assert sum(len(rows) for _, rows in by_six) == len(two_days)


def test_a_feed_writes_one_hour_at_a_time(tmp_path):
    steps = flight_steps(tmp_path, date(2013, 1, 9))
    assert list(tmp_path.iterdir()) == []
    first = steps[0]()
    assert list(tmp_path.iterdir()) == [first]


def test_days_that_the_table_does_not_hold():
    with pytest.raises(ValueError, match="2013-01-01 to 2013-12-31"):
        read_departures(date(2014, 1, 1))


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("minispark_stream.tools.flights.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        read_departures(date(2013, 1, 9))
