"""Times outside of the years 1 to 9999, where Python's own datetime ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType, TimestampType

from minispark_stream.engine.checkpointing.unsafe_row.plain import plain
from minispark_stream.engine.clock import SystemClock
from minispark_stream.engine.runtime.finish_trigger import event_time
from minispark_stream.engine.runtime.watermark_tracker import EventTimeStats
from minispark_stream.engine.times import iso_ms, iso_time, shown_ms
from minispark_stream.extras.delta.files import _footer, _statistics
from minispark_stream.lens.recording.previews import times_as_text
from minispark_stream.lens.view.words import clock_words, time_words
from minispark_stream.tools.compare.differences import _same_average

YEAR_10000 = 253402300800000  # ms


@pytest.mark.parametrize(
    "text, ms",
    [
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01 00:00:01.5", 1500),
        ("1970-01-01 00:00:01.023999", 1023),
        ("+10000-01-01 00:00:00", YEAR_10000),
        ("1970-01-01 00:00:01+02:00", None),
        ("1970-01-01 00:00:01.5+02:00", None),
        ("1970-13-01 00:00:01", None),
        ({"start": 1}, None),
        (None, None),
    ],
)
def test_a_time_that_a_row_shows_is_in_utc_and_has_no_zone(text: Any, ms: int | None) -> None:
    assert shown_ms(text) == ms


@pytest.mark.parametrize(
    "ms, text",  # what java.time prints for Spark's pattern, whose `yyyy` is the year of the era
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1709210096007.9, "2024-02-29T12:34:56.007Z"),
        (YEAR_10000 - 1, "9999-12-31T23:59:59.999Z"),
        (YEAR_10000, "+10000-01-01T00:00:00.000Z"),
        (-62135596800000, "0001-01-01T00:00:00.000Z"),
        (-62135596800001, "0001-12-31T23:59:59.999Z"),
        (-62167219200001, "0002-12-31T23:59:59.999Z"),
        (9223372036854775, "+294247-01-10T04:00:54.775Z"),
        (-9223372036854776, "+290309-12-21T19:59:05.224Z"),
    ],
)
def test_every_time_has_a_text(ms: float, text: str) -> None:
    assert iso_time(ms) == text
    if ms >= -62135596800000:
        assert iso_ms(text) == int(ms)


@pytest.mark.parametrize("text", [None, "", "soon", "2024-13-01T00:00:00.000Z", "2024-01-01"])
def test_what_is_no_time_of_a_report(text: Any) -> None:
    assert iso_ms(text) is None


def test_far_event_times_are_reported_and_shown() -> None:
    report = event_time([EventTimeStats(YEAR_10000, -62167219200001, 0.5, 2)], YEAR_10000, True)
    assert report == {
        "avg": "1970-01-01T00:00:00.000Z", "max": "+10000-01-01T00:00:00.000Z", "min": "0002-12-31T23:59:59.999Z",
        "watermark": "+10000-01-01T00:00:00.000Z",
    }
    assert time_words(YEAR_10000) == clock_words(YEAR_10000) == "+10000-01-01 00:00:00"
    assert time_words(2**63) == f"{2**63} ms"
    assert _same_average(report["max"], iso_time(YEAR_10000 - 1)) and not _same_average(report["max"], iso_time(YEAR_10000 - 2))


def test_far_times_in_previews() -> None:
    values = plain(pa.array([YEAR_10000 * 1000, None], pa.int64()).cast(pa.timestamp("us")), TimestampType())
    assert values == ["10000-01-01 00:00:00", None]
    kind = StructType().add("m", MapType(StringType(), ArrayType(TimestampType()))).add("i", IntegerType())
    assert times_as_text(kind) == StructType().add("m", MapType(StringType(), ArrayType(StringType()))).add("i", IntegerType())
    assert times_as_text(LongType()) == LongType()


def test_far_times_have_no_bounds_in_a_delta_table(tmp_path: Path) -> None:
    times = pa.array([YEAR_10000 * 1000], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"t": times, "d": times.cast(pa.date32()), "i": [7]}), tmp_path / "a.parquet")
    assert _statistics(_footer(str(tmp_path / "a.parquet"))) == {
        "numRecords": 1, "minValues": {"i": 7}, "maxValues": {"i": 7}, "nullCount": {"t": 0, "d": 0, "i": 0}
    }


def test_delta_statistics_leave_out_strings_that_are_not_utf_8(tmp_path: Path) -> None:
    broken = pa.array([b"\xff", b"a"]).view(pa.string())
    pq.write_table(pa.table({"s": broken, "i": [7, 8]}), tmp_path / "a.parquet")
    assert _statistics(_footer(str(tmp_path / "a.parquet")))["minValues"] == {"i": 7}


def test_a_wait_goes_by_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a sleep of the machine: the time has come although nobody has waited for so long."""
    waits: list[float] = []
    clock = SystemClock()
    monkeypatch.setattr(clock, "get_time_millis", lambda: 0 if not waits else 3_600_000)
    stopped = threading.Event()
    monkeypatch.setattr(stopped, "wait", lambda seconds: waits.append(seconds))
    clock.wait_till_time(3_600_000, stopped)
    assert waits == [360.0]
