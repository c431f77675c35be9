"""A session in New York over a night in which the clocks are put back: event times are the same instants, whatever the clock says.

Spark writes the session's time zone into the types of the rows that it hands to a Python task; state is read back in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import rows_of

NIGHT = [  # at 06:00 UTC, 02:00 becomes 01:00
    rows_of(*({"k": k, "ts": f"2026-11-01T{time}:00Z"} for k, time in rows))
    for rows in (
        [("a", "05:20"), ("b", "05:50"), ("a", "05:25")],
        [("a", "05:55"), ("b", "06:10"), ("a", "05:20")],
        [("a", "06:50"), ("a", "05:30"), ("c", "07:10")],
        [("a", "09:00"), ("c", "07:12")],
    )
]
SCHEMA = "k string, ts timestamp"


def timed(session: Any, folder: str) -> Any:
    return session.readStream.schema(SCHEMA).json(folder).withWatermark("ts", "10 minutes")


def count(key: tuple[str, ...], batches: Any, state: Any) -> Any:
    import pandas as pd

    rows = pd.concat(batches)
    last = max(rows["ts"].max(), state.get[0]) if state.exists else rows["ts"].max()
    state.update((last,))
    yield pd.DataFrame({"k": [key[0]], "last": [last]})


QUERIES: dict[str, Callable[[Any, str], Any]] = {
    "windows": lambda s, d: timed(s, d).groupBy(F.window("ts", "30 minutes"), "k").agg(F.max("ts"), F.count("*")),
    "days": lambda s, d: timed(s, d).groupBy(F.window("ts", "1 day"), "k").count(),
    "sessions": lambda s, d: timed(s, d).groupBy(F.session_window("ts", "10 minutes"), "k").agg(F.max("ts"), F.collect_set(F.hour("ts"))),
    "distinct rows": lambda s, d: timed(s, d).dropDuplicates(["k", "ts"]).withColumn("clock", F.col("ts").cast("string")),
    "distinct within the watermark": lambda s, d: timed(s, d).dropDuplicatesWithinWatermark(["k"]),
    "the first rows": lambda s, d: timed(s, d).limit(4),
    "joined": lambda s, d: timed(s, d).join(
        timed(s, d).toDF("k2", "ts2"), F.expr("k = k2 AND ts2 > ts AND ts2 <= ts + interval 40 minutes"), "left"
    ),
    "state of one's own": lambda s, d: timed(s, d).groupBy("k").applyInPandasWithState(
        count, "k string, last timestamp", "last timestamp", "append", "NoTimeout"
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_event_times_are_instants(compare: Compare, name: str) -> None:
    compare(QUERIES[name], NIGHT, confs={"spark.sql.session.timeZone": "America/New_York"})
