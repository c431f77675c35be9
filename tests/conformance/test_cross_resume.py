"""One checkpoint, two engines in turn: each goes on where the other has stopped, as if one had run all of it.

The query is restarted after every step, and the other engine takes over. Compared with Spark alone: rows, progress,
watermark and state metrics of every batch, and at the end every file of the checkpoint.
"""

from __future__ import annotations

import re
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


def test_only_the_file_of_the_schema_tells_an_explicit_usual_collation(spark: Any, mini: Any, tmp_path: Path) -> None:
    """A schema in which Spark writes the collation, and the model does not; each engine goes on with the other's."""
    schemas: dict[str, list[str]] = {}
    for begins, goes_on in ((spark, mini), (mini, spark)):
        folder = tmp_path / type(begins).__name__
        schema = folder / "checkpoint/state/0/0/_metadata/schema"
        for i, session in enumerate((begins, goes_on, begins)):
            (folder / "in").mkdir(parents=True, exist_ok=True)
            (folder / f"in/{i}.json").write_text('{"k":"a"}\n{"k":"b"}\n')
            keys = session.readStream.schema("k string").json(str(folder / "in")).selectExpr("k COLLATE UTF8_BINARY AS k")
            writer = keys.groupBy("k").count().writeStream.format("memory").queryName("counts").outputMode("complete")
            writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
            rows = sorted(tuple(row) for row in session.table("counts").collect())
            assert rows == [("a", i + 1), ("b", i + 1)]
        schemas["spark" if begins is spark else "model"] = re.findall(r'\{"type":"struct".*?\]\}', schema.read_text("latin-1"))
    of_model = [one.replace('"string"', '"string collate UTF8_BINARY"') for one in schemas["model"]]
    assert schemas["spark"] == of_model != schemas["model"]
