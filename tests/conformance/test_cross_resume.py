"""One checkpoint, two engines in turn: each goes on where the other has stopped, as if one had run all of it.

The query is restarted after every step, and the other engine takes over. Compared with Spark alone: rows, progress,
watermark and state metrics of every batch, and at the end every file of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from tests.conformance.conftest import Compare
from tests.conformance.inputs import random_rows, read_random

FEED = [random_rows(i, 30) for i in range(5)]
RELAYS = [("model", "spark"), ("spark", "model")]
Query = Callable[[Any], Any]


def timed(df: Any) -> Any:
    return df.withWatermark("ts", "5 minutes")


QUERIES: dict[str, tuple[str, Query]] = {
    "filter": ("append", lambda df: df.where("i > 0").select("k", "i")),
    "count by key": ("update", lambda df: df.groupBy("k").count()),
    "many aggregates": (
        "complete",
        lambda df: df.groupBy("k", "st").agg(
            F.sum("l"), F.avg("d"), F.min("s"), F.max("dt"), F.sum("m"), F.stddev("i"), F.first("b", True), F.max_by("s", "i")
        ),
    ),
    "global aggregate": ("update", lambda df: df.agg(F.count("*"), F.sum("m"))),
    "windows": ("append", lambda df: timed(df).groupBy(F.window("ts", "10 minutes")).agg(F.count("*"), F.sum("m"))),
    "sliding windows by key": ("update", lambda df: timed(df).groupBy(F.window("ts", "10 minutes", "5 minutes"), "k").count()),
    "sessions": ("append", lambda df: timed(df).groupBy(F.session_window("ts", "2 minutes"), "k").count()),
}


@pytest.mark.parametrize("relay", RELAYS, ids="-".join)
@pytest.mark.parametrize("name", QUERIES)
def test_each_engine_goes_on_where_the_other_stopped(compare: Compare, name: str, relay: tuple[str, ...]) -> None:
    mode, query = QUERIES[name]
    compare(lambda s, d: query(read_random(s, d)), FEED, output_mode=mode, restart_after=range(4), relay=relay)


@pytest.mark.parametrize("relay", RELAYS, ids="-".join)
def test_the_other_engine_finishes_a_batch_that_was_only_planned(compare: Compare, relay: tuple[str, ...]) -> None:
    """As after a kill between the offset log and the commit log."""

    def lose_last_commit(checkpoint: str) -> None:
        last = max((p for p in Path(checkpoint, "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    query = lambda s, d: timed(read_random(s, d)).groupBy(F.window("ts", "10 minutes"), "k").count()
    compare(query, FEED, restart_after=dict.fromkeys(range(4), lose_last_commit), relay=relay)
